//! Memory of the program that a system call is about to use: whether it is there, and copies of it.
//!
//! A page of the arena may be absent at any time unless it is pinned. An access by this code raises SIGBUS, and the pager
//! restores the page; an access by the kernel fails with `EFAULT`. Memory that the program has no right to read must not be
//! touched at all: SIGSEGV would follow where the kernel returns `EFAULT`. So the kernel is asked before a copy.
#![allow(unsafe_code, reason = "copies of the program's memory by address")]

use std::mem::MaybeUninit;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_os::Errno;
use plimsoll_pager::RangeError;

use crate::arena::{self, PAGE, Pin};
use crate::signals_blocked::SignalsBlocked;
use crate::trampoline::call;

/// Looks at a pinned page before its address counts as a bad one.
const MOST_TRIES: usize = 16;
/// The longest wait for a page that the pager does not restore, before its address counts as a bad one. Pins of other calls are
/// no reason to wait.
const MOST_WAIT: Duration = Duration::from_secs(5);
/// The time between two tries while other threads have all pins for a moment.
const MOMENT: Duration = Duration::from_micros(50);
/// The longest wait for one of those pins: a child of `vfork` that was killed may have left its pins to this process.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Whether an address is the arena's.
pub(crate) fn is_managed(address: usize) -> bool {
    arena::contains(address)
}

/// Makes the pages of `bytes` from `address` present, and keeps them so while the value lives. None if the budget or the number
/// of pins does not allow it, or if a page is not mapped: then a copy serves the call.
pub(super) fn pin(address: usize, bytes: usize) -> Option<Held> {
    let end = address.checked_add(bytes)?;
    #[cfg(test)]
    if super::testing::refuses_pins() {
        return None;
    }
    match arena::arena() {
        None => Some(Held(None)),
        Some(arena) => arena.pin(address, end).map(|pin| Held(Some(pin))),
    }
}

/// Makes the pages of `bytes` from `address` present as long as the process lives.
///
/// # Errors
/// [`Errno::NOMEM`] if pages that are pinned so would have more than half of the budget.
pub(super) fn keep(address: usize, bytes: usize) -> Result<(), Errno> {
    let end = address.saturating_add(bytes);
    match arena::arena() {
        Some(arena) if !arena.keep(address, end) => Err(Errno::NOMEM),
        _ => Ok(()),
    }
}

/// Makes a page present, and keeps it so while the value lives: this thread waits for nothing meanwhile. The pins of calls leave
/// room for it. None for a page that the pager does not restore within `patience`.
fn hold(page: usize, patience: Duration) -> Option<Held> {
    let Some(arena) = arena::arena() else {
        return Some(Held(None));
    };
    let start = Instant::now();
    loop {
        match arena.pin_for_a_moment(page) {
            Ok(pin) => return Some(Held(Some(pin))),
            // So many threads have one, each for a moment: none has it during a fault. The address is a good one.
            Err(RangeError::TooManyPins) if start.elapsed() < LONGEST_WAIT => thread::sleep(MOMENT),
            Err(RangeError::Fault(_)) if start.elapsed() < patience => {
                thread::sleep(Duration::from_millis(1))
            }
            Err(_) => return None,
        }
    }
}

/// Pages that stay present.
pub(super) struct Held(#[allow(dead_code, reason = "it ends the pin when it is dropped")] Option<Pin>);

/// Makes the pages of `bytes` from `address` present; they may leave again at once.
pub(super) fn bring(address: usize, bytes: usize) {
    let end = address.saturating_add(bytes);
    let mut page = address & !(PAGE - 1);
    while page < end && is_managed(page) {
        drop(hold(page, Duration::ZERO));
        page += PAGE;
    }
}

/// Whether the pages of the arena in `bytes` from `address` are present now.
pub(super) fn is_present(address: usize, bytes: usize) -> bool {
    arena::arena().is_none_or(|arena| arena.is_present(address, address.saturating_add(bytes)))
}

/// Whether the program can read `bytes` from `address`. Pages of the arena are present afterwards, for a moment at least.
pub(crate) fn is_readable(address: usize, bytes: usize) -> bool {
    let Some(end) = address.checked_add(bytes) else {
        return false;
    };
    let mut page = address & !(PAGE - 1);
    while page < end {
        if !is_page_readable(page) {
            return false;
        }
        match page.checked_add(PAGE) {
            Some(next) => page = next,
            None => return false,
        }
    }
    true
}

fn is_page_readable(page: usize) -> bool {
    if can_kernel_read_page(page) {
        return true;
    }
    if !is_managed(page) {
        return false;
    }
    // A handler that leaves by `siglongjmp` would leave the pin behind.
    let _blocked = SignalsBlocked::others();
    for _ in 0..MOST_TRIES {
        let Some(_held) = hold(page, MOST_WAIT) else {
            return false;
        };
        if can_kernel_read_page(page) {
            return true;
        }
    }
    false
}

/// Whether the kernel can read `bytes` from `address` now.
pub(super) fn can_kernel_read(address: usize, bytes: usize) -> bool {
    let first = address & !(PAGE - 1);
    address
        .checked_add(bytes)
        .is_some_and(|end| (first..end).step_by(PAGE).all(can_kernel_read_page))
}

/// Whether the kernel can read a word of the page: it reads the signal set of a call that it refuses then, since -1 is no way to
/// change a mask.
fn can_kernel_read_page(page: usize) -> bool {
    const NO_WAY: usize = usize::MAX;
    // A null pointer is no set.
    if page == 0 {
        return false;
    }
    // SAFETY: the kernel reads 8 bytes if it can, and changes nothing.
    let refused = unsafe { call(libc::SYS_rt_sigprocmask, [NO_WAY, page, 0, 8, 0, 0]) };
    refused != -(libc::EFAULT as isize)
}

/// Copies `bytes` of the program to memory of this library.
///
/// # Errors
/// [`Errno::FAULT`] if the program cannot read them.
///
/// # Safety
/// `target` is valid for writes of `bytes`.
pub(super) unsafe fn copy_in(source: usize, target: *mut u8, bytes: usize) -> Result<(), Errno> {
    if !is_readable(source, bytes) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the source is readable, and the target is valid by the caller's premise.
    unsafe { ptr::copy_nonoverlapping(source as *const u8, target, bytes) };
    Ok(())
}

/// Copies `bytes` of this library to the program. Memory that the program can read but not write raises SIGSEGV.
///
/// # Errors
/// [`Errno::FAULT`] if the program cannot read them.
///
/// # Safety
/// `source` is valid for reads of `bytes`. The program expects the change of the target.
pub(super) unsafe fn copy_out(source: *const u8, target: usize, bytes: usize) -> Result<(), Errno> {
    if !is_readable(target, bytes) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the source is valid by the caller's premise, and the program gave the target to be written to.
    unsafe { ptr::copy_nonoverlapping(source, target as *mut u8, bytes) };
    Ok(())
}

/// A type any bytes of which are a value.
///
/// # Safety
/// So it is.
pub(super) unsafe trait Plain: Copy {}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: integers.
unsafe impl Plain for usize {}
// SAFETY: raw pointers and integers.
unsafe impl Plain for libc::iovec {}
// SAFETY: raw pointers and integers.
unsafe impl Plain for libc::msghdr {}
// SAFETY: raw pointers and integers.
unsafe impl Plain for libc::stack_t {}
// SAFETY: integers.
unsafe impl Plain for libc::timespec {}
// SAFETY: an array of integers.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Reads a value of the program.
///
/// # Errors
/// [`Errno::FAULT`] if the program cannot read it.
pub(super) fn read<T: Plain>(address: usize) -> Result<T, Errno> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the target is a value of that size, any bytes of which are valid.
    unsafe {
        copy_in(address, value.as_mut_ptr().cast(), size_of::<T>())?;
        Ok(value.assume_init())
    }
}

/// Writes a value of the program.
///
/// # Errors
/// [`Errno::FAULT`] if the program cannot read it.
///
/// # Safety
/// The program expects the change.
pub(super) unsafe fn write<T: Plain>(address: usize, value: &T) -> Result<(), Errno> {
    // SAFETY: the source is a value of that size; the rest is the caller's premise.
    unsafe { copy_out(ptr::from_ref(value).cast(), address, size_of::<T>()) }
}

/// Bytes of the text at `address` with its NUL, or `most` if it is longer.
///
/// # Errors
/// [`Errno::FAULT`] if the program cannot read it.
pub(super) fn text_length(address: usize, most: usize) -> Result<usize, Errno> {
    let mut length = 0;
    while length < most {
        let at = address.checked_add(length).ok_or(Errno::FAULT)?;
        if !is_page_readable(at & !(PAGE - 1)) {
            return Err(Errno::FAULT);
        }
        let rest = (PAGE - at % PAGE).min(most - length);
        // SAFETY: the bytes are on a page that is readable.
        let nul = (0..rest).find(|offset| unsafe { ((at + offset) as *const u8).read_volatile() } == 0);
        match nul {
            Some(offset) => return Ok(length + offset + 1),
            None => length += rest,
        }
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_without_access_is_not_readable_and_has_no_text() {
        let pages = super::super::testing::Pages::of_process(2);
        pages.forbid(1);
        let edge = pages.start() + PAGE;
        assert!(is_readable(edge - 1, 1) && !is_readable(edge - 1, 2));
        assert!(!is_readable(usize::MAX - 10, 5) && !is_readable(usize::MAX - 10, 50));
        assert!(!is_readable(0, 1));
        pages.fill(0, b"abc\0");
        assert_eq!(text_length(pages.start(), 4096), Ok(4));
        assert_eq!(text_length(pages.start(), 2), Ok(2));
        pages.fill(PAGE - 2, b"xy");
        assert_eq!(text_length(edge - 2, 2), Ok(2));
        assert_eq!(text_length(edge - 2, 4096), Err(Errno::FAULT));
        assert_eq!(read::<u64>(edge - 4), Err(Errno::FAULT));
    }
}
