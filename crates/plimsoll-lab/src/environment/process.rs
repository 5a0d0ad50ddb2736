//! Processes that a run started. Their start time distinguishes them from later ones of the same pid.
//!
//! Undoing kills a process only if it is provably the run's: a child of this process, a process of this program, or in
//! a cgroup of the run. A start time and a pid alone prove nothing, as anybody can read them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_os::{Errno, Pidfd};
use plimsoll_proc::cgroup::paths;
use plimsoll_proc::{PidStat, Tree};

use super::cgroup;
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

/// Kills the process if it still is the one that `run` started, and waits until it is gone.
pub(super) fn undo(pid: u32, start_time: u64, run: &str) -> Result<Undone, UndoError> {
    if !lives(pid, start_time) {
        return Ok(Undone::Gone);
    }
    let error = |errno: Errno| io::Error::from_raw_os_error(errno.raw());
    let process = match Pidfd::open(pid) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(Undone::Gone),
        Err(errno) => return Err(UndoError::system("open it")(error(errno))),
    };
    // Again: the descriptor is that of the process which has the number now.
    if !lives(pid, start_time) {
        return Ok(Undone::Gone);
    }
    if !is_of_run(pid, run) {
        return Ok(Undone::NotOurs(
            "it is neither a process of this program nor in a cgroup of the run".to_owned(),
        ));
    }
    match process.send_signal(libc::SIGKILL) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(errno) => return Err(UndoError::system("kill it")(error(errno))),
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

/// Whether the run provably started the process: it is a child of this process, runs this program, or is in a cgroup of
/// the run.
fn is_of_run(pid: u32, run: &str) -> bool {
    let child = || PidStat::read(pid, &mut Vec::new()).is_ok_and(|stat| stat.parent == std::process::id());
    let program = |process: &str| {
        let file = fs::metadata(format!("/proc/{process}/exe")).ok()?;
        Some((file.dev(), file.ino()))
    };
    let same_program = || program("self").is_some_and(|ours| program(&pid.to_string()) == Some(ours));
    let in_cgroup = || cgroup::holds_process_of(run, &paths(&Tree::live(), pid));
    child() || same_program() || in_cgroup()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undo_kills_only_the_process_of_that_start_time() {
        let mut child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
        let start = start_time(child.id()).unwrap();
        assert_eq!(undo(child.id(), start + 1, "run").unwrap(), Undone::Gone);
        assert!(
            child.try_wait().unwrap().is_none(),
            "another process of the same number was killed"
        );
        assert_eq!(undo(child.id(), start, "run").unwrap(), Undone::Gone);
        assert!(!child.wait().unwrap().success());
        assert_eq!(
            undo(child.id(), start, "run").unwrap(),
            Undone::Gone,
            "undoing twice"
        );
    }

    /// A journal of another author can name any process with its true start time.
    #[test]
    fn undo_kills_no_process_that_the_run_did_not_start() {
        // A grandchild: its parent is the shell.
        let mut shell = plimsoll_testkit::command("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = plimsoll_testkit::next_line(&mut shell).parse().unwrap();
        let start = start_time(pid).unwrap();
        let undone = undo(pid, start, "run").unwrap();
        let survived = lives(pid, start);
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        shell.wait().unwrap();
        assert!(matches!(undone, Undone::NotOurs(_)), "{undone:?}");
        assert!(survived);
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
