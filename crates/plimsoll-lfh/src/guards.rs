//! Guard pages behind large blocks, and how many of them there may be.
//!
//! The kernel allows a process only so many mappings (`vm.max_map_count`, 65,530 by default), and a guard page takes two
//! of them: its own, and that of the memory behind it. A process without mappings left can map no memory: neither its
//! own code nor its heaps can. So guards have a quarter of the mappings. While half of that is unused, each block has a
//! guard; then one block of [`SAMPLE`] has one, and at the end none has. A block without a guard has its canary.
//!
//! Invariants:
//! 1. [`IN_USE`] is the number of units whose `guarded` is 1, in the window.
//! 2. No allocation fails for lack of a guard. Checked by `guards_leave_mappings_to_the_program`.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

use crate::memory::{self, Access};

/// Bytes of a guard page.
pub(crate) const GUARD: usize = 4096;
/// Mappings that a guard takes at most.
const MAPPINGS: usize = 2;
/// The kernel's limit of mappings, where it cannot be read.
const USUAL_LIMIT: usize = 65_530;
/// One block of so many has a guard once half of the guards are in use.
const SAMPLE: u32 = 8;

static IN_USE: AtomicU32 = AtomicU32::new(0);
/// The most guards; 0 until the first call.
static MOST: AtomicU32 = AtomicU32::new(0);
/// Blocks since half of the guards are in use.
static SAMPLED: AtomicU32 = AtomicU32::new(0);

fn most() -> u32 {
    match MOST.load(Ordering::Relaxed) {
        0 => {
            let mappings = plimsoll_os::most_mappings().unwrap_or(USUAL_LIMIT) / 4;
            let most = (mappings / MAPPINGS).clamp(1, u32::MAX as usize) as u32;
            MOST.store(most, Ordering::Relaxed);
            most
        }
        most => most,
    }
}

/// Makes the page at an address a guard, unless there are enough of them. Returns whether it is one.
///
/// # Safety
/// The page is the caller's, and no thread uses it.
pub(crate) unsafe fn place(page: usize) -> bool {
    let most = most();
    let is_due = IN_USE.load(Ordering::Relaxed) < most / 2
        || SAMPLED.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLE);
    if !is_due || !take(most) {
        return false;
    }
    // SAFETY: the caller's premise.
    let placed = unsafe { memory::set_access(page, GUARD, Access::None) }.is_ok();
    if !placed {
        forget();
    }
    placed
}

fn take(most: u32) -> bool {
    let more = |in_use: u32| (in_use < most).then_some(in_use + 1);
    IN_USE
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        .is_ok()
}

/// Makes a guard accessible again. Returns false if the kernel has no room to join its mappings.
///
/// # Safety
/// [`place`] made it a guard, and the caller owns it.
pub(crate) unsafe fn remove(page: usize) -> bool {
    // SAFETY: the caller's premise.
    let removed = unsafe { memory::set_access(page, GUARD, Access::Write) }.is_ok();
    if removed {
        forget();
    }
    removed
}

/// Notes that a guard is accessible again.
pub(crate) fn forget() {
    IN_USE.fetch_sub(1, Ordering::Relaxed);
}

/// Lets this process have so many guards; 0 is as many as it may have.
#[cfg(test)]
pub(crate) fn pretend(most: u32) {
    MOST.store(most, Ordering::Relaxed);
}

#[cfg(test)]
pub(crate) fn in_use() -> u32 {
    IN_USE.load(Ordering::Relaxed)
}
