//! A short wait for another thread. No call touches `errno`, so that a signal handler may wait too.
#![allow(unsafe_code)]

use core::time::Duration;

use crate::raw::system_call;

/// Lets another thread run on this processor (`sched_yield(2)`).
pub fn yield_processor() {
    // SAFETY: the call takes no memory. It cannot fail.
    let _ = unsafe { system_call(libc::SYS_sched_yield, [0; 6]) };
}

/// Sleeps for about `time`, or until a signal arrives (`nanosleep(2)`).
pub fn sleep_briefly(time: Duration) {
    let time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the kernel reads the time, which outlives the call.
    let _ = unsafe { system_call(libc::SYS_nanosleep, [&raw const time as usize, 0, 0, 0, 0, 0]) };
}
