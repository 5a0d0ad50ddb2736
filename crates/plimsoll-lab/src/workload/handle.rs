//! The runner's side of a worker: started, confined, commanded, watched and always reaped.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_os::{Errno, Pidfd, Range, UsageScope};
use plimsoll_proc::cgroup::MemoryCgroup;
use plimsoll_proc::{Folder, PidStat, PidStatus, oom};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::cost::Cost;
use super::cost::Stopwatch;
use super::crew::{self, CrewError};
use super::parts::{Part, ranges_of};
use super::protocol::{Command, RefusalCode, Reply};

/// How often a wait looks at the interruption flag.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Time that a new worker has to say it is ready.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that one call trims from outside, between two looks at the clock and the interruption flag.
const TRIM_STEP: u64 = 64 << 20;

#[derive(Debug, Clone, Default)]
pub struct WorkerOptions {
    /// Cgroup that the worker moves into before its first command.
    pub cgroup: Option<MemoryCgroup>,
    /// Whether it stands for everybody else: then it is not the first to go when the whole machine runs out.
    pub neighbour: bool,
    /// Variables of its environment that differ from this process's: set, or taken out.
    pub variables: Vec<(&'static str, Option<OsString>)>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    #[error("cannot start a worker from {}: {source}", exe.display())]
    Spawn { exe: PathBuf, source: io::Error },
    /// It could not be put into its cgroup.
    #[error("cannot put the worker into the cgroup of {}: {source}", path.display())]
    Cgroup {
        /// The `cgroup.procs` file.
        path: PathBuf,
        source: io::Error,
    },
    /// It ended, or was killed, before it answered.
    #[error("cannot complete the worker's command: the worker died {}", death(*.status, *.signal))]
    Died {
        /// Its exit status, unless a signal ended it.
        status: Option<i32>,
        /// The signal that killed it; the OOM killer sends 9 (SIGKILL).
        signal: Option<i32>,
    },
    #[error("cannot wait for the worker longer than {:.1} s; raise `phase-timeout`, or lower `size`", limit.as_secs_f64())]
    Timeout { limit: Duration },
    #[error("cannot complete the worker's command: a signal stopped the run")]
    Interrupted,
    #[error("cannot read the worker's reply: {0}")]
    Protocol(String),
    /// It could not carry out the command, and said why.
    #[error("{message}")]
    Failed { code: RefusalCode, message: String },
    /// The kernel refused a trim from outside.
    #[error(
        "cannot trim the worker by process_madvise(MADV_PAGEOUT) after {advised} bytes: {errno}; it needs Linux 5.10 and \
         CAP_SYS_NICE, or trim = \"worker\""
    )]
    TrimFromOutside {
        /// Bytes advised on before.
        advised: u64,
        errno: Errno,
    },
    /// The runner cannot start the threads that trim it from outside.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// Its values or its pipes cannot be read.
    #[error("cannot {what}: {source}")]
    Io { what: &'static str, source: io::Error },
}

fn death(status: Option<i32>, signal: Option<i32>) -> String {
    match (status, signal) {
        (_, Some(9)) => "by signal 9 (SIGKILL); see in dmesg whether the OOM killer sent it".to_owned(),
        (_, Some(signal)) => format!("by signal {signal}; report this defect"),
        (Some(status), None) => format!("with exit status {status}; report this defect"),
        (None, None) => "in an unknown way; report this defect".to_owned(),
    }
}

/// Resources that a worker has used since its start, from `/proc/<pid>/stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// User CPU seconds, in clock ticks of 10 ms on most systems.
    pub cpu_user_s: f64,
    pub cpu_system_s: f64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub resident_bytes: u64,
}

/// Where a worker's anonymous memory is, as `/proc/<pid>/status` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Residency {
    /// Bytes in RAM (`RssAnon`).
    pub resident: u64,
    /// Bytes in swap (`VmSwap`).
    pub swapped: u64,
}

/// A worker process. Killed and reaped when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    pidfd: Pidfd,
    commands: ChildStdin,
    replies: ChildStdout,
    /// Bytes read of `replies` and not yet returned.
    unread: Vec<u8>,
    /// An answer is still to come: of a call that ended by timeout or interruption.
    owes_reply: bool,
}

impl Worker {
    /// Starts `exe worker` and puts it into the cgroups of `options` while it waits for its first command, before it
    /// has allocated anything of an experiment.
    ///
    /// The worker is killed when the calling *thread* ends, so call this on one that outlives the worker. It is in a
    /// process group of its own: Ctrl-C reaches the runner alone, which decides.
    ///
    /// # Errors
    /// [`WorkerError::Spawn`], [`WorkerError::Cgroup`], or an error of [`Worker::call`] while waiting for it.
    pub fn spawn(exe: &Path, options: &WorkerOptions) -> Result<Worker, WorkerError> {
        let spawn_error = |source| WorkerError::Spawn {
            exe: exe.to_owned(),
            source,
        };
        let mut command = std::process::Command::new(exe);
        for (name, value) in &options.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(spawn_error)?;
        let (Some(commands), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(WorkerError::Protocol("a worker without pipes".to_owned()));
        };
        let pidfd = match Pidfd::open(child.id()) {
            Ok(pidfd) => pidfd,
            Err(errno) => {
                // Closing its input would end it too, but must not be left to a broken one.
                let _ = child.kill();
                let _ = child.wait();
                return Err(spawn_error(io::Error::from_raw_os_error(errno.raw())));
            }
        };
        let mut worker = Worker {
            child,
            pidfd,
            commands,
            replies,
            unread: Vec::new(),
            owes_reply: true,
        };
        match worker.receive(START_TIMEOUT, &AtomicBool::new(false))? {
            Reply::Ready { .. } => {}
            other => return Err(unexpected("ready", &other)),
        }
        // Not before: else chance decides which part of its start (relocations, a megabyte or two) the cgroup pays
        // for.
        worker.confine(options)?;
        Ok(worker)
    }

    fn confine(&self, options: &WorkerOptions) -> Result<(), WorkerError> {
        if let Some(cgroup) = &options.cgroup {
            cgroup
                .add_process(self.pid())
                .map_err(|error| WorkerError::Cgroup {
                    path: error.path().to_owned(),
                    source: error.into_io(),
                })?;
        }
        if !options.neighbour {
            // When the whole machine runs out, the experiment goes first. Refused only where /proc is read-only.
            let _ = oom::set_adjustment(self.pid(), 1000);
        }
        Ok(())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Checks that the worker lives, for a caller that asks it nothing for long.
    ///
    /// # Errors
    /// [`WorkerError::Died`], and [`WorkerError::Io`] if it cannot be waited for.
    pub fn check(&mut self) -> Result<(), WorkerError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(self.reap()),
            Err(source) => Err(WorkerError::Io {
                what: "wait for the worker",
                source,
            }),
        }
    }

    /// Sends `command` and waits for its answer. A death of the worker is noticed at once.
    ///
    /// # Errors
    /// [`WorkerError::Failed`] with the worker's words: it can be used further. [`WorkerError::Died`],
    /// [`WorkerError::Timeout`] and [`WorkerError::Interrupted`] (`interrupted` became true): drop it.
    pub fn call(
        &mut self,
        command: &Command,
        timeout: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Reply, WorkerError> {
        self.send(command)?;
        self.answer(timeout, interrupted)
    }

    /// Sends `command` without waiting, for work that several workers do at once; then comes [`Worker::answer`].
    ///
    /// # Errors
    /// [`WorkerError::Died`]; [`WorkerError::Protocol`] while the answer to an earlier command is still to come.
    pub fn send(&mut self, command: &Command) -> Result<(), WorkerError> {
        if self.owes_reply {
            return Err(WorkerError::Protocol(
                "it still owes the answer to an earlier command".to_owned(),
            ));
        }
        let mut line = serde_json::to_vec(command)
            .map_err(|error| WorkerError::Protocol(format!("the command cannot be written: {error}")))?;
        line.push(b'\n');
        match self.commands.write_all(&line) {
            Ok(()) => {
                self.owes_reply = true;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(self.reap()),
            Err(source) => Err(WorkerError::Io {
                what: "write to the worker",
                source,
            }),
        }
    }

    /// Waits for the reply to the last command.
    ///
    /// # Errors
    /// As [`Worker::call`].
    pub fn answer(&mut self, timeout: Duration, interrupted: &AtomicBool) -> Result<Reply, WorkerError> {
        match self.receive(timeout, interrupted)? {
            Reply::Failed { code, message } => Err(WorkerError::Failed { code, message }),
            reply => Ok(reply),
        }
    }

    fn receive(&mut self, timeout: Duration, interrupted: &AtomicBool) -> Result<Reply, WorkerError> {
        let start = Instant::now();
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                self.owes_reply = false;
                return serde_json::from_slice(&line).map_err(|error| {
                    WorkerError::Protocol(format!("{error} in {:?}", String::from_utf8_lossy(&line)))
                });
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(WorkerError::Interrupted);
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(WorkerError::Timeout { limit: timeout });
            }
            if self.readable(left.min(LOOK_UP))? && self.read_some()? == 0 {
                return Err(self.reap());
            }
        }
    }

    /// Waits until there is something to read, the end included, or `wait` is over.
    fn readable(&self, wait: Duration) -> Result<bool, WorkerError> {
        let mut fds = [PollFd::from_borrowed_fd(self.replies.as_fd(), PollFlags::IN)];
        let wait = Timespec {
            tv_sec: wait.as_secs() as _,
            tv_nsec: wait.subsec_nanos() as _,
        };
        match poll(&mut fds, Some(&wait)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(errno) => Err(WorkerError::Io {
                what: "wait for the worker",
                source: errno.into(),
            }),
        }
    }

    fn read_some(&mut self) -> Result<usize, WorkerError> {
        let mut bytes = [0; 4096];
        let read = self.replies.read(&mut bytes).map_err(|source| WorkerError::Io {
            what: "read from the worker",
            source,
        })?;
        self.unread.extend_from_slice(&bytes[..read]);
        Ok(read)
    }

    /// Says how the worker died; waits for the end of its end.
    fn reap(&mut self) -> WorkerError {
        self.owes_reply = false;
        match self.child.wait() {
            Ok(status) => WorkerError::Died {
                status: status.code(),
                signal: status.signal(),
            },
            Err(source) => WorkerError::Io {
                what: "wait for the worker's end",
                source,
            },
        }
    }

    /// Has the kernel reclaim all that the worker has filled, from outside by `process_madvise`, in so many threads. The
    /// cost is theirs.
    ///
    /// # Errors
    /// [`WorkerError::TrimFromOutside`] where the kernel refuses; else as [`Worker::call`].
    pub fn trim_from_outside(
        &mut self,
        threads: u32,
        timeout: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Cost, WorkerError> {
        let ranges = match self.call(&Command::Mappings, timeout, interrupted)? {
            Reply::Mappings { ranges } => ranges,
            other => return Err(unexpected("mappings", &other)),
        };
        let bytes = ranges.iter().map(|(_, length)| *length).sum();
        let start = Instant::now();
        let proceed = || start.elapsed() < timeout && !interrupted.load(Ordering::Relaxed);
        let pidfd = &self.pidfd;
        let trimmed = crew::each(shared_out(&ranges, threads), |ranges| {
            let watch = Stopwatch::start(UsageScope::Thread);
            let trimmed = pidfd.page_out(&ranges, TRIM_STEP, |_| proceed());
            (watch.stop(bytes), trimmed)
        })?;
        let mut cost = Cost::default();
        let mut advised = 0;
        for (of_thread, trimmed) in trimmed {
            cost = cost.and(of_thread);
            advised += match trimmed {
                Ok(bytes) => bytes,
                Err(error) if error.errno == Errno::SRCH => return Err(self.reap()),
                Err(error) => {
                    return Err(WorkerError::TrimFromOutside {
                        advised: advised + error.advised,
                        errno: error.errno,
                    });
                }
            };
        }
        if threads > 1 {
            // They worked at the same time.
            cost.seconds = start.elapsed().as_secs_f64();
        }
        match advised == bytes {
            true => Ok(cost),
            false if interrupted.load(Ordering::Relaxed) => Err(WorkerError::Interrupted),
            false => Err(WorkerError::Timeout { limit: timeout }),
        }
    }

    /// Resources that the worker has used so far.
    ///
    /// # Errors
    /// [`WorkerError::Io`] where `/proc/<pid>/stat` cannot be read.
    pub fn usage(&self) -> Result<Usage, WorkerError> {
        let io_error = |source| WorkerError::Io {
            what: "read the worker's /proc/<pid>/stat",
            source,
        };
        let mut buffer = Vec::new();
        let stat = PidStat::read(self.pid(), &mut buffer).map_err(io_error)?;
        Ok(Usage::of(&stat))
    }

    /// Where its anonymous memory is now. The kernel counts on each CPU in batches, so that some pages may be missing.
    ///
    /// # Errors
    /// [`WorkerError::Io`] where `/proc/<pid>/status` cannot be read.
    pub fn residency(&self) -> Result<Residency, WorkerError> {
        let io_error = |source| WorkerError::Io {
            what: "read the worker's /proc/<pid>/status",
            source,
        };
        let mut buffer = Vec::new();
        let folder = Folder::open(self.pid()).map_err(io_error)?;
        let text = folder.read("status", &mut buffer).map_err(io_error)?;
        Residency::of(&PidStatus::parse(text))
            .ok_or_else(|| io_error(io::Error::from(io::ErrorKind::InvalidData)))
    }

    /// Stops the process (SIGSTOP) until [`Worker::resume`]: it keeps its memory and answers nothing. It can be
    /// killed while it is stopped.
    ///
    /// # Errors
    /// [`WorkerError::Io`] if it has ended.
    pub fn suspend(&self) -> Result<(), WorkerError> {
        self.signal(libc::SIGSTOP, "stop the worker")
    }

    /// Lets a stopped process go on (SIGCONT).
    ///
    /// # Errors
    /// [`WorkerError::Io`] if it has ended.
    pub fn resume(&self) -> Result<(), WorkerError> {
        self.signal(libc::SIGCONT, "let the worker go on")
    }

    fn signal(&self, signal: i32, what: &'static str) -> Result<(), WorkerError> {
        let io_error = |errno: Errno| WorkerError::Io {
            what,
            source: io::Error::from_raw_os_error(errno.raw()),
        };
        self.pidfd.send_signal(signal).map_err(io_error)
    }

    /// Kills the worker (SIGKILL) and waits for its end.
    ///
    /// # Errors
    /// [`WorkerError::Io`] if waiting fails.
    pub fn kill(mut self) -> Result<ExitStatus, WorkerError> {
        self.end()
    }

    fn end(&mut self) -> Result<ExitStatus, WorkerError> {
        // ESRCH: it was reaped before, and `wait` knows how it ended.
        let _ = self.pidfd.send_signal(libc::SIGKILL);
        self.child.wait().map_err(|source| WorkerError::Io {
            what: "wait for the worker's end",
            source,
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Ranges of memory in parts of about as many pages, one for each of so many threads.
fn shared_out(ranges: &[(u64, u64)], threads: u32) -> Vec<Vec<Range>> {
    let lengths: Vec<usize> = ranges.iter().map(|(_, length)| *length as usize).collect();
    let page_size = plimsoll_os::page_size();
    let pages = lengths
        .iter()
        .map(|length| length.div_ceil(page_size) as u64)
        .sum();
    ranges_of(&Part::split(pages, threads), ranges)
}

fn unexpected(wanted: &str, found: &Reply) -> WorkerError {
    WorkerError::Protocol(format!("{found:?} in place of {wanted}"))
}

impl Usage {
    fn of(stat: &PidStat<'_>) -> Usage {
        Usage {
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
            cpu_user_s: stat.user_us as f64 / 1e6,
            cpu_system_s: stat.system_us as f64 / 1e6,
            resident_bytes: stat
                .resident_pages
                .saturating_mul(plimsoll_os::page_size() as u64),
        }
    }
}

impl Residency {
    fn of(status: &PidStatus) -> Option<Residency> {
        Some(Residency {
            resident: status.anon?,
            swapped: status.swap?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_file_gives_resident_and_swapped_bytes() {
        let text = "Name:\tRssAnon: 7\nVmRSS:\t    5000 kB\nRssAnon:\t    4096 kB\nVmSwap:\t      12 kB\n";
        let read = Residency {
            resident: 4 << 20,
            swapped: 12 << 10,
        };
        let of = |text: &str| Residency::of(&PidStatus::parse(text.as_bytes()));
        assert_eq!(of(text), Some(read));
        assert_eq!(of("Name:\tplimsoll\n"), None);
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let line = "42 (a) b (c)) S 1 42 42 0 -1 4194304 107 0 3 0 200 100 0 0 20 0 1 0 55 4096000 250 18446744073709551615";
        let of = |line: &str| PidStat::parse(line.as_bytes()).map(|stat| Usage::of(&stat));
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(
            of(line),
            Some(Usage {
                cpu_user_s: 200.0 / ticks,
                cpu_system_s: 100.0 / ticks,
                minor_faults: 107,
                major_faults: 3,
                resident_bytes: 250 * plimsoll_os::page_size() as u64,
            })
        );
        assert_eq!(of("42 (cut short) S 1 42"), None);
    }
}
