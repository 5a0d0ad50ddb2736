//! The word by which a helper and those who have work for it agree. What the word is made of stands above: the models
//! run the same steps on another kind of it.

use super::{AtomicU32, Ordering};

/// Whether a helper runs, in one word, by which it ends without leaving work behind: whoever has work for it asks, and
/// either it runs once more or the caller starts the next one.
///
/// ```text
/// absent -- ask: start --> asked -- begins to look --> running
///    ^                      ^------------ ask ------------'|
///    '-------------------- work is over -------------------'
/// ```
///
/// The last step from `running` is taken when the helper has left its stack for good, so that the next one may have it.
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

    /// By the helper, before it looks for work: what is asked for from here on is another round.
    pub fn begin_to_look(&self) {
        self.0.swap(RUNNING, Ordering::AcqRel);
    }

    /// In the child of a fork, which has no helper; or where none could be started.
    pub fn forget(&self) {
        self.0.store(ABSENT, Ordering::Release);
    }
}
