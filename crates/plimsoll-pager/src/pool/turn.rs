//! A turn of a member: the next table of the pool, after the member has reported.

use super::handle::{Pool, seen_in};
use super::identity::Identity;
use super::looks::Conditions;
use super::round::{meet_needs, next_table};
use super::table::{Entry, Table};

/// Time between two rounds of balancing.
const ROUND_MS: u32 = 250;

/// A turn of the member in a row.
pub(super) struct Turn<'p> {
    pub(super) pool: &'p Pool,
    pub(super) row: usize,
    pub(super) identity: Identity,
    /// Milliseconds of `CLOCK_MONOTONIC`, which wrap.
    pub(super) now: u32,
    /// Makes a round in any case.
    pub(super) at_once: bool,
    /// The member needs or wishes pages.
    pub(super) asks: bool,
    /// The findings of this turn's look, if there was one.
    pub(super) looked: Option<Conditions>,
}

impl Turn<'_> {
    /// The table to follow `table`; none to leave it. To be called again if another member changed the table first.
    pub(super) fn next(&mut self, table: &Table) -> Option<Table> {
        let is_due = self.is_due(table);
        // Another member changed the table after the look, and may lack its findings.
        if let Some(found) = &self.looked {
            return Some(self.with(table, found, is_due));
        }
        if !self.asks && !is_due {
            return None;
        }
        // A need is urgent: if free pages meet it, the member does not look for the pages of ended processes.
        let last_look = || self.pool.last_look(table, self.identity);
        let needs = self.asks.then(|| self.with(table, &last_look(), false));
        let given = |table: &Table| table.entries[self.row].map_or(0, |entry| entry.given);
        let met = needs.as_ref().is_some_and(|next| given(next) > given(table));
        if met && !is_due {
            return needs;
        }
        if !self.at_once && !self.pool.begin_look() {
            // The member that looks makes the round.
            return needs;
        }
        let found = self.looked.insert(self.pool.look(table, self.identity)).clone();
        Some(self.with(table, &found, is_due))
    }

    fn is_due(&self, table: &Table) -> bool {
        self.at_once || self.now.wrapping_sub(table.balanced_at) >= ROUND_MS
    }

    /// The table after a round, or after needs alone are met.
    fn with(&self, table: &Table, conditions: &Conditions, is_round: bool) -> Table {
        let seen = self.pool.states(table, conditions);
        let seen = |at, _: &Entry| seen_in(&seen, at);
        let total = self.pool.total_pages();
        match is_round {
            true => next_table(table, total, &seen, self.now),
            false => meet_needs(table, total, &seen, self.now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::Limits;
    use super::super::member::Member;
    use super::super::table::tests::entry;
    use super::*;

    const TOTAL: u64 = 1000;
    /// The row of a process that has ended: one with this number began at another time.
    const ENDED: usize = 7;

    /// A pool with this process, and a table that has an ended process too.
    fn pool() -> (Pool, Member, Table) {
        let pool = Pool::in_memory(TOTAL * 4096).expect("a pool");
        let member = pool.join(Limits::default()).expect("a member");
        let (_, mut table) = pool.table().expect("a table");
        table.entries[ENDED] = Some(entry(std::process::id(), 400, 400, TOTAL));
        table.balanced_at = 0;
        (pool, member, table)
    }

    fn turn<'p>(pool: &'p Pool, table: &Table, now: u32) -> Turn<'p> {
        let members = table.members();
        let own = members.min_by_key(|(at, _)| *at).expect("this process");
        Turn {
            pool,
            row: own.0,
            identity: own.1.identity,
            now,
            at_once: false,
            asks: false,
            looked: None,
        }
    }

    /// One member looked, and another member made the round without these findings: the ended process kept its share until the
    /// next look of any member, which could come at any later time.
    #[test]
    fn a_look_is_not_lost_to_the_round_of_a_member_that_did_not_look() {
        let (pool, _member, table) = pool();
        let mut turn = turn(&pool, &table, 10_000);
        let next = turn.next(&table).expect("a round is due");
        assert!(next.entries[ENDED].is_none(), "{next:?}");
        let mut changed = table.clone();
        (changed.balanced_at, changed.rounds) = (10_000, table.rounds + 1);
        let next = turn.next(&changed).expect("the findings of the look");
        assert!(next.entries[ENDED].is_none(), "{next:?}");
        assert_eq!(next.rounds, changed.rounds, "a second round");
    }

    #[test]
    fn a_member_that_may_not_look_makes_no_round() {
        let (pool, _member, table) = pool();
        let mut first = turn(&pool, &table, 10_000);
        assert!(first.next(&table).is_some());
        // Within 20 ms, unless the test stood still: then it may look, too.
        let mut second = turn(&pool, &table, 10_000);
        let next = second.next(&table);
        assert_eq!(next.is_some(), second.looked.is_some(), "{next:?}");
        let mut needy = turn(&pool, &table, 10_000);
        needy.asks = true;
        let next = needy.next(&table).expect("needs are met at any time");
        assert_eq!(next.entries[ENDED].is_none(), needy.looked.is_some());
    }

    #[test]
    fn a_turn_before_the_next_round_leaves_the_table() {
        let (pool, _member, table) = pool();
        assert_eq!(turn(&pool, &table, ROUND_MS - 1).next(&table), None);
    }
}
