//! A page file that is open but not created yet. The pager creates it when it first moves pages there. A process that ends
//! earlier needs no key, no tables, no disk space and no test of the file system.
//!
//! ```text
//!  no file --FileTier::keep_open, end_fork--> open --create--> page file, in `Files`
//!     ^                                        |  |
//!     +----------------leave-------------------+  +--refuse_creation, or create if it fails--> no file, with the error
//! ```
//!
//! The pager opens the file at its start, or at the fork in a child: later the process may have another root or user, and the
//! lowest free descriptor number belongs to the program. It writes the file by `pwrite(2)`: `io_uring_setup(2)` would briefly
//! take that number, and a seccomp filter may refuse it by then.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use plimsoll_os::{Errno, thread_token};

use super::deferred::STARTED;
use super::file_tier::{FileTier, Worker};
use crate::backing::Room;
use crate::page_file::{CreateError, NewFile};

impl FileTier {
    /// Keeps an open file until the pager first moves pages there.
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
        creation.creator.store(0, Ordering::Relaxed);
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

    /// Opens the file of this process, a child of a fork; none if it is to have none.
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

    /// As [`Backing::expect_page_file`](crate::backing::Backing::expect_page_file).
    pub(super) fn expect_creation(&self) {
        let creator = &self.creation.creator;
        // The thread may have called it already.
        let _ = creator.compare_exchange(0, STARTED, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// As [`Backing::refuse_page_file`](crate::backing::Backing::refuse_page_file).
    pub(super) fn refuse_creation(&self, errno: Errno) {
        if !self.creation.is_open.swap(false, Ordering::AcqRel) {
            return;
        }
        self.creation.refuse(&CreateError::Memory(errno));
        if let Some(mut worker) = self.worker() {
            worker.new = None;
            self.publish(&worker);
        }
    }

    /// As [`Backing::poll_page_file`](crate::backing::Backing::poll_page_file).
    pub(super) fn poll_creation(&self) {
        self.creation.creator.store(thread_token(), Ordering::Release);
        if self.creation.is_awaited.load(Ordering::Relaxed)
            && let Some(mut worker) = self.worker()
        {
            self.creation.is_awaited.store(false, Ordering::Relaxed);
            if worker.new.is_some() {
                self.create(&mut worker);
                self.publish(&worker);
            }
        }
    }

    /// Creates the deferred page file, if there is one and this thread may.
    ///
    /// # Errors
    /// The result of a spill without that file.
    pub(super) fn prepare(&self, worker: &mut Worker) -> Result<(), Room> {
        if !self.creation.is_open.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.creation.creator.load(Ordering::Relaxed) {
            0 => Err(Room::None),
            creator if creator != thread_token() => {
                self.creation.is_awaited.store(true, Ordering::Relaxed);
                Err(Room::Pending)
            }
            _ if self.create(worker) => Ok(()),
            _ => {
                self.publish(worker);
                Err(Room::None)
            }
        }
    }

    /// Creates the page file on the open file. Returns whether it did; it does not try again.
    fn create(&self, worker: &mut Worker) -> bool {
        let created = worker.new.take().map(|new| self.try_create(worker, new));
        if let Some(Err(error)) = &created {
            self.creation.refuse(error);
        }
        self.creation.is_open.store(false, Ordering::Release);
        matches!(created, Some(Ok(())))
    }

    fn try_create(&self, worker: &mut Worker, new: NewFile) -> Result<(), CreateError> {
        let most = self.files.most_of_next().unwrap_or(0);
        let bytes = self.creation.plan.as_ref().map_or(0, |plan| plan.bytes);
        let (file, writer) = new.create(bytes.min(most), false)?;
        self.take(worker, file, writer).map_err(CreateError::Memory)
    }

    /// Ends the use of the page files: of the parents' in a child, and of the file that is not created yet.
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
    use crate::page_file::{PageFileOptions, State};
    use crate::saved::deferred::{FilePlan, MEBIBYTE};

    /// The deferred page file of a small pager, in a folder.
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
        FileTier::deferred(new, plan, 4 << 20).expect("addresses are free")
    }

    #[test]
    fn the_thread_that_polls_creates_the_file_and_others_wait_for_it() {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let tier = tier(folder.path());
        let prepare = || tier.prepare(&mut tier.worker().expect("no thread has it"));
        let before = tier.bytes();
        assert_eq!(prepare(), Err(Room::None), "no thread creates it yet");
        assert!(!tier.takes_more());
        tier.poll_creation();
        assert!(
            tier.takes_more() && tier.files.last().is_none(),
            "no thread waits for it"
        );
        let elsewhere = std::thread::scope(|scope| scope.spawn(prepare).join());
        assert_eq!(elsewhere.expect("no panic"), Err(Room::Pending));
        assert!(tier.files.last().is_none());
        tier.poll_creation();
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
        early.expect_creation();
        assert!(early.takes_more());
        assert_eq!(prepare(&early), Err(Room::Pending));
        early.poll_creation();
        assert!(early.files.last().is_some(), "the first call creates it");
        let late = tier(folder.path());
        late.poll_creation();
        late.expect_creation();
        assert_eq!(prepare(&late), Ok(()), "this thread is at work");
        assert!(late.files.last().is_some());
    }

    #[test]
    fn a_pager_that_ends_creates_no_file() {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let tier = tier(folder.path());
        tier.poll_creation();
        tier.leave();
        assert!(!tier.takes_more());
        assert_eq!((tier.stats().bytes, tier.stats().allocated_bytes), (0, 0));
    }

    /// In a child whose thread did not start, the file stayed writable in the counters, and no thread created it.
    #[test]
    fn a_refused_file_leaves_its_error_and_is_closed() {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let tier = tier(folder.path());
        let before = tier.bytes();
        tier.refuse_creation(Errno::AGAIN);
        let refused = State::Limited {
            bytes: 0,
            errno: Errno::AGAIN,
        };
        assert_eq!((tier.stats().state, tier.stats().bytes), (refused, 0));
        assert!(!tier.takes_more());
        assert!(tier.worker().is_some_and(|worker| worker.new.is_none()));
        assert!(tier.bytes() < before, "no buffers are reserved");
        // The first error stays.
        tier.refuse_creation(Errno::NOMEM);
        assert_eq!(tier.stats().state, refused);
        tier.expect_creation();
        tier.poll_creation();
        assert!(!tier.takes_more() && tier.files.last().is_none());
        // A child of a fork opens a file of its own.
        tier.end_fork(true);
        let stats = tier.stats();
        assert_eq!((stats.state, stats.bytes), (State::Writable, MEBIBYTE));
    }
}
