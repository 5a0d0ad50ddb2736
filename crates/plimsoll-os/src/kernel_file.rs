//! Files of the kernel, read piece by piece without the C library. No call touches `errno`.
#![allow(unsafe_code)]

use core::ffi::CStr;

use crate::raw::system_call;
use crate::{Errno, repeat_interrupted};

/// Calls `visit` with the contents of a file, piece by piece.
///
/// # Errors
/// The error of `open(2)` or of the read that failed: `visit` has the pieces before it.
pub(crate) fn read_file(path: &CStr, mut visit: impl FnMut(&[u8])) -> Result<(), Errno> {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let here = libc::AT_FDCWD as usize;
    let file = repeat_interrupted(|| {
        // SAFETY: the path ends with NUL and outlives the call.
        unsafe { system_call(libc::SYS_openat, [here, path.as_ptr() as usize, flags, 0, 0, 0]) }
    })?;
    let mut chunk = [0u8; 1024];
    let read = loop {
        let arguments = [file, chunk.as_mut_ptr() as usize, chunk.len(), 0, 0, 0];
        let read = repeat_interrupted(|| {
            // SAFETY: the kernel writes at most as many bytes as the chunk has.
            unsafe { system_call(libc::SYS_read, arguments) }
        });
        match read {
            Ok(0) => break Ok(()),
            Ok(read) => visit(&chunk[..read]),
            Err(error) => break Err(error),
        }
    };
    // SAFETY: the descriptor is this function's own.
    let _ = unsafe { system_call(libc::SYS_close, [file, 0, 0, 0, 0, 0]) };
    read
}
