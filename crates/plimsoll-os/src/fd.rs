//! An owned file descriptor, since `std::os::fd::OwnedFd` is not in `core`.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint};

use crate::Errno;
use crate::raw::system_call;

/// A file descriptor that is closed when it is dropped.
#[derive(Debug)]
pub struct Fd(c_int);

impl Fd {
    /// Takes ownership of the descriptor that a system call returned.
    pub(crate) fn from_call(returned: c_int) -> Fd {
        debug_assert!(returned >= 0);
        Fd(returned)
    }

    /// The same file at the first free number from `least` on. Its former number is closed, unless it is one of those.
    ///
    /// # Errors
    /// `EMFILE` or [`Errno::INVAL`] where the process may have no such number; the file is closed then.
    pub(crate) fn at_number_from(self, least: c_int) -> Result<Fd, Errno> {
        if self.0 >= least {
            return Ok(self);
        }
        let command = libc::F_DUPFD_CLOEXEC as usize;
        let arguments = [self.0 as usize, command, least as usize, 0, 0, 0];
        // SAFETY: the call takes numbers alone and returns a new descriptor.
        let moved = unsafe { system_call(libc::SYS_fcntl, arguments) }?;
        Ok(Fd::from_call(moved as c_int))
    }

    /// The number, still owned by `self`.
    pub fn raw(&self) -> i32 {
        self.0
    }
}

/// Gives the open file of descriptor `from` the number `to` as well; the file that had it is closed.
///
/// # Errors
/// `EBADF` if one of them is not open.
///
/// # Safety
/// The caller owns `to`, and its users may meet another file there.
pub unsafe fn renumber(from: i32, to: i32) -> Result<(), Errno> {
    // SAFETY: the caller's premise.
    Errno::check(unsafe { libc::dup3(from, to, libc::O_CLOEXEC) }).map(|_| ())
}

/// Gives the calling thread a table of descriptors of its own, which is empty: the files that it opens from then on take no number of the
/// process's other threads, and it keeps none of their files open.
///
/// # Errors
/// Kernels before 5.9 lack the call, and a filter may refuse it.
///
/// # Safety
/// The thread uses no descriptor that is open now.
pub unsafe fn unshare_descriptors() -> Result<(), Errno> {
    let flags = libc::CLOSE_RANGE_UNSHARE as usize;
    let arguments = [0, c_uint::MAX as usize, flags, 0, 0, 0];
    // SAFETY: the call takes no memory; the rest is the caller's premise.
    unsafe { system_call(libc::SYS_close_range, arguments) }.map(drop)
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: `self` is the only owner of the descriptor, and it ends here.
        unsafe { libc::close(self.0) };
    }
}
