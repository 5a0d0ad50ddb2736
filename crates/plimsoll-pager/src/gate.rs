//! A gate that threads pass before they change a pager, so that a fork copies it in a consistent state.
//!
//! A child of a fork has one thread. A page that another thread of the parent held busy, or a lock that it held, would stay so in
//! the child for ever. So the forking thread closes the gate, waits until no other thread is inside, and forks.
#![cfg_attr(loom, allow(unsafe_code, reason = "memory of a model"))]

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

#[cfg(not(loom))]
use crate::manager::Patience;

/// Set while the gate is closed; the other bits count the threads inside.
const CLOSED: u32 = 1 << 31;

/// Invariant: after [`Gate::close`] returns, and until the gate opens, only the closing thread is inside.
/// Checked by `the_closing_thread_is_alone_and_sees_the_changes_of_others`.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    word: AtomicU32,
    /// The thread that closed it; 0 while it is open. It may go inside itself.
    closer: AtomicUsize,
}

/// A thread inside; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Inside<'g>(Option<&'g Gate>);

impl Gate {
    /// Goes inside, and waits while the gate is closed. May be called in a signal handler.
    ///
    /// A thread that is inside must not fault on a page of the pager: the fault would go inside a second time, and might
    /// find the gate closed by a thread that waits for this one.
    pub(crate) fn enter(&self) -> Inside<'_> {
        loop {
            if let Some(inside) = self.try_enter() {
                return inside;
            }
            let word = self.word.load(Ordering::Relaxed);
            if word & CLOSED == 0 {
                continue;
            }
            if self.closer.load(Ordering::Relaxed) == this_thread() {
                return Inside(None);
            }
            self.sleep(word);
        }
    }

    /// Goes inside, unless the gate is closed.
    pub(crate) fn try_enter(&self) -> Option<Inside<'_>> {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & CLOSED == 0 {
            let counted =
                self.word
                    .compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed);
            match counted {
                Ok(_) => return Some(Inside(Some(self))),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Closes the gate, and waits until no other thread is inside. One thread of the process at a time calls it.
    pub(crate) fn close(&self) {
        self.closer.store(this_thread(), Ordering::Relaxed);
        self.word.fetch_or(CLOSED, Ordering::AcqRel);
        #[cfg(not(loom))]
        let mut patience = Patience::default();
        while self.word.load(Ordering::Acquire) != CLOSED {
            #[cfg(not(loom))]
            patience.wait();
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }

    /// Sleeps until the gate opens, unless the word is another one by now.
    fn sleep(&self, word: u32) {
        #[cfg(not(loom))]
        plimsoll_os::futex_wait(&self.word, word, None);
        #[cfg(loom)]
        loom::thread::yield_now();
        let _ = word;
    }

    pub(crate) fn open(&self) {
        self.closer.store(0, Ordering::Relaxed);
        self.word.fetch_and(!CLOSED, Ordering::Release);
        #[cfg(not(loom))]
        plimsoll_os::futex_wake(&self.word, i32::MAX as u32);
    }

    /// Opens the gate in a child of a fork, which has no other thread.
    pub(crate) fn renew(&self) {
        self.closer.store(0, Ordering::Relaxed);
        self.word.store(0, Ordering::Relaxed);
    }
}

/// A number that no other thread has, and that is not 0.
fn this_thread() -> usize {
    #[cfg(not(loom))]
    return plimsoll_os::thread_token();
    #[cfg(loom)]
    {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        hasher.hash_one(loom::thread::current().id()) as usize | 1
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.0 {
            gate.word.fetch_sub(1, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    #[test]
    fn a_closed_gate_lets_only_the_closing_thread_in() {
        let gate = Gate::default();
        let (inside, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
        let passed = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let _inside = gate.enter();
                        inside.fetch_add(1, Ordering::SeqCst);
                        passed.fetch_add(1, Ordering::Relaxed);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
            for _ in 0..200 {
                let before = passed.load(Ordering::Relaxed);
                gate.close();
                assert_eq!(inside.load(Ordering::SeqCst), 0);
                assert!(gate.try_enter().is_none());
                drop(gate.enter());
                thread::yield_now();
                assert_eq!(inside.load(Ordering::SeqCst), 0);
                gate.open();
                while passed.load(Ordering::Relaxed) == before {
                    thread::yield_now();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(gate.try_enter().is_some());
        assert_eq!(gate.word.load(Ordering::SeqCst), 0);
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Loom fails if two threads access the pages at the same time, or one without having seen the writes of the other.
    struct Shared {
        gate: Gate,
        pages: UnsafeCell<u32>,
    }

    // SAFETY: the gate decides which thread has the pages, which loom checks.
    unsafe impl Sync for Shared {}

    #[test]
    fn the_closing_thread_is_alone_and_sees_the_changes_of_others() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                gate: Gate::default(),
                pages: UnsafeCell::new(0),
            });
            let worker = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let _inside = shared.gate.enter();
                    // SAFETY: as above.
                    shared.pages.with_mut(|pages| unsafe { *pages += 1 });
                })
            };
            shared.gate.close();
            // SAFETY: as above.
            let seen = shared.pages.with(|pages| unsafe { *pages });
            drop(shared.gate.enter());
            // SAFETY: as above.
            assert_eq!(shared.pages.with(|pages| unsafe { *pages }), seen);
            shared.gate.open();
            worker.join().unwrap();
            // SAFETY: as above.
            assert_eq!(shared.pages.with(|pages| unsafe { *pages }), 1);
        });
    }
}
