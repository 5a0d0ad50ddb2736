//! Whole pages of free units. A page may be longer than a unit (64 KiB on some arm64 systems): then only pages that no
//! run in use shares return to the kernel, and the code zeroes the rest of the units.
//!
//! Premise of the unsafe code: callers own the units that they name.
#![allow(unsafe_code)]

use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_os::page_size;

use crate::memory;
use crate::unit::UNIT;

/// Bytes of a page; 0 until the first call.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// Bytes of a page.
pub(crate) fn page() -> usize {
    match PAGE.load(Ordering::Relaxed) {
        0 => {
            let page = page_size();
            PAGE.store(page, Ordering::Relaxed);
            page
        }
        page => page,
    }
}

/// Units that share a page: 1 if a page is no longer than a unit.
pub(crate) fn page_units() -> u32 {
    page().div_ceil(UNIT) as u32
}

/// The whole pages of a range of addresses; empty where there are none.
fn whole_pages(start: usize, length: usize, page: usize) -> Range<usize> {
    let first = start.next_multiple_of(page);
    let end = (start + length) & !(page - 1);
    first.min(end)..end
}

/// Makes whole units read as zero: returns their whole pages to the kernel, and clears the rest. Returns false if the
/// kernel does not take all pages, as some are locked in memory: then any of them may be zero.
///
/// # Safety
/// The range is whole units, accessible, and the caller's; no code relies on its contents.
pub(crate) unsafe fn make_zero(start: usize, length: usize) -> bool {
    let pages = whole_pages(start, length, page());
    // SAFETY: the caller's premise.
    if !pages.is_empty() && unsafe { memory::discard(pages.start, pages.len()) }.is_err() {
        return false;
    }
    let (before, after) = match pages.is_empty() {
        true => (start..start + length, 0..0),
        false => (start..pages.start, pages.end..start + length),
    };
    for rest in [before, after] {
        // SAFETY: the caller's premise.
        unsafe { ptr::write_bytes(rest.start as *mut u8, 0, rest.len()) };
    }
    true
}

/// Makes whole units read as zero: returns their pages to the kernel, and clears those that the kernel does not take.
/// Returns the bytes that the kernel took.
///
/// # Safety
/// As for [`make_zero`].
pub(crate) unsafe fn clear(start: usize, length: usize) -> usize {
    // SAFETY: the caller's premise.
    if unsafe { make_zero(start, length) } {
        return length;
    }
    // A locked page keeps all of the range: so it is looked for by halves.
    let middle = (start + length / 2).next_multiple_of(page());
    if start < middle && middle < start + length {
        // SAFETY: the caller's premise, of parts of the range.
        return unsafe { clear(start, middle - start) + clear(middle, start + length - middle) };
    }
    // SAFETY: the caller's premise.
    unsafe { ptr::write_bytes(start as *mut u8, 0, length) };
    0
}

/// Has this process take pages for longer than they are.
#[cfg(test)]
pub(crate) fn pretend(page: usize) {
    PAGE.store(page, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use plimsoll_os::address_space;

    use super::*;

    #[test]
    fn pages_across_a_boundary_are_not_whole() {
        let page = 64 << 10;
        let pages = |start: usize, units: usize| {
            let pages = whole_pages(start * UNIT, units * UNIT, page);
            (pages.start / UNIT, pages.len() / UNIT)
        };
        assert_eq!(pages(4, 4), (4, 4));
        assert_eq!(pages(3, 6), (4, 4));
        assert_eq!(pages(5, 12), (8, 8));
        assert_eq!(pages(5, 6).1, 0);
        assert_eq!(pages(5, 2).1, 0);
        assert_eq!(whole_pages(5 * UNIT, UNIT, 4096), 5 * UNIT..6 * UNIT);
    }

    #[test]
    fn units_are_zero_in_whole_pages_and_outside() {
        let length = 32 * UNIT;
        let start = address_space::map(length).expect("there is memory");
        for (from, to) in [(0, 32), (1, 31), (3, 4), (5, 7), (1, 9)] {
            // SAFETY: the range is this test's.
            let bytes = unsafe { core::slice::from_raw_parts_mut(start as *mut u8, length) };
            bytes.fill(7);
            // SAFETY: as above, and nothing refers to it.
            assert!(unsafe { make_zero(start + from * UNIT, (to - from) * UNIT) });
            // SAFETY: as above.
            let bytes = unsafe { core::slice::from_raw_parts(start as *const u8, length) };
            let zero = |at: usize| (from * UNIT..to * UNIT).contains(&at);
            assert!(
                bytes
                    .iter()
                    .enumerate()
                    .all(|(at, byte)| (*byte == 0) == zero(at))
            );
        }
        // SAFETY: as above.
        unsafe { address_space::unmap(start, length) }.expect("mapped above");
    }
}
