//! Children of a fork.
#![allow(unsafe_code)]

/// The wait status of a forked child of this process that does `work` alone.
///
/// # Panics
/// Where the child cannot be forked or waited for.
pub fn status_of_fork(work: impl FnOnce() + std::panic::UnwindSafe) -> i32 {
    // SAFETY: the child calls `work` and `_exit` alone.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // A panic may wait for a lock of a thread that is not there.
        // SAFETY: ends the child if it is not done by then.
        unsafe { libc::alarm(60) };
        // A panic must not unwind into the caller, which may wait for threads that the child does not have.
        let done = std::panic::catch_unwind(work);
        // SAFETY: ends the child.
        unsafe { libc::_exit(if done.is_ok() { 0 } else { 101 }) };
    }
    assert!(pid > 0);
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}
