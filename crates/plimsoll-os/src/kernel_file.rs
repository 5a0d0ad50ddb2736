//! Files of the kernel, read piece by piece without the C library. No call touches `errno`.
#![allow(unsafe_code)]

use core::ffi::CStr;

use crate::Errno;
use crate::raw::system_call;

/// Calls `visit` with the contents of a file, piece by piece.
///
/// # Errors
/// The error of `open(2)` or of the read that failed: `visit` has the pieces before it.
pub(crate) fn read_file(path: &CStr, mut visit: impl FnMut(&[u8])) -> Result<(), Errno> {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let here = libc::AT_FDCWD as usize;
    // SAFETY: the path ends with NUL and outlives the call.
    let file = unsafe { system_call(libc::SYS_openat, [here, path.as_ptr() as usize, flags, 0, 0, 0]) }?;
    let mut chunk = [0u8; 1024];
    let read = loop {
        let arguments = [file, chunk.as_mut_ptr() as usize, chunk.len(), 0, 0, 0];
        // SAFETY: the kernel writes at most as many bytes as the chunk has.
        match unsafe { system_call(libc::SYS_read, arguments) } {
            Ok(0) => break Ok(()),
            Ok(read) => visit(&chunk[..read]),
            Err(Errno::INTR) => {}
            Err(error) => break Err(error),
        }
    };
    // SAFETY: the descriptor is this function's own.
    let _ = unsafe { system_call(libc::SYS_close, [file, 0, 0, 0, 0, 0]) };
    read
}
