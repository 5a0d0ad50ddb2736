//! Every interleaving of two members and a balancer: all states that any order of their steps reaches.
//!
//! A member reads the table, uses all that it may, trims, answers, or is killed. The balancer reads the table, then one answer
//! after the other, then commits a decision, any of some. The steps are those of the real functions; the model counts the
//! pages that each member uses.
//!
//! One balancer stands for any number: of those that read the same version one commits, and the others change nothing. That
//! is the property of `versioned`, whose models check it.

use std::collections::HashSet;

use super::super::table::tests::entry;
use super::*;

const TOTAL: u64 = 3;
const MEMBERS: usize = 2;
/// Decisions that the balancer takes one after the other in a run of the model.
const COMMITS: u32 = 4;
/// The wishes among which a balancer chooses.
const WISHES: [[u64; MEMBERS]; 4] = [[3, 0], [0, 3], [1, 2], [2, 2]];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Member {
    lives: bool,
    /// Pages in use.
    used: u64,
    /// The grant that it knows: its number, its pages, the charge.
    number: u32,
    given: u64,
    /// The answer in its row.
    answer: (u32, u64),
}

/// A share of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Share {
    number: u32,
    given: u64,
    charged: u64,
}

type Shares = [Option<Share>; MEMBERS];

/// A balancer between its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Balancer {
    Rests,
    /// It has the table, and answers of so many members. None stands for a member that has ended.
    Reads {
        answers: [Option<(u32, u64)>; MEMBERS],
        read: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    members: [Member; MEMBERS],
    version: u32,
    shares: Shares,
    balancer: Balancer,
}

impl State {
    fn start() -> State {
        let member = |number, given| Member {
            lives: true,
            used: given,
            number,
            given,
            answer: (number, given),
        };
        let share = |given| {
            Some(Share {
                number: 1,
                given,
                charged: given,
            })
        };
        State {
            members: [member(1, 2), member(1, 1)],
            version: 0,
            shares: [share(2), share(1)],
            balancer: Balancer::Rests,
        }
    }

    /// Every state after one step of one process.
    fn next(&self) -> Vec<State> {
        let mut next = Vec::new();
        for at in 0..MEMBERS {
            if self.members[at].lives {
                self.member_steps(at, &mut next);
            }
        }
        self.balancer_steps(&mut next);
        next
    }

    fn member_steps(&self, at: usize, next: &mut Vec<State>) {
        let mut step = |change: &dyn Fn(&mut Member)| {
            let mut after = *self;
            change(&mut after.members[at]);
            if after != *self {
                next.push(after);
            }
        };
        if let Some(share) = self.shares[at] {
            step(&|member| (member.number, member.given) = (share.number, share.given));
        }
        // A larger grant may be used before any answer.
        step(&|member| member.used = member.used.max(member.given));
        step(&|member| member.used = member.used.min(member.given.max(member.used.saturating_sub(1))));
        step(&|member| member.answer = (member.number, member.used.max(member.given)));
        step(&|member| (member.lives, member.used) = (false, 0));
    }

    fn balancer_steps(&self, next: &mut Vec<State>) {
        let mut after = *self;
        match self.balancer {
            Balancer::Rests if self.version < COMMITS => {
                let answers = [None; MEMBERS];
                after.balancer = Balancer::Reads { answers, read: 0 };
                next.push(after);
            }
            Balancer::Rests => {}
            Balancer::Reads { mut answers, read } if read < MEMBERS => {
                let member = self.members[read];
                answers[read] = member.lives.then_some(member.answer);
                let read = read + 1;
                after.balancer = Balancer::Reads { answers, read };
                next.push(after);
            }
            Balancer::Reads { answers, .. } => {
                after.balancer = Balancer::Rests;
                after.version += 1;
                for wishes in WISHES {
                    after.shares = decide(self.shares, answers, &wishes);
                    next.push(after);
                }
            }
        }
    }

    fn check(&self) {
        let used: u64 = self.members.iter().map(|member| member.used).sum();
        assert!(used <= TOTAL, "{self:?}");
        let charged: u64 = self.shares.iter().flatten().map(|share| share.charged).sum();
        assert!(charged <= TOTAL, "{self:?}");
    }
}

/// A balancer's decision by the real functions.
fn decide(shares: Shares, answers: [Option<(u32, u64)>; MEMBERS], wishes: &[u64]) -> Shares {
    let mut entries: Vec<Option<Entry>> = shares
        .iter()
        .zip(1..)
        .map(|(share, pid)| {
            let share = (*share)?;
            let number = share.number;
            Some(Entry {
                number,
                ..entry(pid, share.given, share.charged, TOTAL)
            })
        })
        .collect();
    for (at, answer) in answers.into_iter().enumerate() {
        match (answer, &mut entries[at]) {
            (None, _) => bury(&mut entries, at, &[0; MEMBERS]),
            (Some((number, held)), Some(entry)) => entry.settle(Acknowledged { number, held }),
            (Some(_), None) => {}
        }
    }
    apply(&mut entries, TOTAL, wishes);
    let share = |entry: &Option<Entry>| {
        entry.map(|entry| Share {
            number: entry.number,
            given: entry.given,
            charged: entry.charged,
        })
    };
    [share(&entries[0]), share(&entries[1])]
}

#[test]
fn every_interleaving_of_two_members_and_a_balancer_keeps_the_total() {
    let mut seen = HashSet::from([State::start()]);
    let mut open = vec![State::start()];
    let mut moved = false;
    while let Some(state) = open.pop() {
        state.check();
        moved |= state.members[1].used == TOTAL;
        for next in state.next() {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    assert!(moved, "a member can get all");
    assert!(seen.len() > 20_000, "only {} states", seen.len());
}
