//! A lock that sleeps in the kernel when it must, and counts how often it had to wait.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use plimsoll_os::{futex_wait, futex_wake};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody may be asleep.
const AWAITED: u32 = 2;

/// How often a waiter looks before it sleeps: about as long as a short critical section takes.
const LOOKS: u32 = 100;

/// A mutex over `T`. Zeroed memory is a free one over zeroed contents.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Lock<T> {
    pub(crate) state: AtomicU32,
    /// How many times somebody had to wait: statistics read it where it lies, see `inspect`.
    pub(crate) contended: AtomicU32,
    pub(crate) value: UnsafeCell<T>,
}

// SAFETY: the lock lets one thread at a time at the value.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        Lock {
            state: AtomicU32::new(FREE),
            contended: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until the lock is free, and takes it.
    #[inline]
    pub(crate) fn lock(&self) -> Held<'_, T> {
        if self
            .state
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            self.wait();
        }
        Held { lock: self }
    }

    /// Takes the lock if it is free.
    pub(crate) fn try_lock(&self) -> Option<Held<'_, T>> {
        let taken = self
            .state
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        // Not `then_some`: a guard made in vain would free the lock of whoever holds it.
        taken.is_ok().then(|| Held { lock: self })
    }

    #[cold]
    fn wait(&self) {
        self.contended.fetch_add(1, Ordering::Relaxed);
        for _ in 0..LOOKS {
            core::hint::spin_loop();
            if self.state.load(Ordering::Relaxed) == FREE
                && self
                    .state
                    .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
        }
        while self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            futex_wait(&self.state, AWAITED, None);
        }
    }

    /// The value without the lock.
    ///
    /// # Safety
    /// This thread alone uses the lock and its value, as long as what is returned lives.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn assume_alone(&self) -> &mut T {
        // SAFETY: the caller's premise.
        unsafe { &mut *self.value.get() }
    }

    /// Makes the lock free in the child of a fork, whose other threads are gone.
    ///
    /// # Safety
    /// This thread is the only one, and it held the lock when the process was forked.
    pub(crate) unsafe fn free_after_fork(&self) {
        self.state.store(FREE, Ordering::Release);
    }

    /// Holds the lock past the life of a guard, for the time of a fork. [`Lock::release`] ends it.
    pub(crate) fn hold(&self) {
        core::mem::forget(self.lock());
    }

    /// Ends what [`Lock::hold`] began.
    ///
    /// # Safety
    /// This thread holds the lock by [`Lock::hold`].
    pub(crate) unsafe fn release(&self) {
        if self.state.swap(FREE, Ordering::Release) == AWAITED {
            futex_wake(&self.state, 1);
        }
    }
}

/// The value of a lock that this thread holds.
#[derive(Debug)]
pub(crate) struct Held<'l, T> {
    lock: &'l Lock<T>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock, so nobody else has a reference.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, and the guard is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard is the proof that this thread holds it.
        unsafe { self.lock.release() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_in_vain_leaves_the_lock_to_who_holds_it() {
        let lock = Lock::new(0);
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock().is_none(), "the first try freed it");
        drop(held);
        assert!(lock.try_lock().is_some());
        assert!(lock.try_lock().is_some(), "a guard frees the lock");
    }
}
