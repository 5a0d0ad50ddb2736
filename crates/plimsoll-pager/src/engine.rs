//! A pager of this process: its manager over the real driver, its addresses, its registration with the signal handler.

mod fork;
mod pinning;
mod served;
mod threads;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_os::Errno;

use crate::addresses::Addresses;
use crate::backing::Backing;
use crate::driver::{DriverOptions, FaultMode, OpenError, Userfault};
use crate::error::{MapError, RangeError};
use crate::fault::{Registration, TooManyPagers};
use crate::gate::{Gate, Inside};
use crate::manager::{BLOCK, Manager, TakeBackError, WorkingSetError};
use crate::page::{CHUNK_PAGES, PAGE_SIZE, PageIndex, PageRange};
#[cfg(not(loom))]
use crate::pool::Member;
use crate::published::Publication;
#[cfg(not(loom))]
use crate::share::Share;
use crate::signals_blocked::SignalsBlocked;

pub use fork::Forked;
use served::Served;
use threads::Threads;

/// The smallest grant of a member of a pool that a pager works with, in bytes: the store's tables and buffers, and a few pages. Faults
/// that find no room ask the pool for more.
pub const LEAST_GRANT: u64 = 1 << 20;

/// The smallest budget: the store's tables and buffers, and some pages.
pub(crate) const LEAST_RAM: u64 = 4 << 20;

/// Tries of a trim to release the frames of a block.
const MOST_RELEASES: u32 = 8;

/// The last step of a trim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TrimTo {
    /// Out of the working set: the pages keep their frames, and return by a soft fault.
    Modified,
    /// Saved as well: the frames are free to take.
    Standby,
    /// Saved, and the frames released to the kernel.
    Store,
}

/// The reason why an engine was not built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineError {
    Driver(OpenError),
    TooManyPagers,
    System(Errno),
}

/// The source of a pager's budget.
#[derive(Debug)]
pub(crate) struct Funds {
    /// Bytes of the budget at first.
    pub(crate) ram: u64,
    /// The most bytes that it ever has.
    pub(crate) most: u64,
    /// The member of a pool whose grants are the budget.
    #[cfg(not(loom))]
    pub(crate) member: Option<Member>,
    /// Bytes of the budget of a forked child that is no member.
    #[cfg(not(loom))]
    pub(crate) forks_outside: Option<u64>,
}

/// The right of a thread to change pages: no signal handler runs on it, and no other thread forks meanwhile.
///
/// The thread must not touch an absent page of the pager, nor ask for a second right: both would go through the gate again.
pub(crate) struct AtWork<'e> {
    _inside: Inside<'e>,
    _blocked: SignalsBlocked,
}

/// A pager.
pub(crate) struct Engine<B: Backing + 'static> {
    served: Arc<Served<B>>,
    addresses: Mutex<Addresses>,
    /// None once it is dropped, or if a thread resolves the faults.
    registration: Option<Registration>,
    /// A child of a fork has threads of its own.
    threads: Mutex<Threads>,
    /// None without a pool; a child of a fork has one of its own. It is the last field: the memory is free when the member
    /// leaves.
    #[cfg(not(loom))]
    share: Mutex<Option<Share>>,
    /// Bytes of the budget of a forked child that is no member of the pool.
    #[cfg(not(loom))]
    forks_outside: Option<u64>,
}

impl<B: Backing + 'static> Engine<B> {
    /// A pager of `pages` pages of addresses, with a budget of `ram` bytes.
    #[cfg(test)]
    pub(crate) fn new(
        pages: u32,
        ram: u64,
        backing: B,
        options: DriverOptions,
    ) -> Result<Engine<B>, EngineError> {
        let funds = Funds {
            ram,
            most: ram,
            #[cfg(not(loom))]
            member: None,
            #[cfg(not(loom))]
            forks_outside: None,
        };
        Engine::funded(pages, funds, backing, options)
    }

    /// A pager of `pages` pages of addresses, with a budget from `funds`.
    pub(crate) fn funded(
        pages: u32,
        funds: Funds,
        backing: B,
        options: DriverOptions,
    ) -> Result<Engine<B>, EngineError> {
        let pages = pages.next_multiple_of(CHUNK_PAGES);
        fork::install().map_err(EngineError::System)?;
        let driver = Userfault::new(pages, options).map_err(EngineError::Driver)?;
        let arena = driver.arena();
        let manager = Manager::new(driver, backing, pages, funds.most).map_err(EngineError::System)?;
        manager.set_ram(funds.ram);
        // Nothing is resident yet.
        manager.budget.approach_target(u64::MAX);
        let served = Arc::new(Served {
            publication: OnceLock::new(),
            manager,
            arena: arena.clone(),
            is_over: AtomicBool::new(false),
            built: Instant::now(),
            aged: AtomicU64::new(0),
            balancing: Mutex::new(()),
            shrinking: Mutex::new(()),
            gate: Gate::default(),
            #[cfg(not(loom))]
            pool: funds.member.as_ref().map(|member| member.pool().clone()),
        });
        // It has the addresses of the manager, which stays where it is from here on.
        let publication = Publication::new(&served.manager).map_err(EngineError::System)?;
        served.publication.get_or_init(|| publication);
        let registration = match options.fault_mode {
            FaultMode::Signal => {
                let registration = Registration::new(arena, served.clone());
                Some(registration.map_err(|TooManyPagers| EngineError::TooManyPagers)?)
            }
            FaultMode::Thread => None,
        };
        let threads = Threads::start(&served, options.fault_mode).map_err(EngineError::System)?;
        #[cfg(not(loom))]
        let share = funds.member.map(|member| Share::start(member, served.clone()));
        Ok(Engine {
            #[cfg(not(loom))]
            share: Mutex::new(share.transpose().map_err(EngineError::System)?),
            #[cfg(not(loom))]
            forks_outside: funds.forks_outside,
            served,
            addresses: Mutex::new(Addresses::new(pages)),
            registration,
            threads: Mutex::new(threads),
        })
    }

    pub(crate) fn manager(&self) -> &Manager<Userfault, B> {
        &self.served.manager
    }

    /// Looks at the share in a pool, if the budget comes from one. A child without the pager's memory has none.
    #[cfg(not(loom))]
    pub(crate) fn with_share<T>(&self, look: impl FnOnce(&Share) -> T) -> Option<T> {
        if self.is_forked() {
            return None;
        }
        self.share().as_ref().map(look)
    }

    #[cfg(not(loom))]
    fn share(&self) -> MutexGuard<'_, Option<Share>> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the thread for faults does not work on those that were before this call.
    pub(crate) fn rest(&self) {
        let faults = self.threads().faults.clone();
        if let Some(thread) = faults {
            thread.rest();
        }
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes to work on pages.
    pub(crate) fn work(&self) -> AtWork<'_> {
        let blocked = SignalsBlocked::new();
        AtWork {
            _inside: self.served.gate.enter(),
            _blocked: blocked,
        }
    }

    /// Calls `look` while the threads of the pager rest; none in a child of a fork, which may have their locks for ever.
    pub(crate) fn at_rest<T>(&self, look: impl FnOnce(&Manager<Userfault, B>) -> T) -> Option<T> {
        if self.is_forked() {
            return None;
        }
        self.rest();
        // A handler that touches a page which the look holds busy would wait for its own thread.
        let _blocked = SignalsBlocked::new();
        let _resting = loop {
            let balancing = self.balancing();
            // The thread that has it may wait for the balance-set manager.
            match self.served.shrinking.try_lock() {
                Ok(shrinking) => break (balancing, shrinking),
                Err(TryLockError::Poisoned(shrinking)) => break (balancing, shrinking.into_inner()),
                Err(TryLockError::WouldBlock) => drop(balancing),
            }
            thread::sleep(Duration::from_micros(100));
        };
        Some(look(self.manager()))
    }

    /// Whether this process is a child of the one that built the pager: it has none of its memory.
    pub(crate) fn is_forked(&self) -> bool {
        self.manager().driver.is_forked()
    }

    pub(crate) fn address(&self, page: PageIndex) -> usize {
        self.served.arena.start + page.offset()
    }

    pub(crate) fn map(&self, bytes: usize) -> Result<PageRange, MapError> {
        if self.is_forked() {
            return Err(MapError::Forked);
        }
        if bytes == 0 {
            return Err(MapError::Empty);
        }
        let no_addresses = MapError::NoAddresses { bytes };
        let pages = u32::try_from(bytes.div_ceil(PAGE_SIZE)).map_err(|_| no_addresses)?;
        let _work = self.work();
        let pages = self.addresses().take(pages).ok_or(no_addresses)?;
        self.manager().open(pages).map_err(|errno| {
            self.addresses().put(pages);
            MapError::System { bytes, errno }
        })?;
        Ok(pages)
    }

    /// Unmaps a region, which no thread uses any more.
    pub(crate) fn unmap(&self, pages: PageRange) {
        if self.is_forked() {
            return;
        }
        // A thread that faulted here runs again as soon as the page is present, maybe before the pager's thread is done with it.
        self.rest();
        let _work = self.work();
        self.manager().pins.remove_kept(pages);
        if self.manager().has_surrendered(pages) {
            // The mappings of the program stay, and so do the addresses of the region. It fails for locked pages alone.
            let _ = self.manager().discard(pages);
            return;
        }
        // Ageing looks at the chunks of open regions.
        let balancing = self.balancing();
        let closed = self.manager().close(pages);
        drop(balancing);
        // Addresses that the kernel does not let go are used no more.
        if closed.is_ok() {
            self.addresses().put(pages);
        }
    }

    fn addresses(&self) -> std::sync::MutexGuard<'_, Addresses> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Trims pages down to a step. Returns the pages that left the working set. Pages that another thread, the balance-set
    /// manager for one, takes through a step at the moment are waited for: they would stop at that step.
    pub(crate) fn trim(&self, pages: PageRange, to: TrimTo) -> u32 {
        // The pages that this thread touched last are busy until then.
        self.rest();
        let _blocked = SignalsBlocked::new();
        let manager = self.manager();
        let mut trimmed = 0;
        // Each block whole: its frames are released before the copies of the next one are made, while what the kernel keeps
        // for each page is in the caches.
        let pieces = manager.chunks.pieces(pages);
        for block in pieces.flat_map(|piece| piece.pieces(BLOCK)) {
            // Another thread may fork between two blocks.
            let inside = self.served.gate.enter();
            manager.wait_for_busy(block);
            trimmed += manager.trim_range(block);
            if to >= TrimTo::Standby {
                manager.wait_for_busy(block);
                manager.save_range(block);
            }
            if to >= TrimTo::Store {
                drop(inside);
                // A thread that moves the copy of a page may lock the page after the wait, or hold it longer.
                let has_released = || {
                    let _inside = self.served.gate.enter();
                    manager.wait_for_busy(block);
                    manager.release_range(block);
                    !manager.has_standby_or_busy(block)
                };
                (0..MOST_RELEASES).any(|_| has_released());
            }
        }
        trimmed
    }

    /// Sets the standby priority of `pages`.
    pub(crate) fn set_priority(&self, _: &AtWork<'_>, pages: PageRange, priority: u8) {
        self.manager().set_priority(pages, priority);
    }

    /// Gives the contents of `pages` up. Returns the pages that were given up.
    pub(crate) fn reset(&self, pages: PageRange) -> u32 {
        let _work = self.work();
        self.manager().reset(pages)
    }

    /// Trims a region whole.
    pub(crate) fn suspend(&self, _: &AtWork<'_>, pages: PageRange) {
        self.manager().suspend(pages);
    }

    /// Ends the suspension of a region, whose pages have `priority`.
    pub(crate) fn resume(&self, _: &AtWork<'_>, pages: PageRange, priority: u8) {
        self.manager().resume(pages, priority);
    }

    /// Limits the working set of a region, whose limits have that `number`, 0 for none. Returns their number.
    pub(crate) fn limit_working_set(
        &self,
        _: &AtWork<'_>,
        pages: PageRange,
        number: u8,
        minimum: u64,
        maximum: u64,
    ) -> Result<u8, WorkingSetError> {
        self.manager().limit_working_set(pages, number, minimum, maximum)
    }

    /// Ends the limits of a region.
    pub(crate) fn end_working_set(&self, _: &AtWork<'_>, pages: PageRange, number: u8) {
        self.manager().end_working_set(pages, number);
    }

    /// Drops the contents of `pages`: they read as zero.
    pub(crate) fn discard(&self, pages: PageRange) -> Result<(), RangeError> {
        let _work = self.work();
        self.refuse_pinned(pages)?;
        self.manager().discard(pages).map_err(RangeError::System)
    }

    /// Makes the chunks of `pages` native if the budget allows it.
    pub(crate) fn commit(&self, pages: PageRange) {
        // The common case: all of it is.
        if self.is_forked() || self.manager().chunks.uncommitted(pages).next().is_none() {
            return;
        }
        let _work = self.work();
        self.manager().commit(pages);
    }

    /// Drops the contents of `pages`, and ends [`Engine::commit`] of whole chunks.
    pub(crate) fn decommit(&self, pages: PageRange) -> Result<(), RangeError> {
        let _work = self.work();
        self.refuse_pinned(pages)?;
        self.manager().decommit(pages).map_err(RangeError::System)
    }

    /// Gives `pages` to the program.
    pub(crate) fn surrender(&self, pages: PageRange) -> Result<(), RangeError> {
        let _work = self.work();
        self.refuse_pinned(pages)?;
        // Ageing changes mappings.
        let _balancing = self.balancing();
        let surrendered = self.manager().surrender(pages);
        surrendered.map_err(|errno| match self.is_pinned(pages.whole_pieces(CHUNK_PAGES)) {
            // A pin beside the pages may keep their chunk native.
            true if errno == Errno::NOMEM => RangeError::Pinned { bytes: pages.bytes() },
            _ => RangeError::System(errno),
        })
    }

    /// Takes surrendered pages back.
    pub(crate) fn reclaim(&self, pages: PageRange) -> Result<(), RangeError> {
        let _work = self.work();
        let _balancing = self.balancing();
        self.manager().take_back(pages).map_err(|error| match error {
            TakeBackError::Owned => RangeError::NotSurrendered { bytes: pages.bytes() },
            TakeBackError::System(errno) => RangeError::System(errno),
        })
    }

    fn refuse_pinned(&self, pages: PageRange) -> Result<(), RangeError> {
        match self.manager().pins.any(pages) {
            true => Err(RangeError::Pinned { bytes: pages.bytes() }),
            false => Ok(()),
        }
    }

    /// Waits until the balance-set manager rests.
    fn balancing(&self) -> MutexGuard<'_, ()> {
        let balancing = &self.served.balancing;
        balancing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Backing + 'static> Drop for Engine<B> {
    fn drop(&mut self) {
        if self.is_forked() {
            // Threads that were in the handler at the fork do not exist here: nobody counts them out. Nor do the pager's.
            let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget((
                self.registration.take(),
                threads.faults.take(),
                threads.balancer.take(),
            ));
            #[cfg(not(loom))]
            std::mem::forget(
                self.share
                    .get_mut()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(),
            );
        } else {
            self.manager().backing.leave();
        }
    }
}
