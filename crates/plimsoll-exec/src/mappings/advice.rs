//! Advice on ranges of the arena, locks, and the question which pages are resident.
#![allow(
    unsafe_code,
    reason = "advice that drops the program's contents, at its request"
)]

use std::ffi::c_int;

use plimsoll_os::Errno;
use plimsoll_pager::TrimTo;

use super::{failure, for_each_piece, kernel, outcome};
use crate::addresses::{Pages, Use};
use crate::arena::{ARENA, Arena, offsets};

/// The meaning of advice for anonymous memory of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Drop the contents.
    Drop,
    /// Make the pages present.
    Populate,
    /// Take the pages out of the working set.
    Trim(TrimTo),
    /// Nothing, as the arena has no such property.
    Nothing,
    /// The arena cannot do it, and the program relies on it.
    Refuse,
}

fn meaning(advice: c_int) -> Meaning {
    match advice {
        libc::MADV_DONTNEED | libc::MADV_FREE | libc::MADV_DONTNEED_LOCKED => Meaning::Drop,
        libc::MADV_WILLNEED | libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE => Meaning::Populate,
        libc::MADV_COLD => Meaning::Trim(TrimTo::Modified),
        libc::MADV_PAGEOUT => Meaning::Trim(TrimTo::Store),
        libc::MADV_NORMAL
        | libc::MADV_RANDOM
        | libc::MADV_SEQUENTIAL
        | libc::MADV_HUGEPAGE
        | libc::MADV_NOHUGEPAGE
        | libc::MADV_MERGEABLE
        | libc::MADV_UNMERGEABLE
        | libc::MADV_DODUMP
        | libc::MADV_DONTDUMP
        | libc::MADV_DOFORK
        | libc::MADV_KEEPONFORK => Meaning::Nothing,
        // MADV_REMOVE is for files; MADV_DONTFORK and MADV_WIPEONFORK are promises on the child's memory; the rest is unknown.
        _ => Meaning::Refuse,
    }
}

/// `madvise(2)`.
pub(crate) fn advise(address: usize, length: usize, advice: c_int) -> isize {
    let call = |address, length| {
        // SAFETY: the program's own request.
        unsafe { kernel(libc::SYS_madvise, [address, length, advice as usize, 0, 0, 0]) }
    };
    let meaning = meaning(advice);
    for_each_piece(address, length, call, |arena, pages| {
        let parts: Vec<_> = arena.table().addresses.parts(pages).collect();
        let mut result = 0;
        for (part, used) in parts {
            let done = match used {
                Use::Free => failure(Errno::NOMEM),
                Use::Foreign => call(ARENA + offsets(&part).start, offsets(&part).len()),
                Use::Anonymous(protection) => outcome(follow(arena, meaning, &part, protection)),
            };
            match done {
                0 => {}
                // As the kernel: it goes on over holes.
                hole if hole == failure(Errno::NOMEM) => result = hole,
                error => return error,
            }
        }
        result
    })
}

/// Follows advice on anonymous pages.
fn follow(arena: &Arena, meaning: Meaning, pages: &Pages, protection: c_int) -> Result<(), Errno> {
    match meaning {
        Meaning::Drop => arena.clear(pages, protection),
        Meaning::Populate if protection & libc::PROT_READ != 0 => {
            populate(arena, pages);
            Ok(())
        }
        Meaning::Trim(to) => {
            // The pages are the region's. Those that are in use stay.
            let _ = arena.region.trim(offsets(pages), to);
            Ok(())
        }
        Meaning::Populate | Meaning::Nothing => Ok(()),
        Meaning::Refuse => Err(Errno::INVAL),
    }
}

/// Makes readable pages present, unless they are so many that they would drive out each other.
pub(super) fn populate(arena: &Arena, pages: &Pages) {
    let range = offsets(pages);
    if range.len() as u64 <= arena.pager.stats().ram / 4 {
        // A page that cannot be restored is the business of the thread that touches it.
        let _ = arena.region.prefetch(range);
    }
}

/// `mlock2(2)`; `mlock(2)` has no flags.
pub(crate) fn lock(address: usize, length: usize, flags: c_int) -> isize {
    let (start, length) = whole(address, length);
    let call = |address, length| {
        // SAFETY: the kernel changes neither contents nor protection.
        unsafe {
            match flags {
                0 => kernel(libc::SYS_mlock, [address, length, 0, 0, 0, 0]),
                _ => kernel(libc::SYS_mlock2, [address, length, flags as usize, 0, 0, 0]),
            }
        }
    };
    for_each_piece(start, length, call, |arena, pages| {
        let parts: Vec<_> = arena.table().addresses.parts(pages).collect();
        for (part, used) in parts {
            match used {
                Use::Free => return failure(Errno::NOMEM),
                Use::Anonymous(protection) if protection & libc::PROT_READ != 0 => populate(arena, &part),
                Use::Anonymous(_) | Use::Foreign => {}
            }
        }
        0
    })
}

/// `munlock(2)`.
pub(crate) fn unlock(address: usize, length: usize) -> isize {
    let (start, length) = whole(address, length);
    // SAFETY: the kernel changes neither contents nor protection.
    let call = |address, length| unsafe { kernel(libc::SYS_munlock, [address, length, 0, 0, 0, 0]) };
    for_each_piece(start, length, call, |arena, pages| {
        let has_hole = arena
            .table()
            .addresses
            .parts(pages)
            .any(|(_, used)| used == Use::Free);
        if has_hole { failure(Errno::NOMEM) } else { 0 }
    })
}

/// The whole pages that a range touches.
fn whole(address: usize, length: usize) -> (usize, usize) {
    let start = address & !(crate::arena::PAGE - 1);
    (start, length.saturating_add(address - start))
}

/// `mincore(2)`: writes a byte for each page to `vector`.
pub(crate) fn is_resident(address: usize, length: usize, vector: *mut u8) -> isize {
    let call = |at: usize, length| {
        let vector = vector.wrapping_add((at - address) / crate::arena::PAGE);
        // SAFETY: the kernel checks the vector.
        unsafe { kernel(libc::SYS_mincore, [at, length, vector as usize, 0, 0, 0]) }
    };
    for_each_piece(address, length, call, |arena, pages| {
        let parts: Vec<_> = arena.table().addresses.parts(pages).collect();
        for (part, used) in parts {
            let range = offsets(&part);
            let result = match used {
                Use::Free => failure(Errno::NOMEM),
                Use::Foreign => call(ARENA + range.start, range.len()),
                Use::Anonymous(_) => {
                    let vector = vector.wrapping_add((ARENA + range.start - address) / crate::arena::PAGE);
                    // SAFETY: the program gave the vector, one byte a page, to be written to.
                    unsafe { vector.write_bytes(1, part.len()) };
                    0
                }
            };
            if result < 0 {
                return result;
            }
        }
        0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_that_programs_rely_on_is_not_ignored() {
        assert_eq!(meaning(libc::MADV_DONTNEED), Meaning::Drop);
        assert_eq!(meaning(libc::MADV_FREE), Meaning::Drop);
        assert_eq!(meaning(libc::MADV_WIPEONFORK), Meaning::Refuse);
        assert_eq!(meaning(libc::MADV_DONTFORK), Meaning::Refuse);
        assert_eq!(meaning(libc::MADV_REMOVE), Meaning::Refuse);
        assert_eq!(meaning(9999), Meaning::Refuse);
        assert_eq!(meaning(libc::MADV_HUGEPAGE), Meaning::Nothing);
        assert_eq!(meaning(libc::MADV_DONTDUMP), Meaning::Nothing);
    }

    #[test]
    fn locks_count_whole_pages() {
        assert_eq!(whole(0x1fff, 2), (0x1000, 0x1001));
        assert_eq!(whole(0x1000, 0), (0x1000, 0));
        assert_eq!(whole(0x1001, usize::MAX).1, usize::MAX);
    }
}
