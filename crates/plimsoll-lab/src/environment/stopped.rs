//! Processes of other programs that a guard has stopped.
//!
//! One change stands for all stops of a process: its journal line comes before the first, and the process may run between
//! two. So an undo continues the process only if it is stopped now. A guard that sees another program stop the process
//! strikes the change out.

use plimsoll_os::{Errno, Pidfd};
use plimsoll_proc::{PidStat, ProcessId};

use super::undo::{UndoError, Undone};

/// State of a process that was stopped.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Ended,
    Runs,
    Stopped,
}

fn state(process: ProcessId) -> Found {
    match PidStat::read(process.pid, &mut Vec::new()) {
        Ok(stat) if stat.start_ticks != process.start_ticks || !stat.is_alive() => Found::Ended,
        Ok(stat) if stat.is_stopped() => Found::Stopped,
        Ok(_) => Found::Runs,
        Err(_) => Found::Ended,
    }
}

/// Continues the process if it is stopped.
pub(super) fn undo(process: ProcessId) -> Result<Undone, UndoError> {
    if state(process) != Found::Stopped {
        return Ok(Undone::Gone);
    }
    let error = |errno: Errno| std::io::Error::from_raw_os_error(errno.raw());
    let pidfd = match Pidfd::open(process.pid) {
        Ok(pidfd) => pidfd,
        Err(Errno::SRCH) => return Ok(Undone::Gone),
        Err(errno) => return Err(UndoError::system("open it")(error(errno))),
    };
    // Again: the descriptor is that of the process which has the number now.
    if state(process) != Found::Stopped {
        return Ok(Undone::Gone);
    }
    match pidfd.send_signal(libc::SIGCONT) {
        Ok(()) | Err(Errno::SRCH) => Ok(Undone::Gone),
        Err(errno) => Err(UndoError::system("continue it")(error(errno))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn wait_for(process: ProcessId, found: &Found) {
        let start = Instant::now();
        while state(process) != *found {
            assert!(start.elapsed() < Duration::from_secs(30), "{process:?} is not {found:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn undo_continues_only_the_stopped_process_of_that_start() {
        let mut child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
        let process = ProcessId::of(child.id()).unwrap();
        let pidfd = Pidfd::open(process.pid).unwrap();
        assert_eq!(undo(process).unwrap(), Undone::Gone, "it runs");
        pidfd.send_signal(libc::SIGSTOP).unwrap();
        wait_for(process, &Found::Stopped);
        let other = ProcessId {
            start_ticks: process.start_ticks + 1,
            ..process
        };
        assert_eq!(undo(other).unwrap(), Undone::Gone);
        assert_eq!(state(process), Found::Stopped, "another process of the same number");
        assert_eq!(undo(process).unwrap(), Undone::Gone);
        wait_for(process, &Found::Runs);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(undo(process).unwrap(), Undone::Gone, "it ended");
    }
}
