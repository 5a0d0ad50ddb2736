//! The page file of this process before it is one: an open file that becomes a page file when the first copies are to move there. A
//! process that ends before that pays neither for key, tables and disk space nor for the test of the file system.
//!
//! ```text
//!  no file --FileTier::keep_open, end_fork--> open --make--> page file, in `Files`
//!     ^                                        |  |
//!     +----------------leave-------------------+  +--make, which fails--> no file, with the error
//! ```
//!
//! The file is open from the start of the pager, or of a child of a fork: later the process may have another root or user, and the
//! lowest free number of a descriptor is the program's. It is written by `pwrite(2)`: the descriptor of an io_uring would have that
//! number for a moment, and a filter of system calls may refuse io_uring by then.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use plimsoll_os::{Errno, thread_token};

use super::file_tier::{FileTier, Worker};
use crate::backing::Room;
use crate::page_file::{
    BLOCK_BYTES, CreateError, NewFile, PageFileOptions, SLOT_BYTES, SLOTS_PER_WRITE, State, WriteFailure,
};

/// Bytes to which the size of a page file is rounded up.
const MEBIBYTE: u64 = (SLOT_BYTES * SLOTS_PER_WRITE) as u64;

/// Marks the error of a write or read in [`Creation::refusal`], beside its number.
const OF_TRANSFER: u32 = 1 << 16;

/// In place of a thread in [`Creation::maker`]: one has started, and has not called [`FileTier::serve`] yet. An odd address is no
/// thread's token.
const STARTED: usize = 1;

/// The page file that a process makes at its first need.
#[derive(Debug)]
pub(crate) struct FilePlan {
    /// The folder of the files of children of forks, from the root on. Without it, they make none.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) bytes: u64,
    pub(crate) options: PageFileOptions,
}

/// The file that is to be made.
///
/// Invariant: while no thread has the lock of the worker, `is_open` is set if and only if the worker has an open file, and `refusal`
/// is 0 then. `FileTier::leave` may clear `is_open` first.
#[derive(Debug, Default)]
pub(super) struct Creation {
    /// None if neither this process nor a child of a fork makes a file.
    plan: Option<FilePlan>,
    /// Whether the worker has the open file.
    is_open: AtomicBool,
    /// The thread that makes it a page file: no signal handler, which must not allocate memory. 0 without one, or [`STARTED`].
    maker: AtomicUsize,
    /// Whether another thread waits for that.
    is_awaited: AtomicBool,
    /// The error for which this process has no file; 0 for none.
    refusal: AtomicU32,
}

impl Creation {
    pub(super) fn of(plan: FilePlan) -> Creation {
        Creation {
            plan: Some(plan),
            ..Creation::default()
        }
    }

    /// Whether a thread will make the open file a page file.
    pub(super) fn is_to_come(&self) -> bool {
        self.is_open.load(Ordering::Acquire) && self.maker.load(Ordering::Acquire) != 0
    }

    /// The size of the open file once it is a page file; 0 without one.
    pub(super) fn bytes(&self) -> u64 {
        let plan = self
            .plan
            .as_ref()
            .filter(|_| self.is_open.load(Ordering::Acquire));
        plan.map_or(0, |plan| plan.bytes.next_multiple_of(MEBIBYTE))
    }

    /// The state of a file that could not be opened, or made a page file; none otherwise.
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

    /// Notes the error for which this process has no file.
    fn refuse(&self, error: &CreateError) {
        let mark = match error {
            CreateError::Probe { .. } => OF_TRANSFER,
            _ => 0,
        };
        let number = error.errno().raw().unsigned_abs();
        self.refusal.store(number | mark, Ordering::Relaxed);
    }
}

impl FileTier {
    /// Keeps an open file until copies are to move there.
    pub(super) fn keep_open(&self, worker: &mut Worker, new: NewFile) {
        worker.new = Some(new);
        self.creation.is_open.store(true, Ordering::Release);
    }

    /// Ends a fork in the parent, or in the child, which then opens a file of its own. Without one, it only reads.
    pub(super) fn end_fork(&self, is_child: bool) {
        self.files.iter().for_each(|file| file.file.end_fork(is_child));
        if !is_child {
            return;
        }
        let creation = &self.creation;
        // The parent's thread does not exist here.
        creation.maker.store(0, Ordering::Relaxed);
        creation.is_awaited.store(false, Ordering::Relaxed);
        creation.is_open.store(false, Ordering::Relaxed);
        creation.refusal.store(0, Ordering::Relaxed);
        if let Some(mut worker) = self.worker() {
            // That of the parent.
            worker.new = None;
            match self.open_own() {
                Ok(Some(new)) => self.keep_open(&mut worker, new),
                Ok(None) => {}
                Err(error) => creation.refuse(&error),
            }
        }
    }

    /// Opens the file of this process, a child of a fork; none if it makes none.
    fn open_own(&self) -> Result<Option<NewFile>, CreateError> {
        let Some(plan) = self.creation.plan.as_ref() else {
            return Ok(None);
        };
        let folder = plan.folder.as_ref().ok_or_else(|| CreateError::Folder {
            path: PathBuf::from("."),
            source: Errno::NOENT,
        })?;
        if self.files.most_of_next().is_none() {
            return Ok(None);
        }
        NewFile::open_in(folder, plan.options)?.at_own_number().map(Some)
    }

    /// Has others wait for a thread that has started and will call [`FileTier::serve`].
    pub(super) fn promise(&self) {
        let maker = &self.creation.maker;
        // It may have called it already.
        let _ = maker.compare_exchange(0, STARTED, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Has this thread, which runs no signal handler, make the file of this process when copies are to move there. Others wait
    /// for it until the next call.
    pub(super) fn serve(&self) {
        self.creation.maker.store(thread_token(), Ordering::Release);
        if self.creation.is_awaited.load(Ordering::Relaxed)
            && let Some(mut worker) = self.worker()
        {
            self.creation.is_awaited.store(false, Ordering::Relaxed);
            if worker.new.is_some() {
                self.make(&mut worker);
                self.publish(&worker);
            }
        }
    }

    /// Makes the open file, if there is one, a page file on the thread that may.
    ///
    /// # Errors
    /// The result of a spill without that file.
    pub(super) fn prepare(&self, worker: &mut Worker) -> Result<(), Room> {
        if !self.creation.is_open.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.creation.maker.load(Ordering::Relaxed) {
            0 => Err(Room::None),
            maker if maker != thread_token() => {
                self.creation.is_awaited.store(true, Ordering::Relaxed);
                Err(Room::Promised)
            }
            _ if self.make(worker) => Ok(()),
            _ => {
                self.publish(worker);
                Err(Room::None)
            }
        }
    }

    /// Makes the open file the page file of this process. Returns false if that cannot be done: then never.
    fn make(&self, worker: &mut Worker) -> bool {
        let made = worker.new.take().map(|new| self.try_make(worker, new));
        if let Some(Err(error)) = &made {
            self.creation.refuse(error);
        }
        self.creation.is_open.store(false, Ordering::Release);
        matches!(made, Some(Ok(())))
    }

    fn try_make(&self, worker: &mut Worker, new: NewFile) -> Result<(), CreateError> {
        let most = self.files.most_of_next().unwrap_or(0);
        let bytes = self.creation.plan.as_ref().map_or(0, |plan| plan.bytes);
        let (file, writer) = new.make(bytes.min(most), false)?;
        self.take(worker, file, writer).map_err(CreateError::Memory)
    }

    /// Ends the use of the parents' files, in a child.
    pub(super) fn leave(&self) {
        self.files.iter().for_each(|file| file.file.leave());
        self.creation.is_open.store(false, Ordering::Relaxed);
        if let Some(mut worker) = self.worker() {
            worker.new = None;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::path::Path;

    use super::*;

    /// The page file of a small pager, in a folder, before its first need.
    fn tier(folder: &Path) -> FileTier {
        let options = PageFileOptions {
            in_memory: true,
            ..PageFileOptions::default()
        };
        let new = NewFile::open(folder, MEBIBYTE, options).expect("the folder is this test's");
        let plan = FilePlan {
            folder: Some(folder.to_owned()),
            bytes: MEBIBYTE,
            options,
        };
        FileTier::at_first_need(new, plan, 4 << 20).expect("addresses are free")
    }

    #[test]
    fn the_thread_that_serves_makes_the_file_and_others_wait_for_it() {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let tier = tier(folder.path());
        let prepare = || tier.prepare(&mut tier.worker().expect("no thread has it"));
        let before = tier.bytes();
        assert_eq!(prepare(), Err(Room::None), "no thread makes it yet");
        assert!(!tier.takes_more());
        tier.serve();
        assert!(
            tier.takes_more() && tier.files.last().is_none(),
            "nothing needs it"
        );
        let elsewhere = std::thread::scope(|scope| scope.spawn(prepare).join());
        assert_eq!(elsewhere.expect("no panic"), Err(Room::Promised));
        assert!(tier.files.last().is_none());
        tier.serve();
        assert!(tier.takes_more() && tier.files.last().is_some());
        assert_eq!(prepare(), Ok(()));
        assert!(tier.worker().is_some_and(|worker| worker.new.is_none()));
        tier.validate().expect("every invariant of the page file holds");
        // The buffers of its writes, 64 KiB, counted before.
        let more = tier.bytes() - before;
        assert!(more < 64 << 10, "{more} bytes");
    }

    /// A program that filled its budget before the thread of the balance-set manager ran exceeded it.
    #[test]
    fn others_wait_for_a_thread_that_has_started() {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let prepare = |tier: &FileTier| tier.prepare(&mut tier.worker().expect("no thread has it"));
        let early = tier(folder.path());
        early.promise();
        assert!(early.takes_more());
        assert_eq!(prepare(&early), Err(Room::Promised));
        early.serve();
        assert!(early.files.last().is_some(), "the first call makes it");
        let late = tier(folder.path());
        late.serve();
        late.promise();
        assert_eq!(prepare(&late), Ok(()), "this thread is at work");
        assert!(late.files.last().is_some());
    }

    #[test]
    fn a_pager_that_ends_makes_no_file() {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let tier = tier(folder.path());
        tier.serve();
        tier.leave();
        assert!(!tier.takes_more());
        assert_eq!((tier.stats().bytes, tier.stats().allocated_bytes), (0, 0));
    }

    #[test]
    fn a_file_that_cannot_be_made_leaves_its_error() {
        let creation = Creation::of(FilePlan {
            folder: None,
            bytes: MEBIBYTE + 1,
            options: PageFileOptions::default(),
        });
        assert_eq!((creation.refusal(), creation.bytes()), (None, 0));
        creation.is_open.store(true, Ordering::Relaxed);
        assert_eq!(creation.bytes(), 2 * MEBIBYTE);
        assert!(!creation.is_to_come(), "no thread makes it");
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
