//! The ioctls of a userfaultfd on ranges of memory. No call touches `errno`, so that a signal handler may make them.
#![allow(unsafe_code)]

use crate::raw::system_call;
use crate::{Errno, Fd};

/// `struct uffdio_range` of `<linux/userfaultfd.h>`.
#[repr(C)]
struct RawRange {
    start: u64,
    length: u64,
}

/// `struct uffdio_register`; also the layout of `struct uffdio_zeropage` and `struct uffdio_poison`.
#[repr(C)]
struct RawRangeCall {
    range: RawRange,
    mode: u64,
    /// Of a registration the possible ioctls, else the bytes done or a negative error.
    result: i64,
}

/// `struct uffdio_copy` and `struct uffdio_move`.
#[repr(C)]
struct RawTransfer {
    to: u64,
    from: u64,
    length: u64,
    mode: u64,
    /// Bytes done, or a negative error.
    result: i64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct RawWriteProtect {
    range: RawRange,
    mode: u64,
}

const _: () = assert!(size_of::<RawRange>() == 16);
const _: () = assert!(size_of::<RawRangeCall>() == 32);
const _: () = assert!(size_of::<RawTransfer>() == 40);
const _: () = assert!(size_of::<RawWriteProtect>() == 24);

/// The number of an ioctl: `_IOC(direction, 0xAA, number, size)`.
const fn request(direction: usize, number: usize, size: usize) -> usize {
    direction << 30 | size << 16 | 0xAA << 8 | number
}

const READ: usize = 2;
const READ_WRITE: usize = 3;
const REGISTER: usize = request(READ_WRITE, 0x00, size_of::<RawRangeCall>());
const UNREGISTER: usize = request(READ, 0x01, size_of::<RawRange>());
const WAKE: usize = request(READ, 0x02, size_of::<RawRange>());
const COPY: usize = request(READ_WRITE, 0x03, size_of::<RawTransfer>());
const ZEROPAGE: usize = request(READ_WRITE, 0x04, size_of::<RawRangeCall>());
const MOVE: usize = request(READ_WRITE, 0x05, size_of::<RawTransfer>());
const WRITEPROTECT: usize = request(READ_WRITE, 0x06, size_of::<RawWriteProtect>());
const POISON: usize = request(READ_WRITE, 0x08, size_of::<RawRangeCall>());

/// The values of `<linux/userfaultfd.h>`.
const _: () = assert!(REGISTER == 0xC020_AA00 && MOVE == 0xC028_AA05 && UNREGISTER == 0x8010_AA01);

/// `UFFDIO_WRITEPROTECT_MODE_WP`.
const MODE_WRITE_PROTECT: u64 = 1;

/// The faults of a range that a userfaultfd receives (`UFFDIO_REGISTER_MODE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegisterMode {
    /// Those on missing pages.
    Missing,
    /// Those on missing pages, and writes to write-protected ones.
    MissingAndWriteProtect,
}

/// The progress of a call on a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct UffdProgress {
    /// Bytes done, from the start of the range on.
    pub bytes: usize,
    /// The error that ended the call early. It is [`Errno::AGAIN`] after some progress, whatever the cause; a second call
    /// for the rest returns the cause.
    pub error: Option<Errno>,
}

/// # Safety
/// `argument` is a valid structure of the request, whose effects are the caller's premise.
unsafe fn ioctl<T>(uffd: &Fd, request: usize, argument: &mut T) -> Result<(), Errno> {
    let arguments = [uffd.raw() as usize, request, &raw mut *argument as usize, 0, 0, 0];
    // SAFETY: the kernel reads and writes the structure for the time of the call; the rest is the caller's premise.
    unsafe { system_call(libc::SYS_ioctl, arguments) }.map(drop)
}

fn progress(returned: Result<(), Errno>, result: i64) -> UffdProgress {
    UffdProgress {
        bytes: usize::try_from(result).unwrap_or(0),
        error: returned.err(),
    }
}

fn range(start: usize, length: usize) -> RawRange {
    RawRange {
        start: start as u64,
        length: length as u64,
    }
}

/// Registers `start..start + length`: its faults come to `uffd` (`UFFDIO_REGISTER`).
///
/// # Errors
/// [`Errno::INVAL`] for a range that is unmapped, not of whole pages or of an unfit mapping, [`Errno::BUSY`] if another
/// userfaultfd has it, [`Errno::NOMEM`] where the process has too many mappings (`vm.max_map_count`).
pub fn uffd_register(uffd: &Fd, start: usize, length: usize, mode: RegisterMode) -> Result<(), Errno> {
    let mut call = RawRangeCall {
        range: range(start, length),
        mode: match mode {
            RegisterMode::Missing => 1,
            RegisterMode::MissingAndWriteProtect => 1 | 2,
        },
        result: 0,
    };
    // SAFETY: the structure is that of the request. It changes no contents; a fault then raises a signal or waits.
    unsafe { ioctl(uffd, REGISTER, &mut call) }
}

/// Ends the registration of a range (`UFFDIO_UNREGISTER`). Missing pages read as zero from then on.
///
/// # Errors
/// [`Errno::INVAL`] for a range that is unmapped, not of whole pages or of an unfit mapping, [`Errno::NOMEM`] where the
/// process has too many mappings.
pub fn uffd_unregister(uffd: &Fd, start: usize, length: usize) -> Result<(), Errno> {
    // SAFETY: the structure is that of the request. Missing pages were never readable as anything else.
    unsafe { ioctl(uffd, UNREGISTER, &mut range(start, length)) }
}

/// Wakes the threads that wait for a fault in a range (`UFFDIO_WAKE`).
///
/// # Errors
/// [`Errno::INVAL`] for a range that is not of whole pages.
pub fn uffd_wake(uffd: &Fd, start: usize, length: usize) -> Result<(), Errno> {
    // SAFETY: the structure is that of the request, which changes no memory.
    unsafe { ioctl(uffd, WAKE, &mut range(start, length)) }
}

/// Fills missing pages at `to` with the bytes at `from` (`UFFDIO_COPY`), and wakes threads that wait for them.
///
/// Errors: [`Errno::EXIST`] for a present page, [`Errno::AGAIN`] for a mapping that is being changed,
/// [`Errno::NOMEM`], [`Errno::FAULT`].
///
/// # Safety
/// The range at `to` is the caller's, and its users expect these contents; `from..from + length` is readable.
pub unsafe fn uffd_copy(uffd: &Fd, to: usize, from: *const u8, length: usize) -> UffdProgress {
    let mut call = RawTransfer {
        to: to as u64,
        from: from as u64,
        length: length as u64,
        mode: 0,
        result: 0,
    };
    // SAFETY: the structure is that of the request; the rest is the caller's premise.
    let returned = unsafe { ioctl(uffd, COPY, &mut call) };
    progress(returned, call.result)
}

/// Fills missing pages with the shared zero page (`UFFDIO_ZEROPAGE`), and wakes threads that wait for them.
///
/// Errors as those of [`uffd_copy`].
///
/// # Safety
/// The range is the caller's, and its users expect zeros.
pub unsafe fn uffd_zero(uffd: &Fd, start: usize, length: usize) -> UffdProgress {
    let mut call = RawRangeCall {
        range: range(start, length),
        mode: 0,
        result: 0,
    };
    // SAFETY: the structure is that of the request; the rest is the caller's premise.
    let returned = unsafe { ioctl(uffd, ZEROPAGE, &mut call) };
    progress(returned, call.result)
}

/// Moves present pages from `from` to missing pages at `to` (`UFFDIO_MOVE`, Linux 6.8). `to` must be registered, `from`
/// need not be; each lies in one mapping, private and anonymous, with equal access rights.
///
/// Errors: [`Errno::BUSY`] for a page that another process shares or a device has pinned, [`Errno::AGAIN`] in a race or
/// after some progress, [`Errno::NOENT`] for a missing source, [`Errno::EXIST`] for a present destination,
/// [`Errno::INVAL`] for unfit mappings, [`Errno::NOMEM`].
///
/// # Safety
/// Both ranges are the caller's, and their users expect the contents to move.
pub unsafe fn uffd_move(uffd: &Fd, to: usize, from: usize, length: usize) -> UffdProgress {
    let mut call = RawTransfer {
        to: to as u64,
        from: from as u64,
        length: length as u64,
        mode: 0,
        result: 0,
    };
    // SAFETY: the structure is that of the request; the rest is the caller's premise.
    let returned = unsafe { ioctl(uffd, MOVE, &mut call) };
    progress(returned, call.result)
}

/// Write-protects the present pages of a range, or allows writes again (`UFFDIO_WRITEPROTECT`).
///
/// # Errors
/// [`Errno::NOENT`] for a range that is not registered for it, [`Errno::AGAIN`] for a mapping that is being changed.
pub fn uffd_write_protect(uffd: &Fd, start: usize, length: usize, protect: bool) -> Result<(), Errno> {
    let mut call = RawWriteProtect {
        range: range(start, length),
        mode: if protect { MODE_WRITE_PROTECT } else { 0 },
    };
    // SAFETY: the structure is that of the request, which changes no contents.
    unsafe { ioctl(uffd, WRITEPROTECT, &mut call) }
}

/// Marks missing pages so that an access raises SIGBUS, in children of a fork too (`UFFDIO_POISON`, Linux 6.6). A copy
/// to the page replaces the mark.
///
/// Errors as those of [`uffd_copy`].
///
/// # Safety
/// The range is the caller's.
pub unsafe fn uffd_poison(uffd: &Fd, start: usize, length: usize) -> UffdProgress {
    let mut call = RawRangeCall {
        range: range(start, length),
        mode: 0,
        result: 0,
    };
    // SAFETY: the structure is that of the request; the rest is the caller's premise.
    let returned = unsafe { ioctl(uffd, POISON, &mut call) };
    progress(returned, call.result)
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;

    use super::{RegisterMode, uffd_copy, uffd_move, uffd_register, uffd_unregister};
    use crate::{
        Advice, Errno, Fd, UffdFeatures, UffdMode, address_space, api_handshake_with, open_userfaultfd,
    };

    const PAGE: usize = 4096;
    const PAGES: usize = 16;

    /// A userfaultfd of a user without privilege, which can move pages.
    fn uffd() -> Fd {
        let uffd = open_userfaultfd(UffdMode::UserModeOnly).expect("userfaultfd is allowed");
        let features = UffdFeatures::SIGBUS.with(UffdFeatures::MOVE);
        api_handshake_with(&uffd, features).expect("Linux 6.8");
        uffd
    }

    fn pages() -> usize {
        let start = address_space::map(PAGES * PAGE).expect("memory");
        address_space::advise(start, PAGES * PAGE, Advice::NoHugePage).expect("base pages");
        start
    }

    fn byte(address: usize) -> u8 {
        // SAFETY: the tests read present pages of their own mappings alone.
        unsafe { (address as *const u8).read_volatile() }
    }

    #[test]
    fn pages_are_copied_in_and_moved_with_their_contents() {
        let (uffd, from, to) = (uffd(), pages(), pages());
        for start in [from, to] {
            uffd_register(&uffd, start, PAGES * PAGE, RegisterMode::Missing).expect("a plain mapping");
        }
        let bytes = [7_u8; 2 * PAGE];
        // SAFETY: the mappings are this test's.
        unsafe {
            let copied = uffd_copy(&uffd, from, bytes.as_ptr(), 2 * PAGE);
            assert_eq!((copied.bytes, copied.error), (2 * PAGE, None));
            let again = uffd_copy(&uffd, from, bytes.as_ptr(), PAGE);
            assert_eq!((again.bytes, again.error), (0, Some(Errno::EXIST)));

            // Two of four are present: the call ends behind them, and a second one tells why.
            let moved = uffd_move(&uffd, to, from, 4 * PAGE);
            assert_eq!((moved.bytes, moved.error), (2 * PAGE, Some(Errno::AGAIN)));
            let rest = uffd_move(&uffd, to + 2 * PAGE, from + 2 * PAGE, 2 * PAGE);
            assert_eq!((rest.bytes, rest.error), (0, Some(Errno::NOENT)));
        }
        assert_eq!((byte(to), byte(to + 2 * PAGE - 1)), (7, 7));
        uffd_unregister(&uffd, from, PAGES * PAGE).expect("registered above");
        assert_eq!(byte(from), 0, "a missing page of an ordinary mapping");
        for start in [from, to] {
            // SAFETY: the mappings are this test's, which uses them no more.
            unsafe { address_space::unmap(start, PAGES * PAGE) }.expect("mapped above");
        }
    }

    #[test]
    fn a_feature_that_the_kernel_lacks_is_refused() {
        let uffd = open_userfaultfd(UffdMode::UserModeOnly).expect("userfaultfd is allowed");
        let refused = api_handshake_with(&uffd, UffdFeatures(1 << 63));
        assert_eq!(refused.err(), Some(Errno::INVAL));
    }
}
