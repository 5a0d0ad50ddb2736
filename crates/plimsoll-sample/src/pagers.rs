//! The pagers of processes, read from outside.

use plimsoll_os::OtherProcess;
use plimsoll_pager::Stats;
use plimsoll_pager::published::{MAGIC, OpenError, PublishedPager, RECORD_BYTES};
use plimsoll_proc::process_memory::{FindError, Mark, marked};

/// The addresses of the records of a process's pagers.
///
/// # Errors
/// [`FindError`] if the process does not exist or its memory is unreadable.
pub fn records(pid: u32) -> Result<Vec<usize>, FindError> {
    let mark = Mark {
        bytes: MAGIC,
        length: Some(RECORD_BYTES as u64),
    };
    marked(pid, &mark)
}

/// The figures of the pager with a record of a process; none if it has none there any more, or this program cannot read
/// it. Does not allocate.
pub fn stats(pid: u32, record: usize) -> Option<Stats> {
    let memory = OtherProcess::new(pid);
    let read = || -> Result<Stats, OpenError> { Ok(PublishedPager::open(&memory, record)?.stats()?) };
    read().ok()
}
