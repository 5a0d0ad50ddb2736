//! Errors of the library.

use plimsoll_os::{Errno, UffdFeatures};

use crate::page_file::CreateError;

pub use crate::fault::FaultError;

/// The reason why a pager was not built. Nothing of it is left behind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A seccomp filter refuses userfaultfd.
    #[error(
        "cannot open a userfaultfd: a seccomp filter refuses the system call ({0}); allow userfaultfd in the container's \
         seccomp profile (Docker: --security-opt seccomp=FILE, or seccomp=unconfined), or pass it --device /dev/userfaultfd"
    )]
    Seccomp(Errno),
    /// A setting of the system refuses userfaultfd to this user.
    #[error(
        "cannot open a userfaultfd: this user is not permitted ({0}); set the sysctl vm.unprivileged_userfaultfd=1, or give \
         the user access to /dev/userfaultfd"
    )]
    Sysctl(Errno),
    /// The kernel was built without userfaultfd.
    #[error("cannot open a userfaultfd: the kernel lacks it; use a kernel with CONFIG_USERFAULTFD")]
    NotBuilt,
    /// The userfaultfd of this kernel lacks a feature.
    #[error("cannot use userfaultfd: the kernel lacks {missing}; use Linux {since} or newer")]
    KernelTooOld {
        /// The feature that is missing.
        missing: &'static str,
        /// The first kernel with it.
        since: &'static str,
    },
    /// The kernel has no room for the addresses.
    #[error(
        "cannot reserve {bytes} bytes of addresses: {errno}; lower the pager's `address_space`, or raise RLIMIT_AS \
         (ulimit -v)"
    )]
    AddressSpace {
        /// Bytes of the arena.
        bytes: u64,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The address of the arena is not one at which a chunk can begin.
    #[error("cannot place regions from {address:#x} on: the address must be a multiple of 2 MiB, and not 0")]
    ArenaAddress {
        /// The address.
        address: usize,
    },
    /// Something is mapped where the arena is to be.
    #[error(
        "cannot place regions from {address:#x} on: something is mapped in the {bytes} bytes from there; choose another \
         address, or lower the pager's `address_space`"
    )]
    ArenaTaken {
        /// The address.
        address: usize,
        /// Bytes of the arena.
        bytes: u64,
    },
    /// The pages of this kernel have another size.
    #[error("cannot build a pager: the kernel's pages have {0} bytes; use a kernel with pages of 4096 bytes")]
    PageSize(usize),
    /// The budget is too small for the pager's own memory.
    #[error("cannot build a pager with {given} bytes of RAM; give it at least {least}")]
    TooLittleRam {
        /// The budget in bytes.
        given: u64,
        /// The smallest budget in bytes.
        least: u64,
    },
    /// The store's own tables and buffers need more than its cap.
    #[error(
        "cannot cap the compressed store at {given} bytes: its tables and buffers need {least}; raise the cap"
    )]
    StoreCap {
        /// The cap in bytes.
        given: u64,
        /// The smallest cap in bytes.
        least: u64,
    },
    /// The page file cannot be created.
    #[error(transparent)]
    PageFile(#[from] CreateError),
    /// The pool has not granted the member enough for the pager's own memory.
    #[error(
        "cannot build a pager with a grant of {given} bytes: it needs {least}; join the pool with a minimum of that"
    )]
    GrantTooSmall {
        /// The grant in bytes.
        given: u64,
        /// The smallest grant in bytes.
        least: u64,
    },
    /// The membership of the pool cannot be used.
    #[error("cannot build a pager: its membership of the pool cannot be used; join the pool again")]
    Membership,
    /// The process has as many pagers as the signal handler serves.
    #[error("cannot build a pager: the process has 16 already; drop one")]
    TooManyPagers,
    /// A system call failed.
    #[error("cannot build a pager: {0}")]
    System(Errno),
}

/// The reason why a budget was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RamError {
    /// The budget is too small for the pager's own memory.
    #[error("cannot change the budget to {given} bytes: the pager needs {least}; give it at least that")]
    TooLittle {
        /// The budget in bytes.
        given: u64,
        /// The smallest budget in bytes.
        least: u64,
    },
    /// The pager is a member of a pool, whose grant is its budget.
    #[error("cannot change the budget of a member of a pool: its grant is its budget; change its limits")]
    InPool,
}

/// The reason why a region was not mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// A region has at least one byte.
    #[error("cannot map a region of 0 bytes")]
    Empty,
    /// The arena has no run of free addresses of that length.
    #[error("cannot map {bytes} bytes: the pager's addresses are in use; raise its `address_space`")]
    NoAddresses {
        /// Bytes of the region.
        bytes: usize,
    },
    /// The kernel refuses.
    #[error("cannot map {bytes} bytes: {errno}; raise vm.max_map_count or the limits on memory")]
    System {
        /// Bytes of the region.
        bytes: usize,
        /// The kernel's answer.
        errno: Errno,
    },
    /// This process is a child of the one that built the pager.
    #[error("cannot map a region in a child of a fork; build a pager of its own")]
    Forked,
}

/// The reason why an operation on a part of a region failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangeError {
    /// The range does not lie in the region.
    #[error("cannot use bytes {start}..{end} of a region of {length} bytes")]
    OutOfBounds {
        /// The first byte.
        start: usize,
        /// The byte behind the last one.
        end: usize,
        /// Bytes of the region.
        length: usize,
    },
    /// All pins of the pager for the purpose are in use: 256 of guards and calls, 32 for a moment, 512 for ever.
    #[error("cannot pin a range: all pins for the purpose are in use; drop a pin")]
    TooManyPins,
    /// A pin would leave too little of the budget for the rest.
    #[error(
        "cannot pin {bytes} bytes: half of the budget at most can be pinned; pin less, or raise the budget"
    )]
    PinTooLarge {
        /// Bytes of the range.
        bytes: usize,
    },
    /// A part of the range is pinned.
    #[error("cannot drop {bytes} bytes: a part of them is pinned; end the pin first")]
    Pinned {
        /// Bytes of the range.
        bytes: usize,
    },
    /// A part of the range was not surrendered.
    #[error("cannot reclaim {bytes} bytes: a part of them was not surrendered; surrender it first")]
    NotSurrendered {
        /// Bytes of the range.
        bytes: usize,
    },
    /// This process is a child of the one that built the pager, and does not have its regions.
    #[error("cannot use a region in a child of a fork: it has none of its memory; build a pager of its own")]
    Forked,
    /// A page cannot be made present.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// The kernel refuses.
    #[error("cannot change a range of a region: {0}")]
    System(Errno),
}

/// The reason why a pager did not fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// This process is a child of the one that built the pager, and does not have its regions.
    #[error("cannot fork a pager in a child that does not have its regions; build a pager of its own")]
    Forked,
    /// The kernel refuses.
    #[error("cannot fork: {0}")]
    System(Errno),
}

/// The features that are missing, with the kernel that has them.
pub(crate) fn too_old(lacking: UffdFeatures) -> BuildError {
    let (missing, since) = if lacking.has(UffdFeatures::WRITE_PROTECT) {
        // A kernel with one of them will do. Linux has the second one since 5.7, but not for every processor.
        ("UFFD_FEATURE_MOVE and UFFD_FEATURE_PAGEFAULT_FLAG_WP", "6.8")
    } else if lacking.has(UffdFeatures::MOVE) {
        ("UFFD_FEATURE_MOVE", "6.8")
    } else {
        ("UFFD_FEATURE_SIGBUS", "4.14")
    };
    BuildError::KernelTooOld { missing, since }
}
