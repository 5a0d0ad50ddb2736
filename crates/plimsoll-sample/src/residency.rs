//! Keeps in RAM what the sampling thread uses: under memory pressure it would otherwise wait for its own pages, just
//! when the samples matter.
//!
//! Only those ranges are locked, each page from its first use on, and not the whole process: other threads of the
//! runner, and tests, may need pages that can be reclaimed.

use std::fs;
use std::io;

/// Why the sampling thread's memory is not locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The system refuses to lock a range.
    #[error(
        "cannot lock the sampler's {what} ({bytes} bytes) in memory: {errno}; run as root or with CAP_IPC_LOCK, or raise \
         `ulimit -l`"
    )]
    Refused {
        /// What lies in it.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The kernel's answer.
        errno: plimsoll_os::Errno,
    },
    /// The thread's mappings are not known.
    #[error("cannot lock the sampler's program text in memory: /proc/self/maps cannot be read: {0}")]
    Unknown(io::Error),
    /// The thread ended before it could lock anything.
    #[error("the sampling thread ended before it could lock its memory")]
    Ended,
}

/// A range of addresses: start and length in bytes.
pub(crate) type Span = (usize, usize);

/// Where `value` lies.
pub(crate) fn span_of<T: ?Sized>(value: &T) -> Span {
    (
        std::ptr::from_ref(value).cast::<()>() as usize,
        size_of_val(value),
    )
}

/// Locks the calling thread's stack, the program's text and data, and `spans`. Goes on after a failure and reports
/// the first.
pub(crate) fn lock_thread(spans: &[Span]) -> Result<(), LockError> {
    let stack_address = span_of(&spans).0;
    let mut first = lock_spans("buffers", spans);
    for (what, span) in mappings(stack_address)? {
        first = first.and(lock_spans(what, &[span]));
    }
    first
}

/// Locks `spans`, which error messages call `what`.
pub(crate) fn lock_spans(what: &'static str, spans: &[Span]) -> Result<(), LockError> {
    for &(address, length) in spans.iter().filter(|span| span.1 > 0) {
        plimsoll_os::lock_range_on_fault(address, length).map_err(|errno| LockError::Refused {
            what,
            bytes: length,
            errno,
        })?;
    }
    Ok(())
}

/// The mappings to lock: the stack, all code, and the program's own constants and variables.
fn mappings(stack_address: usize) -> Result<Vec<(&'static str, Span)>, LockError> {
    let maps = fs::read_to_string("/proc/self/maps").map_err(LockError::Unknown)?;
    let program = fs::read_link("/proc/self/exe").unwrap_or_default();
    let program = program.to_string_lossy();
    Ok(maps
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (start, end) = words.next()?.split_once('-')?;
            let start = usize::from_str_radix(start, 16).ok()?;
            let end = usize::from_str_radix(end, 16).ok()?;
            let code = words.next()?.contains('x');
            let path = words.nth(3).unwrap_or_default();
            if (start..end).contains(&stack_address) {
                Some(("stack", (start, end - start)))
            } else if path.starts_with('/') && (code || path == program) {
                Some(("program text", (start, end - start)))
            } else {
                None
            }
        })
        .collect())
}
