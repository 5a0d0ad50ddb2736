//! The state of a deferred page file: one that is open but not created yet. [`creation`](super::creation) has the transitions.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use plimsoll_os::Errno;

use crate::page_file::{
    BLOCK_BYTES, CreateError, PageFileOptions, SLOT_BYTES, SLOTS_PER_WRITE, State, WriteFailure,
};

/// Bytes to which the size of a page file is rounded up.
pub(super) const MEBIBYTE: u64 = (SLOT_BYTES * SLOTS_PER_WRITE) as u64;

/// Marks the error of a write or read in [`Creation::refusal`], beside its number.
const OF_TRANSFER: u32 = 1 << 16;

/// In place of a thread in [`Creation::creator`]: one has started, and has not called `FileTier::poll_creation` yet. An odd
/// address is no thread's token.
pub(super) const STARTED: usize = 1;

/// The options of a page file that a process creates on first use.
#[derive(Debug)]
pub(crate) struct FilePlan {
    /// The folder of the files of children of forks, from the root on. Without it, they create none.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) bytes: u64,
    pub(crate) options: PageFileOptions,
}

/// A deferred page file.
///
/// Invariant: while no thread has the lock of the worker, `is_open` is set if and only if the worker has an open file, and
/// `refusal` is 0 then. `FileTier::leave` and `FileTier::refuse_creation` may clear `is_open` first.
#[derive(Debug, Default)]
pub(super) struct Creation {
    /// None if neither this process nor a child of a fork creates a file.
    pub(super) plan: Option<FilePlan>,
    /// Whether the worker has the open file.
    pub(super) is_open: AtomicBool,
    /// The thread that creates the page file: no signal handler, which must not allocate memory. 0 without one, or [`STARTED`].
    pub(super) creator: AtomicUsize,
    /// Whether another thread waits for the file.
    pub(super) is_awaited: AtomicBool,
    /// The error for which this process has no file; 0 for none.
    pub(super) refusal: AtomicU32,
}

impl Creation {
    pub(super) fn of(plan: FilePlan) -> Creation {
        Creation {
            plan: Some(plan),
            ..Creation::default()
        }
    }

    /// Whether a thread will create the page file on the open file.
    pub(super) fn is_pending(&self) -> bool {
        self.is_open.load(Ordering::Acquire) && self.creator.load(Ordering::Acquire) != 0
    }

    /// The size of the deferred file once it is created; 0 without one.
    pub(super) fn bytes(&self) -> u64 {
        let plan = self
            .plan
            .as_ref()
            .filter(|_| self.is_open.load(Ordering::Acquire));
        plan.map_or(0, |plan| plan.bytes.next_multiple_of(MEBIBYTE))
    }

    /// The state of a file that could not be opened or created; none otherwise.
    pub(super) fn refusal(&self) -> Option<State> {
        let refusal = self.refusal.load(Ordering::Relaxed);
        let errno = Errno::of_number((refusal & !OF_TRANSFER) as i32);
        match refusal {
            0 => None,
            _ if refusal & OF_TRANSFER != 0 => Some(State::Failed(WriteFailure::Write {
                position: 0,
                length: BLOCK_BYTES,
                errno,
            })),
            _ => Some(State::Limited { bytes: 0, errno }),
        }
    }

    /// Records the error for which this process has no file.
    pub(super) fn refuse(&self, error: &CreateError) {
        let mark = match error {
            CreateError::Probe { .. } => OF_TRANSFER,
            _ => 0,
        };
        let number = error.errno().raw().unsigned_abs();
        self.refusal.store(number | mark, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_created_leaves_its_error() {
        let creation = Creation::of(FilePlan {
            folder: None,
            bytes: MEBIBYTE + 1,
            options: PageFileOptions::default(),
        });
        assert_eq!((creation.refusal(), creation.bytes()), (None, 0));
        creation.is_open.store(true, Ordering::Relaxed);
        assert_eq!(creation.bytes(), 2 * MEBIBYTE);
        assert!(!creation.is_pending(), "no thread creates it");
        let path = PathBuf::from("/somewhere");
        let (full, broken) = (Errno::NOSPC, Errno::IO);
        creation.refuse(&CreateError::Space {
            path: path.clone(),
            source: full,
        });
        let limited = State::Limited {
            bytes: 0,
            errno: full,
        };
        assert_eq!(creation.refusal(), Some(limited));
        creation.refuse(&CreateError::Probe { path, source: broken });
        let failed = WriteFailure::Write {
            position: 0,
            length: BLOCK_BYTES,
            errno: broken,
        };
        assert_eq!(creation.refusal(), Some(State::Failed(failed)));
    }
}
