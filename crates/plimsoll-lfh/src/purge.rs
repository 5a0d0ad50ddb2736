//! The purge: pages of free memory return to the kernel within about a second.
//!
//! Time is divided into periods. At the end of a period, memory that was free for more than a whole period returns to
//! the kernel (`MADV_DONTNEED`: RSS falls at once), and idle slots are flushed. Threads that allocate or free end
//! periods now and then. For a process that freed much and then sleeps, a helper thread of the heap does it: it starts
//! when more than [`THRESHOLD`] is free and touched, and ends as soon as nothing is left to do, so a process that frees
//! little never has one. It shares the memory of the process but nothing of its C library, which does not know the
//! thread.
//!
//! ```text
//!   none -- start --> sleeping -- period over --> looking -- nothing left, no request --> none
//!                        ^------ memory left, or a request meanwhile ---'
//! ```
//!
//! Invariant: an idle process has its free memory returned within 1.5 s, and no helper afterwards. Checked by
//! `an_idle_process_returns_small_blocks`, `an_idle_process_returns_mixed_blocks`,
//! `an_idle_process_returns_large_blocks` and `the_helper_ends_when_nothing_is_left`.
#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use core::time::Duration;

use plimsoll_os::{Errno, HelperState, coarse_milliseconds, futex_wait, start_helper_thread};

use crate::arena::{self, HELPER};
use crate::lock::Forking;
use crate::pages;
use crate::settings::{self, PurgeMode};
use crate::unit::UNIT;

/// Milliseconds of a period.
const PERIOD: u32 = 300;
/// Units that may be free and touched in a heap without a helper: 4 MiB.
pub(crate) const THRESHOLD: u32 = ((4 << 20) / UNIT) as u32;
/// Slow calls from one look at the clock to the next.
const CALLS: u32 = 64;

/// Whether periods end by themselves. Unit tests of this crate end them explicitly.
const PERIODS_END: bool = !cfg!(test);

/// Whether the helper is there.
static HELPER_STATE: HelperState = HelperState::absent();
/// When there was no room for a helper, in milliseconds of the clock; 0 for never.
static REFUSED: AtomicU32 = AtomicU32::new(0);
/// The futex of the helper's sleep; never changed.
static SLEEP: AtomicU32 = AtomicU32::new(0);
/// Slow calls since the start, of those that are counted nowhere else.
static SLOW_CALLS: AtomicU32 = AtomicU32::new(0);
/// When the last period ended, in milliseconds of the clock; 0 before the first began.
static LAST: AtomicU32 = AtomicU32::new(0);

/// The functions that end a period, of the module that lists the heaps.
#[derive(Debug)]
pub(crate) struct EndPeriods {
    /// Ends the period of each heap. Returns whether free memory is left to be purged later.
    pub(crate) of_all: fn() -> bool,
    /// The same, unless another thread holds the list of heaps.
    pub(crate) if_unlocked: fn(),
}

/// Set by [`set_end_periods`]; null before.
static END_PERIODS: AtomicPtr<EndPeriods> = AtomicPtr::new(ptr::null_mut());

/// Sets the functions that end a period. The first heap sets them before it has memory to purge.
pub(crate) fn set_end_periods(functions: &'static EndPeriods) {
    END_PERIODS.store(ptr::from_ref(functions).cast_mut(), Ordering::Release);
}

fn end_periods() -> Option<&'static EndPeriods> {
    // SAFETY: `set_end_periods` stores references to statics alone.
    unsafe { END_PERIODS.load(Ordering::Acquire).as_ref() }
}

/// Called by slow paths that hold no lock: ends the period now and then, if no helper runs.
pub(crate) fn count_slow_call() {
    on_slow_call(SLOW_CALLS.fetch_add(1, Ordering::Relaxed));
}

/// As [`count_slow_call`], for callers with a counter of their own: processors do not contend for the shared one.
#[inline]
pub(crate) fn on_slow_call(calls: u32) {
    if calls.is_multiple_of(CALLS) && !HELPER_STATE.is_present() {
        look_at_the_clock();
    }
}

#[cold]
fn look_at_the_clock() {
    if settings::purge_mode() == PurgeMode::Never || !PERIODS_END {
        return;
    }
    if is_over(&LAST, coarse_milliseconds())
        && let Some(end) = end_periods()
    {
        (end.if_unlocked)();
    }
}

/// Whether a period is over that began at `last`: then the next one begins. The first begins with the first call.
fn is_over(last: &AtomicU32, now: u32) -> bool {
    let began = last.load(Ordering::Relaxed);
    if began != 0 && now.wrapping_sub(began) < PERIOD {
        return false;
    }
    // 0 is for none.
    let begins = last.compare_exchange(began, now.max(1), Ordering::Relaxed, Ordering::Relaxed);
    began != 0 && begins.is_ok()
}

/// Starts the helper, if there is none. Called when more than [`THRESHOLD`] is free, under any locks.
#[cold]
pub(crate) fn request_helper() {
    if settings::purge_mode() != PurgeMode::Thread || !PERIODS_END || was_refused() {
        return;
    }
    // In the child the helper would be forgotten when the fork ends, and a second one started on its stack.
    if Forking::is_mine() || !HELPER_STATE.ask() {
        return;
    }
    // The helper cannot ask for it: the C library reads the thread pointer, and that of the thread that started the
    // helper points to nothing once the thread has ended.
    pages::page();
    // SAFETY: the stack is a part of the window reserved for it, and no other helper is present, by the state; `run`
    // uses only atomics, system calls, and locks.
    let started = unsafe { start_helper_thread(arena::window() + HELPER, &HELPER_STATE, run) };
    let now = coarse_milliseconds().max(1);
    match started {
        Ok(()) => REFUSED.store(0, Ordering::Relaxed),
        // There may be too many threads for a moment. Meanwhile threads that allocate and free end periods.
        Err(Errno::AGAIN) => REFUSED.store(now, Ordering::Relaxed),
        Err(_) => settings::set_purge_mode(PurgeMode::Inline),
    }
}

/// Whether a helper could not be started within the last period.
fn was_refused() -> bool {
    let refused = REFUSED.load(Ordering::Relaxed);
    refused != 0 && coarse_milliseconds().wrapping_sub(refused) < PERIOD
}

/// The helper.
extern "C" fn run() {
    loop {
        futex_wait(&SLEEP, 0, Some(Duration::from_millis(u64::from(PERIOD))));
        HELPER_STATE.begin_to_look();
        let left = end_periods().is_some_and(|end| (end.of_all)());
        // Without a mode there was an error: the pages cannot return to the kernel.
        if !left || settings::purge_mode() == PurgeMode::Never {
            return;
        }
    }
}

/// Consecutive refusals after which all pages count as locked, and the purge stops.
const MOST_REFUSALS: u32 = 16;
/// How many there were since the system took something.
static REFUSALS: AtomicU32 = AtomicU32::new(0);

/// Returns whole pages to the kernel, as far as it takes them, and clears the others: they read as zero. Returns false
/// after repeated calls in which the kernel took none.
///
/// # Safety
/// The range is accessible, and no thread uses it.
pub(crate) unsafe fn return_pages(start: usize, length: usize) -> bool {
    // SAFETY: the caller's premise.
    let given = unsafe { pages::clear(start, length) };
    if given != 0 {
        let directory = arena::directory();
        directory.purges.fetch_add(1, Ordering::Relaxed);
        directory.purged_bytes.fetch_add(given as u64, Ordering::Relaxed);
        REFUSALS.store(0, Ordering::Relaxed);
        return true;
    }
    // The program locked these pages (`mlock(2)`), or all of its pages (`mlockall(2)`).
    let refusals = REFUSALS.fetch_add(1, Ordering::Relaxed) + 1;
    if refusals >= MOST_REFUSALS {
        settings::set_purge_mode(PurgeMode::Never);
    }
    refusals < MOST_REFUSALS
}

/// In the child of a fork there is no helper.
pub(crate) fn forget_helper() {
    HELPER_STATE.forget();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_period_begins_with_the_first_look_at_the_clock() {
        let last = AtomicU32::new(0);
        assert!(
            !is_over(&last, 1_000_000),
            "a heap just made has nothing that lies idle"
        );
        assert!(!is_over(&last, 1_000_000 + PERIOD - 1));
        assert!(is_over(&last, 1_000_000 + PERIOD));
        assert!(!is_over(&last, 1_000_000 + PERIOD));
        assert!(!is_over(&last, 1_000_000 + 2 * PERIOD - 1));
    }

    #[test]
    fn periods_end_though_the_clock_wraps() {
        let last = AtomicU32::new(u32::MAX - 9);
        assert!(!is_over(&last, PERIOD - 11));
        assert!(is_over(&last, PERIOD - 10));
        last.store(u32::MAX - PERIOD + 1, Ordering::Relaxed);
        assert!(is_over(&last, 0));
        assert!(!is_over(&last, PERIOD));
        assert!(is_over(&last, PERIOD + 1));
    }
}
