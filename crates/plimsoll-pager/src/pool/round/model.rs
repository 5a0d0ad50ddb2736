//! Members that join, leave, end, stop, want and answer in any order, beside rounds: a model of their memory.

use proptest::prelude::*;

use super::super::balance::History;
use super::super::identity::Identity;
use super::super::settle::free;
use super::super::table::Damage;
use super::*;

const TOTAL: u64 = 10_000;
/// Rows that the model uses.
const ROWS: usize = 6;

/// A member as its process sees it.
#[derive(Debug, Clone, Copy)]
struct Member {
    condition: Condition,
    report: Report,
    answer: Acknowledged,
    used: u64,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// A process joins in the row, if it is free, with this minimum in hundredths of the pages that are not promised.
    Join {
        minimum: u64,
    },
    /// The process is killed.
    End,
    Stop,
    Continue,
    /// It wants so many pages, at this gain.
    Want {
        pages: u64,
        gain: u64,
    },
    /// It reads its grant, trims by so many hundredths of the way, and answers.
    Answer {
        hundredths: u64,
    },
    /// It reads its grant and uses it, but does not answer.
    Use,
    Balance,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let step = prop_oneof![
        2 => (0..100_u64).prop_map(|minimum| Step::Join { minimum }),
        1 => Just(Step::End),
        1 => Just(Step::Stop),
        1 => Just(Step::Continue),
        3 => (0..2 * TOTAL, 0..1000_u64).prop_map(|(pages, gain)| Step::Want { pages, gain }),
        5 => (0..=100_u64).prop_map(|hundredths| Step::Answer { hundredths }),
        2 => Just(Step::Use),
        5 => Just(Step::Balance),
    ];
    (0..ROWS, step)
}

struct World {
    table: Table,
    members: [Option<Member>; ROWS],
    processes: u32,
}

impl World {
    fn seen(&self) -> impl Fn(usize, &Entry) -> Seen + use<> {
        let members = self.members;
        move |row, _| {
            let member = members[row].expect("an entry has a member");
            Seen {
                condition: member.condition,
                row: Some((member.report, member.answer)),
            }
        }
    }

    fn take(&mut self, row: usize, step: Step) {
        match (step, &mut self.members[row]) {
            (Step::Balance, _) => self.balance(),
            (Step::Join { minimum }, None) => self.join(row, minimum),
            (_, None) | (Step::Join { .. }, Some(_)) => {}
            (Step::End, Some(member)) => (member.condition, member.used) = (Condition::Ended, 0),
            (_, Some(member)) if member.condition == Condition::Ended => {}
            (Step::Stop, Some(member)) => member.condition = Condition::Stopped,
            (Step::Continue, Some(member)) => member.condition = Condition::Runs,
            (_, Some(member)) if member.condition == Condition::Stopped => {}
            (Step::Want { pages, gain }, Some(member)) => {
                (member.report.wanted, member.report.gain) = (pages, gain)
            }
            (Step::Answer { hundredths }, Some(member)) => {
                if let Some(entry) = self.table.entries[row] {
                    let excess = member.used.saturating_sub(entry.given);
                    member.used = member.used.max(entry.given) - excess * hundredths / 100;
                    member.answer = Acknowledged {
                        number: entry.number,
                        held: member.used,
                    };
                }
            }
            (Step::Use, Some(member)) => {
                if let Some(entry) = self.table.entries[row] {
                    member.used = member.used.max(entry.given);
                }
            }
        }
    }

    fn join(&mut self, row: usize, hundredths: u64) {
        self.processes += 1;
        let minimum = (TOTAL - self.table.minima()) * hundredths / 100;
        let given = minimum.min(free(&self.table.entries, TOTAL));
        self.table.entries[row] = Some(Entry {
            identity: Identity::new(self.processes, 1).expect("it is a process"),
            number: 1,
            given,
            charged: given,
            minimum,
            maximum: TOTAL,
            priority: 5,
            parent: None,
            history: History::new(TOTAL),
        });
        self.members[row] = Some(Member {
            condition: Condition::Runs,
            report: Report::default(),
            answer: Acknowledged { number: 0, held: 0 },
            used: 0,
        });
    }

    fn balance(&mut self) {
        self.table = next_table(&self.table, TOTAL, &self.seen(), 0);
        for (member, entry) in self.members.iter_mut().zip(&self.table.entries) {
            if entry.is_none() {
                *member = None;
            }
        }
    }

    fn check(&self) -> Result<(), Damage> {
        let used: u64 = self.members.iter().flatten().map(|member| member.used).sum();
        assert!(used <= TOTAL, "{used} pages in use");
        for (member, entry) in self.members.iter().zip(&self.table.entries) {
            let (used, charged) = (member.map(|member| member.used), entry.map(|entry| entry.charged));
            assert!(used.unwrap_or(0) <= charged.unwrap_or(0) || member.is_none());
        }
        self.table.check(TOTAL)
    }

    /// All members run, answer and balance until nothing changes.
    fn rest(&mut self) {
        for row in 0..ROWS {
            self.take(row, Step::Continue);
        }
        for _ in 0..600 {
            self.balance();
            for row in 0..ROWS {
                self.take(row, Step::Answer { hundredths: 100 });
            }
        }
        self.balance();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn members_that_come_and_go_keep_the_total_and_get_what_they_want(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World { table: Table::empty(), members: [None; ROWS], processes: 0 };
        for (row, step) in steps {
            world.take(row, step);
            prop_assert_eq!(world.check(), Ok(()));
        }
        world.rest();
        prop_assert_eq!(world.check(), Ok(()));
        let mut wanted = 0;
        for (member, entry) in world.members.iter().zip(&world.table.entries) {
            if let (Some(member), Some(entry)) = (member, entry) {
                prop_assert!(entry.given >= entry.minimum, "below its minimum");
                prop_assert_eq!(entry.charged, entry.given, "nothing is in doubt");
                wanted += member.report.wanted.clamp(entry.minimum, entry.maximum);
            }
        }
        let given = world.table.charged();
        prop_assert!(given >= wanted.min(TOTAL), "{} pages of {} are given, and {} are wanted", given, TOTAL, wanted);
    }
}
