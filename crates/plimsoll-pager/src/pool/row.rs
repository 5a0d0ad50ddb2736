//! The row of a member: the words of shared memory that this member alone writes, except the first, by which it has the row.

use std::sync::atomic::{AtomicU64, Ordering};

use super::identity::Identity;
use super::layout::{MOST_PAGES, ROW_WORDS};
use super::table::PAGE_BITS;

// Places of the words.
/// The identity of the member; 0 if the row is free. A row whose process has ended is free, too.
const OWNER: usize = 0;
/// A random number of the program that the process runs: it changes with `execve`, which keeps the identity.
const PROGRAM: usize = 1;
const ACKNOWLEDGED: usize = 2;
const RESIDENT: usize = 3;
const WANTED: usize = 4;
const REFAULTS: usize = 5;
const STALL_US: usize = 6;
const GAIN: usize = 7;
const SUSPENDED: usize = 8;
const INHERITED: usize = 9;
const SEEN_AT: usize = 10;
const GAIN_NOW: usize = 11;
const NEEDY: usize = 12;
/// A counter that others increase to wake the member: the only word of a member's row that they write.
const BELL: usize = 13;
/// 1 while the member executes another program.
const EXECUTING: usize = 14;
/// Children alone read it: they have the code of the member, whatever the format.
const SHARED: usize = 15;
const _: () = assert!(SHARED < ROW_WORDS);

/// The place of the word that the member of a row sleeps at.
#[cfg(not(loom))]
pub(crate) fn bell(row: usize) -> usize {
    super::layout::row(row).start + BELL
}

/// The answer of a member to a grant: it knows this grant, and has at most so many pages resident until it knows a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// Number of the grant.
    pub(crate) number: u32,
    /// Pages.
    pub(crate) held: u64,
}

/// The state of a member as it published it last. Sizes are in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) resident: u64,
    /// The working set: the pages that the member would keep if it could.
    pub(crate) wanted: u64,
    /// Refaults since the member joined.
    pub(crate) refaults: u64,
    /// Microseconds that threads of the member waited for refaults since it joined.
    pub(crate) stall_us: u64,
    /// The worth of more pages, see `balance`.
    pub(crate) gain: u64,
    /// The same by the refaults of the last measurement alone.
    pub(crate) gain_now: u64,
    /// The member says that it is suspended.
    pub(crate) is_suspended: bool,
    /// Faults of the member wait for memory and can trim nothing.
    pub(crate) is_needy: bool,
    /// Free pages are to be given to it at once.
    pub(crate) is_wishing: bool,
    /// Pages that it still shares with the member from which it was forked.
    pub(crate) inherited: u64,
    /// Pages that it shares with members forked from it, an upper bound.
    pub(crate) shared: u64,
    /// Time of the report in milliseconds of `CLOCK_MONOTONIC`, which wraps.
    pub(crate) seen_at: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'m> {
    words: &'m [AtomicU64],
}

impl<'m> Row<'m> {
    /// The row in these words, of which there are [`ROW_WORDS`].
    pub(crate) fn new(words: &'m [AtomicU64]) -> Row<'m> {
        debug_assert_eq!(words.len(), ROW_WORDS);
        Row { words }
    }

    /// The word of the member that has the row.
    pub(crate) fn owner(&self) -> u64 {
        self.words[OWNER].load(Ordering::Acquire)
    }

    /// Takes the row from `owner`, 0 or the word of a process that has ended, and clears the report. Returns false if another
    /// process was first: an ended process does not come back, so its word does not, either.
    pub(crate) fn claim(&self, owner: u64, mine: Identity, program: u64) -> bool {
        let taken =
            self.words[OWNER].compare_exchange(owner, mine.word(), Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_err() {
            return false;
        }
        for word in &self.words[OWNER + 1..] {
            word.store(0, Ordering::Relaxed);
        }
        self.words[PROGRAM].store(program, Ordering::Release);
        true
    }

    /// Frees the row, if it is that of `mine`.
    pub(crate) fn release(&self, mine: Identity) {
        let _ = self.words[OWNER].compare_exchange(mine.word(), 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    #[cfg(not(loom))]
    pub(crate) fn program(&self) -> u64 {
        self.words[PROGRAM].load(Ordering::Acquire)
    }

    pub(crate) fn acknowledged(&self) -> Acknowledged {
        let word = self.words[ACKNOWLEDGED].load(Ordering::Acquire);
        Acknowledged {
            number: (word >> PAGE_BITS) as u32,
            held: word & ((1 << PAGE_BITS) - 1),
        }
    }

    /// The member's resident pages are at most `held` before this call.
    pub(crate) fn acknowledge(&self, acknowledged: Acknowledged) {
        let word = u64::from(acknowledged.number) << PAGE_BITS | acknowledged.held.min(MOST_PAGES);
        self.words[ACKNOWLEDGED].store(word, Ordering::Release);
    }

    /// States whether the member executes another program: if that succeeds, it never reports again. Does nothing if the row is
    /// another's. Async-signal-safe.
    #[cfg(not(loom))]
    pub(crate) fn set_executing(&self, mine: Identity, is_executing: bool) {
        if self.owner() == mine.word() {
            self.words[EXECUTING].store(u64::from(is_executing), Ordering::Release);
        }
    }

    #[cfg(not(loom))]
    pub(crate) fn is_executing(&self) -> bool {
        self.words[EXECUTING].load(Ordering::Acquire) != 0
    }

    /// States that the member forks: a child may share all of its pages, until its next report.
    #[cfg(not(loom))]
    pub(crate) fn share_all(&self) {
        self.words[SHARED].store(MOST_PAGES, Ordering::Release);
    }

    /// States the member's use of memory after a trim.
    #[cfg(not(loom))]
    pub(crate) fn publish_use(&self, resident: u64, inherited: u64, shared: u64, is_needy: bool) {
        // Without the wish: other members' ticks do not serve it twice.
        let values = [
            (RESIDENT, resident),
            (INHERITED, inherited),
            (SHARED, shared),
            (NEEDY, u64::from(is_needy)),
        ];
        for (place, value) in values {
            self.words[place].store(value, Ordering::Relaxed);
        }
    }

    /// States that the member has at most so many pages resident.
    #[cfg(not(loom))]
    pub(crate) fn limit_resident(&self, pages: u64) {
        self.words[RESIDENT].fetch_min(pages, Ordering::Relaxed);
    }

    pub(crate) fn publish(&self, report: &Report) {
        let values = [
            (RESIDENT, report.resident),
            (WANTED, report.wanted),
            (REFAULTS, report.refaults),
            (STALL_US, report.stall_us),
            (GAIN, report.gain),
            (GAIN_NOW, report.gain_now),
            (SUSPENDED, u64::from(report.is_suspended)),
            (
                NEEDY,
                u64::from(report.is_needy) | u64::from(report.is_wishing) << 1,
            ),
            (INHERITED, report.inherited),
            (SHARED, report.shared),
            (SEEN_AT, u64::from(report.seen_at)),
        ];
        for (place, value) in values {
            self.words[place].store(value, Ordering::Relaxed);
        }
    }

    /// The report and the answer of member `identity`; none if the row is another's, now or at the end of the call. The
    /// values of a report are read one by one; no decision needs them to be of one time.
    pub(crate) fn of(&self, identity: Identity) -> Option<(Report, Acknowledged)> {
        if self.owner() != identity.word() {
            return None;
        }
        let acknowledged = self.acknowledged();
        let word = |place: usize| self.words[place].load(Ordering::Relaxed);
        let report = Report {
            resident: word(RESIDENT).min(MOST_PAGES),
            wanted: word(WANTED).min(MOST_PAGES),
            refaults: word(REFAULTS),
            stall_us: word(STALL_US),
            gain: word(GAIN),
            gain_now: word(GAIN_NOW),
            is_suspended: word(SUSPENDED) != 0,
            is_needy: word(NEEDY) & 1 != 0,
            is_wishing: word(NEEDY) & 2 != 0,
            inherited: word(INHERITED).min(MOST_PAGES),
            shared: word(SHARED).min(MOST_PAGES),
            seen_at: word(SEEN_AT) as u32,
        };
        std::sync::atomic::fence(Ordering::Acquire);
        (self.owner() == identity.word()).then_some((report, acknowledged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_its_members_alone() {
        let words: Vec<AtomicU64> = (0..ROW_WORDS).map(|_| AtomicU64::new(9)).collect();
        words[OWNER].store(0, Ordering::Relaxed);
        let row = Row::new(&words);
        let [one, other] = [5, 6].map(|pid| Identity::new(pid, 1).expect("it is a process"));
        assert!(row.claim(0, one, 33));
        assert!(!row.claim(0, other, 44));
        assert_eq!(row.of(other), None);
        let (report, acknowledged) = row.of(one).expect("it is the member's");
        assert_eq!((report, acknowledged.held), (Report::default(), 0));
        let report = Report {
            resident: 1,
            wanted: 2,
            refaults: 3,
            stall_us: 4,
            gain: 5,
            gain_now: 8,
            is_suspended: true,
            is_needy: true,
            is_wishing: true,
            inherited: 6,
            shared: 9,
            seen_at: 7,
        };
        row.publish(&report);
        let answer = Acknowledged { number: 8, held: 9 };
        row.acknowledge(answer);
        assert_eq!(row.of(one), Some((report, answer)));
        row.release(other);
        assert_eq!(row.owner(), one.word());
        // The next member takes the row of one that has ended.
        assert!(row.claim(one.word(), other, 44));
        assert_eq!(row.of(other).map(|(report, _)| report), Some(Report::default()));
        row.release(other);
        assert_eq!(row.owner(), 0);
    }

    #[test]
    fn values_of_a_damaged_row_stay_in_range() {
        let words: Vec<AtomicU64> = (0..ROW_WORDS).map(|_| AtomicU64::new(u64::MAX)).collect();
        let row = Row::new(&words);
        let one = Identity::new(5, 1).expect("it is a process");
        words[OWNER].store(one.word(), Ordering::Relaxed);
        let (report, _) = row.of(one).expect("it is the member's");
        assert!(
            [report.resident, report.wanted, report.inherited, report.shared]
                .iter()
                .all(|pages| *pages <= MOST_PAGES)
        );
    }
}
