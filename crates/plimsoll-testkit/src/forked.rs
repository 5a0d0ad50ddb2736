//! Children of a fork.
#![allow(unsafe_code)]

/// Forks a child that ends with the code of `work`, with 101 after a panic, or by SIGALRM after `seconds`. Returns its
/// number in the parent, which waits for it.
///
/// # Panics
/// If `fork` fails.
pub fn fork(seconds: u32, work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls `work` and `_exit` alone.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // A panic may wait for a lock of a thread that the child lacks.
        // SAFETY: only sets a timer, which ends a hanging child.
        unsafe { libc::alarm(seconds) };
        // A panic must not unwind into the caller, which may wait for threads that the child does not have.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: ends the child.
        unsafe { libc::_exit(done.unwrap_or(101)) };
    }
    assert!(pid > 0);
    pid
}

/// Forks, calls `work` in the child, and returns its wait status.
///
/// # Panics
/// If `fork` or `waitpid` fails.
pub fn status_of_fork(work: impl FnOnce() + std::panic::UnwindSafe) -> i32 {
    let pid = fork(60, || {
        work();
        0
    });
    let mut status = 0;
    // SAFETY: `status` is valid for the write.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}
