//! The purge: pages of free memory return to the kernel within about a second.
//!
//! Time is divided into periods. At the end of a period, memory that was free for more than a whole period returns to
//! the kernel (`MADV_DONTNEED`: RSS falls at once), and idle slots are flushed. That takes many short steps
//! (`record::period`). Threads that allocate or free end periods now and then, a step a slow call. For a process that
//! freed much and then sleeps, a helper thread of the heap does it: it starts when more than [`THRESHOLD`] is free and
//! touched, and ends as soon as nothing is left to do, so a process that frees little never has one.
//!
//! ```text
//!   none -- start --> sleeping -- period over --> looking -- nothing left, no request --> none
//!                        ^------ memory left, or a request meanwhile ---'
//!   sleeping, looking -- it must not go on --> none
//! ```
//!
//! # The helper and the program
//!
//! The helper shares the memory of the process but nothing of its C library, which does not know the thread. So programs
//! do not expect it; between two steps, and [`SLICE`] by slice of its sleep, it finds out that it must end:
//!
//! - A *fork* dismisses it, and waits until it is gone: the child does not have it, and a program that counts its threads
//!   after the fork finds its own. In a program with threads the helper starts again after the fork. In a program with
//!   one thread it starts with a request, a period later at the earliest; until then slow calls and further forks take
//!   steps. So a program that forks and then sleeps may keep memory that was free at the fork until its next slow call.
//! - *Privileges* that the program dropped it does not keep: once they differ from those of the program's first thread
//!   ([`compare_privileges`]), it returns all free memory at once, and ends. A later helper has those of the thread that
//!   starts it.
//! - *A signal that waits for each thread of the process* ([`Helper::is_signalled`]) ends it. The threads of the program
//!   are stopped meanwhile, so it does nothing more; slow calls and later helpers do. A thread that was stopped within a
//!   lock for which the helper waits would stop both for good; locks are held for microseconds, and such signals come a
//!   few times in a program's life.
//!
//! The alternatives were weighed: a process of its own that shares the memory (`CLONE_VM` without `CLONE_THREAD`)
//! outlives an `exec` and the end of the program with all its memory, doubles it in `top`, and has to be waited for; no
//! helper at all leaves the memory of an idle program resident, or has busy ones fault theirs in again and again.
//!
//! Invariant: an idle process has its free memory returned within 1.5 s, and no helper afterwards. Checked by
//! `an_idle_process_returns_small_blocks`, `an_idle_process_returns_mixed_blocks`,
//! `an_idle_process_returns_large_blocks` and `the_helper_ends_when_nothing_is_left`.
#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use core::time::Duration;

use plimsoll_os::{
    Errno, Helper, Privileges, coarse_milliseconds, compare_privileges, has_threads, start_helper_thread,
};

use crate::arena::{self, HELPER_END};
use crate::lock::Forking;
use crate::pages;
use crate::settings::{self, PurgeMode};
use crate::unit::UNIT;

/// Milliseconds of a period.
const PERIOD: u32 = 300;
/// Milliseconds for which the helper sleeps until it looks whether it must end.
const SLICE: u32 = 50;
/// Units that may be free and touched in a heap without a helper: 4 MiB.
pub(crate) const THRESHOLD: u32 = ((4 << 20) / UNIT) as u32;
/// Slow calls from one look at the clock to the next.
const CALLS: u32 = 64;

/// Whether periods end by themselves. Unit tests of this crate end them explicitly.
const PERIODS_END: bool = !cfg!(test);

static HELPER: Helper = Helper::absent();
/// When there could be no helper, in milliseconds of the clock; 0 for never.
static REFUSED: AtomicU32 = AtomicU32::new(0);
/// When the helper's period began, in milliseconds of the clock; 0 if the next helper begins one. A helper that starts
/// after a fork goes on with the period of the one before: a program that forks all the time would have none ended.
static BEGAN: AtomicU32 = AtomicU32::new(0);
/// Whether the fork in progress ended the helper.
static DISMISSED: AtomicBool = AtomicBool::new(false);
/// Slow calls since the start, of those that are counted nowhere else.
static SLOW_CALLS: AtomicU32 = AtomicU32::new(0);
/// When the last period ended, in milliseconds of the clock; 0 before the first began.
static LAST: AtomicU32 = AtomicU32::new(0);

/// Whether a period is over and not all steps of its end were taken. Changes under the lock of the list of heaps, but
/// for its begin.
static ENDING: AtomicBool = AtomicBool::new(false);

/// The action after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// Further steps to the end of the period.
    Steps,
    /// The next period. `left`: whether free memory is left to be purged later.
    Nothing {
        /// See above.
        left: bool,
    },
}

/// The steps to the end of a period, of the module that lists the heaps.
#[derive(Debug)]
pub(crate) struct PurgeSteps {
    /// Takes the next step; if it is passed true, to the return of all free memory of any age.
    pub(crate) step: fn(bool) -> Ahead,
    /// Makes the first step the next one.
    pub(crate) begin_again: fn(),
    /// Takes the next step, unless another thread holds the list of heaps.
    pub(crate) step_if_unlocked: fn(),
    /// Takes the next step, unless another thread took the last one meanwhile.
    pub(crate) step_if_ending: fn(),
}

/// Set by [`set_steps`]; null before.
static STEPS: AtomicPtr<PurgeSteps> = AtomicPtr::new(ptr::null_mut());

/// Sets the steps. The first heap sets them before it has memory to purge.
pub(crate) fn set_steps(steps: &'static PurgeSteps) {
    STEPS.store(ptr::from_ref(steps).cast_mut(), Ordering::Release);
}

fn steps() -> Option<&'static PurgeSteps> {
    // SAFETY: `set_steps` stores references to statics alone.
    unsafe { STEPS.load(Ordering::Acquire).as_ref() }
}

/// Notes the result of a step, under the lock of the list of heaps.
pub(crate) fn note(ahead: Ahead) {
    ENDING.store(ahead == Ahead::Steps, Ordering::Relaxed);
}

/// Whether there are steps to take to the end of a period.
pub(crate) fn is_period_ending() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// Called by slow paths that hold no lock: takes a step to the end of the period now and then, if no helper runs.
pub(crate) fn count_slow_call() {
    on_slow_call(SLOW_CALLS.fetch_add(1, Ordering::Relaxed));
}

/// As [`count_slow_call`], for callers with a counter of their own: processors do not contend for the shared one.
#[inline]
pub(crate) fn on_slow_call(calls: u32) {
    if (calls.is_multiple_of(CALLS) || is_period_ending()) && !HELPER.state.is_present() {
        look_at_the_clock();
    }
}

#[cold]
fn look_at_the_clock() {
    if settings::purge_mode() == PurgeMode::Never || !PERIODS_END {
        return;
    }
    if is_period_ending() || is_over(&LAST, coarse_milliseconds()) {
        ENDING.store(true, Ordering::Relaxed);
        if let Some(steps) = steps() {
            (steps.step_if_unlocked)();
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

/// Starts the helper, if there is none. Called when more than [`THRESHOLD`] is free, under any locks.
#[cold]
pub(crate) fn request_helper() {
    if settings::purge_mode() != PurgeMode::Thread || !PERIODS_END || was_refused() {
        return;
    }
    // In the child the helper would be forgotten when the fork ends, and a second one started on its stack.
    if Forking::is_mine() || !HELPER.state.ask() {
        return;
    }
    // The helper cannot ask for it: the C library reads the thread pointer, and that of the thread that started the
    // helper points to nothing once the thread has ended.
    pages::page();
    REFUSED.store(0, Ordering::Relaxed);
    // SAFETY: the stack is a part of the window reserved for it, and no other helper is present, by the state; `run`
    // uses only atomics, system calls, and locks.
    let started = unsafe { start_helper_thread(arena::window() + HELPER_END, &HELPER, run) };
    match started {
        Ok(()) => {}
        // There may be too many threads for a moment.
        Err(Errno::AGAIN) => refuse(),
        Err(_) => settings::set_purge_mode(PurgeMode::Inline),
    }
}

/// Whether within the last period a helper could not be started, or must not be.
fn was_refused() -> bool {
    let refused = REFUSED.load(Ordering::Relaxed);
    refused != 0 && coarse_milliseconds().wrapping_sub(refused) < PERIOD
}

/// Keeps helpers from being started for a period. Meanwhile threads that allocate and free end periods.
fn refuse() {
    REFUSED.store(coarse_milliseconds().max(1), Ordering::Relaxed);
}

/// Why the helper must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    /// A thread waits for that.
    AtOnce,
    /// The program dropped privileges, which the helper has.
    Returned,
}

fn must_leave() -> Result<(), Leave> {
    if HELPER.is_dismissed() || HELPER.is_signalled() {
        return Err(Leave::AtOnce);
    }
    match compare_privileges() {
        Privileges::Same => Ok(()),
        Privileges::Other | Privileges::Unknown => Err(Leave::Returned),
    }
}

/// The helper. Returns whether it ends though there may be requests to it.
extern "C" fn run() -> bool {
    HELPER.settle();
    if compare_privileges() == Privileges::Unknown {
        settings::set_purge_mode(PurgeMode::Inline);
        return true;
    }
    let ended = end_periods();
    if !HELPER.is_dismissed() {
        BEGAN.store(0, Ordering::Relaxed);
        // The reason may last: then every request would start a helper.
        if ended.is_err() {
            refuse();
        }
    }
    if ended == Err(Leave::Returned) {
        return_all();
    }
    ended.is_err()
}

/// Sleeps until the period is over. One that is being ended is.
fn sleep() -> Result<(), Leave> {
    let now = coarse_milliseconds().max(1);
    let began = match BEGAN.load(Ordering::Relaxed) {
        0 => now,
        began => began,
    };
    BEGAN.store(began, Ordering::Relaxed);
    while !is_period_ending() && coarse_milliseconds().wrapping_sub(began) < PERIOD {
        must_leave()?;
        HELPER.sleep(Duration::from_millis(u64::from(SLICE)));
    }
    must_leave()
}

/// Ends periods until nothing is left to be purged later.
fn end_periods() -> Result<(), Leave> {
    loop {
        sleep()?;
        HELPER.state.begin_to_look();
        let left = loop {
            match steps().map_or(Ahead::Nothing { left: false }, |steps| (steps.step)(false)) {
                Ahead::Steps => must_leave()?,
                Ahead::Nothing { left } => break left,
            }
        };
        BEGAN.store(coarse_milliseconds().max(1), Ordering::Relaxed);
        // Without a mode there was an error: the pages cannot return to the kernel.
        if !left || settings::purge_mode() == PurgeMode::Never {
            return Ok(());
        }
    }
}

/// Returns all free memory to the kernel, unless a thread waits for the helper's end.
fn return_all() {
    let Some(steps) = steps() else { return };
    (steps.begin_again)();
    // The first pass gives up active subsegments.
    for _ in 0..2 {
        while (steps.step)(true) == Ahead::Steps {
            if HELPER.is_dismissed() || HELPER.is_signalled() {
                return;
            }
        }
    }
}

/// Ends the helper before a fork. This thread holds no lock.
pub(crate) fn dismiss_helper() {
    if HELPER.dismiss() {
        DISMISSED.store(true, Ordering::Relaxed);
    }
}

/// Ends the period if it is over, with the threads that take steps meanwhile; the helper does so if there is one. This
/// thread holds no lock.
pub(crate) fn end_period() {
    if settings::purge_mode() == PurgeMode::Never || HELPER.state.is_present() {
        return;
    }
    if is_over(&LAST, coarse_milliseconds()) {
        ENDING.store(true, Ordering::Relaxed);
    }
    let Some(steps) = steps() else { return };
    while is_period_ending() {
        (steps.step_if_ending)();
        Forking::make_way();
    }
}

/// Whether a fork itself purges: in a program of one thread, which has no helper right after the fork.
pub(crate) fn forks_purge() -> bool {
    settings::purge_mode() != PurgeMode::Never && PERIODS_END && !has_threads()
}

/// In the parent of a fork that may have ended the helper. This thread holds no lock.
pub(crate) fn go_on_after_fork() {
    if !DISMISSED.swap(false, Ordering::Relaxed) {
        return;
    }
    if has_threads() {
        request_helper();
    } else {
        BEGAN.store(0, Ordering::Relaxed);
        refuse();
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
    HELPER.forget();
    BEGAN.store(0, Ordering::Relaxed);
    DISMISSED.store(false, Ordering::Relaxed);
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
