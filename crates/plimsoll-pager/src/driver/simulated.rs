//! A driver over a model of memory, for tests: plain arrays, a presence bit a page, and injected errors.
#![allow(
    unsafe_code,
    reason = "a model of memory that the tests of the manager share between threads"
)]

mod injection;
mod steps;

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

use plimsoll_os::Errno;

pub(crate) use injection::Injection;
use steps::other;

use super::by_copy::move_by_copy;
use super::uncounted::with_uncounted;
use super::{Accesses, Area, Driver, Partial};
use crate::page::{CHUNK_PAGES, PAGE_SIZE, Page, PageIndex, PageRange};

/// The bytes of an absent page, which no reader may see.
const GONE: u8 = 0xDD;

/// Model of the two areas.
///
/// Invariant: a page of the arena is accessed under the lock of `state` alone. A frame of the shadow is accessed under that
/// lock, or by the thread that holds its page busy.
pub(crate) struct Simulated {
    arena: Box<[UnsafeCell<Page>]>,
    shadow: Box<[UnsafeCell<Page>]>,
    /// Whether pages are moved by copies.
    copies: bool,
    state: Mutex<State>,
}

// SAFETY: by the invariant no two threads access a page at the same time.
unsafe impl Send for Simulated {}
// SAFETY: as above.
unsafe impl Sync for Simulated {}

struct State {
    arena: Vec<bool>,
    shadow: Vec<bool>,
    registered: Vec<bool>,
    /// Pages of the arena that are a mapping of the program: no call may touch them.
    foreign: Vec<bool>,
    /// Pages of the arena that a device has pinned: every move of them fails.
    unmovable: Vec<bool>,
    /// Pages of the arena that a child of a fork shares: a move of them fails until they are unshared.
    shared: Vec<bool>,
    /// Frames that a child of a fork shares, with their bytes: one with other bytes is a copy.
    shared_frames: BTreeMap<usize, Box<Page>>,
    /// Pages of the arena that are write-protected: every access is a fault, as all may be writes.
    protected: Vec<bool>,
    /// The most pages of both areas that were present after a step of a copy.
    most: u64,
    /// Pages of the arena that the program accessed since the driver forgot their accesses.
    accessed: Vec<bool>,
    /// A page of the arena that the program has locked in RAM (`mlock(2)`): it cannot be discarded.
    locked: Option<PageIndex>,
    /// Whether the kernel refuses to end that lock.
    is_lock_kept: bool,
    /// Whether the program may not write to the arena (`mprotect(2)`).
    is_read_only: bool,
    /// The last word of pages into which a thread of the program wrote at the moment of a move.
    raced: BTreeMap<PageIndex, u64>,
    /// Absent pages of the arena that a copy found present, and how many more copies will. The kernel always tells that they
    /// are absent.
    ghosts: BTreeMap<PageIndex, u32>,
    /// The page whose waiting threads were woken last.
    woken: Option<PageIndex>,
    injection: Injection,
}

impl State {
    fn resident(&self) -> u64 {
        let present = self.arena.iter().chain(&self.shadow);
        present.filter(|present| **present).count() as u64
    }

    /// Fails the test if the driver touches a mapping of the program.
    #[track_caller]
    fn touch(&self, area: Area, mut pages: PageRange) {
        pages.count = pages.count.min(self.foreign.len() as u32 - pages.first.number());
        let is_foreign = |page: PageIndex| area == Area::Arena && self.foreign[page.index()];
        let touched = pages.pages().find(|page| is_foreign(*page));
        assert_eq!(touched, None, "a mapping of the program is touched");
    }

    /// Makes a page present. A copy that finds it so is right from here on.
    fn make_present(&mut self, area: Area, page: PageIndex) {
        self.present(area)[page.index()] = true;
        if area == Area::Arena {
            self.ghosts.remove(&page);
        }
    }

    fn present(&mut self, area: Area) -> &mut Vec<bool> {
        match area {
            Area::Arena => &mut self.arena,
            Area::Shadow => &mut self.shadow,
        }
    }
}

impl Simulated {
    /// Memory of `pages` pages, all native and absent.
    pub(crate) fn new(pages: u32, injection: Injection) -> Simulated {
        Simulated::of_kernel(pages, injection, true)
    }

    /// As [`Simulated::new`], of a kernel that moves pages or does not.
    pub(crate) fn of_kernel(pages: u32, injection: Injection, moves: bool) -> Simulated {
        let area = || (0..pages).map(|_| UnsafeCell::new([GONE; PAGE_SIZE])).collect();
        let bits = || vec![false; pages as usize];
        Simulated {
            arena: area(),
            shadow: area(),
            copies: !moves,
            state: Mutex::new(State {
                arena: bits(),
                shadow: bits(),
                registered: bits(),
                foreign: bits(),
                unmovable: bits(),
                shared: bits(),
                shared_frames: BTreeMap::new(),
                protected: bits(),
                accessed: bits(),
                most: 0,
                locked: None,
                is_lock_kept: false,
                is_read_only: false,
                raced: BTreeMap::new(),
                ghosts: BTreeMap::new(),
                woken: None,
                injection,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds it")
    }

    fn page(&self, area: Area, page: PageIndex) -> *mut Page {
        match area {
            Area::Arena => self.arena[page.index()].get(),
            Area::Shadow => self.shadow[page.index()].get(),
        }
    }

    /// Copies a page to one of the other area, for a caller that holds both busy.
    fn copy_page(&self, _locked: &mut State, from: Area, page: PageIndex, to: PageIndex) {
        // SAFETY: under the lock of the state, and no other thread accesses busy pages.
        unsafe { *self.page(other(from), to) = *self.page(from, page) };
    }

    /// An access of the program: calls `access` if the page is present or native; else the access is a fault, and it
    /// returns none.
    pub(crate) fn access<T>(&self, page: PageIndex, access: impl FnOnce(&mut Page) -> T) -> Option<T> {
        let mut state = self.state();
        let bytes = self.page(Area::Arena, page);
        if !state.arena[page.index()] {
            if state.registered[page.index()] {
                return None;
            }
            // SAFETY: under the lock.
            unsafe { *bytes = [0; PAGE_SIZE] };
            state.arena[page.index()] = true;
        }
        if state.protected[page.index()] {
            return None;
        }
        state.accessed[page.index()] = true;
        // SAFETY: under the lock.
        Some(access(unsafe { &mut *bytes }))
    }

    /// Has a device pin a page, or release it.
    pub(crate) fn set_unmovable(&self, page: PageIndex, unmovable: bool) {
        self.state().unmovable[page.index()] = unmovable;
    }

    /// Has a child of a fork share a page.
    pub(crate) fn set_shared(&self, page: PageIndex) {
        self.state().shared[page.index()] = true;
    }

    /// Has a child of a fork share the frame of a page.
    pub(crate) fn set_frame_shared(&self, page: PageIndex) {
        let mut state = self.state();
        // SAFETY: under the lock, and no other thread of the test changes frames.
        let bytes = Box::new(unsafe { *self.page(Area::Shadow, page) });
        state.shared_frames.insert(page.index(), bytes);
    }

    fn is_shared(&self, state: &State, area: Area, page: PageIndex) -> bool {
        match area {
            Area::Arena => state.shared[page.index()],
            Area::Shadow => state.shared_frames.get(&page.index()).is_some_and(|bytes| {
                // SAFETY: under the lock, and the caller holds the page busy.
                let now = unsafe { &*self.page(area, page) };
                **bytes == *now
            }),
        }
    }

    /// Has the program lock a page in RAM, or no page.
    pub(crate) fn set_locked(&self, page: Option<PageIndex>) {
        self.state().locked = page;
    }

    /// Has the program take its right to write from the arena, or give it back.
    pub(crate) fn set_read_only(&self, is_read_only: bool) {
        self.state().is_read_only = is_read_only;
    }

    /// Has the kernel refuse to end the lock of a page (`ENOMEM`: too many mappings).
    pub(crate) fn keep_lock(&self, is_kept: bool) {
        self.state().is_lock_kept = is_kept;
    }

    /// The program maps something over surrendered pages, or fresh memory over that.
    pub(crate) fn set_foreign(&self, pages: PageRange, is_foreign: bool) {
        let mut state = self.state();
        for page in pages.pages() {
            let at = page.index();
            state.foreign[at] = is_foreign;
            // Nor is it registered.
            (state.arena[at], state.registered[at], state.protected[at]) = (false, false, false);
            (state.shared[at], state.unmovable[at]) = (false, false);
            state.raced.remove(&page);
        }
    }

    /// The program drops a page by itself (`MADV_DONTNEED`).
    pub(crate) fn drop_page(&self, page: PageIndex) {
        let mut state = self.state();
        (state.arena[page.index()], state.protected[page.index()]) = (false, false);
    }

    /// Has so many copies find a page present that is absent.
    pub(crate) fn set_ghost(&self, page: PageIndex, copies: u32) {
        self.state().ghosts.insert(page, copies);
    }

    /// Takes the page whose waiting threads were woken last.
    pub(crate) fn take_woken(&self) -> Option<PageIndex> {
        self.state().woken.take()
    }

    /// Whether calls fail.
    pub(crate) fn injects(&self) -> bool {
        self.state().injection.per_mille > 0
    }

    /// Changes the share of calls that fail, and returns the errors so far.
    pub(crate) fn inject(&self, per_mille: u32) -> BTreeMap<&'static str, u64> {
        let mut state = self.state();
        state.injection.set(per_mille);
        state.injection.injected().clone()
    }

    /// The last word of a page, if a thread of the program wrote it at the moment of a move.
    pub(crate) fn raced(&self, page: PageIndex) -> Option<u64> {
        self.state().raced.get(&page).copied()
    }

    /// Forgets such a write: the test has overwritten or dropped the page.
    pub(crate) fn forget_race(&self, page: PageIndex) {
        self.state().raced.remove(&page);
    }

    /// Present pages of both areas.
    pub(crate) fn resident(&self) -> u64 {
        self.state().resident()
    }

    /// Present pages of both areas now, and the most after a step of a copy.
    pub(crate) fn resident_and_most(&self) -> (u64, u64) {
        let state = self.state();
        (state.resident(), state.most)
    }

    /// The move as the kernel makes and reports it.
    fn kernel_move(&self, state: &mut State, from: Area, pages: PageRange, to: PageIndex) -> Partial {
        let target = other(from);
        let mut moved = 0;
        let mut counted = None;
        let mut stopped = None;
        for (page, number) in pages.pages().zip(0..) {
            let to = to.plus(number);
            let injected = state.injection.draw(&[
                ("ENOMEM of a move", Errno::NOMEM),
                ("EBUSY of a move", Errno::BUSY),
                ("EAGAIN of a move", Errno::AGAIN),
                ("EINVAL of a move", Errno::INVAL),
            ]);
            stopped = if injected.is_some() {
                injected
            } else if !state.present(from)[page.index()] {
                Some(Errno::NOENT)
            } else if state.present(target)[to.index()] {
                Some(Errno::EXIST)
            } else if (from == Area::Arena && state.unmovable[page.index()])
                || self.is_shared(state, from, page)
            {
                Some(Errno::BUSY)
            } else {
                None
            };
            if stopped.is_some() {
                break;
            }
            let is_uncounted = state.injection.draw(&[("move that is not counted", ())]);
            if counted.is_none() && is_uncounted.is_some() {
                counted = Some(number);
            }
            let (source, target_page) = (self.page(from, page), self.page(target, to));
            if from == Area::Arena && state.injection.draw(&[("write at a move", ())]).is_some() {
                // The page is mapped until it moves: a write just before is in the moved page.
                self.race(state, page);
            }
            // SAFETY: under the lock, and the caller holds both pages busy.
            unsafe {
                *target_page = *source;
                *source = [GONE; PAGE_SIZE];
            }
            state.present(from)[page.index()] = false;
            state.make_present(target, to);
            moved += 1;
        }
        if counted.is_some() {
            stopped = Some(Errno::EXIST);
        }
        let done = counted.unwrap_or(moved);
        Partial {
            done,
            stopped: stopped.map(|errno| if done > 0 { Errno::AGAIN } else { errno }),
        }
    }
}

impl Driver for Simulated {
    fn open(&self, _: PageRange) -> Result<(), Errno> {
        Ok(())
    }

    fn close(&self, pages: PageRange) -> Result<(), Errno> {
        let mut state = self.state();
        for page in pages.pages() {
            let at = page.index();
            // The manager has returned its charge: from then on other pages have it.
            assert!(
                !state.arena[at] && !state.shadow[at],
                "{page:?} outlives its charge"
            );
            state.registered[at] = false;
            state.protected[at] = false;
        }
        Ok(())
    }

    fn register(&self, pages: PageRange) -> Result<(), Errno> {
        let mut state = self.state();
        state.touch(Area::Arena, pages);
        if let Some(errno) = state
            .injection
            .draw(&[("ENOMEM of a registration", Errno::NOMEM)])
        {
            return Err(errno);
        }
        pages
            .pages()
            .for_each(|page| state.registered[page.index()] = true);
        Ok(())
    }

    fn unregister(&self, pages: PageRange) -> Result<(), Errno> {
        let mut state = self.state();
        state.touch(Area::Arena, pages);
        let injected = state
            .injection
            .draw(&[("ENOMEM of an unregistration", Errno::NOMEM)]);
        // The kernel may stop in the middle.
        let count = pages.count / if injected.is_some() { 2 } else { 1 };
        for page in PageRange::new(pages.first, count).pages() {
            assert!(!state.arena[page.index()], "{page:?} is present");
            state.registered[page.index()] = false;
        }
        injected.map_or(Ok(()), Err)
    }

    fn wake(&self, page: PageIndex) {
        self.state().woken = Some(page);
    }

    fn renew(&self, pages: PageRange, _: bool) -> Result<(), Errno> {
        self.register(pages)
    }

    fn move_pages(&self, from: Area, pages: PageRange, to: PageIndex) -> Partial {
        match from {
            Area::Arena => self.state().touch(from, pages),
            Area::Shadow => self.state().touch(Area::Arena, PageRange::new(to, pages.count)),
        }
        if self.copies {
            return move_by_copy(self, from, pages, to);
        }
        let mut state = self.state();
        let reported = self.kernel_move(&mut state, from, pages, to);
        with_uncounted(reported, pages.count, |page| {
            !state.present(from)[pages.first.plus(page).index()]
                && state.present(other(from))[to.plus(page).index()]
        })
    }

    fn copy_out(&self, page: PageIndex) -> Partial {
        let is_unmovable = self.state().unmovable[page.index()];
        if self.copies || is_unmovable {
            return Partial {
                done: 0,
                stopped: Some(Errno::INVAL),
            };
        }
        move_by_copy(self, Area::Arena, PageRange::new(page, 1), page)
    }

    fn unblock(&self, page: PageIndex) {
        self.state().protected[page.index()] = false;
    }

    fn unshare(&self, page: PageIndex) -> Result<(), Errno> {
        let mut state = self.state();
        if let Some(errno) = state.injection.draw(&[("ENOMEM of an unsharing", Errno::NOMEM)]) {
            return Err(errno);
        }
        state.shared[page.index()] = false;
        Ok(())
    }

    fn copy_run(&self, first: PageIndex, pages: &[Page]) -> Partial {
        let mut state = self.state();
        state.touch(Area::Arena, PageRange::new(first, pages.len() as u32));
        for (done, bytes) in (0..).zip(pages) {
            let page = first.plus(done);
            if let Some(errno) = state.refuse_copy(page) {
                let stopped = Some(if done > 0 { Errno::AGAIN } else { errno });
                return Partial { done, stopped };
            }
            // SAFETY: under the lock.
            unsafe { *self.page(Area::Arena, page) = *bytes };
            state.arena[page.index()] = true;
        }
        Partial {
            done: pages.len() as u32,
            stopped: None,
        }
    }

    fn shared(&self, area: Area, pages: PageRange) -> u64 {
        let state = self.state();
        pages
            .pages()
            .filter(|page| self.is_shared(&state, area, *page))
            .count() as u64
    }

    fn moves(&self) -> bool {
        !self.copies
    }

    fn unlock(&self, pages: PageRange) {
        let mut state = self.state();
        if !state.is_lock_kept && state.locked.is_some_and(|page| pages.contains(page)) {
            state.locked = None;
        }
    }

    fn discard(&self, area: Area, pages: PageRange) -> Result<(), Errno> {
        let mut state = self.state();
        state.touch(area, pages);
        if area == Area::Arena && state.locked.is_some_and(|page| pages.contains(page)) {
            return Err(Errno::INVAL);
        }
        for page in pages.pages() {
            self.drop_one(&mut state, area, page);
        }
        Ok(())
    }

    fn present(&self, area: Area, pages: PageRange, present: &mut [bool]) -> Result<(), Errno> {
        let mut state = self.state();
        let is_ghost = area == Area::Arena && pages.count == 1 && state.ghosts.contains_key(&pages.first);
        if !is_ghost && let Some(errno) = state.injection.draw(&[("EIO of the pagemap", Errno::IO)]) {
            return Err(errno);
        }
        let bits = state.present(area);
        for (page, present) in pages.pages().zip(present) {
            *present = bits[page.index()];
        }
        Ok(())
    }

    fn set_apart(&self, pages: PageRange) -> Result<(), Errno> {
        self.state().touch(Area::Arena, pages);
        if self.copies {
            return Err(Errno::OPNOTSUPP);
        }
        let injected = (self.state().injection).draw(&[("ENOMEM of a separation", Errno::NOMEM)]);
        injected.map_or(Ok(()), Err)
    }

    fn forget_accesses(&self, pages: PageRange) -> Result<(), Errno> {
        let mut state = self.state();
        state.touch(Area::Arena, pages);
        let injected = state.injection.draw(&[("EINVAL of MADV_COLD", Errno::INVAL)]);
        for page in pages.pages() {
            state.accessed[page.index()] = false;
        }
        injected.map_or(Ok(()), Err)
    }

    fn accesses(&self, each: &mut dyn FnMut(PageRange, Accesses)) -> Result<(), Errno> {
        let mut state = self.state();
        if let Some(errno) = state.injection.draw(&[("EIO of the accesses", Errno::IO)]) {
            return Err(errno);
        }
        let all = PageRange::new(PageIndex::new(0), state.arena.len() as u32);
        for chunk in all.pieces(CHUNK_PAGES) {
            let bytes = |is: &dyn Fn(usize) -> bool| {
                let pages = chunk.pages().filter(|page| is(page.index())).count();
                (pages * PAGE_SIZE) as u64
            };
            let accesses = Accesses {
                present: bytes(&|at| state.arena[at]),
                accessed: bytes(&|at| state.arena[at] && state.accessed[at]),
            };
            each(chunk, accesses);
        }
        Ok(())
    }

    fn populate(&self, pages: PageRange) {
        for page in pages.pages() {
            // A registered page faults, and its test resolves that by itself.
            let _ = self.access(page, |_| ());
        }
    }

    fn populate_native(&self, pages: PageRange) -> bool {
        let has_rights = !self.state().is_read_only;
        if has_rights {
            self.populate(pages);
        }
        has_rights || pages.pages().all(|page| self.state().arena[page.index()])
    }

    fn address(&self, area: Area, page: PageIndex) -> NonNull<Page> {
        NonNull::new(self.page(area, page)).expect("an element of a slice")
    }
}

impl Simulated {
    /// A thread of the program writes to a page of the arena, unless the write is a fault, whose thread waits.
    fn race(&self, state: &mut State, page: PageIndex) {
        if state.protected[page.index()] || !state.arena[page.index()] {
            return;
        }
        let word = state.injection.random();
        // SAFETY: under the lock.
        let bytes = unsafe { &mut *self.page(Area::Arena, page) };
        bytes[PAGE_SIZE - 8..].copy_from_slice(&word.to_ne_bytes());
        state.raced.insert(page, word);
    }

    fn drop_one(&self, state: &mut State, area: Area, page: PageIndex) {
        state.present(area)[page.index()] = false;
        match area {
            Area::Arena => {
                state.protected[page.index()] = false;
                state.ghosts.remove(&page);
            }
            Area::Shadow => drop(state.shared_frames.remove(&page.index())),
        }
        // SAFETY: under the lock, and the caller holds the page busy.
        unsafe { *self.page(area, page) = [GONE; PAGE_SIZE] };
    }
}
