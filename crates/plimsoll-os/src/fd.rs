//! An owned file descriptor, since `std::os::fd::OwnedFd` is not in `core`.
#![allow(unsafe_code)]

use core::ffi::c_int;

use crate::Errno;

/// A file descriptor that is closed when it is dropped.
#[derive(Debug)]
pub struct Fd(c_int);

impl Fd {
    /// Takes ownership of the descriptor that a system call returned.
    pub(crate) fn from_call(returned: c_int) -> Fd {
        debug_assert!(returned >= 0);
        Fd(returned)
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

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: `self` is the only owner of the descriptor, and it ends here.
        unsafe { libc::close(self.0) };
    }
}
