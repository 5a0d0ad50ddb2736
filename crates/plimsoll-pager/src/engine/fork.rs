//! A fork whose child has a copy of the pager's memory.
//!
//! | step | by |
//! |---|---|
//! | no thread but this one changes a page: the gate is closed, the balance-set manager rests | [`Engine::fork`] |
//! | the areas are copied into children (`MADV_DOFORK`) | `Userfault::share_with_children` |
//! | `fork(2)`; the kernel copies no registration, so absent pages would read as zero in the child | |
//! | the child opens a userfaultfd, registers its copies, replaces the descriptors of the parent's memory, starts threads | [`Engine::begin_child`] |
//! | parent and child: later children have no copies; the gate opens | [`Engine::fork`] |
//!
//! A child that another thread forks between the second and the last step has the copies without a registration. It unmaps
//! them before it runs: [`unmap_in_other_children`].
#![allow(unsafe_code, reason = "fork(2), and a handler in its children")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::time::{Duration, Instant};

use plimsoll_os::{Errno, thread_token};

use super::Engine;
use super::threads::Threads;
use crate::backing::Backing;
use crate::driver::{FaultMode, Registered};
use crate::error::ForkError;
use crate::fault::forget_other_handlers;
use crate::manager::Patience;
use crate::page::{CHUNK_PAGES, ChunkMode, PageIndex, PageRange};
#[cfg(not(loom))]
use crate::share::{Growth, Share, Tenant};
use crate::signals_blocked::SignalsBlocked;

/// The longest time for which a process releases memory before a fork.
#[cfg(not(loom))]
const LONGEST_RELEASE: Duration = Duration::from_millis(200);

/// A process after [`Pager::fork`](crate::Pager::fork).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forked {
    /// The parent.
    Parent {
        /// The PID of the child.
        child: i32,
    },
    /// The child, which has a copy of every region.
    Child,
    /// The child, which does not have them: the kernel refused to manage the copies. As after `fork(2)`.
    ChildWithoutRegions(Errno),
}

/// The thread that forks: the areas of one pager at a time are copied into children. 0 without one, and in every child.
static FORKER: AtomicUsize = AtomicUsize::new(0);
/// Starts of the areas that are copied into children, and the bytes of each, which are 0 before and after that.
static ARENA: AtomicUsize = AtomicUsize::new(0);
static SHADOW: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Ends the fork that the parent began, in each of its children, and unmaps the areas in one that another thread than that in
/// [`Engine::fork`] has forked.
extern "C" fn unmap_in_other_children() {
    let bytes = BYTES.swap(0, Ordering::SeqCst);
    let forker = FORKER.swap(0, Ordering::SeqCst);
    if bytes > 0 && forker != thread_token() {
        for start in [&ARENA, &SHADOW] {
            // SAFETY: the copy of an area that only its pager uses, which does not work in this process.
            unsafe { libc::munmap(start.load(Ordering::SeqCst) as *mut libc::c_void, bytes) };
        }
    }
}

/// Has the C library call [`unmap_in_other_children`] in children of this process. Called before a pager exists: a fork that
/// began earlier would not call it. No lock of the standard library: a child that another thread forks meanwhile could never
/// take it. Two calls for a child do no harm.
///
/// # Errors
/// The C library has no memory for the handler.
pub(super) fn install() -> Result<(), Errno> {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if INSTALLED.load(Ordering::SeqCst) {
        return Ok(());
    }
    // SAFETY: the handler obeys the rules for children of a fork: it calls `munmap` alone.
    match unsafe { libc::pthread_atfork(None, None, Some(unmap_in_other_children)) } {
        0 => {
            INSTALLED.store(true, Ordering::SeqCst);
            Ok(())
        }
        error => Err(Errno::of_number(error)),
    }
}

/// The right of this thread to copy areas into children. No lock of the standard library either.
struct Forking;

impl Forking {
    fn begin() -> Forking {
        let mut patience = Patience::default();
        let free = || FORKER.compare_exchange(0, thread_token(), Ordering::SeqCst, Ordering::Relaxed);
        while free().is_err() {
            patience.wait();
        }
        Forking
    }
}

impl Drop for Forking {
    fn drop(&mut self) {
        BYTES.store(0, Ordering::SeqCst);
        FORKER.store(0, Ordering::SeqCst);
    }
}

impl<B: Backing + 'static> Engine<B> {
    /// Forks a child with a copy of the pager and its memory.
    pub(crate) fn fork(&self) -> Result<Forked, ForkError> {
        if self.is_forked() {
            return Err(ForkError::Forked);
        }
        let driver = &self.manager().driver;
        let _blocked = SignalsBlocked::new();
        let _forking = Forking::begin();
        self.served.gate.close();
        let mut threads = self.threads();
        let balancing = self.served.balancing.lock();
        #[cfg(not(loom))]
        let mut share = self.share();
        // The thread of the share changes the membership.
        #[cfg(not(loom))]
        let membership = share.as_ref().map(|share| {
            let member = share.still();
            share.begin_fork(&member);
            member
        });
        ARENA.store(driver.arena().start, Ordering::SeqCst);
        SHADOW.store(driver.shadow(), Ordering::SeqCst);
        BYTES.store(driver.arena().len(), Ordering::SeqCst);
        let backing = &self.manager().backing;
        let prepared = backing
            .begin_fork()
            .and_then(|()| driver.share_with_children(true, self.own_parts()));
        let forked = prepared.and_then(|()| {
            // SAFETY: by its premises, the caller of `Pager::fork` has the child wait for no other thread.
            match unsafe { libc::fork() } {
                -1 => Err(Errno::of_number(
                    std::io::Error::last_os_error()
                        .raw_os_error()
                        .unwrap_or(libc::EAGAIN),
                )),
                child => Ok(child),
            }
        });
        if forked == Ok(0) {
            drop(balancing);
            backing.end_fork(true);
            #[cfg(not(loom))]
            drop(membership);
            // The parent's thread does not exist here, and the parent stays a member: neither is to end.
            #[cfg(not(loom))]
            let parent = std::mem::ManuallyDrop::new(share.take());
            let begun = self.begin_child(&mut threads);
            #[cfg(not(loom))]
            let begun = begun.and_then(|()| self.begin_share(parent.as_ref(), &mut share));
            let begun = begun.and_then(|()| self.begin_threads(&mut threads));
            return Ok(match begun {
                Ok(()) => Forked::Child,
                Err(errno) => {
                    // Its thread ends before the memory does.
                    #[cfg(not(loom))]
                    drop(share.take());
                    driver.forget();
                    backing.leave();
                    Forked::ChildWithoutRegions(errno)
                }
            });
        }
        // It fails for addresses without a mapping alone.
        let _ = driver.share_with_children(false, self.own_parts());
        backing.end_fork(false);
        drop((balancing, threads));
        #[cfg(not(loom))]
        {
            drop(membership);
            drop(share);
        }
        self.served.gate.open();
        match forked {
            Ok(child) => Ok(Forked::Parent { child }),
            Err(errno) => Err(ForkError::System(errno)),
        }
    }

    /// Releases memory above the part of the pool that its members keep for shared pages, before a fork whose child shares them: no
    /// process can free such a page alone, and the child and this one need memory of their own. Gives back the grant that it does not
    /// use.
    #[cfg(not(loom))]
    pub(crate) fn release_before_fork(&self) {
        if self.is_forked() {
            return;
        }
        // A handler that forks meanwhile would wait for the lock of this thread.
        let _blocked = SignalsBlocked::new();
        let end = Instant::now() + LONGEST_RELEASE;
        // Another thread's fork waits for one step, not for all, and its child shares the pages from then on.
        let release = || {
            let most = self.share().as_ref().and_then(Share::most_shared);
            most.is_some_and(|most| {
                let _work = self.work();
                self.manager().release_above(most)
            })
        };
        while Instant::now() < end && release() {}
        if let Some(share) = self.share().as_ref() {
            share.give_back(&*self.served);
        }
    }

    /// Makes the copy in this process, a child of a fork, a pager of its own.
    fn begin_child(&self, threads: &mut Threads) -> Result<(), Errno> {
        // The parent's threads do not exist here: a drop would wait for them.
        std::mem::forget((threads.faults.take(), threads.balancer.take()));
        forget_other_handlers();
        self.served.gate.renew();
        // Nothing would ever end them.
        self.manager().pins.remove_those_of_others(thread_token());
        let driver = &self.manager().driver;
        driver.become_own(self.runs(), self.own_parts())
    }

    /// Makes this process a member of its parent's pool.
    #[cfg(not(loom))]
    fn begin_share(&self, parent: Option<&Share>, share: &mut Option<Share>) -> Result<(), Errno> {
        let Some(parent) = parent else {
            return Ok(());
        };
        match (
            Share::start_in_child(&parent.still(), super::LEAST_GRANT, self.served.clone()),
            self.forks_outside,
        ) {
            (Ok(started), _) => *share = Some(started),
            (Err(_), Some(bytes)) => {
                self.served.set_growth(Growth::default());
                self.manager().set_ram(bytes);
            }
            (Err(errno), None) => return Err(errno),
        }
        Ok(())
    }

    /// Starts the threads of the pager in this process, and publishes it.
    fn begin_threads(&self, threads: &mut Threads) -> Result<(), Errno> {
        let mode = match self.registration {
            Some(_) => FaultMode::Signal,
            None => FaultMode::Thread,
        };
        // Without the balance-set manager, faults at the cap trim, and nothing is aged or recompressed. A thread for faults must
        // be there.
        match Threads::start(&self.served, mode) {
            Ok(started) => *threads = started,
            // No thread will create the page file.
            Err(errno) if mode == FaultMode::Signal => self.manager().backing.refuse_page_file(errno),
            Err(errno) => return Err(errno),
        }
        if let Some(publication) = self.served.publication.get() {
            publication.renew(self.manager());
        }
        Ok(())
    }

    /// The parts of the arena without surrendered pages.
    fn own_parts(&self) -> impl Iterator<Item = PageRange> {
        let manager = self.manager();
        manager.own_parts(manager.table.count())
    }

    /// The pages of regions, in runs with one mode of registration.
    fn runs(&self) -> impl Iterator<Item = (PageRange, Registered)> {
        let chunks = self.manager().extent().div_ceil(CHUNK_PAGES);
        let mut parts = (0..chunks).flat_map(|number| self.parts_of(number)).peekable();
        std::iter::from_fn(move || {
            let (mut run, registered) = parts.next()?;
            let is_next = |(part, mode): &(PageRange, Registered), end| {
                *mode == registered && part.first.number() == end
            };
            let mut end = run.end();
            while let Some((part, _)) = parts.next_if(|part| is_next(part, end)) {
                end = part.end();
            }
            run.count = end - run.first.number();
            Some((run, registered))
        })
    }

    /// The pages of a region in a chunk, in runs with one mode of registration.
    fn parts_of(&self, number: u32) -> impl Iterator<Item = (PageRange, Registered)> {
        let manager = self.manager();
        let chunk = &manager.chunks.all()[number as usize];
        let registered = match manager.chunks.mode(number) {
            ChunkMode::Unused => None,
            ChunkMode::Native | ChunkMode::Converting | ChunkMode::Changing => Some(Registered::Not),
            ChunkMode::Managed if chunk.is_apart() => Some(Registered::Apart),
            ChunkMode::Managed => Some(Registered::Plain),
        };
        let pages = PageRange::new(PageIndex::new(number * CHUNK_PAGES), chunk.pages());
        registered.into_iter().flat_map(move |registered| {
            let runs = manager.runs_of(pages);
            runs.map(move |(run, is_surrendered)| match is_surrendered {
                true => (run, Registered::Not),
                false => (run, registered),
            })
        })
    }
}
