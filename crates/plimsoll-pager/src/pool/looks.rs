//! The conditions of the members' processes, and the last look of any member at them.
//!
//! A look reads `/proc/PID/stat` of each member: milliseconds in a large pool. So the members share the looks of their ticks. At most once
//! in 20 ms, one member looks, records in the file the rows of stopped members, and removes ended members from the table. A member that
//! joins or leaves looks at any time.

use std::sync::atomic::{AtomicU64, Ordering};

use super::identity::{Condition, Identity};
use super::layout::{LOOK_WORDS, MOST_MEMBERS};
use super::table::{Entry, Table};

/// The shortest time between two looks of ticks.
const PERIOD_MS: u32 = 20;

/// In the word of the time: there was a look.
const LOOKED: u64 = 1 << 32;

/// The words of the last look: its time, and a bit for each row whose process it found stopped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastLook<'m> {
    words: &'m [AtomicU64],
}

impl<'m> LastLook<'m> {
    /// The look in these words, of which there are [`LOOK_WORDS`].
    pub(crate) fn new(words: &'m [AtomicU64]) -> LastLook<'m> {
        debug_assert_eq!(words.len(), LOOK_WORDS);
        LastLook { words }
    }

    /// Begins a look at time `now`, unless another member began one in the last 20 ms.
    pub(crate) fn begin(&self, now: u32) -> bool {
        let last = self.words[0].load(Ordering::Relaxed);
        // The clock of another member may have been read a little later.
        let since = now.wrapping_sub(last as u32).wrapping_add(PERIOD_MS);
        let is_recent = last & LOOKED != 0 && since < 2 * PERIOD_MS;
        let next = LOOKED | u64::from(now);
        let exchange = || self.words[0].compare_exchange(last, next, Ordering::Relaxed, Ordering::Relaxed);
        !is_recent && exchange().is_ok()
    }

    /// Writes down the findings of a look.
    pub(crate) fn note(&self, found: &Conditions) {
        let stopped = found.stopped();
        self.words[1].store(stopped as u64, Ordering::Relaxed);
        self.words[2].store((stopped >> 64) as u64, Ordering::Relaxed);
    }

    /// Forgets the process of a row, which another one has taken.
    pub(crate) fn forget(&self, row: usize) {
        self.words[1 + row / 64].fetch_and(!(1 << (row % 64)), Ordering::Relaxed);
    }

    /// The conditions of the members of a table as of the last look, which reports no member as ended. This process, `own`, runs.
    pub(crate) fn conditions(&self, table: &Table, own: Identity) -> Conditions {
        let [low, high] = [1, 2].map(|at| self.words[at].load(Ordering::Relaxed));
        let stopped = u128::from(high) << 64 | u128::from(low);
        Conditions::of(table, |at, identity| match stopped >> at & 1 {
            1 if identity != own => Condition::Stopped,
            _ => Condition::Runs,
        })
    }
}

/// The conditions of the members of a table, by row.
#[derive(Debug, Clone)]
pub(crate) struct Conditions(Vec<Option<(Identity, Condition)>>);

const _: () = assert!(MOST_MEMBERS <= u128::BITS as usize);

impl Conditions {
    fn of(table: &Table, mut condition: impl FnMut(usize, Identity) -> Condition) -> Conditions {
        let rows = table.entries.iter().enumerate();
        let condition = |(at, entry): (usize, &Option<Entry>)| {
            let identity = entry.as_ref()?.identity;
            Some((identity, condition(at, identity)))
        };
        Conditions(rows.map(condition).collect())
    }

    /// Reads the conditions of the members of a table. This process, `own`, runs.
    pub(crate) fn read(table: &Table, own: Option<Identity>) -> Conditions {
        let others = table.members().map(|(_, entry)| entry.identity);
        let others: Vec<Identity> = others.filter(|identity| Some(*identity) != own).collect();
        let mut read = Identity::conditions(&others).into_iter();
        Conditions::of(table, |_, identity| match Some(identity) == own {
            true => Condition::Runs,
            false => read.next().unwrap_or(Condition::Runs),
        })
    }

    /// The condition of the member of a row. A member that joined after the look runs.
    pub(crate) fn of_member(&self, at: usize, entry: &Entry) -> Condition {
        match self.0.get(at).copied().flatten() {
            Some((identity, condition)) if identity == entry.identity => condition,
            _ => Condition::Runs,
        }
    }

    fn stopped(&self) -> u128 {
        let rows = self.0.iter().enumerate();
        let stopped =
            rows.filter(|(_, known)| known.is_some_and(|(_, condition)| condition == Condition::Stopped));
        stopped.fold(0, |bits, (at, _)| bits | 1 << at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::entry;
    use super::*;

    fn table() -> Table {
        let mut table = Table::empty();
        for row in [0, 3, 126] {
            table.entries[row] = Some(entry(row as u32 + 1, 10, 10, 100));
        }
        table
    }

    fn words() -> Vec<AtomicU64> {
        (0..LOOK_WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn one_look_begins_in_a_period_whatever_the_clock() {
        let words = words();
        let last = LastLook::new(&words);
        for first in [0, 5, u32::MAX - 3] {
            words[0].store(0, Ordering::Relaxed);
            assert!(last.begin(first));
            assert!(!last.begin(first) && !last.begin(first.wrapping_add(PERIOD_MS - 1)));
            assert!(last.begin(first.wrapping_add(PERIOD_MS)));
        }
        // A member that read its clock before another one does not look again.
        words[0].store(LOOKED | 5000, Ordering::Relaxed);
        assert!(!last.begin(4996));
        // A time far ahead is damage.
        assert!(last.begin(4000));
    }

    #[test]
    fn stopped_members_are_known_until_the_next_look() {
        let words = words();
        let last = LastLook::new(&words);
        let table = table();
        let found = Conditions::of(&table, |at, _| match at {
            0 => Condition::Ended,
            126 => Condition::Stopped,
            _ => Condition::Runs,
        });
        last.note(&found);
        let own = |pid| entry(pid, 10, 10, 100).identity;
        let known = last.conditions(&table, own(1));
        let conditions: Vec<Condition> = table
            .members()
            .map(|(at, entry)| known.of_member(at, entry))
            .collect();
        assert_eq!(
            conditions,
            [Condition::Runs, Condition::Runs, Condition::Stopped],
            "the member that looked removes ended ones from the table"
        );
        // A process that a signal continued knows that it runs.
        assert_eq!(last.conditions(&table, own(127)).stopped(), 0);
        // A process in the row of a stopped one that was killed runs.
        last.forget(126);
        assert_eq!(last.conditions(&table, own(1)).stopped(), 0);
        last.note(&found);
        last.forget(3);
        assert_eq!(last.conditions(&table, own(1)).stopped(), 1 << 126);
        last.note(&Conditions::of(&table, |_, _| Condition::Runs));
        assert_eq!(last.conditions(&table, own(1)).stopped(), 0);
    }

    #[test]
    fn a_member_that_took_the_row_of_another_runs() {
        let table = table();
        let found = Conditions::of(&table, |_, _| Condition::Ended);
        let [first, other] = [1, 9].map(|pid| entry(pid, 10, 10, 100));
        assert_eq!(found.of_member(0, &first), Condition::Ended);
        assert_eq!(found.of_member(0, &other), Condition::Runs);
        assert_eq!(found.of_member(1, &other), Condition::Runs);
    }
}
