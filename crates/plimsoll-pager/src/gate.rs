//! The gate that threads pass before they change a pager, so that a fork finds it whole.
//!
//! A child of a fork has one thread. Whatever another thread of the parent had busy or locked would stay so in the child for
//! ever. So the thread that forks closes the gate, waits until nobody is inside, and forks.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::manager::Patience;

/// Set while the gate is closed; the other bits count the threads inside.
const CLOSED: u32 = 1 << 31;

/// Invariant: while [`CLOSED`] is set and the count was seen as 0, no thread but the closing one is inside.
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
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & CLOSED == 0 {
                let counted =
                    self.word
                        .compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed);
                match counted {
                    Ok(_) => return Inside(Some(self)),
                    Err(now) => word = now,
                }
            } else if self.closer.load(Ordering::Relaxed) == plimsoll_os::thread_token() {
                return Inside(None);
            } else {
                plimsoll_os::futex_wait(&self.word, word, None);
                word = self.word.load(Ordering::Relaxed);
            }
        }
    }

    /// Closes the gate, and waits until nobody is inside. One thread of the process at a time calls it.
    pub(crate) fn close(&self) {
        self.closer.store(plimsoll_os::thread_token(), Ordering::Relaxed);
        self.word.fetch_or(CLOSED, Ordering::AcqRel);
        let mut patience = Patience::default();
        while self.word.load(Ordering::Acquire) != CLOSED {
            patience.wait();
        }
    }

    /// Opens the gate.
    pub(crate) fn open(&self) {
        self.closer.store(0, Ordering::Relaxed);
        self.word.fetch_and(!CLOSED, Ordering::Release);
        plimsoll_os::futex_wake(&self.word, i32::MAX as u32);
    }

    /// Opens the gate in a child of a fork, where nobody else is.
    pub(crate) fn renew(&self) {
        self.closer.store(0, Ordering::Relaxed);
        self.word.store(0, Ordering::Relaxed);
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
    fn nobody_is_inside_while_it_is_closed_but_the_thread_that_closed_it() {
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
        assert_eq!(gate.word.load(Ordering::SeqCst), 0);
    }
}
