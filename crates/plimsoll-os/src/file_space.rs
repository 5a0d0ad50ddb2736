//! Blocks and memory of files, ahead of their writes.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ops::Range;

use crate::{Errno, repeat_interrupted};

/// Bytes of one call: the kernel undoes all of an interrupted call on a file in memory.
const PIECE: u64 = 16 << 20;

/// Gives a part of a file blocks, or memory if the file is in memory, so that no later write finds none (`fallocate(2)`). A
/// file system without the call leaves the file as it is.
///
/// # Errors
/// `ENOSPC` where there is no room; [`Errno::INTR`] where signals interrupt each try.
pub fn allocate_file(file: c_int, bytes: Range<u64>) -> Result<(), Errno> {
    let mut start = bytes.start;
    while start < bytes.end {
        let length = (bytes.end - start).min(PIECE);
        // Linux 6.1 does not restart the call on a file in memory, and the end of an io_uring a moment before interrupts it,
        // too.
        let allocated = repeat_interrupted(|| {
            // SAFETY: the call takes numbers, and changes no byte of the file.
            Errno::check(unsafe { libc::fallocate(file, 0, start as libc::off_t, length as libc::off_t) })
        });
        match allocated {
            Ok(_) => start += length,
            Err(Errno::OPNOTSUPP) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
