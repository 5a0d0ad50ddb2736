//! Locks that need no allocation, no thread-local storage and no C library, and that a fork can hold.
#![allow(unsafe_code, reason = "a value that a lock protects")]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_os::{futex_wait, futex_wake};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and threads may sleep on the word.
const AWAITED: u32 = 2;

/// A lock of threads of this process. Its holder makes no call that may take it again.
#[derive(Debug)]
pub(crate) struct Lock(AtomicU32);

impl Lock {
    pub(crate) const fn new() -> Lock {
        Lock(AtomicU32::new(FREE))
    }

    /// Takes the lock until the guard is dropped.
    #[inline]
    pub(crate) fn hold(&self) -> Held<'_> {
        self.acquire();
        Held(self)
    }

    /// Takes the lock until [`Lock::release`].
    #[inline]
    pub(crate) fn acquire(&self) {
        let taken = self
            .0
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
            futex_wait(&self.0, AWAITED, None);
        }
    }

    /// Releases the lock, which this thread took by [`Lock::acquire`], or the parent's thread before a fork.
    #[inline]
    pub(crate) fn release(&self) {
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            futex_wake(&self.0, 1);
        }
    }
}

/// Holds a [`Lock`].
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub(crate) struct Held<'l>(&'l Lock);

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A value behind a [`Lock`].
#[derive(Debug)]
pub(crate) struct Locked<T> {
    lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: the holder of the lock alone uses the value.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    pub(crate) const fn new(value: T) -> Locked<T> {
        Locked {
            lock: Lock::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock until the guard is dropped.
    pub(crate) fn hold(&self) -> HeldValue<'_, T> {
        HeldValue {
            _held: self.lock.hold(),
            value: &self.value,
        }
    }

    /// The lock itself, for a fork.
    pub(crate) fn lock(&self) -> &Lock {
        &self.lock
    }
}

/// Holds the lock of a value.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub(crate) struct HeldValue<'l, T> {
    _held: Held<'l>,
    value: &'l UnsafeCell<T>,
}

impl<T> Deref for HeldValue<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held, and a mutable borrow would borrow `self`.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for HeldValue<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and `self` is borrowed exclusively.
        unsafe { &mut *self.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::Locked;

    #[test]
    fn one_thread_at_a_time_holds_it() {
        let counter = Locked::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        *counter.hold() += 1;
                    }
                });
            }
        });
        assert_eq!(*counter.hold(), 40_000);
    }
}
