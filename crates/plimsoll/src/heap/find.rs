//! The address of the control block in a process.

use plimsoll_lfh::inspect::MAGIC;
use plimsoll_proc::process_memory::{FindError, Mark, marked};

use super::error::HeapStatError;

/// The address of the control block of a process, if it has one.
///
/// # Errors
/// [`HeapStatError`] if the process does not exist or its memory is unreadable.
pub(super) fn control_block(pid: u32) -> Result<Option<usize>, HeapStatError> {
    let mark = Mark {
        bytes: MAGIC,
        length: None,
    };
    let found = marked(pid, &mark).map_err(|error| match error {
        FindError::NoProcess => HeapStatError::NoSuchProcess { pid },
        FindError::Ended => HeapStatError::Ended { pid },
        FindError::Denied => HeapStatError::Denied { pid },
        FindError::Unreadable(source) => HeapStatError::Unreadable { pid, source },
        FindError::Proc { path, source } => HeapStatError::Proc { path, source },
        error => HeapStatError::Proc {
            path: format!("/proc/{pid}/maps"),
            source: std::io::Error::other(error),
        },
    })?;
    Ok(found.first().copied())
}
