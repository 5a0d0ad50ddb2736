//! The arena: the addresses of the program's anonymous memory, at a fixed place, and the pager behind them.
#![allow(
    unsafe_code,
    reason = "the contents of ranges that the program has given up, and its rights to others"
)]

use std::ffi::c_int;
use std::ops::Range;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_os::Errno;
use plimsoll_pager::{CallPin, Pager, RangeError, Region};

use crate::addresses::{Addresses, Pages, Use};
use crate::lock::{HeldValue, Locked};
use crate::signals_blocked::SignalsBlocked;
use crate::trampoline::{self, check};

/// The address of the arena: no kernel maps there by itself, and a filter of system calls tells its addresses by their upper
/// half.
pub(crate) const ARENA: usize = 0x1000_0000_0000;
pub(crate) const ARENA_BYTES: usize = 256 << 30;
/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
pub(crate) const ARENA_PAGES: u32 = (ARENA_BYTES / PAGE) as u32;

/// Whether an address is the arena's.
#[inline(always)]
pub(crate) const fn contains(address: usize) -> bool {
    address.wrapping_sub(ARENA) < ARENA_BYTES
}

/// Whether a part of `start..end` is the arena's.
pub(crate) const fn overlaps(start: usize, end: usize) -> bool {
    start < ARENA + ARENA_BYTES && end > ARENA && start < end
}

pub(crate) const fn address_of(page: u32) -> usize {
    ARENA + page as usize * PAGE
}

/// The longest wait for pins of pages that another mapping replaces: system calls that use pages of files end sooner.
const MOST_WAIT: Duration = Duration::from_secs(1);

static OPEN: OnceLock<Arena> = OnceLock::new();

/// The arena, once the library has started; none in a process without a pager.
#[inline]
pub(crate) fn arena() -> Option<&'static Arena> {
    OPEN.get()
}

/// The arena of this process.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) pager: Pager,
    /// All of the arena.
    pub(crate) region: Region,
    table: Locked<Addresses>,
}

/// The uses of addresses, to be read and changed by this thread alone. It handles no signal meanwhile: a handler of the
/// program may map memory.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    pub(crate) addresses: HeldValue<'a, Addresses>,
    _blocked: SignalsBlocked,
}

impl Arena {
    /// Opens the arena, whose addresses are all free and inaccessible.
    pub(crate) fn open(pager: Pager, region: Region) -> &'static Arena {
        OPEN.get_or_init(|| Arena {
            pager,
            region,
            table: Locked::new(Addresses::new(ARENA_PAGES)),
        })
    }

    /// Makes all addresses inaccessible: none is in use yet.
    pub(crate) fn close_addresses(&self) -> Result<(), Errno> {
        self.protect(&(0..ARENA_PAGES), libc::PROT_NONE)
    }

    /// Sets the program's rights to pages, which are the pager's. Writable pages are about to be used.
    pub(crate) fn protect(&self, pages: &Pages, protection: c_int) -> Result<(), Errno> {
        let range = offsets(pages);
        let arguments = [ARENA + range.start, range.len(), protection as usize, 0, 0, 0];
        // SAFETY: the pages are mapped, and the program asked for it.
        check(unsafe { trampoline::call(libc::SYS_mprotect, arguments) })?;
        // Without the right to write, new pages stay zero: the heap has tables of 512 MiB that it may read, and few pages of them
        // are ever written.
        if protection & libc::PROT_WRITE != 0 {
            self.commit(pages);
        }
        Ok(())
    }

    /// Tells the pager that the program is about to use pages: while all fits in the budget, the kernel serves them.
    pub(crate) fn commit(&self, pages: &Pages) {
        // The pages are the region's.
        let _ = self.region.commit(offsets(pages));
    }

    /// Takes the table of addresses.
    pub(crate) fn table(&self) -> Table<'_> {
        let blocked = SignalsBlocked::new();
        Table {
            addresses: self.table.hold(),
            _blocked: blocked,
        }
    }

    /// The bytes of the program's anonymous memory that end at `end`, an address in the arena or its end, without a gap: `most` at most.
    pub(crate) fn anonymous_below(&self, end: usize, most: usize) -> usize {
        let table = self.table();
        let is_anonymous = |page: &u32| {
            let used = table.addresses.use_of(*page..*page + 1);
            matches!(used, Some(Use::Anonymous(_)))
        };
        let last = (end.wrapping_sub(ARENA + 1) / PAGE) as u32;
        let pages = (0..=last).rev().take(most / PAGE).take_while(is_anonymous);
        pages.last().map_or(0, |first| end - address_of(first))
    }

    /// As [`Arena::anonymous_below`], of those that begin at `start`, an address in the arena.
    pub(crate) fn anonymous_above(&self, start: usize, most: usize) -> usize {
        let table = self.table();
        let first = ((start - ARENA) / PAGE) as u32;
        let is_anonymous = |page: &u32| {
            let used = table.addresses.use_of(*page..*page + 1);
            matches!(used, Some(Use::Anonymous(_)))
        };
        let pages = (first..first + (most / PAGE) as u32).take_while(is_anonymous);
        pages.last().map_or(0, |last| address_of(last + 1) - start)
    }

    /// Takes the lock of the table, so that a child of a fork finds it whole, until [`Arena::release_after_fork`].
    pub(crate) fn hold_for_fork(&self) {
        self.table.lock().acquire();
    }

    /// Releases the lock of the table after a fork, in the parent and in the child.
    pub(crate) fn release_after_fork(&self) {
        self.table.lock().release();
    }

    /// Drops the contents of pages, which have this protection from then on: they read as zero.
    ///
    /// The kernel drops pages that a system call of another thread uses, and the call goes on with what the program has there
    /// next, or fails with `EFAULT`. The pager keeps pinned pages, so zeros overwrite them: for the other call it is the same.
    pub(crate) fn clear(&self, pages: &Pages, protection: c_int) -> Result<(), Errno> {
        // SAFETY: the library makes no reference to the program's memory.
        let discard = |range| unsafe { self.region.discard_unborrowed(range) };
        self.end_contents(&discard, pages, protection)
    }

    /// As [`Arena::clear`], for inaccessible pages that the program has given up: they reserve no budget any more.
    pub(crate) fn decommit(&self, pages: &Pages) -> Result<(), Errno> {
        // SAFETY: the library makes no reference to the program's memory.
        let decommit = |range| unsafe { self.region.decommit_unborrowed(range) };
        self.end_contents(&decommit, pages, libc::PROT_NONE)
    }

    /// Ends the contents of pages by `end`, and of pinned ones by zeros.
    fn end_contents(
        &self,
        end: &dyn Fn(Range<usize>) -> Result<(), RangeError>,
        pages: &Pages,
        protection: c_int,
    ) -> Result<(), Errno> {
        match end(offsets(pages)) {
            Err(RangeError::Pinned { .. }) if pages.len() > 1 => {
                let middle = pages.start + pages.len() as u32 / 2;
                self.end_contents(end, &(pages.start..middle), protection)?;
                self.end_contents(end, &(middle..pages.end), protection)
            }
            Err(RangeError::Pinned { .. }) => self.overwrite(pages, protection),
            ended => ended.map_err(|error| errno_of(&error)),
        }
    }

    /// Overwrites pages by zeros. They have this protection afterwards.
    fn overwrite(&self, pages: &Pages, protection: c_int) -> Result<(), Errno> {
        self.protect(pages, libc::PROT_READ | libc::PROT_WRITE)?;
        let range = offsets(pages);
        // SAFETY: the pages are mapped and writable, and the program gave their contents up. If the pin has ended and a page is
        // absent, the write waits for the pager.
        unsafe { ((ARENA + range.start) as *mut u8).write_bytes(0, range.len()) };
        self.protect(pages, protection)
    }

    /// Has the pager give pages up: the program puts another mapping there. Waits for the end of pins, up to [`MOST_WAIT`].
    pub(crate) fn surrender(&self, pages: &Pages) -> Result<(), Errno> {
        let start = Instant::now();
        loop {
            // SAFETY: the library makes no reference to the program's memory, and the program replaces the contents.
            match unsafe { self.region.surrender(offsets(pages)) } {
                Err(RangeError::Pinned { .. }) if start.elapsed() < MOST_WAIT => {
                    thread::sleep(Duration::from_millis(1));
                }
                surrendered => return surrendered.map_err(|error| errno_of(&error)),
            }
        }
    }

    /// Makes the pages that `first..end` touches, in bytes of the arena, present, and keeps them so until the pin is dropped.
    /// None if the budget or the number of pins does not allow it. May be called in a signal handler.
    pub(crate) fn pin(&'static self, first: usize, end: usize) -> Option<Pin> {
        let range = offsets_between(first, end)?;
        let end = range.end;
        let (guard, bytes) = self.region.pin_in_signal_handler(range.clone()).ok()?;
        (range.start + bytes == end).then_some(Pin { _guard: guard })
    }

    /// Whether signals serve the faults: the kernel does not wait for the pager.
    pub(crate) fn has_signals(&self) -> bool {
        !self.pager.serves_system_calls()
    }

    /// As [`Arena::pin`], of the page with `address` and whatever the budget allows: the thread drops the pin before it waits.
    ///
    /// # Errors
    /// Those of [`Region::pin_for_a_moment`].
    pub(crate) fn pin_for_a_moment(&'static self, address: usize) -> Result<Pin, RangeError> {
        let guard = self.region.pin_for_a_moment(address.wrapping_sub(ARENA))?;
        Ok(Pin { _guard: guard })
    }

    /// Whether the pages of the arena that `first..end` touches are present now.
    pub(crate) fn is_present(&self, first: usize, end: usize) -> bool {
        offsets_between(first, end).is_none_or(|range| self.region.is_present(range).unwrap_or(true))
    }

    /// As [`Arena::pin`], for the life of the process. Returns whether that is possible.
    pub(crate) fn keep(&self, first: usize, end: usize) -> bool {
        offsets_between(first, end).is_some_and(|range| self.region.pin_for_ever(range).is_ok())
    }
}

/// The bytes of the arena in `first..end`, which begins in it.
fn offsets_between(first: usize, end: usize) -> Option<Range<usize>> {
    let end = end.min(ARENA + ARENA_BYTES);
    (contains(first) && first < end).then(|| first - ARENA..end - ARENA)
}

/// Keeps pages present.
#[derive(Debug)]
#[must_use = "dropping it ends the pin"]
pub(crate) struct Pin {
    _guard: CallPin<'static>,
}

/// The bytes of the arena that pages are.
pub(crate) fn offsets(pages: &Pages) -> Range<usize> {
    pages.start as usize * PAGE..pages.end as usize * PAGE
}

/// The error of a system call that stands for an error of the pager.
pub(crate) fn errno_of(error: &RangeError) -> Errno {
    match error {
        RangeError::System(errno) => *errno,
        _ => Errno::NOMEM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_arena() {
        assert!(contains(ARENA) && contains(ARENA + ARENA_BYTES - 1));
        assert!(!contains(ARENA - 1) && !contains(ARENA + ARENA_BYTES) && !contains(0));
        assert!(overlaps(ARENA - 1, ARENA + 1) && !overlaps(ARENA - 1, ARENA));
        assert!(!overlaps(ARENA + ARENA_BYTES, usize::MAX) && !overlaps(ARENA + 2, ARENA + 1));
        assert!(overlaps(0, usize::MAX));
        assert_eq!(address_of(ARENA_PAGES), ARENA + ARENA_BYTES);
    }
}
