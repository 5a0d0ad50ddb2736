//! Blocks and memory of files, ahead of their writes.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ops::Range;

use crate::Errno;

/// Interrupted tries in a row after which the error is returned.
const MOST_INTERRUPTS: usize = 100;
/// Bytes of one call: the kernel undoes all of an interrupted call on a file in memory.
const PIECE: u64 = 16 << 20;

/// Gives a part of a file blocks, or memory if the file is in memory, so that no later write finds none (`fallocate(2)`). A
/// file system without the call leaves the file as it is.
///
/// # Errors
/// `ENOSPC` where there is no room; [`Errno::INTR`] where signals interrupt each try.
pub fn allocate_file(file: c_int, bytes: Range<u64>) -> Result<(), Errno> {
    let (mut start, mut interrupts) = (bytes.start, 0);
    while start < bytes.end {
        let length = (bytes.end - start).min(PIECE);
        // SAFETY: the call takes numbers, and changes no byte of the file.
        let returned = unsafe { libc::fallocate(file, 0, start as libc::off_t, length as libc::off_t) };
        match Errno::check(returned) {
            Ok(_) => (start, interrupts) = (start + length, 0),
            Err(errno) if errno.raw() == libc::EOPNOTSUPP => return Ok(()),
            // Linux 6.1 does not restart the call on a file in memory, and the end of an io_uring a moment before
            // interrupts it, too.
            Err(Errno::INTR) if interrupts < MOST_INTERRUPTS => interrupts += 1,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
