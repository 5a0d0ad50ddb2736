//! A fork whose child has a copy of the pager's memory.
//!
//! | step | by |
//! |---|---|
//! | no thread but this one changes a page: the gate is closed, the balance-set manager rests | [`Engine::fork`] |
//! | the areas are copied into children (`MADV_DOFORK`) | `Userfault::share_with_children` |
//! | `fork(2)`; the kernel copies no registration, so absent pages would read as zero in the child | |
//! | the child opens a userfaultfd, registers its copies, renews what acted on the parent, starts threads | [`Engine::begin_child`] |
//! | parent and child: later children have no copies; the gate opens | [`Engine::fork`] |
//!
//! A child that another thread forks between the second and the last step has the copies without a registration. It unmaps
//! them before it runs: [`unmap_in_other_children`].
#![allow(unsafe_code, reason = "fork(2), and a handler in its children")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use plimsoll_os::{Errno, thread_token};

use super::{Engine, Threads};
use crate::backing::Backing;
use crate::driver::{FaultMode, Registered};
use crate::error::ForkError;
use crate::fault::{SignalsBlocked, forget_other_handlers};
use crate::page::{CHUNK_PAGES, ChunkMode, PageIndex, PageRange};

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

/// Held by the thread that forks: the areas of one pager at a time are copied into children.
static FORKING: Mutex<()> = Mutex::new(());
/// Installs [`unmap_in_other_children`] for the process.
static INSTALLED: Once = Once::new();
/// The thread that forks; 0 without one.
static FORKER: AtomicUsize = AtomicUsize::new(0);
/// Starts of the areas that are copied into children, and the bytes of each.
static ARENA: AtomicUsize = AtomicUsize::new(0);
static SHADOW: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Unmaps the areas in a child that another thread than the one in [`Engine::fork`] has forked.
extern "C" fn unmap_in_other_children() {
    let forker = FORKER.swap(0, Ordering::SeqCst);
    if forker != 0 && forker != thread_token() {
        let bytes = BYTES.load(Ordering::SeqCst);
        for start in [&ARENA, &SHADOW] {
            // SAFETY: the copy of an area that only its pager uses, which does not work in this process.
            unsafe { libc::munmap(start.load(Ordering::SeqCst) as *mut libc::c_void, bytes) };
        }
    }
}

impl<B: Backing + 'static> Engine<B> {
    /// Forks a child with a copy of the pager and its memory.
    pub(crate) fn fork(&self) -> Result<Forked, ForkError> {
        if self.is_forked() {
            return Err(ForkError::Forked);
        }
        #[cfg(not(loom))]
        if self.share.is_some() {
            return Err(ForkError::InPool);
        }
        if self.manager().backing.page_file().is_some() {
            return Err(ForkError::PageFile);
        }
        let _one = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the handler obeys the rules for children of a fork: it calls `munmap` alone.
        INSTALLED.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(unmap_in_other_children));
        });
        let driver = &self.manager().driver;
        let _blocked = SignalsBlocked::new();
        self.served.gate.close();
        let mut threads = self.threads();
        let balancing = self.served.balancing.lock();
        ARENA.store(driver.arena().start, Ordering::SeqCst);
        SHADOW.store(driver.shadow(), Ordering::SeqCst);
        BYTES.store(driver.arena().len(), Ordering::SeqCst);
        FORKER.store(thread_token(), Ordering::SeqCst);
        let forked = driver.share_with_children(true).and_then(|()| {
            // SAFETY: the caller of `Pager::fork` promises what a child may do.
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
            return Ok(match self.begin_child(&mut threads) {
                Ok(()) => Forked::Child,
                Err(errno) => Forked::ChildWithoutRegions(errno),
            });
        }
        // It fails for addresses without a mapping alone.
        let _ = driver.share_with_children(false);
        FORKER.store(0, Ordering::SeqCst);
        drop((balancing, threads));
        self.served.gate.open();
        match forked {
            Ok(child) => Ok(Forked::Parent { child }),
            Err(errno) => Err(ForkError::System(errno)),
        }
    }

    /// Makes the copy in this process, a child of a fork, a pager of its own.
    fn begin_child(&self, threads: &mut Threads) -> Result<(), Errno> {
        // The parent's threads do not exist here: nobody can be told to end, or waited for.
        std::mem::forget((threads.faults.take(), threads.balancer.take()));
        forget_other_handlers();
        self.served.gate.renew();
        let driver = &self.manager().driver;
        let begun = driver.become_own(self.runs());
        if let Err(errno) = begun {
            driver.forget();
            return Err(errno);
        }
        if let Some(publication) = self.served.publication.get() {
            publication.renew(self.manager());
        }
        let mode = match self.registration {
            Some(_) => FaultMode::Signal,
            None => FaultMode::Thread,
        };
        // Without threads, faults at the cap trim, and nothing is aged or recompressed. A thread for faults must be there.
        match Threads::start(&self.served, mode) {
            Ok(started) => *threads = started,
            Err(_) if mode == FaultMode::Signal => {}
            Err(errno) => {
                driver.forget();
                return Err(errno);
            }
        }
        Ok(())
    }

    /// The pages of regions, in runs with one mode of registration.
    fn runs(&self) -> impl Iterator<Item = (PageRange, Registered)> {
        let manager = self.manager();
        let chunks = manager.extent().div_ceil(CHUNK_PAGES);
        let mut next = 0;
        let mode_of = |number: u32| {
            let first = PageIndex::new(number * CHUNK_PAGES);
            let chunk = manager.chunk(first);
            let registered = match chunk.mode() {
                ChunkMode::Unused => return None,
                ChunkMode::Native | ChunkMode::Converting => Registered::Not,
                ChunkMode::Managed if chunk.is_apart() => Registered::Apart,
                ChunkMode::Managed => Registered::Plain,
            };
            Some((PageRange::new(first, chunk.pages()), registered))
        };
        std::iter::from_fn(move || {
            while next < chunks {
                let number = next;
                next += 1;
                let Some((mut run, registered)) = mode_of(number) else {
                    continue;
                };
                // The last chunk of a region ends the run.
                while run.count % CHUNK_PAGES == 0 && next < chunks {
                    match mode_of(next) {
                        Some((more, mode)) if mode == registered => {
                            run = PageRange::new(run.first, run.count + more.count);
                            next += 1;
                        }
                        _ => break,
                    }
                }
                return Some((run, registered));
            }
            None
        })
    }
}
