//! The error of a system call.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_int};
use core::fmt;

/// The error number that a system call left behind (`errno(3)`).
///
/// With std, `std::io::Error::from_raw_os_error(errno.raw())` converts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(c_int);

/// A number that no other living thread of this process has: the address of its errno. It makes no system call, and may be
/// asked for in a signal handler.
pub fn thread_token() -> usize {
    // SAFETY: it has no premises, and the pointer is not used as one.
    unsafe { libc::__errno_location() as usize }
}

impl Errno {
    /// Operation not permitted.
    pub const PERM: Errno = Errno(libc::EPERM);
    /// No such process.
    pub const SRCH: Errno = Errno(libc::ESRCH);
    /// Interrupted by a signal.
    pub const INTR: Errno = Errno(libc::EINTR);
    /// Not now: too many threads, for one.
    pub const AGAIN: Errno = Errno(libc::EAGAIN);
    /// Out of memory, or a range that is not mapped.
    pub const NOMEM: Errno = Errno(libc::ENOMEM);
    /// The process has reached its limit of open descriptors.
    pub const MFILE: Errno = Errno(libc::EMFILE);
    /// The system has reached its limit of open files.
    pub const NFILE: Errno = Errno(libc::ENFILE);
    /// An address where nothing can be read or written.
    pub const FAULT: Errno = Errno(libc::EFAULT);
    /// Invalid argument.
    pub const INVAL: Errno = Errno(libc::EINVAL);
    /// In use: a page that a device or another process shares, for one.
    pub const BUSY: Errno = Errno(libc::EBUSY);
    /// No such file, or a page that is absent.
    pub const NOENT: Errno = Errno(libc::ENOENT);
    /// Something is there already.
    pub const EXIST: Errno = Errno(libc::EEXIST);
    /// The disk failed.
    pub const IO: Errno = Errno(libc::EIO);
    /// A symbolic link, or a file, where a folder is asked for.
    pub const NOTDIR: Errno = Errno(libc::ENOTDIR);
    /// A folder where a file is asked for.
    pub const ISDIR: Errno = Errno(libc::EISDIR);
    /// The file would exceed a limit: RLIMIT_FSIZE, or that of its file system.
    pub const FBIG: Errno = Errno(libc::EFBIG);
    /// The disk is full.
    pub const NOSPC: Errno = Errno(libc::ENOSPC);
    /// The user's share of the disk is full.
    pub const DQUOT: Errno = Errno(libc::EDQUOT);
    /// Not possible for this file.
    pub const OPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);
    /// An operation was cancelled before it began or while it ran.
    pub const CANCELED: Errno = Errno(libc::ECANCELED);
    /// Bytes of another checksum, as file systems report them.
    pub const BADMSG: Errno = Errno(libc::EBADMSG);
    /// Not built into this kernel.
    pub const NOSYS: Errno = Errno(libc::ENOSYS);

    /// The number itself.
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// The error of that number, as the kernel returns it.
    pub const fn of_number(number: c_int) -> Errno {
        Errno(number)
    }

    /// The error of the call that this thread made last.
    pub(crate) fn last() -> Errno {
        // SAFETY: `__errno_location` returns this thread's own errno, valid for the thread's life.
        Errno(unsafe { *libc::__errno_location() })
    }

    /// `Err` with the last error where a call returned -1, its value otherwise.
    pub(crate) fn check(returned: c_int) -> Result<c_int, Errno> {
        if returned == -1 {
            Err(Errno::last())
        } else {
            Ok(returned)
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; 128];
        // SAFETY: the buffer is writable for the length that is passed.
        let failed = unsafe { libc::strerror_r(self.0, text.as_mut_ptr().cast(), text.len()) };
        match CStr::from_bytes_until_nul(&text).map(CStr::to_str) {
            Ok(Ok(words)) if failed == 0 => write!(f, "{words} (errno {})", self.0),
            _ => write!(f, "errno {}", self.0),
        }
    }
}

impl core::error::Error for Errno {}
