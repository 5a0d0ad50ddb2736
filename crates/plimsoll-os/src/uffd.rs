//! userfaultfd: page faults handled by the program. Opening it and its features; the calls on ranges are in `ranges`, the
//! faults that a thread reads in `messages`.
#![allow(unsafe_code)]

mod messages;
mod ranges;

use core::ffi::{c_int, c_ulong};

use crate::{Errno, Fd};

pub use messages::{FaultReader, MOST_FAULTS, UffdFault};
pub use ranges::{
    RegisterMode, UffdProgress, uffd_copy, uffd_move, uffd_poison, uffd_register, uffd_unregister, uffd_wake,
    uffd_write_protect, uffd_zero,
};

/// `UFFD_USER_MODE_ONLY` of `<linux/userfaultfd.h>`.
const USER_MODE_ONLY: c_int = 1;
/// `UFFD_API` of `<linux/userfaultfd.h>`.
const API_VERSION: u64 = 0xAA;
/// `USERFAULTFD_IOC_NEW`: `_IO(0xAA, 0x00)`.
const IOC_NEW: c_ulong = 0xAA00;
/// `UFFDIO_API`: `_IOWR(0xAA, 0x3F, struct uffdio_api)`.
const IOC_API: c_ulong = 0xC018_AA3F;

/// `struct uffdio_api` of `<linux/userfaultfd.h>`.
#[repr(C)]
struct RawApi {
    api: u64,
    features: u64,
    ioctls: u64,
}
const _: () = assert!(size_of::<RawApi>() == 24);

/// The faults that a userfaultfd delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UffdMode {
    /// All, also those that the kernel takes inside a system call. Needs CAP_SYS_PTRACE,
    /// `vm.unprivileged_userfaultfd=1`, or access to `/dev/userfaultfd`.
    Full,
    /// Those of user code alone; allowed without privilege.
    UserModeOnly,
}

impl UffdMode {
    fn flags(self) -> c_int {
        let base = libc::O_CLOEXEC | libc::O_NONBLOCK;
        match self {
            UffdMode::Full => base,
            UffdMode::UserModeOnly => base | USER_MODE_ONLY,
        }
    }
}

/// The answer to the handshake of a userfaultfd: bits as `<linux/userfaultfd.h>` numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UffdApi {
    /// `UFFD_FEATURE_*` bits that the kernel knows.
    pub features: u64,
    /// Bit n is set where ioctl number n is known (`1 << _UFFDIO_REGISTER` and so on).
    pub ioctls: u64,
}

/// Opens a userfaultfd by the system call (`userfaultfd(2)`).
///
/// # Errors
/// [`Errno::PERM`] where privilege is missing for `mode`, [`Errno::NOSYS`] where the kernel was built without it.
pub fn open_userfaultfd(mode: UffdMode) -> Result<Fd, Errno> {
    // SAFETY: the call takes flags alone and returns a new descriptor.
    let returned = unsafe { libc::syscall(libc::SYS_userfaultfd, mode.flags()) };
    Errno::check(returned as c_int).map(Fd::from_call)
}

/// Opens a userfaultfd through `device`, the raw number of an open `/dev/userfaultfd`, whose file permissions replace
/// privilege.
///
/// # Errors
/// `ENOTTY` if `device` is another file.
pub fn open_from_device(device: i32, mode: UffdMode) -> Result<Fd, Errno> {
    // SAFETY: USERFAULTFD_IOC_NEW takes flags by value and returns a new descriptor.
    let returned = unsafe { libc::ioctl(device, IOC_NEW as _, c_ulong::from(mode.flags() as u32)) };
    Errno::check(returned).map(Fd::from_call)
}

/// Features of a userfaultfd that the caller can request: `UFFD_FEATURE_*` bits of `<linux/userfaultfd.h>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UffdFeatures(pub u64);

impl UffdFeatures {
    /// None.
    pub const NONE: UffdFeatures = UffdFeatures(0);
    /// Write-protect faults (Linux 5.7).
    pub const WRITE_PROTECT: UffdFeatures = UffdFeatures(1 << 0);
    /// A fault on a missing page raises SIGBUS in its thread (Linux 4.14).
    pub const SIGBUS: UffdFeatures = UffdFeatures(1 << 7);
    /// Messages name the thread of the fault (Linux 4.14).
    pub const THREAD_ID: UffdFeatures = UffdFeatures(1 << 8);
    /// Faults report the exact address, not that of the page (Linux 5.18).
    pub const EXACT_ADDRESS: UffdFeatures = UffdFeatures(1 << 11);
    /// Pages can be marked so that an access raises SIGBUS, in children of a fork too (Linux 6.6).
    pub const POISON: UffdFeatures = UffdFeatures(1 << 14);
    /// The kernel resolves write-protect faults by itself and records them (Linux 6.7).
    pub const WRITE_PROTECT_ASYNC: UffdFeatures = UffdFeatures(1 << 15);
    /// Pages can be moved (Linux 6.8).
    pub const MOVE: UffdFeatures = UffdFeatures(1 << 16);

    /// Those of both.
    #[must_use]
    pub const fn with(self, other: UffdFeatures) -> UffdFeatures {
        UffdFeatures(self.0 | other.0)
    }

    /// Whether all of `other` are among them.
    pub const fn has(self, other: UffdFeatures) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those that both have.
    #[must_use]
    pub const fn and(self, other: UffdFeatures) -> UffdFeatures {
        UffdFeatures(self.0 & other.0)
    }
}

/// Makes the `UFFDIO_API` handshake, requests no feature, and returns the kernel's features. A descriptor makes this
/// handshake once.
///
/// # Errors
/// [`Errno::INVAL`] after an earlier handshake or for another API version.
pub fn api_handshake(uffd: &Fd) -> Result<UffdApi, Errno> {
    api_handshake_with(uffd, UffdFeatures::NONE)
}

/// Makes the `UFFDIO_API` handshake, requests `features`, and returns the kernel's features.
///
/// # Errors
/// [`Errno::INVAL`] after an earlier handshake, for another API version, or if the kernel lacks one of `features`.
pub fn api_handshake_with(uffd: &Fd, features: UffdFeatures) -> Result<UffdApi, Errno> {
    let mut api = RawApi {
        api: API_VERSION,
        features: features.0,
        ioctls: 0,
    };
    // SAFETY: the kernel reads and writes one `struct uffdio_api`, which `api` is, for the time of the call.
    Errno::check(unsafe { libc::ioctl(uffd.raw(), IOC_API as _, &raw mut api) })?;
    Ok(UffdApi {
        features: api.features,
        ioctls: api.ioctls,
    })
}
