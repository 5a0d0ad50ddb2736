//! A lock that sleeps in the kernel when it must, and counts how often it had to wait.
//!
//! One thread may hold every lock for the time of a fork, see [`Forking`]. It goes through them as if they were free. So
//! does the thread that ends the process, see [`Reporting`].
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use plimsoll_os::{futex_wait, futex_wake, this_process, this_thread};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and a thread may sleep for it.
const AWAITED: u32 = 2;

/// How often a waiter looks before it sleeps: about as long as a short critical section takes.
const LOOKS: u32 = 100;

/// A mutex over `T`. Zeroed memory is a free one over zeroed contents.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Lock<T> {
    pub(crate) state: AtomicU32,
    /// Times that a thread had to wait; `inspect` reads the count in place.
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
        let taken = self
            .state
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        let stays_held = !taken && self.wait();
        Held {
            lock: self,
            stays_held,
        }
    }

    /// Takes the lock if it is free.
    pub(crate) fn try_lock(&self) -> Option<Held<'_, T>> {
        let taken = self
            .state
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        // Not `then_some`: a guard built in vain would free the lock of its holder.
        taken.is_ok().then(|| Held {
            lock: self,
            stays_held: false,
        })
    }

    /// Waits until this thread has the lock. Returns true if it held it all the time, for a fork.
    #[cold]
    fn wait(&self) -> bool {
        if Forking::is_mine() {
            return true;
        }
        if Reporting::is_mine() {
            return !self.wait_for_others();
        }
        self.contended.fetch_add(1, Ordering::Relaxed);
        for _ in 0..LOOKS {
            core::hint::spin_loop();
            if self.state.load(Ordering::Relaxed) == FREE
                && self
                    .state
                    .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return false;
            }
        }
        while self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            futex_wait(&self.state, AWAITED, None);
        }
        false
    }

    /// Tries for a while to take the lock. Returns false if it stays held: by this thread, which is about to end the
    /// process, or by a thread that waits for it.
    fn wait_for_others(&self) -> bool {
        (0..Reporting::LOOKS).any(|_| {
            // No thread wakes this one: the timeout ends the wait.
            futex_wait(&AtomicU32::new(0), 0, Some(Reporting::PAUSE));
            self.state
                .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        })
    }

    /// The value without the lock.
    ///
    /// # Safety
    /// This thread alone uses the lock and its value, as long as the returned reference lives.
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

    /// Ends [`Lock::hold`].
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
    /// Whether the lock was held before, for a fork or by a thread that ends the process, and is so after.
    stays_held: bool,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock, so no other thread has a reference.
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
        if !self.stays_held {
            // SAFETY: the guard is the proof that this thread holds it.
            unsafe { self.lock.release() };
        }
    }
}

/// The thread that holds every lock for the time of a fork: its process in the low half, its own number in the high; 0
/// for none. It changes under the locks alone.
static FORKING: AtomicU64 = AtomicU64::new(0);
/// Threads that are about to take every lock for a fork.
static WAITING: AtomicU32 = AtomicU32::new(0);
/// Calls of [`Forking::begin`] and [`Forking::begin_again`] by that thread, which alone writes the count.
static TIMES: AtomicU32 = AtomicU32::new(0);

/// This process in the low half, this thread's own number in the high.
fn number_of_this_thread() -> u64 {
    u64::from(this_process()) | u64::from(this_thread()) << 32
}

/// Whether that is this thread's number, or that of the one from which this process was forked.
fn is_this_thread(number: u64) -> bool {
    let (process, thread) = (number as u32, (number >> 32) as u32);
    number != 0 && (thread == this_thread() || process != this_process())
}

/// A fork in progress, of a thread that holds every lock by [`Lock::hold`].
///
/// Fork handlers of other libraries run in that thread meanwhile, in the order of their registration, and may allocate:
/// the data under the locks are consistent then, and no other thread is inside.
#[derive(Debug)]
pub(crate) struct Forking;

impl Forking {
    /// Whether this thread holds every lock for a fork. In the child of the fork, which has a number of its own, that is
    /// the only thread there is. The helper is another thread of the process.
    pub(crate) fn is_mine() -> bool {
        is_this_thread(FORKING.load(Ordering::Relaxed))
    }

    /// This thread is about to take every lock, until [`Forking::arrive`].
    pub(crate) fn approach() {
        WAITING.fetch_add(1, Ordering::Relaxed);
    }

    /// This thread has every lock now, or takes none.
    pub(crate) fn arrive() {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }

    /// Lets threads that are about to fork go first: called between two pieces of long work by a thread that holds no
    /// lock. It would take its next lock before a thread that waits for it wakes.
    pub(crate) fn make_way() {
        loop {
            let waiting = WAITING.load(Ordering::Relaxed);
            if waiting == 0 || Forking::is_mine() {
                return;
            }
            futex_wait(&WAITING, waiting, Some(Forking::PAUSE));
        }
    }

    /// How long a thread that makes way sleeps before it looks again.
    const PAUSE: Duration = Duration::from_micros(200);

    /// This thread holds every lock from now on.
    pub(crate) fn begin() {
        FORKING.store(number_of_this_thread(), Ordering::Relaxed);
        TIMES.store(1, Ordering::Relaxed);
    }

    /// The thread that holds every lock begins the fork once more: its handlers were registered more than once.
    pub(crate) fn begin_again() {
        TIMES.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends [`Forking::begin`] or [`Forking::begin_again`] in the parent. Returns true the last time: the caller frees
    /// the locks now. False also if this thread does not fork.
    pub(crate) fn end() -> bool {
        Forking::is_mine() && Forking::end_once()
    }

    /// As [`Forking::end`], in the child, which has one thread, whatever numbers it and its parent have: both processes
    /// may be the first of their PID namespaces.
    pub(crate) fn end_in_child() -> bool {
        WAITING.store(0, Ordering::Relaxed);
        FORKING.load(Ordering::Relaxed) != 0 && Forking::end_once()
    }

    fn end_once() -> bool {
        let ended = TIMES.fetch_sub(1, Ordering::Relaxed) == 1;
        if ended {
            FORKING.store(0, Ordering::Relaxed);
        }
        ended
    }
}

/// The thread that ends the process, as [`FORKING`]; 0 for none.
static REPORTING: AtomicU64 = AtomicU64::new(0);

/// The end of the process, by a thread that found damage and may hold locks.
///
/// A handler of SIGABRT runs in that thread, and many allocate, though they should not. It must not wait for this very
/// thread, nor for a thread that waits for it: it passes locks that stay held. The data behind them may be half
/// changed; if the heap notices that as damage again, the process ends at once, as the signal is blocked by then.
#[derive(Debug)]
pub(crate) struct Reporting;

impl Reporting {
    /// How often the thread looks at a lock that is held before it goes through, and how long it waits before each look:
    /// longer than others hold one.
    const LOOKS: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(1);

    /// This thread ends the process from now on, unless another one does already.
    pub(crate) fn begin() {
        let _ = REPORTING.compare_exchange(0, number_of_this_thread(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// In the child of a fork, where every lock is free.
    pub(crate) fn forget() {
        REPORTING.store(0, Ordering::Relaxed);
    }

    fn is_mine() -> bool {
        is_this_thread(REPORTING.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Heap;
    use plimsoll_testkit::this_program;

    /// Does as the child of a thread that is not the first of process 1, if the child is process 1 as well.
    fn be_the_child_of_another_thread() {
        Heap::prepare_for_forks();
        Heap::before_fork();
        let other = number_of_this_thread() + (1 << 32);
        FORKING.store(other, Ordering::Relaxed);
        // SAFETY: `before_fork` was called, and this thread alone uses heaps.
        unsafe { Heap::after_fork_in_child() };
        assert!(!Heap::process().allocate(100).is_null());
        Heap::before_fork();
        // SAFETY: as above.
        unsafe { Heap::after_fork_in_parent() };
    }

    #[test]
    fn a_child_frees_locks_with_any_pid() {
        const CHILD: &str = "PLIMSOLL_LFH_CHILD";
        if std::env::var_os(CHILD).is_some() {
            return be_the_child_of_another_thread();
        }
        let mut child = this_program()
            .args(["lock::tests::a_child_frees_locks_with_any_pid", "--exact"])
            .env(CHILD, "1")
            .spawn()
            .expect("the test program starts");
        let started = std::time::Instant::now();
        while child.try_wait().expect("it is a child").is_none() {
            // Only a child that waits for ever takes so long: an emulated one on a busy machine took more than 20 s.
            if started.elapsed().as_secs() > 300 {
                child.kill().expect("it is a child");
                panic!("it waits for a lock");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(child.wait().expect("it has ended").success());
    }

    #[test]
    fn a_failed_try_lock_leaves_the_lock_held() {
        let lock = Lock::new(0);
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock().is_none(), "the first try freed it");
        drop(held);
        assert!(lock.try_lock().is_some());
        assert!(lock.try_lock().is_some(), "a guard frees the lock");
    }
}
