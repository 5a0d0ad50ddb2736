//! Statistics and options of malloc. They are those of the process's heap.
#![allow(unsafe_code, reason = "a block by its address, and a stream of the C library")]

use core::ffi::{c_char, c_int, c_void};
use core::fmt::{self, Write};

use plimsoll_lfh::{Bucket, Heap};

use crate::errno::{EINVAL, set};
use crate::source::Source;
use crate::standard_error::StandardError;

/// Bytes that the block has, at least as many as were asked for. 0 for null.
///
/// # Safety
/// `block` is null or of this source and in use.
pub unsafe fn malloc_usable_size(source: impl Source, block: *mut u8) -> usize {
    // SAFETY: the caller's premise.
    unsafe { source.usable_size(block) }
}

/// Returns free memory to the kernel at once. Returns 1, as glibc does if it released memory; the heap ignores `pad`,
/// the bytes to keep.
pub fn malloc_trim(_: impl Source, _pad: usize) -> c_int {
    Heap::process().trim();
    1
}

/// Sets a parameter of glibc's malloc. None of them has a meaning here, so it returns 0: not set.
pub fn mallopt(_: impl Source, _parameter: c_int, _value: c_int) -> c_int {
    0
}

/// The contents of a heap, in bytes and blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Holdings {
    /// Bytes of address space.
    pub reserved: usize,
    /// Bytes that may be resident: used, free and large.
    pub committed: usize,
    /// Bytes of blocks of up to 16 KiB in use, with their descriptions.
    pub used: usize,
    /// Bytes that are free.
    pub free: usize,
    /// How many free blocks those are.
    pub free_blocks: usize,
    /// Bytes of larger blocks in use.
    pub large: usize,
    /// How many those are.
    pub large_blocks: usize,
}

impl Holdings {
    /// Counts the contents of a heap now, while other threads run. All zero before the process's first call, and if the
    /// heap cannot be read.
    pub fn of(heap: &Heap) -> Holdings {
        let Some((_, counted)) = heap.statistics() else {
            return Holdings::default();
        };
        let (mut free, mut free_blocks) = (counted.free, counted.free_blocks);
        for bucket in Bucket::all() {
            let counts = &counted.buckets[bucket.index()];
            // Absent pages are not committed.
            let blocks = counts.free() - counts.absent;
            free += blocks * bucket.size() as u64;
            free_blocks += blocks;
        }
        Holdings {
            reserved: counted.reserved as usize,
            committed: counted.committed as usize,
            used: counted.committed.saturating_sub(counted.large + free) as usize,
            free: free as usize,
            free_blocks: free_blocks as usize,
            large: counted.large as usize,
            large_blocks: counted.large_blocks as usize,
        }
    }
}

/// `struct mallinfo2` of glibc, and with `c_int` `struct mallinfo`. Fields without a meaning here are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MallocInformation<T> {
    /// Bytes but for those of large blocks.
    arena: T,
    /// Free blocks.
    ordblks: T,
    smblks: T,
    /// Large blocks.
    hblks: T,
    /// Bytes of them.
    hblkhd: T,
    usmblks: T,
    fsmblks: T,
    /// Bytes in use but for those of large blocks.
    uordblks: T,
    /// Free bytes.
    fordblks: T,
    /// Free bytes that `malloc_trim` could release: at most.
    keepcost: T,
}

impl<T: Default> MallocInformation<T> {
    fn of_process(number: impl Fn(usize) -> T) -> MallocInformation<T> {
        let holdings = Holdings::of(Heap::process());
        MallocInformation {
            arena: number(holdings.committed - holdings.large.min(holdings.committed)),
            ordblks: number(holdings.free_blocks),
            hblks: number(holdings.large_blocks),
            hblkhd: number(holdings.large),
            uordblks: number(holdings.used),
            fordblks: number(holdings.free),
            keepcost: number(holdings.free),
            ..MallocInformation::default()
        }
    }
}

/// The contents of the process's heap.
pub fn mallinfo2(_: impl Source) -> MallocInformation<usize> {
    MallocInformation::of_process(|number| number)
}

/// As [`mallinfo2`], in numbers that are too small for it: `INT_MAX` stands for that and more.
pub fn mallinfo(_: impl Source) -> MallocInformation<c_int> {
    MallocInformation::of_process(|number| c_int::try_from(number).unwrap_or(c_int::MAX))
}

/// Writes the contents of the process's heap to standard error.
pub fn malloc_stats(_: impl Source) {
    let holdings = Holdings::of(Heap::process());
    // If standard error takes no bytes, no other place for the text remains.
    let _ = writeln!(
        StandardError,
        "plimsoll: reserved {} bytes, committed {}; used {}, free {} in {} blocks, large {} in {} blocks",
        holdings.reserved,
        holdings.committed,
        holdings.used,
        holdings.free,
        holdings.free_blocks,
        holdings.large,
        holdings.large_blocks,
    );
}

unsafe extern "C" {
    fn fwrite(bytes: *const c_char, size: usize, count: usize, stream: *mut c_void) -> usize;
}

/// A `FILE*` of the C library.
struct Stream(*mut c_void);

impl Write for Stream {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the text is valid for its length; the stream is by the premise of `malloc_info`, its only maker.
        match unsafe { fwrite(text.as_ptr().cast(), 1, text.len(), self.0) } {
            written if written == text.len() => Ok(()),
            _ => Err(fmt::Error),
        }
    }
}

/// Writes the contents of the process's heap to a stream as XML, in elements of glibc's. Returns 0, -1 and `EINVAL` for
/// `options` other than 0, or -1 and the stream's error.
///
/// # Safety
/// `stream` is a `FILE*` that is open for writing.
pub unsafe fn malloc_info(_: impl Source, options: c_int, stream: *mut c_void) -> c_int {
    if options != 0 {
        set(EINVAL);
        return -1;
    }
    let holdings = Holdings::of(Heap::process());
    let written = write!(
        Stream(stream),
        "<malloc version=\"1\">\n<heap nr=\"0\">\n\
         <total type=\"rest\" count=\"{}\" size=\"{}\"/>\n<total type=\"mmap\" count=\"{}\" size=\"{}\"/>\n\
         <system type=\"current\" size=\"{}\"/>\n<aspace type=\"total\" size=\"{}\"/>\n</heap>\n</malloc>\n",
        holdings.free_blocks,
        holdings.free,
        holdings.large_blocks,
        holdings.large,
        holdings.committed,
        holdings.reserved,
    );
    if written.is_ok() { 0 } else { -1 }
}
