//! Signals that interrupt a thread again and again.
#![allow(unsafe_code)]

use std::ptr::null_mut;
use std::time::Duration;

/// A timer that sends SIGALRM to the thread that made it, until it is dropped.
pub(crate) struct Alarm(libc::timer_t);

impl Alarm {
    /// Sends it once a `period`. The handler, which touches memory alone, stays: to be called in a process of the test.
    pub(crate) fn every(period: Duration, handler: extern "C" fn(libc::c_int)) -> Alarm {
        let period = libc::timespec {
            tv_sec: 0,
            tv_nsec: libc::c_long::from(period.subsec_nanos()),
        };
        let times = libc::itimerspec {
            it_interval: period,
            it_value: period,
        };
        let mut timer = null_mut();
        // SAFETY: valid arguments; the handler does nothing that is not async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(libc::SIGALRM, &raw const action, null_mut()), 0);
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGALRM;
            event.sigev_notify_thread_id = libc::gettid();
            assert_eq!(
                libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer),
                0
            );
            assert_eq!(libc::timer_settime(timer, 0, &raw const times, null_mut()), 0);
        }
        Alarm(timer)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: a timer of this value.
        unsafe { libc::timer_delete(self.0) };
    }
}
