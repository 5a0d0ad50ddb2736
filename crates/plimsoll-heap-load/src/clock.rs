//! CPU time, which noise on the machine moves less than the time on the wall.
//!
//! Premise of the unsafe code: `clock_gettime` writes one `timespec` and nothing else.
#![allow(unsafe_code)]

use std::time::Duration;

/// CPU time of the calling thread since it began.
pub(crate) fn thread_cpu() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads of this process, ended ones and the allocator's own included.
pub(crate) fn process_cpu() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is one timespec, and ours.
    let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(done, 0, "Linux has had both clocks since 2.6.12");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
