//! The part of a pager that its signal handler, its threads and its pool use.

use std::ops::Range;
#[cfg(not(loom))]
use std::sync::TryLockError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
#[cfg(not(loom))]
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_os::{Errno, Fd, thread_token};

use crate::backing::Backing;
use crate::driver::{Area, Driver, Userfault};
use crate::fault::{Facts, FaultError, Faults, ThreadFaults};
use crate::gate::Gate;
use crate::manager::Manager;
use crate::page::{CHUNK_PAGES, ChunkMode, PAGE_SIZE, PageIndex};
#[cfg(not(loom))]
use crate::pool::{Pool, Usage};
use crate::published::Publication;
#[cfg(not(loom))]
use crate::share::{Growth, Tenant};

/// The part of a pager that the signal handler and the threads of the pager use.
pub(super) struct Served<B> {
    /// The record for other processes; it ends before the manager, whose addresses it has.
    pub(super) publication: OnceLock<Publication>,
    pub(super) manager: Manager<Userfault, B>,
    pub(super) arena: Range<usize>,
    /// Whether the balance-set manager is to end.
    pub(super) is_over: AtomicBool,
    pub(super) built: Instant,
    /// Seconds since then for which saved copies were made older.
    pub(super) aged: AtomicU64,
    /// Held by the balance-set manager while it works. No fault takes it.
    pub(super) balancing: Mutex<()>,
    /// Held by a thread that shrinks the budget for the pool, inside of the gate, and by one that checks the pages, which holds
    /// `balancing` too: so a fork, which closes the gate and takes `balancing`, never copies it locked. Not `balancing` itself: a thread
    /// that shrinks the budget may wait until the balance-set manager has created a page file.
    pub(super) shrinking: Mutex<()>,
    /// Every other thread is inside while it changes pages.
    pub(super) gate: Gate,
    /// The pool whose shared memory the handler replaces if its file is cut.
    #[cfg(not(loom))]
    pub(super) pool: Option<Pool>,
}

impl<B: Backing> Faults for Served<B> {
    fn resolve(&self, address: usize) -> Result<(), FaultError> {
        // Nothing touches an absent page of the shadow.
        if !self.arena.contains(&address) {
            return Err(FaultError::Refused(Errno::FAULT));
        }
        let _inside = self.gate.enter();
        let page = self.page(address);
        self.manager.commit_touched(page);
        self.manager.fault(page)
    }

    fn is_surrendered(&self, address: usize) -> bool {
        self.arena.contains(&address) && self.manager.is_surrendered(self.page(address))
    }

    fn pace(&self, address: usize) {
        let delay = self.delay(address, thread_token());
        if !delay.is_zero() {
            let since = Instant::now();
            plimsoll_os::sleep_briefly(delay);
            self.add_delay(since.elapsed());
        }
    }

    fn facts(&self, address: usize) -> Facts {
        let manager = &self.manager;
        let shadow = manager.driver.shadow();
        let is_in = |start: usize| (start..start + self.arena.len()).contains(&address);
        let (area, start) = if is_in(self.arena.start) {
            (Area::Arena, self.arena.start)
        } else if is_in(shadow) {
            (Area::Shadow, shadow)
        } else {
            return Facts::Astray(address);
        };
        let page = PageIndex::new(((address - start) / PAGE_SIZE) as u32);
        Facts::Page {
            area,
            page,
            mode: manager.chunks.mode(page.number() / CHUNK_PAGES),
            word: manager.table.word(page).load().bits(),
            in_arena: manager.driver.presence(Area::Arena, page),
            in_shadow: manager.driver.presence(Area::Shadow, page),
        }
    }

    fn is_here(&self) -> bool {
        !self.manager.driver.is_forked()
    }

    fn replace_lost_page(&self, address: usize) -> bool {
        #[cfg(not(loom))]
        if let Some(pool) = &self.pool {
            return pool.replace_lost_page(address);
        }
        let _ = address;
        false
    }
}

impl<B: Backing> ThreadFaults for Served<B> {
    fn userfault(&self) -> &Fd {
        self.manager.driver.faults()
    }

    fn delay(&self, address: usize, thread: usize) -> Duration {
        match self.arena.contains(&address) {
            true => self.manager.pace(self.page(address), thread),
            false => Duration::ZERO,
        }
    }

    fn is_evicted(&self, address: usize) -> bool {
        let word = self.manager.table.word(self.page(address));
        word.load().state().is_evicted()
    }

    fn takes_faults(&self, address: usize) -> bool {
        if !self.arena.contains(&address) {
            return true;
        }
        let page = self.page(address);
        let mode = self.manager.chunks.mode(page.number() / CHUNK_PAGES);
        matches!(mode, ChunkMode::Managed | ChunkMode::Converting) && !self.manager.is_surrendered(page)
    }

    fn add_delay(&self, time: Duration) {
        self.manager.thrash.add_throttled(time);
    }
}

impl<B> Served<B> {
    pub(super) fn page(&self, address: usize) -> PageIndex {
        PageIndex::new(((address - self.arena.start) / PAGE_SIZE) as u32)
    }
}

#[cfg(not(loom))]
impl<B: Backing> Tenant for Served<B> {
    fn usage(&self) -> Usage<'_> {
        self.manager.usage()
    }

    fn set_budget(&self, grant: u64, inherited: u64, copies: u64) {
        self.manager.set_ram_beside(grant, inherited, copies);
    }

    fn copies(&self) -> u64 {
        self.manager.copies.load(Ordering::Relaxed)
    }

    fn approach_budget(&self) -> bool {
        // A fork waits until it is done. One that waits for a fault, which may wait for a larger budget, lets the ticks go on.
        let Some(_inside) = self.gate.try_enter() else {
            return true;
        };
        // Another thread may check the pages.
        match self.shrinking.try_lock() {
            Ok(_shrinking) => self.manager.shrink(),
            Err(TryLockError::Poisoned(_)) => self.manager.shrink(),
            Err(TryLockError::WouldBlock) => {
                thread::sleep(Duration::from_micros(100));
                false
            }
        }
    }

    fn has_budget(&self) -> bool {
        self.manager.budget.ram() <= self.manager.budget.target()
    }

    fn shared_bytes(&self) -> u64 {
        let driver = &self.manager.driver;
        let frames = self
            .manager
            .chunks_with_frames()
            .flat_map(|pages| driver.addresses(pages));
        let copies = self.manager.backing.addresses();
        frames
            .chain([copies])
            .map(|addresses| driver.shared_bytes(addresses))
            .sum()
    }

    fn set_growth(&self, growth: Growth) {
        self.manager.need.set_can_be_met(growth.is_possible);
        self.manager.need.set_is_free(growth.is_free, growth.free);
        self.manager.need.set_pool(growth.total, growth.others);
    }
}
