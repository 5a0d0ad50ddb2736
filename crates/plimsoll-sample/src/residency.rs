//! Locks the sampling thread's memory: under memory pressure it would otherwise wait for its own pages, just
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
    #[error(
        "cannot lock the sampler's {what} ({bytes} bytes) in memory: {errno}; run as root or with CAP_IPC_LOCK, or raise \
         `ulimit -l`"
    )]
    Refused {
        /// Its content, for messages.
        what: &'static str,
        bytes: usize,
        errno: plimsoll_os::Errno,
    },
    /// The thread's mappings are not known.
    #[error("cannot lock the sampler's program text in memory: cannot read /proc/self/maps: {0}")]
    Unknown(io::Error),
    /// The thread ended before it could lock anything.
    #[error("cannot lock the sampler's memory: its thread ended before")]
    Ended,
}

use plimsoll_proc::maps;

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

/// Locks `spans`; `what` is their name in error messages.
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
    let text = fs::read("/proc/self/maps").map_err(LockError::Unknown)?;
    let program = fs::read_link("/proc/self/exe").unwrap_or_default();
    let program = program.as_os_str().as_encoded_bytes();
    let mappings = maps::parse(&text).filter_map(|mapping| {
        let (start, length) = (mapping.start as usize, mapping.length as usize);
        let code = mapping.permissions.contains(&b'x');
        if (start..start + length).contains(&stack_address) {
            Some(("stack", (start, length)))
        } else if mapping.path.starts_with(b"/") && (code || mapping.path == program) {
            Some(("program text", (start, length)))
        } else {
            None
        }
    });
    Ok(mappings.collect())
}
