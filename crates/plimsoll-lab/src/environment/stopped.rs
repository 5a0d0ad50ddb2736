//! Processes of other programs that a guard has stopped.
//!
//! One change stands for all stops of a process: its journal line comes before the first, and the process may run between
//! two. A task that waits for a page stops only after its wait, so that its state does not tell whether a stop is pending: an
//! undo continues the process in any state, which also takes a pending stop back. A guard that sees another program stop the
//! process strikes the change out.

use plimsoll_os::{Errno, Pidfd};
use plimsoll_proc::{PidStat, ProcessId};

use super::undo::{UndoError, Undone};

/// Begin of the names of journals of guards.
pub(super) const KIND: &str = "guard";

/// Continues the process, if it is that of the same start. Continues its parent too if that is stopped: `su`, `runuser` and
/// `sudo` stop themselves when their child is stopped, and wait for their own continuation.
pub(super) fn undo(process: ProcessId, parent: Option<ProcessId>) -> Result<Undone, UndoError> {
    let undone = resume(process)?;
    if let Some(parent) = parent {
        resume_parent(parent);
    }
    Ok(undone)
}

/// Continues the parent of a continued process if it is stopped. A parent of another user stays as it is.
pub(crate) fn resume_parent(parent: ProcessId) {
    if is_stopped(parent) {
        let _ = resume(parent);
    }
}

/// Whether a signal, and no debugger, has stopped it.
pub(crate) fn is_stopped(process: ProcessId) -> bool {
    PidStat::read(process.pid, &mut Vec::new())
        .is_ok_and(|stat| stat.start_ticks == process.start_ticks && stat.state == 'T')
}

fn resume(process: ProcessId) -> Result<Undone, UndoError> {
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

/// A parent that stops itself once its child is stopped, as `su` does.
#[cfg(test)]
pub(crate) struct Jobs {
    parent: std::process::Child,
    pub(crate) child: ProcessId,
}

#[cfg(test)]
impl Jobs {
    pub(crate) fn start() -> Jobs {
        let script = "import os, signal, subprocess\n\
            child = subprocess.Popen(['sleep', '60'])\n\
            print(child.pid, flush=True)\n\
            while True:\n pid, status = os.waitpid(child.pid, os.WUNTRACED)\n \
            os.kill(os.getpid(), signal.SIGSTOP) if os.WIFSTOPPED(status) else os._exit(0)\n";
        let mut parent = plimsoll_testkit::command("python3")
            .args(["-c", script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = plimsoll_testkit::next_line(&mut parent).parse().unwrap();
        let child = ProcessId::of(pid).unwrap();
        Jobs { parent, child }
    }

    pub(crate) fn parent(&self) -> ProcessId {
        ProcessId::of(self.parent.id()).unwrap()
    }

    pub(crate) fn wait_for_parent(&self, stopped: bool) {
        let start = std::time::Instant::now();
        while is_stopped(self.parent()) != stopped {
            assert!(start.elapsed() < std::time::Duration::from_secs(30), "{stopped}");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    pub(crate) fn end(&mut self) {
        Pidfd::open(self.child.pid)
            .unwrap()
            .send_signal(libc::SIGKILL)
            .unwrap();
        self.parent.wait().unwrap();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

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
        assert_eq!(undo(other, None).unwrap(), Undone::Gone);
        assert!(is_stopped(process), "another process of the same number");
        assert_eq!(undo(process, None).unwrap(), Undone::Gone);
        wait_for(process, false);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(undo(process, None).unwrap(), Undone::Gone, "it ended");
    }

    /// `su` stayed stopped after a kill of the guard that had stopped its child.
    #[test]
    fn a_parent_that_stopped_with_its_child_runs_again() {
        let mut jobs = Jobs::start();
        let pidfd = Pidfd::open(jobs.child.pid).unwrap();
        pidfd.send_signal(libc::SIGSTOP).unwrap();
        jobs.wait_for_parent(true);
        let other = ProcessId {
            start_ticks: jobs.parent().start_ticks + 1,
            ..jobs.parent()
        };
        assert_eq!(undo(jobs.child, Some(other)).unwrap(), Undone::Gone);
        assert!(is_stopped(jobs.parent()), "another process of the same number");
        pidfd.send_signal(libc::SIGSTOP).unwrap();
        assert_eq!(undo(jobs.child, Some(jobs.parent())).unwrap(), Undone::Gone);
        jobs.wait_for_parent(false);
        jobs.end();
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
        assert_eq!(undo(process, None).unwrap(), Undone::Gone);
        std::thread::sleep(Duration::from_secs(1));
        assert!(!is_stopped(process));
        parent.kill().unwrap();
        parent.wait().unwrap();
    }
}
