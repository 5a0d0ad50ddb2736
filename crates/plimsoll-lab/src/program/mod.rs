//! A program of the user: started in a cgroup, watched, its output read, and always ended with all of its process group.

mod output;
mod start;

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout};
use std::time::{Duration, Instant};

use plimsoll_model::scenario::workloads::command::MetricPattern;
use plimsoll_os::{Ended, Errno};
use plimsoll_proc::cgroup::MemoryCgroup;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

pub(crate) use output::Content;
use output::Output;

/// Bytes of output that are read at once: between two looks at the clock there is no more.
const READ_AT_ONCE: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ProgramError {
    #[error("cannot start `{program}`: {source}; name a program of PATH, or the path of an executable file")]
    Start { program: String, source: io::Error },
    #[error("cannot open {} for the program: {source}", path.display())]
    Cgroup { path: PathBuf, source: io::Error },
    #[error("cannot {action}: {source}")]
    Io { action: &'static str, source: io::Error },
}

impl ProgramError {
    fn io(action: &'static str) -> impl FnOnce(io::Error) -> ProgramError {
        move |source| ProgramError::Io { action, source }
    }
}

/// A running program. Dropping it kills its process group and waits for its end.
pub(crate) struct Program {
    child: Child,
    pidfd: OwnedFd,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    out: Output,
    err: Output,
    start: Instant,
    /// From its start to its end, once it has ended.
    seconds: Option<f64>,
    reaped: bool,
}

pub(crate) struct Finished {
    /// From its start to its end.
    pub(crate) seconds: f64,
    pub(crate) end: Ended,
    pub(crate) stdout: Content,
    /// The last number that it printed, on stderr if it printed none on stdout.
    pub(crate) metric: Option<f64>,
    /// The end of stderr.
    pub(crate) last_words: String,
}

impl Finished {
    /// The exit code as a shell gives it: of a program that a signal ended, 128 and its number.
    pub(crate) fn code(&self) -> i32 {
        self.end
            .code
            .unwrap_or_else(|| 128 + self.end.signal.unwrap_or(0))
    }
}

impl Program {
    /// Starts it in `cgroup`; see [`start::start`].
    pub(crate) fn start(
        command: &[String],
        cgroup: &MemoryCgroup,
        pattern: Option<&MetricPattern>,
    ) -> Result<Program, ProgramError> {
        let start = Instant::now();
        let mut child = start::start(command, cgroup)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let pid = Pid::from_child(&child);
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(errno) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(ProgramError::io("watch the program")(errno.into()));
            }
        };
        let program = Program {
            child,
            pidfd,
            stdout,
            stderr,
            out: Output::new(pattern),
            err: Output::new(pattern),
            start,
            seconds: None,
            reaped: false,
        };
        let pipes = [
            program.stdout.as_ref().map(AsFd::as_fd),
            program.stderr.as_ref().map(AsFd::as_fd),
        ];
        for pipe in pipes.into_iter().flatten() {
            ioctl_fionbio(pipe, true)
                .map_err(|errno| ProgramError::io("read the program's output")(errno.into()))?;
        }
        Ok(program)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Seconds since its start.
    pub(crate) fn elapsed(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Reads its output for at most `time`; true once it has ended. Others of its process group may live on.
    pub(crate) fn watch(&mut self, time: Duration) -> Result<bool, ProgramError> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.poll(left)? {
                self.seconds
                    .get_or_insert_with(|| self.start.elapsed().as_secs_f64());
                return Ok(true);
            }
            self.read()?;
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Waits until it has ended (true), has written something, or `time` is over.
    fn poll(&self, time: Duration) -> Result<bool, ProgramError> {
        let pipes = [
            self.stdout.as_ref().map(AsFd::as_fd),
            self.stderr.as_ref().map(AsFd::as_fd),
        ];
        let pidfd = self.pidfd.as_fd();
        let mut fds: Vec<PollFd<'_>> = [Some(pidfd)]
            .into_iter()
            .chain(pipes)
            .flatten()
            .map(|fd: BorrowedFd<'_>| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let time = Timespec {
            tv_sec: time.as_secs() as _,
            tv_nsec: time.subsec_nanos() as _,
        };
        match poll(&mut fds, Some(&time)) {
            Ok(_) => Ok(!fds[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(errno) => Err(ProgramError::io("wait for the program")(errno.into())),
        }
    }

    /// Takes the output that is there.
    fn read(&mut self) -> Result<(), ProgramError> {
        read_some(&mut self.stdout, &mut self.out)?;
        read_some(&mut self.stderr, &mut self.err)
    }

    /// Kills its process group, waits for its end, and takes the rest of its output.
    pub(crate) fn finish(mut self) -> Result<Finished, ProgramError> {
        let end = self.end().map_err(|errno| {
            ProgramError::io("wait for the program's end")(io::Error::from_raw_os_error(errno.raw()))
        })?;
        self.read()?;
        Ok(Finished {
            seconds: self.seconds.unwrap_or_else(|| self.elapsed()),
            end,
            stdout: self.out.content(),
            metric: self.out.metric().or_else(|| self.err.metric()),
            last_words: self.err.tail(),
        })
    }

    /// Kills its process group and reaps it. Its number stays its own until then, as does the number of the group.
    fn end(&mut self) -> Result<Ended, Errno> {
        // One that has ended, with all others of its group, is no error.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        self.reaped = true;
        plimsoll_os::wait(self.child.id())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.end();
        }
    }
}

/// Takes the contents of a pipe, up to a bound; closes it at its end.
fn read_some(pipe: &mut Option<impl Read>, output: &mut Output) -> Result<(), ProgramError> {
    let mut bytes = [0; 64 << 10];
    let mut taken = 0;
    while let Some(open) = pipe.as_mut().filter(|_| taken < READ_AT_ONCE) {
        match open.read(&mut bytes) {
            Ok(0) => *pipe = None,
            Ok(count) => {
                output.take(&bytes[..count]);
                taken += count;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ProgramError::io("read the program's output")(error)),
        }
    }
    Ok(())
}
