//! Grants and their acknowledgement: how the resident pages of all members stay within the total.
//!
//! Each entry has two sizes. `given` is the grant; `charged` is an upper bound of the pages that the member has
//! resident. A grant that falls is written at once, but the pages stay charged to the member until it *acknowledges*: it
//! names the number of the newest grant and the pages that it will not exceed until it learns of a newer one. Then, and not
//! before, the difference is free, and a grant that rises is paid from free pages alone. So
//!
//! > resident pages of a member <= the larger of its last answer and the grants that it learned since <= charged, and
//! > the sum of `charged` over all members <= total,
//!
//! at any time and for members of any speed: a slow or stopped member keeps others from its pages, never the sum from its
//! bound. The number matters: a member that acknowledges an old grant may just be learning of a larger one, so such an answer
//! frees nothing.
//!
//! ```text
//!          given 100, charged 100                        given 60, charged 100
//!   member ---------------------- the balancer lowers --> ---------------------- trims to 60, acknowledges 60
//!                                                                |                         |
//!                                                         40 stay charged           charged 60: 40 are free
//! ```
//!
//! Checked by `every_interleaving_of_two_members_and_a_balancer_keeps_the_total`, which tries every order of reads, trims,
//! answers, decisions, commits and kills.

use super::balance::split;
use super::identity::Identity;
use super::row::Acknowledged;
use super::table::{Entry, NUMBER_MASK};

#[cfg(test)]
mod interleavings;

/// Grants that a member may leave without an answer before it gets no other: far fewer than the numbers, so that an old number
/// is never taken for the newest one.
const MOST_OPEN: u32 = 1 << 20;

impl Entry {
    /// Frees the charge that the member's answer proves to be unused.
    pub(crate) fn settle(&mut self, answer: Acknowledged) {
        if answer.number == self.number {
            self.charged = self.charged.min(answer.held).max(self.given);
        }
    }

    /// Whether the member has answered a grant that is new enough to get another.
    pub(crate) fn can_change(&self, answer: Acknowledged) -> bool {
        (self.number.wrapping_sub(answer.number) & NUMBER_MASK) < MOST_OPEN
    }

    /// Changes the grant, which needs free pages if it is above the charge.
    pub(crate) fn give(&mut self, pages: u64) {
        if pages != self.given {
            self.given = pages;
            self.number = self.number.wrapping_add(1) & NUMBER_MASK;
            self.charged = self.charged.max(pages);
        }
    }
}

/// Pages that are charged to none.
pub(crate) fn free(entries: &[Option<Entry>], total: u64) -> u64 {
    let charged: u64 = entries.iter().flatten().map(|entry| entry.charged).sum();
    total.saturating_sub(charged)
}

/// Changes the grants of the entries to `wishes`, one for each entry: those that fall at once, those that rise as far as free
/// pages go, up to the minima first.
pub(crate) fn apply(entries: &mut [Option<Entry>], total: u64, wishes: &[u64]) {
    let wish = |at: usize| wishes.get(at).copied().unwrap_or(0);
    for (at, entry) in entries.iter_mut().enumerate() {
        if let Some(entry) = entry.as_mut().filter(|entry| wish(at) < entry.given) {
            entry.give(wish(at));
        }
    }
    raise(entries, total, |at, entry| wish(at).min(entry.minimum));
    raise(entries, total, |at, _| wish(at));
}

/// Raises grants towards `goal`, in proportion to the free pages that each needs.
fn raise(entries: &mut [Option<Entry>], total: u64, goal: impl Fn(usize, &Entry) -> u64) {
    let needs = |(at, entry): (usize, &Option<Entry>)| {
        let entry = entry.as_ref();
        entry.map_or(0, |entry| {
            goal(at, entry).max(entry.given).saturating_sub(entry.charged)
        })
    };
    let needed: Vec<u64> = entries.iter().enumerate().map(needs).collect();
    let got = split(free(entries, total), &needed);
    for (at, entry) in entries.iter_mut().enumerate() {
        if let Some(entry) = entry {
            // Up to its charge it needs no free page.
            let goal = goal(at, entry).min(entry.charged + got[at]);
            entry.give(goal.max(entry.given));
        }
    }
}

/// Removes the entry of a process that has ended. Its charge is free, except for pages of members forked from it that it paid for:
/// the child with most of them is charged for those, and becomes the parent of the others. `claims` has the number of those pages
/// for each entry.
pub(crate) fn bury(entries: &mut [Option<Entry>], row: usize, claims: &[u64]) {
    let Some(ended) = entries.get_mut(row).and_then(Option::take) else {
        return;
    };
    let children = |entries: &[Option<Entry>]| -> Vec<usize> {
        let is_child = |at: &usize| entries[*at].is_some_and(|entry| entry.parent == Some(ended.identity));
        (0..entries.len()).filter(is_child).collect()
    };
    let children = children(entries);
    let claim = |at: usize| claims.get(at).copied().unwrap_or(0);
    let heir = children.iter().copied().max_by_key(|&at| claim(at));
    let next: Option<Identity> = heir.and_then(|at| entries[at]).map(|entry| entry.identity);
    for at in children {
        if let Some(entry) = &mut entries[at] {
            entry.parent = if Some(at) == heir { ended.parent } else { next };
            if Some(at) == heir {
                let more = claim(at).min(ended.charged);
                entry.charged += more;
                entry.give(
                    entry
                        .charged
                        .min(entry.given + more)
                        .min(entry.maximum.max(entry.given)),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::entry;
    use super::*;

    #[test]
    fn pages_stay_charged_until_they_are_acknowledged() {
        let mut entries = [Some(entry(1, 100, 100, 100)), Some(entry(2, 0, 0, 100))];
        apply(&mut entries, 100, &[60, 40]);
        let [one, other] = entries.map(|entry| entry.expect("it is a member"));
        assert_eq!((one.given, one.charged, one.number), (60, 100, 2));
        assert_eq!((other.given, other.charged), (0, 0), "nothing is free");
        // The answer to the grant before frees nothing, nor does one above the new grant free all.
        for (number, held, charged) in [(1, 60, 100), (2, 85, 85), (2, 90, 85), (2, 10, 60)] {
            entries[0]
                .as_mut()
                .expect("it is a member")
                .settle(Acknowledged { number, held });
            assert_eq!(entries[0].expect("it is a member").charged, charged);
        }
        apply(&mut entries, 100, &[60, 40]);
        assert_eq!(entries[1].expect("it is a member").given, 40);
    }

    #[test]
    fn a_grant_rises_to_its_charge_without_free_pages() {
        let mut entries = [Some(entry(1, 60, 100, 100))];
        apply(&mut entries, 100, &[90]);
        let one = entries[0].expect("it is a member");
        assert_eq!((one.given, one.charged), (90, 100));
    }

    #[test]
    fn minima_are_met_before_other_wishes() {
        let minimum = |pages| {
            Some(Entry {
                minimum: pages,
                ..entry(2, 0, 0, 100)
            })
        };
        let mut entries = [Some(entry(1, 70, 70, 100)), minimum(20)];
        apply(&mut entries, 100, &[100, 30]);
        let given = entries.map(|entry| entry.map_or(0, |entry| entry.given));
        // 20, and a third of the 10 that are left: both wish, one for 30 and one for 10 more.
        assert_eq!(given, [78, 22]);
        assert_eq!(free(&entries, 100), 0);
    }

    /// A member that never answers would see its numbers come round.
    #[test]
    fn a_member_that_never_answers_gets_no_further_grant() {
        let mut one = entry(1, 0, 0, 100);
        let answer = Acknowledged { number: 1, held: 0 };
        one.number = MOST_OPEN;
        assert!(one.can_change(answer));
        one.number = MOST_OPEN + 1;
        assert!(!one.can_change(answer));
        one.number = 0;
        assert!(!one.can_change(answer), "16 million grants are open");
        let last = Acknowledged {
            number: NUMBER_MASK,
            held: 0,
        };
        assert!(one.can_change(last), "the next number after the last is 0");
    }

    #[test]
    fn the_share_of_an_ended_member_returns() {
        let mut entries = [Some(entry(1, 60, 80, 100)), Some(entry(2, 20, 20, 100))];
        bury(&mut entries, 0, &[0, 0]);
        assert_eq!(free(&entries, 100), 80);
        bury(&mut entries, 0, &[]);
        bury(&mut entries, 9, &[]);
        assert_eq!(free(&entries, 100), 80);
    }

    /// The share of a parent was given out while its children still had its pages in memory, as their own.
    #[test]
    fn a_child_is_charged_for_the_pages_that_its_parent_leaves() {
        let child = |pid, pages| {
            Some(Entry {
                parent: entry(1, 0, 0, 100).identity.into(),
                ..entry(pid, pages, pages, 100)
            })
        };
        let mut entries = [Some(entry(1, 60, 60, 100)), child(2, 10), child(3, 20)];
        bury(&mut entries, 0, &[0, 45, 30]);
        let [heir, other] = [entries[1], entries[2]].map(|entry| entry.expect("it is a member"));
        assert_eq!((heir.given, heir.charged, heir.parent), (55, 55, None));
        assert_eq!((other.charged, other.parent), (20, Some(heir.identity)));
        assert_eq!(free(&entries, 100), 25);
        // With the second one, too.
        bury(&mut entries, 1, &[0, 0, 30]);
        assert_eq!(entries[2].expect("it is a member").charged, 50);
        assert_eq!(free(&entries, 100), 50);
    }
}
