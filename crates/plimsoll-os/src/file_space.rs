//! Blocks and memory of files, ahead of their writes.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ops::Range;

use crate::Errno;

/// Tries that signals interrupt.
const MOST_INTERRUPTS: usize = 100;

/// Gives a part of a file blocks, or memory if the file is in memory, so that no later write finds none (`fallocate(2)`). A
/// file system without the call leaves the file as it is.
///
/// # Errors
/// `ENOSPC` where there is no room; [`Errno::INTR`] where signals interrupt each try.
pub fn allocate_file(file: c_int, bytes: Range<u64>) -> Result<(), Errno> {
    let (start, length) = (
        bytes.start as libc::off_t,
        (bytes.end - bytes.start) as libc::off_t,
    );
    let mut interrupts = 0;
    loop {
        // SAFETY: the call takes numbers, and changes no byte of the file.
        match Errno::check(unsafe { libc::fallocate(file, 0, start, length) }) {
            Err(errno) if errno.raw() == libc::EOPNOTSUPP => return Ok(()),
            // Linux 6.1 does not restart the call on a file in memory, and the end of an io_uring a moment before
            // interrupts it, too.
            Err(Errno::INTR) if interrupts < MOST_INTERRUPTS => interrupts += 1,
            outcome => return outcome.map(drop),
        }
    }
}
