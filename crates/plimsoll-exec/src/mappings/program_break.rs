//! The program break (`brk(2)`): a range of the arena that only its end changes.

use std::ffi::c_int;

use plimsoll_os::Errno;

use super::{failure, protect, take};
use crate::arena::{self, Arena, PAGE, address_of};
use crate::lock::Locked;

/// Bytes of addresses for it.
const BREAK_BYTES: usize = 8 << 30;

/// The rights of the program to the bytes in front of its break.
const WRITABLE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// The range. `start` is 0 until the first call.
struct Break {
    start: usize,
    end: usize,
}

static BREAK: Locked<Break> = Locked::new(Break { start: 0, end: 0 });

/// Sets the end of the range to an address, if that is possible. Returns the end, as the system call does. None in a process
/// without a pager.
pub(crate) fn set_break(address: usize) -> Option<usize> {
    let arena = arena::arena()?;
    let mut at = BREAK.hold();
    open(arena, &mut at)?;
    if (at.start..=at.start + BREAK_BYTES).contains(&address) && change(&at, address) {
        at.end = address;
    }
    Some(at.end)
}

/// Moves the end of the range. Returns the former end, or an error. None in a process without a pager.
pub(crate) fn move_break(by: isize) -> Option<isize> {
    let arena = arena::arena()?;
    let mut at = BREAK.hold();
    open(arena, &mut at)?;
    let former = at.end;
    let new = former.checked_add_signed(by).filter(|new| *new >= at.start);
    match new.filter(|new| *new <= at.start + BREAK_BYTES && change(&at, *new)) {
        Some(new) => {
            at.end = new;
            Some(former as isize)
        }
        None => Some(failure(Errno::NOMEM)),
    }
}

fn open(arena: &Arena, at: &mut Break) -> Option<()> {
    if at.start == 0 {
        let pages = take(arena, BREAK_BYTES, None, libc::PROT_NONE)?;
        at.start = address_of(pages.start);
        at.end = at.start;
    }
    Some(())
}

/// Makes the pages up to `new` accessible, or those behind it inaccessible and empty.
fn change(at: &Break, new: usize) -> bool {
    let (old_end, new_end) = (at.end.next_multiple_of(PAGE), new.next_multiple_of(PAGE));
    if new_end > old_end {
        return protect(old_end, new_end - old_end, WRITABLE, None) == 0;
    }
    if new_end < old_end {
        let dropped = super::advise(new_end, old_end - new_end, libc::MADV_DONTNEED);
        return dropped == 0 && protect(new_end, old_end - new_end, libc::PROT_NONE, None) == 0;
    }
    true
}
