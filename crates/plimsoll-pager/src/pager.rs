//! The pager as an embedder sees it.
#![allow(unsafe_code, reason = "a fork, whose child has premises")]

use std::sync::Arc;

use crate::engine::{Engine, Forked, LEAST_RAM};
use crate::error::{ForkError, MapError, RamError};
use crate::manager::TrimMode;
use crate::page::Violation;
#[cfg(not(loom))]
use crate::pool::{Limits, PoolError};
use crate::region::Region;
use crate::saved::SavedCopies;
#[cfg(not(loom))]
use crate::share::{Membership, Share};
use crate::snapshot::Snapshot;
use crate::stats::Stats;

/// A budget of RAM and the regions that share it. Clones are the same pager; it ends with the last of its clones and
/// regions.
#[derive(Clone)]
pub struct Pager {
    engine: Arc<Engine<SavedCopies>>,
}

impl Pager {
    pub(crate) fn new(engine: Arc<Engine<SavedCopies>>) -> Pager {
        Pager { engine }
    }

    /// Maps a region of `bytes`, zero at first.
    ///
    /// # Errors
    /// [`MapError`].
    pub fn map(&self, bytes: usize) -> Result<Region, MapError> {
        let pages = self.engine.map(bytes)?;
        Ok(Region::new(self.engine.clone(), pages, bytes))
    }

    /// Whether a system call that meets an absent page of a region waits for it. If not, it returns `EFAULT`, or fewer bytes
    /// than asked for. Only in the mode [`FaultMode::Thread`](crate::FaultMode::Thread), with privilege.
    pub fn serves_system_calls(&self) -> bool {
        self.engine.manager().driver.serves_system_calls()
    }

    /// Counters of the pager now.
    pub fn stats(&self) -> Stats {
        self.engine.manager().stats()
    }

    /// The state of every page of every region now.
    pub fn snapshot(&self) -> Snapshot {
        self.engine.manager().snapshot()
    }

    /// Checks every invariant of the pager while its balance-set manager rests, and returns those that do not hold. Pages
    /// that threads of the program use or trim meanwhile are reported too. A child of a fork gets [`Violation::Forked`].
    pub fn validate(&self) -> Vec<Violation> {
        let validated = self.engine.at_rest(|manager| manager.validate());
        validated.unwrap_or_else(|| vec![Violation::Forked])
    }

    /// Whether this process is a child of a fork of the one that built the pager, without its memory.
    pub fn is_forked(&self) -> bool {
        self.engine.is_forked()
    }

    /// In a member of a [pool](crate::pool) that shares no pages yet: releases what it has above half of the pool if less than a quarter
    /// of the pool is free, for about 200 ms. No process can free a page that it shares with others, and after a fork each needs pages
    /// of its own. To be called before the caller of [`Pager::fork`] takes locks for its child.
    #[cfg(not(loom))]
    pub fn prepare_fork(&self) {
        self.engine.release_before_fork();
    }

    /// Forks this process, as `fork(2)` does. The child has a copy of every region, as it is at the fork: the kernel copies a
    /// page when one of them writes to it, and the child compresses and restores its pages by itself, under a budget of its
    /// own with the same bytes, or as a member of the parent's pool, charged for the pages that it does not share with its
    /// parent. It reads the parent's page file, and writes to one of its own in the same folder. A child of `fork(2)` does
    /// not have the regions.
    ///
    /// Other threads that fault, or change regions, wait meanwhile. Ranges that they have pinned stay pinned in the child. In the mode [`FaultMode::Thread`](crate::FaultMode::Thread),
    /// no `pthread_atfork(3)` handler may touch a region.
    ///
    /// ```
    /// use plimsoll_pager::{Forked, Pager};
    ///
    /// let pager = Pager::builder().ram(8 << 20).build()?;
    /// let mut region = pager.map(16 << 20)?;
    /// region.bytes_mut().fill(7);
    /// // SAFETY: the child waits for no lock of another thread: it reads its copy, and ends.
    /// match unsafe { pager.fork()? } {
    ///     Forked::Child => std::process::exit(i32::from(region.bytes()[9 << 20] != 7)),
    ///     Forked::ChildWithoutRegions(errno) => std::process::exit(errno.raw()),
    ///     Forked::Parent { child } => {
    ///         let mut status = 0;
    ///         // SAFETY: `status` is valid for the write.
    ///         assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    ///         assert_eq!(status, 0);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ForkError`], in the parent alone.
    ///
    /// # Safety
    /// The child has the calling thread alone. Locks that other threads held stay locked there, as after `fork(2)`; the
    /// allocator of glibc and this pager work.
    pub unsafe fn fork(&self) -> Result<Forked, ForkError> {
        self.engine.fork()
    }

    /// Changes the rule by which the pager trims.
    pub fn set_trim_mode(&self, mode: TrimMode) {
        self.engine.manager().set_trim_mode(mode);
    }

    /// Changes the budget. It grows at once; the balance-set manager shrinks it in steps, and trims as much before the next
    /// one, so that [`Stats::ram`] falls to `bytes` by and by. Pages that cannot be saved stay resident above the budget.
    ///
    /// # Errors
    /// [`RamError`].
    pub fn set_ram(&self, bytes: u64) -> Result<(), RamError> {
        if bytes < LEAST_RAM {
            let (given, least) = (bytes, LEAST_RAM);
            return Err(RamError::TooLittle { given, least });
        }
        #[cfg(not(loom))]
        if self.engine.with_share(|_| ()).is_some() {
            return Err(RamError::InPool);
        }
        self.engine.manager().set_ram(bytes);
        Ok(())
    }

    /// The pager's share of its pool; none if its budget is fixed.
    #[cfg(not(loom))]
    pub fn membership(&self) -> Option<Membership> {
        self.engine.with_share(Share::membership)
    }

    /// States whether the process is about to execute another program, as [`Member::set_executing`](crate::pool::Member::set_executing)
    /// does. Does nothing without a pool.
    #[cfg(not(loom))]
    pub fn set_executing(&self, is_executing: bool) {
        self.engine.with_share(|share| share.set_executing(is_executing));
    }

    /// Changes the limits of the pager's member of its pool. The next round of the pool follows them.
    ///
    /// # Errors
    /// As [`Pool::join`](crate::pool::Pool::join); [`PoolError::Lost`] if the budget comes from no pool.
    #[cfg(not(loom))]
    pub fn set_limits(&self, limits: Limits) -> Result<(), PoolError> {
        let changed = self.engine.with_share(|share| share.set_limits(limits));
        changed.unwrap_or(Err(PoolError::Lost))
    }
}

impl std::fmt::Debug for Pager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pager").field("stats", &self.stats()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Pager;
    use crate::backing::Backing as _;
    use crate::page_file::PageFileOptions;

    /// The thread that creates the file may run later than the program. Data that the program wrote before stayed in RAM, above
    /// the budget.
    #[test]
    fn a_new_pager_waits_for_its_page_file() {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let options = PageFileOptions {
            in_memory: true,
            ..PageFileOptions::default()
        };
        for _ in 0..32 {
            let pager = Pager::builder()
                .ram(8 << 20)
                .page_file(folder.path(), 1 << 20)
                .page_file_options(options)
                .defer_page_file()
                .build()
                .expect("userfaultfd is allowed");
            assert!(pager.engine.manager().backing.spillable().is_some());
        }
    }
}
