//! Time by system call, for callers that may not use the C library's. No call touches `errno`.
#![allow(unsafe_code)]

use core::time::Duration;

use crate::raw::system_call;

/// Milliseconds since some start, to the accuracy of the kernel's tick (`CLOCK_MONOTONIC_COARSE`). They do not advance
/// while the machine sleeps, and wrap after 49 days: compare differences.
pub fn coarse_milliseconds() -> u32 {
    // The lower half.
    time_of(libc::CLOCK_MONOTONIC_COARSE).as_millis() as u32
}

/// The CPU time of this thread.
pub fn thread_time() -> Duration {
    time_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The time of a clock; 0 if the kernel does not know it.
fn time_of(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let arguments = [clock as usize, &raw mut now as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes the time, which outlives the call.
    let _ = unsafe { system_call(libc::SYS_clock_gettime, arguments) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn a_sleep_takes_no_time_of_the_thread() {
        let (start, coarse) = (thread_time(), coarse_milliseconds());
        std::thread::sleep(Duration::from_millis(200));
        let (slept, passed) = (thread_time() - start, coarse_milliseconds().wrapping_sub(coarse));
        assert!(
            passed >= 150 && slept < Duration::from_millis(100),
            "{slept:?} of {passed} ms"
        );
        // The clock advances.
        while thread_time() < start + slept + Duration::from_millis(20) {
            core::hint::black_box(0);
        }
    }
}
