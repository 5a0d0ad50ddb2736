//! A lock, and an end of threads, that sanitizers see whole. The unit tests use them too.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread::ScopedJoinHandle;

/// Waits for a mutex by trying. Waiting in `Mutex::lock` is std's own code, which is not instrumented: ThreadSanitizer
/// would take its ordering for a race.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    loop {
        match mutex.try_lock() {
            Ok(held) => return held,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            Err(TryLockError::Poisoned(error)) => panic!("another thread has failed: {error}"),
        }
    }
}

/// Joins threads by name: where a scope ends, it waits for its threads in std's own code, and ThreadSanitizer would take
/// a thread's last write and a later read for a race. It sees the call of `pthread_join` that this makes.
pub(crate) fn join<'scope>(threads: impl IntoIterator<Item = ScopedJoinHandle<'scope, ()>>) {
    for thread in threads {
        thread.join().expect("no panic");
    }
}
