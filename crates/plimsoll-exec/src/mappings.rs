//! The program's calls on its address space, for addresses of the arena: mapping, unmapping, protection, advice, locks.
//!
//! A function returns what the system call would: a result, or the negative of an error's number. The exported symbols call
//! them, and so does the handler of trapped system calls. Parts of a range outside of the arena go to the kernel.
//!
//! Differences to the kernel:
//! - A mapping costs nothing before it is touched: no limit on committed memory applies.
//! - `MADV_FREE` drops contents at once. Huge pages, merging and core dumps are not the arena's: such advice does nothing.
//! - `mlock` makes pages present, and does not keep them so: what leaves RAM is compressed in RAM, or encrypted in the page file.
//! - `mincore` counts every page as resident.
//! - A mapping of a file over pages that a system call of another thread has pinned waits for the call, for 1 s at most, and fails
//!   with `ENOMEM` then.
#![allow(unsafe_code, reason = "system calls on the program's memory")]

mod advice;
mod foreign;
mod program_break;
mod remap;
mod request;

use std::ffi::c_int;

use plimsoll_os::Errno;

use crate::addresses::{Pages, Use};
use crate::arena::{self, ARENA, ARENA_BYTES, Arena, PAGE, address_of, offsets};
use crate::{statistics, trampoline};

pub(crate) use advice::{advise, is_resident, lock, unlock};
pub(crate) use program_break::{move_break, set_break};
pub(crate) use remap::remap;
use request::Place;
pub(crate) use request::Request;

/// Mappings of so many pages begin at a multiple of them: a chunk of the pager is one program's data then.
const CHUNK: u32 = 512;

/// Makes a system call past the arena.
///
/// # Safety
/// As for the call.
unsafe fn kernel(number: libc::c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: the caller's premise.
    unsafe { trampoline::call(number, arguments) }
}

/// The negative of an error's number, as a system call returns it.
const fn failure(errno: Errno) -> isize {
    -(errno.raw() as isize)
}

/// An error as the result of a system call, or 0.
fn outcome(result: Result<(), Errno>) -> isize {
    result.map_or_else(failure, |()| 0)
}

/// The pages of a range that begins at a page, if all of it is the arena's.
pub(crate) fn pages_of(address: usize, length: usize) -> Option<Pages> {
    let first = address.checked_sub(ARENA)?;
    let end = first.checked_add(length)?;
    let is_whole = first.is_multiple_of(PAGE) && length > 0 && end <= ARENA_BYTES;
    is_whole.then(|| (first / PAGE) as u32..end.div_ceil(PAGE) as u32)
}

/// A part of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Addresses of others, with their length.
    Outside(usize, usize),
    Arena(Pages),
}

/// The parts of a range in front of the arena, in it and behind it; none if the kernel has to judge the whole range: it is
/// empty, begins within a page, or has nothing of the arena.
fn pieces(address: usize, length: usize) -> Option<impl Iterator<Item = Piece>> {
    let end = address.checked_add(length)?;
    if !address.is_multiple_of(PAGE) || !arena::overlaps(address, end) {
        return None;
    }
    let end = end.checked_next_multiple_of(PAGE)?;
    let (inner, outer) = (address.max(ARENA), end.min(ARENA + ARENA_BYTES));
    let before = (address < inner).then_some(Piece::Outside(address, inner - address));
    let within = pages_of(inner, outer - inner).map(Piece::Arena);
    let behind = (outer < end).then_some(Piece::Outside(outer, end - outer));
    Some(before.into_iter().chain(within).chain(behind))
}

/// Does a call for each part of a range; to the first error, which it returns.
fn for_each_piece(
    address: usize,
    length: usize,
    outside: impl Fn(usize, usize) -> isize,
    inside: impl Fn(&'static Arena, Pages) -> isize,
) -> isize {
    let Some((arena, pieces)) = arena::arena().zip(pieces(address, length)) else {
        return outside(address, length);
    };
    for piece in pieces {
        let result = match piece {
            Piece::Outside(address, length) => outside(address, length),
            Piece::Arena(pages) => inside(arena, pages),
        };
        if result < 0 {
            return result;
        }
    }
    0
}

/// `mmap(2)`.
pub(crate) fn map(request: &Request) -> isize {
    let Some(arena) = arena::arena() else {
        return forward(request);
    };
    match request.place() {
        Place::Kernel => forward(request),
        Place::Across => failure(Errno::NOMEM),
        Place::Arena(hint) => map_anywhere(arena, request, hint),
        Place::Fixed { pages, is_new } if request.is_anonymous() => map_fixed(arena, request, pages, is_new),
        Place::Fixed { pages, is_new } => foreign::map(arena, request, pages, is_new),
    }
}

/// Has the kernel map. An address of the arena is no hint for it.
fn forward(request: &Request) -> isize {
    let is_fixed = request.flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
    let address = match arena::contains(request.address) && !is_fixed {
        true => 0,
        false => request.address,
    };
    // SAFETY: the program's own request.
    unsafe { kernel(libc::SYS_mmap, request.arguments(address)) }
}

impl Request {
    fn arguments(&self, address: usize) -> [usize; 6] {
        [
            address,
            self.length,
            self.protection as usize,
            self.flags as usize,
            self.file as usize,
            self.offset,
        ]
    }
}

/// Maps anonymous memory where the arena has room, at `hint` if that is free. Without room the kernel maps.
fn map_anywhere(arena: &Arena, request: &Request, hint: Option<Pages>) -> isize {
    let Some(pages) = take(arena, request.length, hint, request.protection) else {
        return forward(request);
    };
    if request.protection != libc::PROT_NONE
        && let Err(errno) = arena.protect(&pages, request.protection)
    {
        arena.table().addresses.set(pages, Use::Free);
        return failure(errno);
    }
    finish(arena, request, &pages)
}

/// Takes free addresses for `length` bytes. They are inaccessible still, and hold nothing.
fn take(arena: &Arena, length: usize, hint: Option<Pages>, protection: c_int) -> Option<Pages> {
    let count = u32::try_from(length.div_ceil(PAGE)).ok()?;
    let alignment = if count >= CHUNK { CHUNK } else { 1 };
    let mut table = arena.table();
    let hinted = hint.filter(|pages| table.addresses.is_free(pages.clone()));
    let found = || {
        let first = table.addresses.find(count, alignment)?;
        Some(first..first + count)
    };
    let pages = hinted.or_else(found)?;
    table.addresses.set(pages.clone(), Use::Anonymous(protection));
    Some(pages)
}

/// Takes free addresses for `length` bytes, which stay inaccessible.
pub(crate) fn reserve(arena: &Arena, length: usize) -> Option<Pages> {
    take(arena, length, None, libc::PROT_NONE)
}

/// Maps anonymous memory at `pages`, in place of the mappings there.
fn map_fixed(arena: &Arena, request: &Request, pages: Pages, is_new: bool) -> isize {
    let foreign = {
        let mut table = arena.table();
        if is_new && !table.addresses.is_free(pages.clone()) {
            return failure(Errno::EXIST);
        }
        let foreign = foreign::parts(&table.addresses, pages.clone());
        table
            .addresses
            .set(pages.clone(), Use::Anonymous(request.protection));
        foreign
    };
    let mapped = foreign::reclaim(arena, &foreign)
        .and_then(|()| arena.clear(&pages, request.protection))
        .and_then(|()| arena.protect(&pages, request.protection));
    match mapped {
        Ok(()) => finish(arena, request, &pages),
        Err(errno) => failure(errno),
    }
}

/// The end of a call that mapped anonymous memory.
fn finish(arena: &Arena, request: &Request, pages: &Pages) -> isize {
    if request.is_populated() && request.protection != libc::PROT_NONE {
        advice::populate(arena, pages);
    }
    address_of(pages.start) as isize
}

/// `munmap(2)`.
pub(crate) fn unmap(address: usize, length: usize) -> isize {
    // SAFETY: the program's own request.
    let outside = |address, length| unsafe { kernel(libc::SYS_munmap, [address, length, 0, 0, 0, 0]) };
    for_each_piece(address, length, outside, |arena, pages| {
        outcome(release(arena, &pages))
    })
}

/// Frees pages of the arena, whatever is mapped there.
fn release(arena: &Arena, pages: &Pages) -> Result<(), Errno> {
    let (foreign, is_free) = {
        let table = arena.table();
        let foreign = foreign::parts(&table.addresses, pages.clone());
        (foreign, table.addresses.is_free(pages.clone()))
    };
    if is_free {
        return Ok(());
    }
    statistics::look_before_release(pages.len());
    foreign::reclaim(arena, &foreign)?;
    // Inaccessible first: nothing gets a page in between.
    arena.protect(pages, libc::PROT_NONE)?;
    arena.decommit(pages)?;
    arena.table().addresses.set(pages.clone(), Use::Free);
    Ok(())
}

/// `mprotect(2)`, and with a key `pkey_mprotect(2)`.
pub(crate) fn protect(address: usize, length: usize, protection: c_int, key: Option<c_int>) -> isize {
    let call = |address, length| {
        let number = if key.is_some() {
            libc::SYS_pkey_mprotect
        } else {
            libc::SYS_mprotect
        };
        let key = key.unwrap_or(0) as usize;
        // SAFETY: the program's own request.
        unsafe { kernel(number, [address, length, protection as usize, key, 0, 0]) }
    };
    for_each_piece(address, length, call, |arena, pages| {
        let parts: Vec<_> = arena.table().addresses.parts(pages.clone()).collect();
        if parts.iter().any(|(_, used)| *used == Use::Free) {
            return failure(Errno::NOMEM);
        }
        let range = offsets(&pages);
        let result = call(ARENA + range.start, range.len());
        if result == 0 {
            note_protection(arena, parts, protection);
        }
        result
    })
}

/// Notes the protection of the anonymous ones among the parts of a range, which are about to be used if they are writable.
fn note_protection(arena: &Arena, parts: Vec<(Pages, Use)>, protection: c_int) {
    let access = protection & (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
    let is_anonymous = |(_, used): &(Pages, Use)| matches!(used, Use::Anonymous(_));
    let anonymous: Vec<Pages> = parts
        .into_iter()
        .filter(is_anonymous)
        .map(|(pages, _)| pages)
        .collect();
    {
        let mut table = arena.table();
        for pages in &anonymous {
            table.addresses.set(pages.clone(), Use::Anonymous(access));
        }
    }
    if access & libc::PROT_WRITE != 0 {
        anonymous.iter().for_each(|pages| arena.commit(pages));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_split_at_the_ends_of_the_arena() {
        let split = |address, length| pieces(address, length).map(Iterator::collect::<Vec<_>>);
        let end = ARENA + ARENA_BYTES;
        assert_eq!(split(0x1000, PAGE), None);
        assert_eq!(split(ARENA + 1, PAGE), None);
        assert_eq!(split(ARENA, 0), None);
        assert_eq!(split(ARENA, usize::MAX), None);
        assert_eq!(split(ARENA + PAGE, PAGE + 1), Some(vec![Piece::Arena(1..3)]));
        assert_eq!(
            split(ARENA - PAGE, 2 * PAGE),
            Some(vec![Piece::Outside(ARENA - PAGE, PAGE), Piece::Arena(0..1)])
        );
        let last = arena::ARENA_PAGES - 1;
        assert_eq!(
            split(end - PAGE, 3 * PAGE),
            Some(vec![Piece::Arena(last..last + 1), Piece::Outside(end, 2 * PAGE)])
        );
    }

    #[test]
    fn a_range_that_leaves_the_arena_is_not_of_it() {
        assert_eq!(pages_of(ARENA, 1), Some(0..1));
        assert_eq!(pages_of(ARENA - PAGE, 2 * PAGE), None);
        assert_eq!(pages_of(ARENA + ARENA_BYTES - PAGE, PAGE + 1), None);
        assert_eq!(pages_of(ARENA, 0), None);
        assert_eq!(pages_of(ARENA + 8, PAGE), None);
    }
}
