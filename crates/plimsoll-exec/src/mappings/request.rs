//! A request for a mapping, and the place for it.

use std::ffi::c_int;

use super::pages_of;
use crate::addresses::Pages;
use crate::arena::{self, ARENA_BYTES, PAGE};

/// The arguments of `mmap(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) address: usize,
    pub(crate) length: usize,
    pub(crate) protection: c_int,
    pub(crate) flags: c_int,
    pub(crate) file: c_int,
    pub(crate) offset: usize,
}

/// The place of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Outside of the arena: the kernel's business.
    Kernel,
    /// Anywhere in the arena, at these pages if they are free.
    Arena(Option<Pages>),
    /// At exactly these pages of the arena; not over other mappings if `is_new`.
    Fixed { pages: Pages, is_new: bool },
    /// Across an end of the arena.
    Across,
}

/// Shorter mappings are the kernel's: a page of bookkeeping costs more than they can save.
const SHORTEST: usize = 32 << 10;
/// Longer ones too, so that room is left for others.
const LONGEST: usize = ARENA_BYTES / 4;

/// Flags that give a mapping properties which the arena's pages do not have: a place below 4 GiB, huge pages, pages locked in
/// RAM, a stack (the handler of a fault runs on it), growth.
const SPECIAL: c_int =
    libc::MAP_32BIT | libc::MAP_HUGETLB | libc::MAP_LOCKED | libc::MAP_STACK | libc::MAP_GROWSDOWN;
/// Flags of which the arena needs to know nothing.
const PLAIN: c_int = libc::MAP_FIXED
    | libc::MAP_FIXED_NOREPLACE
    | libc::MAP_NORESERVE
    | libc::MAP_POPULATE
    | libc::MAP_NONBLOCK
    | libc::MAP_DENYWRITE
    | libc::MAP_EXECUTABLE;

impl Request {
    /// Whether the memory is private and anonymous, and has no property that the arena does not know.
    fn is_private_anonymous(&self, special: c_int) -> bool {
        let known = PLAIN | SPECIAL | libc::MAP_TYPE | libc::MAP_ANONYMOUS;
        self.flags & libc::MAP_TYPE == libc::MAP_PRIVATE
            && self.flags & libc::MAP_ANONYMOUS != 0
            && self.flags & (special | !known) == 0
    }

    /// Whether a mapping at fixed pages of the arena is ordinary memory of the pager. A stack there was the arena's before.
    pub(super) fn is_anonymous(&self) -> bool {
        self.is_private_anonymous(SPECIAL & !libc::MAP_STACK)
    }

    /// Whether the pages are to be present at once.
    pub(super) fn is_populated(&self) -> bool {
        self.flags & (libc::MAP_POPULATE | libc::MAP_NONBLOCK) == libc::MAP_POPULATE
    }

    /// Whether the arena takes the mapping if the caller leaves the place open.
    fn suits_arena(&self) -> bool {
        self.is_private_anonymous(SPECIAL)
            && self.protection & libc::PROT_EXEC == 0
            && self.protection & !(libc::PROT_READ | libc::PROT_WRITE) == 0
            && (SHORTEST..=LONGEST).contains(&self.length)
    }

    pub(super) fn place(&self) -> Place {
        let is_new = self.flags & libc::MAP_FIXED_NOREPLACE != 0;
        if self.flags & libc::MAP_FIXED != 0 || is_new {
            return self.fixed_place(is_new);
        }
        match self.suits_arena() {
            true => Place::Arena(pages_of(self.address & !(PAGE - 1), self.length)),
            false => Place::Kernel,
        }
    }

    fn fixed_place(&self, is_new: bool) -> Place {
        let Some(end) = self.address.checked_add(self.length) else {
            return Place::Kernel;
        };
        if self.length == 0 || !self.address.is_multiple_of(PAGE) || !arena::overlaps(self.address, end) {
            return Place::Kernel;
        }
        match pages_of(self.address, self.length) {
            Some(pages) => Place::Fixed { pages, is_new },
            None => Place::Across,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::ARENA;

    const ANONYMOUS: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    const WRITABLE: c_int = libc::PROT_READ | libc::PROT_WRITE;

    fn request(address: usize, length: usize, protection: c_int, flags: c_int) -> Request {
        Request {
            address,
            length,
            protection,
            flags,
            file: -1,
            offset: 0,
        }
    }

    #[test]
    fn plain_anonymous_memory_goes_to_the_arena() {
        for (address, protection, flags) in [
            (0, WRITABLE, ANONYMOUS),
            (0, libc::PROT_NONE, ANONYMOUS | libc::MAP_NORESERVE),
            (0x7000_0000, libc::PROT_READ, ANONYMOUS | libc::MAP_POPULATE),
            (ARENA - PAGE, WRITABLE, ANONYMOUS),
        ] {
            assert_eq!(
                request(address, 1 << 20, protection, flags).place(),
                Place::Arena(None)
            );
        }
        let hint = request(ARENA + 5 * PAGE + 1, 8 * PAGE, WRITABLE, ANONYMOUS);
        assert_eq!(hint.place(), Place::Arena(Some(5..13)));
    }

    #[test]
    fn other_mappings_are_the_kernels() {
        let file = libc::MAP_PRIVATE;
        let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let cases = [
            (0, 1 << 20, WRITABLE, file),
            (0, 1 << 20, WRITABLE, shared),
            (0, 1 << 20, WRITABLE | libc::PROT_EXEC, ANONYMOUS),
            (0, 1 << 20, WRITABLE, ANONYMOUS | libc::MAP_STACK),
            (0, 1 << 20, WRITABLE, ANONYMOUS | libc::MAP_HUGETLB),
            (0, 1 << 20, WRITABLE, ANONYMOUS | libc::MAP_32BIT),
            (0, 1 << 20, WRITABLE, ANONYMOUS | 1 << 30),
            (0, SHORTEST - 1, WRITABLE, ANONYMOUS),
            (0, LONGEST + 1, WRITABLE, ANONYMOUS),
            (0, 0, WRITABLE, ANONYMOUS),
            (ARENA + 1, PAGE, WRITABLE, ANONYMOUS | libc::MAP_FIXED),
            (0x7000_0000, PAGE, WRITABLE, ANONYMOUS | libc::MAP_FIXED),
            (usize::MAX - PAGE, 2 * PAGE, WRITABLE, ANONYMOUS | libc::MAP_FIXED),
            (ARENA, 0, WRITABLE, ANONYMOUS | libc::MAP_FIXED),
        ];
        for (address, length, protection, flags) in cases {
            let request = request(address, length, protection, flags);
            assert_eq!(request.place(), Place::Kernel, "{request:?}");
        }
    }

    #[test]
    fn fixed_mappings_stay_where_they_are() {
        let fixed = request(ARENA, 1, WRITABLE, ANONYMOUS | libc::MAP_FIXED);
        assert_eq!(
            fixed.place(),
            Place::Fixed {
                pages: 0..1,
                is_new: false
            }
        );
        let new = request(
            ARENA + PAGE,
            2 * PAGE,
            WRITABLE,
            ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
        );
        assert_eq!(
            new.place(),
            Place::Fixed {
                pages: 1..3,
                is_new: true
            }
        );
        let file = request(ARENA, PAGE, WRITABLE, libc::MAP_SHARED | libc::MAP_FIXED);
        assert!(matches!(file.place(), Place::Fixed { .. }) && !file.is_anonymous());
        let stack = request(
            ARENA,
            PAGE,
            WRITABLE,
            ANONYMOUS | libc::MAP_FIXED | libc::MAP_STACK,
        );
        assert!(stack.is_anonymous());
        for (address, length) in [(ARENA - PAGE, 2 * PAGE), (ARENA + ARENA_BYTES - PAGE, 2 * PAGE)] {
            let across = request(address, length, WRITABLE, ANONYMOUS | libc::MAP_FIXED);
            assert_eq!(across.place(), Place::Across);
        }
    }
}
