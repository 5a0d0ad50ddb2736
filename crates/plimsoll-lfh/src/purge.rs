//! Pages of memory that lies free go back to the system within about a second.
//!
//! Time is cut into periods. At the end of one, what lay free for more than a whole period is given back
//! (`MADV_DONTNEED`: what people read as RSS falls at once), and slots that lie idle are drained. Who does it is either
//! whoever allocates or frees, now and then; or, for a process that freed much and then sleeps, a thread of the heap's
//! own. It is started when more than [`THRESHOLD`] lies free and touched, and ends as soon as nothing is left to do: a
//! process that frees little never has one. It shares the memory of the process but nothing of its C library, which
//! does not know of it.
//!
//! ```text
//!   none -- start --> sleeping -- period over --> looking -- nothing left, nobody asked --> none
//!                        ^------ something left, or asked meanwhile ---'
//! ```
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
/// Units that may lie free and touched in a heap without that a thread is started: 4 MiB.
pub(crate) const THRESHOLD: u32 = ((4 << 20) / UNIT) as u32;
/// Slow calls from one look at the clock to the next.
const CALLS: u32 = 64;

/// Whether periods end by themselves. Tests of this crate's parts end them, and nobody else in between.
const PERIODS_END: bool = !cfg!(test);

/// Whether the helper is there.
static HELPER_STATE: HelperState = HelperState::absent();
/// When there was no room for a helper, in milliseconds of the clock; 0 for never.
static REFUSED: AtomicU32 = AtomicU32::new(0);
/// What the helper sleeps on; never changed.
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

/// Called by slow paths that hold no lock: ends the period now and then, where no helper does.
pub(crate) fn count_slow_call() {
    on_slow_call(SLOW_CALLS.fetch_add(1, Ordering::Relaxed));
}

/// As [`count_slow_call`], for who counts calls himself: processors do not wait for each other to count them.
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
    if is_over(&LAST, coarse_milliseconds()) {
        if let Some(end) = end_periods() {
            (end.if_unlocked)();
        }
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

/// Called where more than [`THRESHOLD`] lies free, under whatever locks.
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
    // SAFETY: the stack is a part of the window for this alone, and no other helper is present, as the state said;
    // `run` uses but atomics, system calls, and locks.
    let started = unsafe { start_helper_thread(arena::window() + HELPER, &HELPER_STATE, run) };
    let now = coarse_milliseconds().max(1);
    match started {
        Ok(()) => REFUSED.store(0, Ordering::Relaxed),
        // There may be too many threads for a moment. Meanwhile whoever allocates and frees does it.
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
        // Without a mode there was an error: the pages cannot be given back.
        if !left || settings::purge_mode() == PurgeMode::Never {
            return;
        }
    }
}

/// Refusals one after the other from which on all pages are taken to be locked, and none is given back any more.
const MOST_REFUSALS: u32 = 16;
/// How many there were since the system took something.
static REFUSALS: AtomicU32 = AtomicU32::new(0);

/// Gives whole pages back to the system, as far as it takes them, and clears the others: they read as zero. No where it
/// takes none, time and again.
///
/// # Safety
/// The range is accessible, and nobody uses it.
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
    // The program locked these pages (`mlock(2)`), which is its own affair, or all that it has (`mlockall(2)`).
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
