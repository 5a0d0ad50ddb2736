//! A pager of this process: its manager over the real driver, its addresses, its registration with the signal handler.

mod fork;
mod threads;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_os::{Errno, Fd, thread_token};

use crate::addresses::Addresses;
use crate::backing::Backing;
use crate::driver::{DriverOptions, FaultMode, OpenError, Userfault};
use crate::error::{MapError, RangeError};
use crate::fault::{FaultError, Faults, Registration, SignalsBlocked, ThreadFaults, TooManyPagers};
use crate::gate::{Gate, Inside};
use crate::manager::{BLOCK, Manager, Patience, Pin, Purpose, TakeBackError, WorkingSetError};
use crate::page::{CHUNK_PAGES, ChunkMode, PAGE_SIZE, PageIndex, PageRange, PageState};
#[cfg(not(loom))]
use crate::pool::{Member, Pool, Usage};
use crate::published::Publication;
#[cfg(not(loom))]
use crate::share::{Growth, Share, Tenant};

pub use fork::Forked;
use threads::Threads;

/// The smallest grant of a member of a pool that a pager works with, in bytes: the store's tables and buffers, and a few pages. Faults
/// that find no room ask the pool for more.
pub const LEAST_GRANT: u64 = 1 << 20;

/// The smallest budget: the store's tables and buffers, and some pages.
pub(crate) const LEAST_RAM: u64 = 4 << 20;

/// The part of a pager that the signal handler and the threads of the pager use.
struct Served<B> {
    /// The record for other processes; it ends before the manager, whose addresses it has.
    publication: OnceLock<Publication>,
    manager: Manager<Userfault, B>,
    arena: Range<usize>,
    /// Whether the balance-set manager is to end.
    is_over: AtomicBool,
    built: Instant,
    /// Seconds since then for which saved copies were made older.
    aged: AtomicU64,
    /// Held by the balance-set manager while it works. No fault takes it.
    balancing: Mutex<()>,
    /// Every other thread is inside while it changes pages.
    gate: Gate,
    /// The pool whose shared memory the handler replaces if its file is cut.
    #[cfg(not(loom))]
    pool: Option<Pool>,
}

impl<B: Backing> Faults for Served<B> {
    fn resolve(&self, address: usize) -> Result<(), FaultError> {
        // Nothing touches an absent page of the shadow.
        if !self.arena.contains(&address) {
            return Err(FaultError::Refused(Errno::FAULT));
        }
        let _inside = self.gate.enter();
        self.manager.fault(self.page(address))
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
    fn page(&self, address: usize) -> PageIndex {
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
        let inside = self.gate.try_enter();
        inside.is_none_or(|_inside| self.manager.shrink())
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
        self.manager.need.set_is_free(growth.is_free);
    }
}

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

/// The first pages of a range, which were made active.
struct MadeActive {
    /// Their number.
    done: u32,
    /// The reason why the page behind them was not.
    error: Option<FaultError>,
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

    /// The manager.
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
        let _balancing = self
            .served
            .balancing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // A handler that touches a page which the look holds busy would wait for its own thread.
        let _blocked = SignalsBlocked::new();
        Some(look(self.manager()))
    }

    /// Whether this process is a child of the one that built the pager: it has none of its memory.
    pub(crate) fn is_forked(&self) -> bool {
        self.manager().driver.is_forked()
    }

    /// The address of a page.
    pub(crate) fn address(&self, page: PageIndex) -> usize {
        self.served.arena.start + page.offset()
    }

    /// Maps a region of `bytes`.
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
            let _inside = self.served.gate.enter();
            manager.wait_for_busy(block);
            trimmed += manager.trim_range(block);
            if to >= TrimTo::Standby {
                manager.wait_for_busy(block);
                manager.save_range(block);
            }
            if to >= TrimTo::Store {
                manager.wait_for_busy(block);
                manager.release_range(block);
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

    /// Makes `pages` present.
    pub(crate) fn prefetch(&self, pages: PageRange) -> Result<(), FaultError> {
        let manager = self.manager();
        for piece in pages.pieces(CHUNK_PAGES) {
            if manager.chunks.mode(piece.first.number() / CHUNK_PAGES) != ChunkMode::Managed {
                manager.touch(piece);
                continue;
            }
            let _work = self.work();
            for page in piece.pages() {
                self.make_active(page)?;
            }
        }
        Ok(())
    }

    /// Makes a page of a managed chunk active, unless it is surrendered.
    fn make_active(&self, page: PageIndex) -> Result<(), FaultError> {
        let manager = self.manager();
        let mut patience = Patience::default();
        loop {
            match manager.table.word(page).load().state() {
                PageState::Active | PageState::Surrendered => return Ok(()),
                // Another thread has committed the chunk.
                PageState::Virgin
                    if manager.chunks.mode(page.number() / CHUNK_PAGES) == ChunkMode::Native =>
                {
                    return Ok(());
                }
                PageState::Busy => patience.wait(),
                _ => manager.fault(page)?,
            }
        }
    }

    /// Makes `pages` present and keeps them so until [`Engine::unpin`].
    pub(crate) fn pin(&self, pages: PageRange) -> Result<Pin, RangeError> {
        let manager = self.manager();
        let pinned = (manager.pins.pages() + u64::from(pages.count)) * PAGE_SIZE as u64;
        if pinned > manager.budget.ram() / 2 {
            return Err(RangeError::PinTooLarge { bytes: pages.bytes() });
        }
        let work = self.work();
        let pin = manager
            .pins
            .publish(pages, Purpose::Guard)
            .ok_or(RangeError::TooManyPins)?;
        drop(work);
        match self.prefetch(pages) {
            Ok(()) => {
                for run in pages
                    .pieces(CHUNK_PAGES)
                    .flat_map(|piece| manager.own_runs(piece))
                {
                    // A page that the program dropped (`MADV_DONTNEED`) is active and absent.
                    manager.touch(run);
                }
                Ok(pin)
            }
            Err(error) => {
                manager.pins.remove(pin);
                Err(error.into())
            }
        }
    }

    /// Pins as many of `pages`, from the first one on, as half of the frames of the budget allow, and makes them present without
    /// touching them, for a system call of this thread. Returns their number, at least 1. May be called in a signal handler.
    pub(crate) fn pin_first(&self, pages: PageRange) -> Result<(Pin, u32), RangeError> {
        let manager = self.manager();
        // The store may have most of the budget: a fault that finds no frame takes long.
        let most = manager.budget.limit(manager.overhead_bytes()) / 2;
        let left = most.saturating_sub(manager.pins.pages());
        let wanted = PageRange::new(pages.first, left.min(pages.count.into()) as u32);
        if wanted.count == 0 {
            return Err(RangeError::PinTooLarge { bytes: pages.bytes() });
        }
        self.pin_active(wanted, Purpose::Call(thread_token()))
    }

    /// As [`Engine::pin_first`], of one page and whatever the budget has: the thread ends the pin before it waits for anything.
    pub(crate) fn pin_for_a_moment(&self, page: PageIndex) -> Result<Pin, RangeError> {
        // So often the page may leave between its fault and the pin.
        const MOST_TRIES: usize = 16;
        for _ in 0..MOST_TRIES {
            if let Some(pin) = self.pin_after_fault(page)? {
                return Ok(pin);
            }
        }
        let (pin, _) = self.pin_active(PageRange::new(page, 1), Purpose::Moment(thread_token()))?;
        Ok(pin)
    }

    /// Makes a page active and pins it then: a fault may take long, and the slots are few. None if the page has left in between.
    fn pin_after_fault(&self, page: PageIndex) -> Result<Option<Pin>, RangeError> {
        let pages = PageRange::new(page, 1);
        let pins = &self.manager().pins;
        let _work = self.work();
        if let Some(error) = self.make_first_active(pages).error {
            return Err(error.into());
        }
        let pin = pins.publish(pages, Purpose::Moment(thread_token()));
        let pin = pin.ok_or(RangeError::TooManyPins)?;
        if self.is_page_active(page) {
            return Ok(Some(pin));
        }
        pins.remove(pin);
        Ok(None)
    }

    /// As [`Engine::pin_first`], of all `pages`, for the life of the process. Half of the frames of the budget may be pinned so, and
    /// three quarters in all: other pins, which end, leave room.
    pub(crate) fn pin_for_ever(&self, pages: PageRange) -> Result<(), RangeError> {
        // Signal stacks of a few threads, and their words, are pinned while the store has most of the budget, too.
        const LEAST: u64 = 32;
        let manager = self.manager();
        if manager.pins.is_kept(pages) {
            return Ok(());
        }
        let too_large = RangeError::PinTooLarge { bytes: pages.bytes() };
        let most = manager.budget.limit(manager.overhead_bytes());
        let count = u64::from(pages.count);
        let kept = manager.pins.kept_pages() + count;
        let fits = kept <= most / 2 && manager.pins.pages() + count <= most / 4 * 3;
        if !fits && kept > LEAST {
            return Err(too_large);
        }
        let (pin, count) = self.pin_active(pages, Purpose::Process(thread_token()))?;
        if count < pages.count {
            manager.pins.remove(pin);
            return Err(too_large);
        }
        manager.pins.keep(pin);
        Ok(())
    }

    /// Pins `pages` and makes them active, up to the first one that cannot be. Returns their number, at least 1.
    fn pin_active(&self, pages: PageRange, purpose: Purpose) -> Result<(Pin, u32), RangeError> {
        let manager = self.manager();
        let _work = self.work();
        let pin = manager
            .pins
            .publish(pages, purpose)
            .ok_or(RangeError::TooManyPins)?;
        let mut done = 0;
        for piece in pages.pieces(CHUNK_PAGES) {
            let made = self.make_first_active(piece);
            done += made.done;
            let Some(error) = made.error else { continue };
            if done == 0 {
                manager.pins.remove(pin);
                return Err(error.into());
            }
            manager.pins.shorten(pin, PageRange::new(pages.first, done));
            break;
        }
        Ok((pin, done))
    }

    /// Makes the first pages of `piece`, which lies in one chunk, active, or has the kernel resolve their faults.
    fn make_first_active(&self, piece: PageRange) -> MadeActive {
        // The kernel makes pages of a native chunk present when a system call uses them. A thread that makes the chunk managed
        // makes pinned pages present before.
        if self.manager().settled_mode(piece.first) == ChunkMode::Native {
            let (done, error) = (piece.count, None);
            return MadeActive { done, error };
        }
        let mut done = 0;
        let error = piece.pages().find_map(|page| {
            let error = self.make_active(page).err();
            done += u32::from(error.is_none());
            error
        });
        MadeActive { done, error }
    }

    /// Whether all `pages` are active, or the kernel resolves their faults. They may leave at once unless they are pinned.
    pub(crate) fn is_active(&self, pages: PageRange) -> bool {
        let _work = self.work();
        pages.pages().all(|page| self.is_page_active(page))
    }

    /// As [`Engine::is_active`], of a page, by a thread at work. A pin that was there before keeps the page so.
    fn is_page_active(&self, page: PageIndex) -> bool {
        let manager = self.manager();
        match manager.table.word(page).load().state() {
            PageState::Active | PageState::Surrendered => true,
            PageState::Virgin => manager.settled_mode(page) == ChunkMode::Native,
            _ => false,
        }
    }

    /// Whether a page of `pages` is pinned.
    pub(crate) fn is_pinned(&self, pages: PageRange) -> bool {
        self.manager().pins.any(pages)
    }

    /// Ends a pin.
    pub(crate) fn unpin(&self, pin: Pin) {
        self.manager().pins.remove(pin);
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
