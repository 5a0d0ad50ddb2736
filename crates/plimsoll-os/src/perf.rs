//! Performance events of this process: whether they may be counted.
#![allow(unsafe_code)]

use core::ffi::c_int;

use crate::{Errno, Fd, repeat_interrupted};

/// An event to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerfEvent {
    /// `PERF_COUNT_SW_PAGE_FAULTS`: counted by the kernel, there on every machine.
    PageFaults,
    /// `PERF_COUNT_HW_CPU_CYCLES`: counted by the CPU, often not available to a guest.
    Cycles,
}

/// Where the event is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerfScope {
    /// In user code alone.
    User,
    /// In the kernel too; needs `kernel.perf_event_paranoid` of 1 or less, or CAP_PERFMON.
    UserAndKernel,
}

/// The first version of `struct perf_event_attr` of `<linux/perf_event.h>` (`PERF_ATTR_SIZE_VER0`), which every
/// kernel takes.
#[repr(C)]
#[derive(Default)]
struct RawAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}
const _: () = assert!(size_of::<RawAttributes>() == 64);
// The flags are a bit field in C, which is laid out from the low bit on little-endian machines alone.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "perf flags are numbered for little-endian machines"
);

const DISABLED: u64 = 1 << 0;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// Opens a counter for `event` on this thread, not yet counting (`perf_event_open(2)`).
///
/// # Errors
/// `EACCES` or [`Errno::PERM`] where `kernel.perf_event_paranoid` or seccomp forbids it, `ENOENT` or `EOPNOTSUPP`
/// where the machine does not count the event, [`Errno::NOSYS`] where the kernel was built without events.
pub fn open_perf_event(event: PerfEvent, scope: PerfScope) -> Result<Fd, Errno> {
    // PERF_TYPE_SOFTWARE is 1 and PERF_COUNT_SW_PAGE_FAULTS 2; PERF_TYPE_HARDWARE and PERF_COUNT_HW_CPU_CYCLES are 0.
    let (kind, config) = match event {
        PerfEvent::PageFaults => (1, 2),
        PerfEvent::Cycles => (0, 0),
    };
    let exclude_kernel = match scope {
        PerfScope::User => EXCLUDE_KERNEL,
        PerfScope::UserAndKernel => 0,
    };
    let attributes = RawAttributes {
        kind,
        size: size_of::<RawAttributes>() as u32,
        config,
        flags: DISABLED | EXCLUDE_HYPERVISOR | exclude_kernel,
        ..RawAttributes::default()
    };
    let opened = repeat_interrupted(|| {
        // SAFETY: the kernel reads `size` bytes of the attributes, alive for the call, and returns a new descriptor;
        // pid 0 and CPU -1 mean this thread on any CPU, group -1 no group.
        let returned = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                0 as libc::pid_t,
                -1 as c_int,
                -1 as c_int,
                CLOSE_ON_EXEC,
            )
        };
        Errno::check(returned as c_int)
    });
    opened.map(Fd::from_call)
}
