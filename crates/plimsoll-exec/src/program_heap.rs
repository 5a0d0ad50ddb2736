//! The memory of the program's heap: addresses of the arena, in place of plain mappings.
#![allow(unsafe_code, reason = "the pages under the heap, by its demands")]

use std::ffi::c_int;

use plimsoll_lfh::{Access, Memory};
use plimsoll_os::Errno;

use crate::arena::{self, ARENA, ARENA_BYTES, Arena, offsets};
use crate::mappings;

/// Bytes of the heap's window: half of the arena.
const WINDOW: usize = ARENA_BYTES / 2;

#[derive(Debug)]
pub(crate) struct ArenaMemory;

/// The protection of a range with these rights.
const fn protection(access: Access) -> c_int {
    match access {
        Access::None => libc::PROT_NONE,
        Access::Read => libc::PROT_READ,
        Access::Write => libc::PROT_READ | libc::PROT_WRITE,
    }
}

fn opened() -> Result<&'static Arena, Errno> {
    arena::arena().ok_or(Errno::NOMEM)
}

impl Memory for ArenaMemory {
    fn window_bytes(&self, most: usize) -> usize {
        WINDOW.min(most)
    }

    fn reserve(&self, length: usize) -> Option<usize> {
        let pages = mappings::reserve(arena::arena()?, length)?;
        Some(arena::address_of(pages.start))
    }

    unsafe fn release(&self, start: usize, length: usize) {
        // Where that fails, the range stays, unused.
        let _ = mappings::unmap(start, length);
    }

    unsafe fn set_access(&self, start: usize, length: usize, access: Access) -> Result<(), Errno> {
        let pages = mappings::pages_of(start, length).ok_or(Errno::INVAL)?;
        opened()?.protect(&pages, protection(access))
    }

    unsafe fn discard(&self, start: usize, length: usize) -> Result<(), Errno> {
        let pages = mappings::pages_of(start, length).ok_or(Errno::INVAL)?;
        opened()?.clear(&pages, protection(Access::Write))
    }

    fn keep(&self, start: usize, length: usize) {
        let pages = mappings::pages_of(start, length);
        if let Some((arena, pages)) = arena::arena().zip(pages) {
            let range = offsets(&pages);
            // The pages stay for the life of the process. If the budget does not allow it, they come and go.
            arena.keep(ARENA + range.start, ARENA + range.end);
        }
    }
}
