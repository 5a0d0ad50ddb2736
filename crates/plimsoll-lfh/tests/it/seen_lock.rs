//! A lock that sanitizers see whole. The unit tests use it too.

use std::sync::{Mutex, MutexGuard, TryLockError};

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
