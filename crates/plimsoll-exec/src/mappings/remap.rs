//! `mremap(2)`: mappings that grow, shrink and move.
#![allow(unsafe_code, reason = "mappings of the program, which move")]

use std::ffi::c_int;

use plimsoll_os::Errno;

use super::{Request, failure, foreign, kernel, map, pages_of, release, take, unmap};
use crate::addresses::{Pages, Use};
use crate::arena::{self, ARENA, Arena, PAGE, address_of, offsets};

/// Bytes that a move copies before it drops their source: a mapping that moves takes no more memory than before.
const COPIED_AT_ONCE: usize = 1 << 20;

/// The arguments of `mremap(2)`.
#[derive(Debug, Clone, Copy)]
struct Move {
    old: usize,
    old_length: usize,
    new_length: usize,
    flags: c_int,
    new: usize,
}

/// `mremap(2)`.
pub(crate) fn remap(old: usize, old_length: usize, new_length: usize, flags: c_int, new: usize) -> isize {
    let asked = Move {
        old,
        old_length,
        new_length,
        flags,
        new,
    };
    let Some(arena) = arena::arena() else {
        return asked.forward();
    };
    let reaches = |start: usize, length: usize| arena::overlaps(start, start.saturating_add(length.max(1)));
    if reaches(old, old_length) {
        return asked.of_arena(arena);
    }
    match flags & libc::MREMAP_FIXED != 0 && reaches(new, new_length) {
        true => asked.enter_arena(arena),
        false => asked.forward(),
    }
}

impl Move {
    /// Has the kernel do it.
    fn forward(&self) -> isize {
        let arguments = [
            self.old,
            self.old_length,
            self.new_length,
            self.flags as usize,
            self.new,
            0,
        ];
        // SAFETY: the program's own request.
        unsafe { kernel(libc::SYS_mremap, arguments) }
    }

    /// The kernel's checks of the arguments.
    fn check(&self) -> Result<(), Errno> {
        let is_fixed = self.flags & libc::MREMAP_FIXED != 0;
        let known = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let ends = |start: usize, length: usize| start.checked_add(length).ok_or(Errno::INVAL);
        let overlap = is_fixed
            && self.old < ends(self.new, self.new_length)?
            && self.new < ends(self.old, self.old_length)?;
        let is_valid = self.flags & !known == 0
            && self.old.is_multiple_of(PAGE)
            && self.old_length > 0
            && self.new_length > 0
            && (!is_fixed || (self.flags & libc::MREMAP_MAYMOVE != 0 && self.new.is_multiple_of(PAGE)))
            && !overlap;
        if is_valid { Ok(()) } else { Err(Errno::INVAL) }
    }

    /// Resizes or moves a mapping of the arena.
    fn of_arena(&self, arena: &'static Arena) -> isize {
        if let Err(errno) = self.check() {
            return failure(errno);
        }
        let Some(pages) = pages_of(self.old, self.old_length) else {
            return failure(Errno::FAULT);
        };
        let used = arena.table().addresses.use_of(pages.clone());
        match used {
            Some(Use::Anonymous(protection)) => self.of_anonymous(arena, pages, protection),
            Some(Use::Foreign) => self.of_foreign(arena, &pages),
            Some(Use::Free) | None => failure(Errno::FAULT),
        }
    }

    fn of_anonymous(&self, arena: &'static Arena, pages: Pages, protection: c_int) -> isize {
        let length = self.new_length.next_multiple_of(PAGE);
        if self.flags & libc::MREMAP_FIXED != 0 {
            return self.move_to_address(arena, pages, protection);
        }
        let old_length = offsets(&pages).len();
        if length <= old_length {
            let rest = pages.start + (length / PAGE) as u32..pages.end;
            let shrunk = if rest.is_empty() {
                Ok(())
            } else {
                release(arena, &rest)
            };
            return shrunk.map_or_else(failure, |()| self.old as isize);
        }
        if grow(arena, &pages, length, protection) {
            return self.old as isize;
        }
        if self.flags & libc::MREMAP_MAYMOVE == 0 {
            return failure(Errno::NOMEM);
        }
        move_anywhere(arena, &pages, length, protection)
    }

    /// Moves anonymous memory to the program's address, in the arena or not.
    fn move_to_address(&self, arena: &Arena, pages: Pages, protection: c_int) -> isize {
        let target = map(&Request {
            address: self.new,
            length: self.new_length,
            protection: protection | libc::PROT_READ | libc::PROT_WRITE,
            flags: libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
            file: -1,
            offset: 0,
        });
        if target < 0 {
            return target;
        }
        let length = offsets(&pages).len().min(self.new_length.next_multiple_of(PAGE));
        if let Err(errno) = move_contents(arena, &pages, protection, self.new, length) {
            return failure(errno);
        }
        let protected = super::protect(self.new, self.new_length, protection, None);
        let unmapped = unmap(self.old, self.old_length);
        match protected.min(unmapped) {
            0 => self.new as isize,
            error => error,
        }
    }

    /// Has the kernel resize or move a foreign mapping. Where it was before is the pager's again.
    fn of_foreign(&self, arena: &'static Arena, pages: &Pages) -> isize {
        let target = pages_of(self.new, self.new_length).filter(|_| self.flags & libc::MREMAP_FIXED != 0);
        if let Some(target) = target {
            return match give_up(arena, &target) {
                Ok(()) => self.settle(arena, pages),
                Err(errno) => failure(errno),
            };
        }
        self.settle(arena, pages)
    }

    fn settle(&self, arena: &'static Arena, pages: &Pages) -> isize {
        let moved = self.forward();
        if moved < 0 {
            return moved;
        }
        let length = self.new_length.next_multiple_of(PAGE);
        let left = match moved as usize == self.old {
            true => pages.start + (length / PAGE).min(pages.len()) as u32..pages.end,
            false => pages.clone(),
        };
        if left.is_empty() {
            return moved;
        }
        let left_is_whole = foreign::reclaim(arena, std::slice::from_ref(&left));
        arena.table().addresses.set(left, Use::Free);
        left_is_whole.map_or_else(failure, |()| moved)
    }

    /// Has the kernel move a mapping of others into the arena.
    fn enter_arena(&self, arena: &'static Arena) -> isize {
        if let Err(errno) = self.check() {
            return failure(errno);
        }
        let Some(target) = pages_of(self.new, self.new_length) else {
            return failure(Errno::NOMEM);
        };
        match give_up(arena, &target) {
            Ok(()) => self.forward(),
            Err(errno) => failure(errno),
        }
    }
}

/// Makes pages foreign, before the kernel moves a mapping there.
fn give_up(arena: &Arena, pages: &Pages) -> Result<(), Errno> {
    release(arena, pages)?;
    arena.surrender(pages)?;
    arena.table().addresses.set(pages.clone(), Use::Foreign);
    Ok(())
}

/// Makes anonymous memory `length` bytes long where it is, if the addresses behind it are free.
fn grow(arena: &Arena, pages: &Pages, length: usize, protection: c_int) -> bool {
    let count = length / PAGE;
    let Some(end) = u32::try_from(count)
        .ok()
        .and_then(|count| pages.start.checked_add(count))
    else {
        return false;
    };
    let more = pages.end..end;
    {
        let mut table = arena.table();
        if end > arena::ARENA_PAGES || !table.addresses.is_free(more.clone()) {
            return false;
        }
        table.addresses.set(more.clone(), Use::Anonymous(protection));
    }
    let is_open = arena.protect(&more, protection).is_ok();
    if !is_open {
        arena.table().addresses.set(more, Use::Free);
    }
    is_open
}

/// Moves anonymous memory to free addresses of the arena for `length` bytes.
fn move_anywhere(arena: &'static Arena, pages: &Pages, length: usize, protection: c_int) -> isize {
    let Some(target) = take(arena, length, None, protection) else {
        return failure(Errno::NOMEM);
    };
    let writable = protection | libc::PROT_READ | libc::PROT_WRITE;
    let new = address_of(target.start);
    let moved = arena
        .protect(&target, writable)
        .and_then(|()| move_contents(arena, pages, protection, new, offsets(pages).len()))
        .and_then(|()| match protection == writable {
            true => Ok(()),
            false => arena.protect(&target, protection),
        })
        .and_then(|()| release(arena, pages));
    moved.map_or_else(failure, |()| new as isize)
}

/// Copies the contents of pages to writable zeros at `target`, piece by piece, and drops each piece at the source.
fn move_contents(
    arena: &Arena,
    pages: &Pages,
    protection: c_int,
    target: usize,
    length: usize,
) -> Result<(), Errno> {
    if protection & libc::PROT_READ == 0 {
        // Reserved addresses hold nothing, most of the time; contents that the program made inaccessible move too.
        arena.protect(pages, libc::PROT_READ)?;
    }
    let source = ARENA + offsets(pages).start;
    for at in (0..length).step_by(COPIED_AT_ONCE) {
        let piece = COPIED_AT_ONCE.min(length - at);
        for offset in (at..at + piece).step_by(PAGE) {
            // SAFETY: both pages are mapped, the source readable and the target writable, and no other thread of the program
            // uses them during its call.
            unsafe { copy_page((source + offset) as *const u64, (target + offset) as *mut u64) };
        }
        let dropped = super::advise(source + at, piece, libc::MADV_DONTNEED);
        debug_assert!(dropped <= 0);
    }
    Ok(())
}

/// Copies a page to one that is zero. A zero page is not written: it stays absent.
///
/// # Safety
/// The source is readable, the target writable; both begin a page, and no other thread uses them.
unsafe fn copy_page(source: *const u64, target: *mut u64) {
    const WORDS: usize = PAGE / size_of::<u64>();
    // SAFETY: the caller's premise.
    unsafe {
        let words = std::slice::from_raw_parts(source, WORDS);
        if words.iter().any(|word| *word != 0) {
            target.copy_from_nonoverlapping(source, WORDS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAYMOVE: c_int = libc::MREMAP_MAYMOVE;
    const FIXED: c_int = libc::MREMAP_FIXED;

    #[test]
    fn arguments_are_checked_as_the_kernel_does() {
        let check = |old, old_length, new_length, flags, new| {
            Move {
                old,
                old_length,
                new_length,
                flags,
                new,
            }
            .check()
        };
        assert_eq!(check(ARENA, PAGE, 2 * PAGE, 0, 0), Ok(()));
        assert_eq!(
            check(ARENA, PAGE, 2 * PAGE, MAYMOVE | FIXED, ARENA + 4 * PAGE),
            Ok(())
        );
        for (old, old_length, new_length, flags, new) in [
            (ARENA + 1, PAGE, PAGE, 0, 0),
            (ARENA, 0, PAGE, MAYMOVE, 0),
            (ARENA, PAGE, 0, 0, 0),
            (ARENA, PAGE, PAGE, FIXED, ARENA + 4 * PAGE),
            (ARENA, PAGE, PAGE, MAYMOVE | FIXED, ARENA + 1),
            (ARENA, 2 * PAGE, PAGE, MAYMOVE | FIXED, ARENA + PAGE),
            (ARENA, PAGE, PAGE, MAYMOVE | libc::MREMAP_DONTUNMAP, 0),
        ] {
            assert_eq!(check(old, old_length, new_length, flags, new), Err(Errno::INVAL));
        }
    }
}
