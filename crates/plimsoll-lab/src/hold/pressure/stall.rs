//! The worker's side of a pressure: threads that wait for pages which the kernel has reclaimed.
//!
//! The worker is alone in a cgroup with a limit far below the size of a file. Each page that a thread reads and that is not in
//! RAM makes the kernel reclaim another page of this cgroup, and read the page from the disk. The page was in use before,
//! so that the kernel counts the wait as a stall for memory. As many threads read as the pressure needs,
//! the last of them for a share of each slot.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_os::UsageScope;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::workload::fill::{Stream, StreamError};
use crate::workload::protocol::{Command, Reply};
use crate::workload::{Findings, Memory, Stopwatch, Work, WorkError, mix, typed};
use plimsoll_model::scenario::FillClass;

/// The name that the runner asks for this work by; no workload of a scenario has it.
pub(in super::super) const NAME: &str = "stall";
/// Bytes of one read: the smallest page.
const PAGE: u64 = 4096;
/// Bytes written between two flushes: the cgroup's dirty pages stay far below its limit.
const PIECE: usize = 1 << 20;
/// Reading and sleep of one thread, together. Ten fit between two readings of the pressure.
const SLOT: Duration = Duration::from_millis(10);
/// Seed of the file's data and of the order of the reads.
const SEED: u64 = 1;

/// A request to a worker that stalls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub(super) enum Request {
    /// Write a file of so many bytes in this folder, and start the threads.
    Begin {
        folder: PathBuf,
        bytes: u64,
        threads: u32,
    },
    /// Read in so many of the threads from now on; in the last of them for a share of its time.
    Read { threads: f64 },
}

impl Request {
    pub(super) fn command(&self) -> Command {
        Command::Work {
            workload: NAME.to_owned(),
            // The worker refuses `null`.
            request: serde_json::to_value(self).unwrap_or_default(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum StallError {
    #[error("cannot read pages before `begin`")]
    NotBegun,
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("cannot {action} the file in {}: {source}; name another folder with `--folder`", folder.display())]
    File {
        action: &'static str,
        folder: PathBuf,
        source: io::Error,
    },
    #[error("cannot start a thread: {0}; raise the limit of processes (ulimit -u, pids.max)")]
    Thread(io::Error),
    #[error("cannot read a page again: {0}")]
    Read(io::Error),
}

/// The threads. They end with the value.
#[derive(Debug)]
struct Stalls {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The threads that read, as the bits of an f64.
    reading: AtomicU64,
    ended: AtomicBool,
}

impl Shared {
    /// The share of time in which thread `number` reads.
    fn share(&self, number: u32) -> f64 {
        (f64::from_bits(self.reading.load(Ordering::Relaxed)) - f64::from(number)).clamp(0.0, 1.0)
    }
}

impl Stalls {
    fn begin(folder: &Path, bytes: u64, threads: u32) -> Result<Stalls, StallError> {
        let failed = |action| {
            move |source| StallError::File {
                action,
                folder: folder.to_owned(),
                source,
            }
        };
        let mut file = nameless(folder).map_err(failed("make"))?;
        write(&mut file, bytes)?.map_err(failed("write"))?;
        let mut stalls = Stalls {
            shared: Arc::default(),
            threads: Vec::new(),
        };
        for number in 0..threads.max(1) {
            // A descriptor of its own: the kernel keeps the place of the last read for each.
            let file = again(&file).map_err(failed("open"))?;
            let shared = Arc::clone(&stalls.shared);
            let thread = std::thread::Builder::new()
                .name("stall".to_owned())
                .spawn(move || read_pages(&file, bytes / PAGE, number, &shared))
                .map_err(StallError::Thread)?;
            stalls.threads.push(thread);
        }
        Ok(stalls)
    }

    fn read(&mut self, threads: f64) -> Result<(), StallError> {
        self.shared.reading.store(threads.to_bits(), Ordering::Relaxed);
        let Some(ended) = self.threads.iter().position(JoinHandle::is_finished) else {
            return Ok(());
        };
        match self.threads.swap_remove(ended).join() {
            Ok(Err(error)) => Err(StallError::Read(error)),
            // No thread ends without an error, and a panic has no error of the system.
            _ => Err(StallError::Read(io::ErrorKind::Other.into())),
        }
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Makes a file without a name: it ends with the process. Overlay file systems before Linux 6.2 lack such files; there,
/// the name is removed at once.
fn nameless(folder: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            let path = folder.join(format!(".plimsoll-hold-{}", std::process::id()));
            let file = options.create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
        opened => opened,
    }
}

fn again(file: &File) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    // One page at a time, so that each read that waits stands for one page.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random)?;
    Ok(file)
}

/// Writes data that no disk compresses, in pieces that are on the disk before the next.
fn write(file: &mut File, bytes: u64) -> Result<io::Result<()>, StallError> {
    let mut stream = Stream::new(&FillClass::Random, SEED)?;
    let mut piece = vec![0; PIECE];
    let mut put = |start: u64| {
        stream.write(start, &mut piece);
        file.write_all_at(&piece, start)?;
        file.sync_data()
    };
    let starts = (0..bytes).step_by(PIECE);
    Ok(starts.into_iter().try_for_each(&mut put))
}

/// Reads pages at random, in a share of each slot.
fn read_pages(file: &File, pages: u64, number: u32, shared: &Shared) -> io::Result<()> {
    let mut random = SEED + u64::from(number);
    let mut next = || {
        random = random.wrapping_add(1 << 32);
        mix(random) % pages * PAGE
    };
    let mut page = [0; PAGE as usize];
    while !shared.ended.load(Ordering::Relaxed) {
        let (start, reading) = (Instant::now(), SLOT.mul_f64(shared.share(number)));
        while start.elapsed() < reading {
            let (one, other) = (next(), next());
            // Each page twice, and not twice in a row: to the kernel, it is in use.
            for at in [one, other, one, other] {
                file.read_exact_at(&mut page, at)?;
            }
        }
        std::thread::sleep(SLOT.saturating_sub(start.elapsed()));
    }
    Ok(())
}

/// The work of a pressure, for a worker.
#[derive(Debug, Default)]
pub(in super::super) struct Stalling(Option<Stalls>);

impl Stalling {
    fn carry_out(&mut self, request: &Request) -> Result<u64, StallError> {
        match request {
            Request::Begin {
                folder,
                bytes,
                threads,
            } => {
                self.0 = Some(Stalls::begin(folder, *bytes, *threads)?);
                Ok(*bytes)
            }
            Request::Read { threads } => {
                self.0.as_mut().ok_or(StallError::NotBegun)?.read(*threads)?;
                Ok(0)
            }
        }
    }
}

impl Work for Stalling {
    fn carry_out(&mut self, request: &Value, _: Option<&mut Memory>) -> Result<Reply, WorkError> {
        let watch = Stopwatch::start(UsageScope::Process);
        let written = self.carry_out(&typed(request)?).map_err(WorkError::of_workload)?;
        Ok(Reply::Found {
            cost: watch.stop(written),
            findings: Findings::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_read_a_file_without_a_name_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut stalling = Stalling::default();
        assert!(matches!(
            stalling.carry_out(&Request::Read { threads: 0.5 }),
            Err(StallError::NotBegun)
        ));
        let begin = Request::Begin {
            folder: folder.path().to_owned(),
            bytes: 4 << 20,
            threads: 2,
        };
        assert_eq!(stalling.carry_out(&begin).unwrap(), 4 << 20);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        stalling.carry_out(&Request::Read { threads: 1.5 }).unwrap();
        stalling.carry_out(&Request::Read { threads: 0.0 }).unwrap();
        drop(stalling);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let begin = Request::Begin {
            folder: "/nonexistent".into(),
            bytes: 4 << 20,
            threads: 1,
        };
        let error = Stalling::default().carry_out(&begin).unwrap_err();
        assert!(matches!(error, StallError::File { .. }), "{error}");
    }
}
