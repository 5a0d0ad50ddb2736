//! `/proc` itself, and `/proc/PID/task`: which processes there are, and whose children they are.

use std::fs;
use std::io;

use super::fields::{number, words};

/// The numbers of all processes, ascending.
///
/// # Errors
/// When `/proc` cannot be listed.
pub fn all() -> io::Result<Vec<u32>> {
    let entries = fs::read_dir("/proc")?;
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    Ok(pids)
}

/// The children of a process, as each of its threads names them.
///
/// # Errors
/// `Unsupported` where the kernel was built without that (CONFIG_PROC_CHILDREN), and an error of the system when the
/// process has ended.
pub fn children(pid: u32) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.path();
        match fs::read(thread.join("children")) {
            Ok(text) => {
                let pids = words(&text).filter_map(number);
                found.extend(pids.filter_map(|pid| u32::try_from(pid).ok()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && thread.is_dir() => {
                return Err(io::ErrorKind::Unsupported.into());
            }
            // The thread has ended.
            Err(_) => {}
        }
    }
    Ok(found)
}
