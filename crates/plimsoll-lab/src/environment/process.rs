//! Processes that a run started. Their start time distinguishes them from later ones of the same pid.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_proc::PidStat;
use rustix::process::{Pid, Signal, kill_process};

use super::undo::{UndoError, Undone};

/// How long a killed process may take to be gone: its memory has to be freed, possibly from swap.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Start time of a process in clock ticks since boot.
pub(super) fn start_time(pid: u32) -> io::Result<u64> {
    Ok(PidStat::read(pid, &mut Vec::new())?.start_ticks)
}

/// Whether that very process still runs. A zombie does not: it holds nothing but its number.
fn lives(pid: u32, start_time: u64) -> bool {
    PidStat::read(pid, &mut Vec::new()).is_ok_and(|stat| stat.start_ticks == start_time && stat.is_alive())
}

/// Kills the process if it still is the one that was started, and waits until it is gone.
pub(super) fn undo(pid: u32, start_time: u64) -> Result<Undone, UndoError> {
    if !lives(pid, start_time) {
        return Ok(Undone::Gone);
    }
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or(rustix::io::Errno::SRCH);
    let number = number.map_err(UndoError::system(format!("find process {pid}")))?;
    match kill_process(number, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(source) => return Err(UndoError::system("kill it")(source)),
    }
    let deadline = Instant::now() + GONE_WITHIN;
    while lives(pid, start_time) {
        if Instant::now() >= deadline {
            return Err(UndoError::Unkillable(GONE_WITHIN.as_secs()));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(Undone::Gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undo_kills_only_the_process_of_that_start_time() {
        let mut child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
        let start = start_time(child.id()).unwrap();
        assert_eq!(undo(child.id(), start + 1).unwrap(), Undone::Gone);
        assert!(
            child.try_wait().unwrap().is_none(),
            "another process of the same number was killed"
        );
        assert_eq!(undo(child.id(), start).unwrap(), Undone::Gone);
        assert!(!child.wait().unwrap().success());
        assert_eq!(undo(child.id(), start).unwrap(), Undone::Gone, "undoing twice");
    }

    #[test]
    fn start_time_agrees_with_procfs() {
        let oracle = procfs::process::Process::myself()
            .unwrap()
            .stat()
            .unwrap()
            .starttime;
        assert_eq!(start_time(std::process::id()).unwrap(), oracle);
    }
}
