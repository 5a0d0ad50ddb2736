//! Memory that the kernel may use in place of absent pages: the pages themselves while they are pinned, or copies of them.
//!
//! A copy is safer than a pin for a small buffer. A call may block for hours, the pager has 256 pins, and half of the budget at
//! most is pinned. A structure that the kernel writes is never lost: the copy back waits for the page.
//!
//! | bytes | way |
//! |---|---|
//! | up to [`INLINE`] in a call | a copy on the stack |
//! | more | a pin |
//! | more, if the pin is refused | a copy in a mapping, which lives while the call does |
#![allow(unsafe_code, reason = "copies of the program's memory")]

use std::mem::MaybeUninit;

use plimsoll_os::Errno;

use super::memory::{self, Held};
use crate::arena::PAGE;
use crate::trampoline::{call, check};

/// Bytes of copies on the stack.
const INLINE: usize = 4096 + 256;
/// Bytes of a part that has a copy on the stack, if it is the only one.
pub(super) const MOST_ON_STACK: usize = INLINE;
/// Parts of a call.
const MOST_PARTS: usize = 16;
/// The largest copy in a mapping: that of a message whose pages cannot be pinned.
pub(super) const MOST_COPIED: usize = 256 << 20;

/// The way of bytes between the program and the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The kernel reads them.
    In,
    /// The kernel reads and writes them.
    Both,
    /// The kernel writes as many units of that size as the call returns.
    Returned(u32),
    /// As `Returned(1)`, with as many bytes before those.
    ReturnedAfter(u32),
}

impl Way {
    /// Bytes of the part that the kernel has written, if the call returned `result`.
    fn written(self, result: isize, bytes: usize) -> usize {
        let count = usize::try_from(result).unwrap_or(0);
        match self {
            Way::In => 0,
            Way::Both => bytes,
            Way::Returned(unit) => count.saturating_mul(unit as usize).min(bytes),
            Way::ReturnedAfter(_) if result < 0 => 0,
            Way::ReturnedAfter(before) => count.saturating_add(before as usize).min(bytes),
        }
    }

    /// Whether the kernel may leave bytes as they are that are copied back.
    fn is_read(self) -> bool {
        matches!(self, Way::In | Way::Both)
    }
}

/// The demands of the kernel on the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Any memory with those bytes.
    Any,
    /// The same place in a page: direct I/O wants it.
    InPlace,
    /// Pages that the kernel may use after the call: they are read, and stay as they are. Those of a mapping do.
    Lasting,
}

#[derive(Clone, Copy)]
struct Part {
    user: usize,
    copy: usize,
    bytes: usize,
    way: Way,
}

/// The copies and pins of a call, which end with it.
pub(super) struct Loan {
    inline: MaybeUninit<[u128; INLINE / 16]>,
    used: usize,
    mapped: [(usize, usize); 8],
    mappings: usize,
    parts: [Part; MOST_PARTS],
    count: usize,
    pins: [Option<Held>; MOST_PARTS],
    pinned: usize,
}

impl Loan {
    pub(super) fn new() -> Loan {
        let none = Part {
            user: 0,
            copy: 0,
            bytes: 0,
            way: Way::In,
        };
        Loan {
            inline: MaybeUninit::uninit(),
            used: 0,
            mapped: [(0, 0); 8],
            mappings: 0,
            parts: [none; MOST_PARTS],
            count: 0,
            pins: [const { None }; MOST_PARTS],
            pinned: 0,
        }
    }

    /// An address that the kernel may use for `bytes` of the program at `user`. The value must not move from the first call on.
    ///
    /// # Errors
    /// [`Errno::FAULT`] if the program cannot read them, [`Errno::NOMEM`] if neither a pin nor a copy is possible.
    pub(super) fn lend(
        &mut self,
        user: usize,
        bytes: usize,
        way: Way,
        manner: Manner,
    ) -> Result<usize, Errno> {
        if bytes == 0 || !memory::is_managed(user) {
            return Ok(user);
        }
        if manner == Manner::Any
            && let Some(copy) = self.take_inline(bytes)
        {
            return self.copy(user, copy, bytes, way);
        }
        if self.pin(user, bytes) {
            return Ok(user);
        }
        // A refused pin may be a bad address too: the kernel refuses it.
        if !memory::is_readable(user, 1) {
            return Ok(user);
        }
        let offset = user % PAGE;
        let copy = self.take_mapping(offset.checked_add(bytes).ok_or(Errno::FAULT)?)? + offset;
        self.copy(user, copy, bytes, way)
    }

    /// Pins bytes of the program while the value lives.
    pub(super) fn pin(&mut self, user: usize, bytes: usize) -> bool {
        if self.pinned == MOST_PARTS {
            return false;
        }
        self.pins[self.pinned] = memory::pin(user, bytes);
        let is_pinned = self.pins[self.pinned].is_some();
        self.pinned += usize::from(is_pinned);
        is_pinned
    }

    /// Memory for `bytes` that begins at a multiple of 16.
    ///
    /// # Errors
    /// [`Errno::NOMEM`].
    pub(super) fn take(&mut self, bytes: usize) -> Result<usize, Errno> {
        match self.take_inline(bytes) {
            Some(address) => Ok(address),
            None => self.take_mapping(bytes),
        }
    }

    fn take_inline(&mut self, bytes: usize) -> Option<usize> {
        let end = self.used.checked_add(bytes.checked_next_multiple_of(16)?)?;
        if end > INLINE {
            return None;
        }
        let address = self.inline.as_mut_ptr() as usize + self.used;
        self.used = end;
        Some(address)
    }

    /// As [`Loan::take`], in pages of its own.
    ///
    /// # Errors
    /// [`Errno::NOMEM`].
    pub(super) fn take_mapping(&mut self, bytes: usize) -> Result<usize, Errno> {
        if bytes > MOST_COPIED || self.mappings == self.mapped.len() {
            return Err(Errno::NOMEM);
        }
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        // SAFETY: a new mapping at addresses of the kernel's choice.
        let start = check(unsafe { call(libc::SYS_mmap, [0, bytes, access, flags, usize::MAX, 0]) })?;
        self.mapped[self.mappings] = (start, bytes);
        self.mappings += 1;
        Ok(start)
    }

    fn copy(&mut self, user: usize, copy: usize, bytes: usize, way: Way) -> Result<usize, Errno> {
        let Some(part) = self.parts.get_mut(self.count) else {
            return Err(Errno::NOMEM);
        };
        if way.is_read() {
            // SAFETY: the copy is memory of this value, with at least those bytes.
            unsafe { memory::copy_in(user, copy as *mut u8, bytes) }?;
        } else if !memory::is_readable(user, 1) {
            // The kernel would write there.
            return Err(Errno::FAULT);
        }
        *part = Part {
            user,
            copy,
            bytes,
            way,
        };
        self.count += 1;
        Ok(copy)
    }

    /// Copies to the program the bytes that the kernel wrote into copies. Returns the result of the call, or its error.
    pub(super) fn settle(&self, result: isize) -> isize {
        for part in &self.parts[..self.count] {
            let written = part.way.written(result, part.bytes);
            if written == 0 {
                continue;
            }
            // SAFETY: the copy is memory of this value, and the program asked the kernel to write there.
            let copied = unsafe { memory::copy_out(part.copy as *const u8, part.user, written) };
            if let Err(error) = copied {
                return -(error.raw() as isize);
            }
        }
        result
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        for (start, bytes) in &self.mapped[..self.mappings] {
            // SAFETY: mapped by this value, which alone knows it.
            unsafe { call(libc::SYS_munmap, [*start, *bytes, 0, 0, 0, 0]) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Pages;
    use super::*;

    #[test]
    fn the_kernel_writes_as_much_as_a_call_returns() {
        assert_eq!(Way::In.written(5, 10), 0);
        assert_eq!(Way::Both.written(-14, 10), 10);
        assert_eq!(Way::Returned(12).written(3, 100), 36);
        assert_eq!(Way::Returned(12).written(isize::MAX, 100), 100);
        assert_eq!(Way::Returned(1).written(-4, 100), 0);
        assert_eq!(Way::ReturnedAfter(8).written(0, 100), 8);
        assert_eq!(Way::ReturnedAfter(8).written(-1, 100), 0);
        assert_eq!(Way::ReturnedAfter(8).written(isize::MAX, 100), 100);
    }

    #[test]
    fn copies_go_both_ways_and_leave_the_rest() {
        let pages = Pages::of_arena(1);
        pages.fill(0, b"hello world");
        let mut loan = Loan::new();
        let read = loan.lend(pages.start(), 5, Way::In, Manner::Any).expect("memory");
        let written = loan
            .lend(pages.start() + 6, 5, Way::Returned(1), Manner::Any)
            .expect("memory");
        assert!(!memory::is_managed(read) && !memory::is_managed(written));
        // SAFETY: memory of the loan.
        unsafe {
            assert_eq!(std::slice::from_raw_parts(read as *const u8, 5), b"hello");
            (written as *mut [u8; 5]).write(*b"WORLD");
        }
        assert_eq!(loan.settle(3), 3);
        assert_eq!(pages.bytes(0, 11), b"hello WORld");
    }

    #[test]
    fn memory_of_others_is_not_touched_and_bad_addresses_are_refused() {
        let mut loan = Loan::new();
        assert_eq!(loan.lend(8, 100, Way::Both, Manner::Any), Ok(8));
        let pages = Pages::of_arena(1);
        pages.forbid(0);
        assert_eq!(
            loan.lend(pages.start(), 8, Way::In, Manner::Any),
            Err(Errno::FAULT)
        );
        assert_eq!(
            loan.lend(pages.start(), 8, Way::Returned(1), Manner::Any),
            Err(Errno::FAULT)
        );
    }
}
