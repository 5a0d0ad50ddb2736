//! Processes of other programs that a guard has stopped.
//!
//! One change stands for all stops of a process: its journal line comes before the first, and the process may run between
//! two. A task that waits for a page stops only after its wait, so that its state does not tell whether a stop is pending: an
//! undo continues the process in any state, which also takes a pending stop back. A guard that sees another program stop the
//! process strikes the change out.

use plimsoll_os::{Errno, Pidfd};
use plimsoll_proc::ProcessId;

use super::undo::{UndoError, Undone};

/// Begin of the names of journals of guards.
pub(super) const KIND: &str = "guard";

/// Continues the process, if it is that of the same start.
pub(super) fn undo(process: ProcessId) -> Result<Undone, UndoError> {
    let error = |errno: Errno| std::io::Error::from_raw_os_error(errno.raw());
    let pidfd = match Pidfd::open(process.pid) {
        Ok(pidfd) => pidfd,
        Err(Errno::SRCH) => return Ok(Undone::Gone),
        Err(errno) => return Err(UndoError::system("open it")(error(errno))),
    };
    // After the descriptor, which is that of the process with the number now.
    if !process.is_alive() {
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

    use plimsoll_proc::PidStat;

    use super::*;

    fn is_stopped(process: ProcessId) -> bool {
        PidStat::read(process.pid, &mut Vec::new()).unwrap().is_stopped()
    }

    fn wait_for(process: ProcessId, stopped: bool) {
        let start = Instant::now();
        while is_stopped(process) != stopped {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "{process:?}: not {stopped}"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn undo_continues_only_the_process_of_that_start() {
        let mut child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
        let process = ProcessId::of(child.id()).unwrap();
        let pidfd = Pidfd::open(process.pid).unwrap();
        pidfd.send_signal(libc::SIGSTOP).unwrap();
        wait_for(process, true);
        let other = ProcessId {
            start_ticks: process.start_ticks + 1,
            ..process
        };
        assert_eq!(undo(other).unwrap(), Undone::Gone);
        assert!(is_stopped(process), "another process of the same number");
        assert_eq!(undo(process).unwrap(), Undone::Gone);
        wait_for(process, false);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(undo(process).unwrap(), Undone::Gone, "it ended");
    }

    /// A process that waits in the kernel (here a parent in vfork) stops only afterwards. An undo that looked at its state
    /// first left it stopped for ever.
    #[test]
    fn a_stop_that_has_not_taken_effect_is_undone_too() {
        let mut parent = plimsoll_testkit::command("python3")
            .args([
                "-c",
                "import ctypes, os, time\nlibc = ctypes.CDLL(None)\nif libc.vfork() == 0:\n time.sleep(0.5)\n os._exit(0)\n\
                 time.sleep(60)",
            ])
            .spawn()
            .unwrap();
        let process = ProcessId::of(parent.id()).unwrap();
        let start = Instant::now();
        let state = || PidStat::read(process.pid, &mut Vec::new()).unwrap().state;
        while state() != 'D' {
            assert!(start.elapsed() < Duration::from_secs(30), "no wait in the kernel");
            std::thread::sleep(Duration::from_millis(1));
        }
        Pidfd::open(process.pid)
            .unwrap()
            .send_signal(libc::SIGSTOP)
            .unwrap();
        assert_eq!(undo(process).unwrap(), Undone::Gone);
        std::thread::sleep(Duration::from_secs(1));
        assert!(!is_stopped(process));
        parent.kill().unwrap();
        parent.wait().unwrap();
    }
}
