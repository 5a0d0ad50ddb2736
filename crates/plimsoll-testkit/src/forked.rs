//! Children of a fork.
#![allow(unsafe_code)]

/// Forks, calls `work` in the child, and returns its wait status.
///
/// # Panics
/// If `fork` or `waitpid` fails.
pub fn status_of_fork(work: impl FnOnce() + std::panic::UnwindSafe) -> i32 {
    // SAFETY: the child calls `work` and `_exit` alone.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // A panic may wait for a lock of a thread that the child lacks.
        // SAFETY: only sets a timer, which ends a hanging child.
        unsafe { libc::alarm(60) };
        // A panic must not unwind into the caller, which may wait for threads that the child does not have.
        let done = std::panic::catch_unwind(work);
        // SAFETY: ends the child.
        unsafe { libc::_exit(if done.is_ok() { 0 } else { 101 }) };
    }
    assert!(pid > 0);
    let mut status = 0;
    // SAFETY: `status` is valid for the write.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}
