//! Restartable sequences (`rseq(2)`), by which a thread works on the data of its processor without a lock.
//!
//! glibc registers an area for every thread, at a fixed distance from the thread pointer, in which the kernel keeps the
//! thread's *concurrency id* (`mm_cid`, Linux 6.3): a number that no other thread of the process that runs at the same
//! time has, below the number of processors. No call touches `errno`.
#![allow(unsafe_code)]

use crate::Errno;
use crate::raw::system_call;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
use crate::weak;

/// Offset of the concurrency id in the area.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
const CONCURRENCY_ID: usize = 24;

/// Distance of the area of this thread, and so of every thread, from its thread pointer. None if the C library
/// registered none (musl, glibc before 2.35 or with rseq disabled, a kernel without the call, Valgrind), or the kernel
/// keeps no concurrency id in it.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
pub fn restartable_area() -> Option<isize> {
    // Another C library has no such symbols, and their addresses are null then.
    let offset = weak!("__rseq_offset") as *const isize;
    let size = weak!("__rseq_size") as *const u32;
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: glibc sets both before any code of the program runs, and never changes them.
    let (offset, size) = unsafe { (*offset, *size) };
    if size == 0 || kernel_area_size() < CONCURRENCY_ID + size_of::<u32>() {
        return None;
    }
    let processor: i32;
    // SAFETY: the area of this thread, in its thread-local storage; at 4 it has the processor, negative if it is not
    // registered after all.
    unsafe {
        core::arch::asm!(
            "mov {processor:e}, dword ptr fs:[{offset} + 4]",
            processor = out(reg) processor,
            offset = in(reg) offset,
            options(nostack, readonly, preserves_flags),
        );
    }
    (processor >= 0).then_some(offset)
}

/// Distance of the area of this thread from its thread pointer: none is known on this architecture or C library.
#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
pub fn restartable_area() -> Option<isize> {
    None
}

/// Bytes of the area that the kernel fills in: `AT_RSEQ_FEATURE_SIZE` of the auxiliary vector. 0 if it has no such
/// entry, as before Linux 6.4: `getauxval` would know of 6.3 as well, but sets `errno` otherwise.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn kernel_area_size() -> usize {
    const PR_GET_AUXV: usize = 0x4155_5856;
    const AT_RSEQ_FEATURE_SIZE: usize = 27;
    let mut vector = [[0_usize; 2]; 64];
    let arguments = [
        PR_GET_AUXV,
        vector.as_mut_ptr() as usize,
        size_of_val(&vector),
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes to the array, and not past the passed length.
    if unsafe { system_call(libc::SYS_prctl, arguments) }.is_err() {
        return 0;
    }
    let found = vector.iter().find(|[kind, _]| *kind == AT_RSEQ_FEATURE_SIZE);
    found.map_or(0, |[_, size]| *size)
}

/// Registers this process for [`restart_sequences`]. That takes 10 ms or more once the process has threads, and next to
/// nothing before.
///
/// # Errors
/// As of [`restart_sequences`].
pub fn prepare_to_restart_sequences() -> Result<(), Errno> {
    const REGISTER: usize = 1 << 8;
    membarrier(REGISTER)
}

/// Restarts every restartable sequence of this process that runs right now, on any processor. When it returns, every
/// sequence that continues sees the caller's earlier writes.
///
/// # Errors
/// [`Errno::INVAL`] or [`Errno::NOSYS`] if the kernel cannot (`membarrier(2)`, Linux 5.10).
pub fn restart_sequences() -> Result<(), Errno> {
    const RESTART: usize = 1 << 7;
    match membarrier(RESTART) {
        Err(Errno::PERM) => prepare_to_restart_sequences().and_then(|()| membarrier(RESTART)),
        done => done,
    }
}

fn membarrier(command: usize) -> Result<(), Errno> {
    // SAFETY: the call changes no memory.
    unsafe { system_call(libc::SYS_membarrier, [command, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Processors of the longest mask that is asked for: as many as kernels for this architecture can be made for.
pub const MOST_PROCESSORS: usize = 8192;

/// The processors that a thread may run on.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Mask {
    words: [u64; MOST_PROCESSORS / 64],
    /// Bytes of the kernel's masks.
    bytes: usize,
}

impl Mask {
    /// The mask of a thread, of the calling one for 0. None if the kernel does not answer (a filter of system calls, a
    /// mask longer than 8192).
    pub(crate) fn of_thread(thread: u32) -> Option<Mask> {
        let mut words = [0_u64; MOST_PROCESSORS / 64];
        let arguments = [
            thread as usize,
            size_of_val(&words),
            words.as_mut_ptr() as usize,
            0,
            0,
            0,
        ];
        // SAFETY: the kernel writes to the array, and not past the passed length.
        let bytes = unsafe { system_call(libc::SYS_sched_getaffinity, arguments) }.ok()?;
        (bytes > 0).then_some(Mask { words, bytes })
    }

    /// Has the calling thread run on these processors alone, as far as its cpuset has them.
    pub(crate) fn set_for_this_thread(&self) {
        let arguments = [0, self.bytes, self.words.as_ptr() as usize, 0, 0, 0];
        // SAFETY: the kernel reads the array.
        let _ = unsafe { system_call(libc::SYS_sched_setaffinity, arguments) };
    }
}

/// An upper bound of the number of processors that the machine may ever have, from the size of the kernel's masks.
/// Concurrency ids are below it. None if the kernel does not answer (a filter of system calls, a mask longer than
/// 8192).
pub fn possible_processors() -> Option<usize> {
    Mask::of_thread(0).map(|mask| mask.bytes * 8)
}

/// Processors that this thread may run on, at least 1.
pub fn allowed_processors() -> usize {
    let count = Mask::of_thread(0).map_or(0, |mask| {
        mask.words.iter().map(|word| word.count_ones()).sum::<u32>()
    });
    count.max(1) as usize
}
