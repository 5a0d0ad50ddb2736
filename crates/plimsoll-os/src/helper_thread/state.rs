//! The word by which a helper and the threads with work for it agree. The parent module provides the word's type: the
//! models run the same steps on another one.

use super::{AtomicU32, Ordering};

/// The state of a helper, in one word, by which it ends without leaving work behind: a thread with work for it asks,
/// and either the helper runs once more or the caller starts the next one.
///
/// ```text
/// absent -- ask: start --> asked -- begins to look --> running
///    ^                      ^------------ ask ------------'|
///    |-------------------- work is over -------------------'
///    '--- dismissed, or it must not go on --- asked, running
/// ```
///
/// The helper takes the last steps when it has left its stack for good, so that the next one may have it. A helper that
/// leaves before its work is over leaves requests behind: it does so only where other threads go on with the work, or
/// ask again.
#[derive(Debug)]
pub struct HelperState(pub(super) AtomicU32);

pub(super) const ABSENT: u32 = 0;
pub(super) const RUNNING: u32 = 1;
const ASKED: u32 = 2;

impl HelperState {
    /// Whether a helper runs, or is about to.
    #[inline]
    pub fn is_present(&self) -> bool {
        self.0.load(Ordering::Acquire) != ABSENT
    }

    /// Has the helper that runs work once more, from its start; with none, the caller is to start one. Returns whether
    /// that is so.
    pub fn ask(&self) -> bool {
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            (state != ASKED).then_some(ASKED)
        });
        before == Ok(ABSENT)
    }

    /// Called by the helper, before it looks for work: requests from here on are another round.
    pub fn begin_to_look(&self) {
        self.0.swap(RUNNING, Ordering::AcqRel);
    }

    /// In the child of a fork, which has no helper; or where none could be started.
    pub fn forget(&self) {
        self.0.store(ABSENT, Ordering::Release);
    }
}
