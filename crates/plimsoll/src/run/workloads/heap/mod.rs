//! A load on malloc, in a worker that runs on the allocator under test.

mod load;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_os::Pidfd;

use crate::environment;
use crate::exit::Exit;
use crate::heap::{self, HeapFrontEnd, HeapReport, Launch};
use crate::quantity;
use crate::run::stage::{Stage, Surroundings};
use crate::run::trial::{Trouble, lacking};
use crate::scenario::workloads::heap::finding;
use crate::scenario::{Allocator, FrontEnd, Heap, HeapLoad, WorkloadKind};
use crate::workload::Worker;
use crate::workload::protocol::{Command, Findings, Reply};
use load::HeapStep;

pub(super) use load::Load;

/// The variable that chooses the allocator of a process.
const PRELOAD: &str = "LD_PRELOAD";
/// Pause between two looks at what a worker without a cgroup holds: a process touches some 50 MB in it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs the trial's work: the load, a rest, and a look at what is left.
pub(super) fn run(stage: &mut Stage<'_, '_>, heap: &Heap) -> Result<(), Trouble> {
    if let Surroundings::Lacking(missing) = &stage.surroundings
        && !missing.is_empty()
    {
        return Err(lacking("heap", missing));
    }
    note_params(stage, heap);
    let Some(allocator) = stage.plan.settings.subject.allocator().cloned() else {
        return Err(Trouble::new(
            Exit::Usage,
            format_args!("`{}` is no allocator", stage.plan.settings.subject),
        ));
    };
    let preloaded = Preloaded::of(&allocator)?;
    let mut worker = stage.spawn_with(preloaded.variables())?;
    stage.watch(&[worker.pid()]);
    let guard = match stage.cgroup() {
        Some(_) => Ok(None),
        None => Guard::start(worker.pid(), stage.plan.settings.limit).map(Some),
    };
    let ended = guard.and_then(|guard| {
        let ended = work(stage, &mut worker, &preloaded, heap);
        match guard.filter(|guard| guard.tripped()) {
            Some(_) if stage.lab.stop.cause().is_none() => Err(over_limit(stage)),
            _ => ended,
        }
    });
    stage.retire(worker);
    stage.verified = ended.is_ok();
    ended
}

/// What of the load its readers must know, whether it is swept or not.
fn note_params(stage: &mut Stage<'_, '_>, heap: &Heap) {
    stage.param("heap-load", heap.load.name());
    if heap.load != HeapLoad::Fragmentation {
        stage.param("threads", heap.threads.to_string());
        stage.param("block-size", heap.sizes.to_string());
    }
    if heap.is_timed() {
        stage.param("blocks", heap.blocks.to_string());
    }
}

fn work(
    stage: &mut Stage<'_, '_>,
    worker: &mut Worker,
    preloaded: &Preloaded,
    heap: &Heap,
) -> Result<(), Trouble> {
    let library = match stage.ask(worker, &Command::work(WorkloadKind::Heap, &HeapStep::Which))? {
        Reply::Named { name } => name,
        other => return Err(Trouble::unexpected(&other)),
    };
    preloaded.check(&library)?;
    preloaded.check_front_end(worker.pid())?;
    stage.param("library", library);
    let seed = stage.seed();
    let load = Command::work(WorkloadKind::Heap, &HeapStep::Load { heap: *heap, seed });
    stage.phase(heap.load.name(), Some(1), |stage, _| {
        let mut worked = stage.find(worker, &load)?;
        if heap.load == HeapLoad::Fragmentation {
            preloaded.look_inside(worker.pid(), &mut worked.findings)?;
        }
        Ok(worked)
    })?;
    if heap.load == HeapLoad::Fragmentation {
        let free = Command::work(WorkloadKind::Heap, &HeapStep::Free);
        stage.phase("free", None, |stage, _| stage.find(worker, &free))?;
    }
    let hold = heap.hold;
    if hold > 0.0 {
        stage.phase("left", Some(2), |stage, _| {
            stage.rest(hold)?;
            stage.find(worker, &Command::work(WorkloadKind::Heap, &HeapStep::Left))
        })?;
    }
    Ok(())
}

/// What a worker is started with.
struct Preloaded {
    allocator: Allocator,
    /// None of the C library's own.
    library: Option<PathBuf>,
}

impl Preloaded {
    fn of(allocator: &Allocator) -> Result<Preloaded, Trouble> {
        let library = match allocator {
            Allocator::Glibc => None,
            Allocator::Plimsoll(_) => {
                Some(heap::unpack().map_err(|error| Trouble::new(Exit::Missing, error))?)
            }
            other => Some(environment::allocator_library(other).ok_or_else(|| {
                Trouble::new(Exit::Missing, format_args!("the library of `{other}` is gone"))
            })?),
        };
        Ok(Preloaded {
            allocator: allocator.clone(),
            library,
        })
    }

    /// The environment of its worker: nothing but the allocator is preloaded, whatever this process runs on.
    fn variables(&self) -> Vec<(&'static str, Option<OsString>)> {
        match (self.front_end(), &self.library) {
            (Some(front_end), Some(library)) => {
                let front_end = match front_end {
                    FrontEnd::LowFragmentation => HeapFrontEnd::LowFragmentation,
                    FrontEnd::Standard => HeapFrontEnd::Standard,
                };
                let launch = Launch {
                    library: library.clone(),
                    front_end,
                    hardened: false,
                };
                let variables = launch.environment(None).into_iter();
                variables.map(|(name, value)| (name, Some(value))).collect()
            }
            _ => vec![(PRELOAD, self.library.clone().map(PathBuf::into_os_string))],
        }
    }

    /// The front end of our own allocator.
    fn front_end(&self) -> Option<FrontEnd> {
        match self.allocator {
            Allocator::Plimsoll(front_end) => Some(front_end),
            _ => None,
        }
    }

    /// Notes how fragmented the heap of a worker is, where it is our own.
    fn look_inside(&self, pid: u32, into: &mut Findings) -> Result<(), Trouble> {
        if self.front_end().is_none() {
            return Ok(());
        }
        if let Some(heap) = heap_of(pid)? {
            into.set(finding::FREE_BLOCKS, heap.free_blocks as f64);
            into.set(finding::UNCOMMITTED_RANGES, heap.uncommitted_ranges as f64);
            for (name, percent) in [
                (
                    finding::EXTERNAL_FRAGMENTATION,
                    heap.external_fragmentation_percent,
                ),
                (finding::VIRTUAL_FRAGMENTATION, heap.virtual_fragmentation_percent),
            ] {
                percent.into_iter().for_each(|percent| into.set(name, percent));
            }
        }
        Ok(())
    }

    /// Refuses a worker on our own allocator whose heap has another front end than the one it was asked for.
    fn check_front_end(&self, pid: u32) -> Result<(), Trouble> {
        let Some(front_end) = self.front_end() else {
            return Ok(());
        };
        let wanted = match front_end {
            FrontEnd::LowFragmentation => "low-fragmentation",
            FrontEnd::Standard => "standard",
        };
        match heap_of(pid)?.map(|heap| heap.front_end) {
            Some(found) if found == wanted => Ok(()),
            found => Err(Trouble::new(
                Exit::WorkloadFailed,
                format_args!(
                    "the worker's heap was to have the {wanted} front end, and has {}",
                    found.unwrap_or("none")
                ),
            )),
        }
    }

    /// Refuses a worker whose malloc comes from elsewhere: its figures would bear a wrong name.
    fn check(&self, found: &str) -> Result<(), Trouble> {
        let wanted = self.library.as_ref().and_then(|path| path.file_name());
        let right = match wanted {
            Some(name) => name.to_string_lossy() == found,
            None => found.starts_with("libc.so") || found.starts_with("libc-"),
        };
        if right {
            return Ok(());
        }
        let wanted = wanted.map_or_else(|| "the C library".into(), |name| name.to_string_lossy());
        Err(Trouble::new(
            Exit::WorkloadFailed,
            format_args!(
                "the worker was to run on `{}` ({wanted}), and its malloc comes from {found}: the loader did not take \
                 the library, as where this program is linked statically or the library is of another machine",
                self.allocator
            ),
        ))
    }
}

/// The process's own heap of a worker on our allocator.
fn heap_of(pid: u32) -> Result<Option<HeapReport>, Trouble> {
    let stat = heap::stat(pid, false).map_err(|error| Trouble::new(Exit::WorkloadFailed, error))?;
    let process = stat.survey.processes.into_iter().next();
    // It is the first.
    Ok(process.and_then(|process| process.heaps.into_iter().next()))
}

fn over_limit(stage: &Stage<'_, '_>) -> Trouble {
    let settings = &stage.plan.settings;
    Trouble::new(
        Exit::Killed,
        format_args!(
            "the worker held more than its limit of {} and was ended; raise `limit`, or ask for fewer blocks or threads",
            quantity::bytes(settings.limit as f64)
        ),
    )
}

/// Sees to the limit of a worker where there is no cgroup to do so, and ends the worker that takes more. (A limit of
/// address space would change what is measured: allocators reserve more of it than they use.) Dropped, it looks no more.
struct Guard {
    tripped: Arc<AtomicBool>,
    /// Its drop is what the thread waits for.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Guard {
    fn start(pid: u32, limit: u64) -> Result<Guard, Trouble> {
        let pidfd = Pidfd::open(pid).map_err(|errno| {
            Trouble::new(
                Exit::WorkloadFailed,
                format_args!("cannot watch the worker: {errno}"),
            )
        })?;
        let (end, ended) = channel::<()>();
        let tripped = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&tripped);
        let statm = format!("/proc/{pid}/statm");
        let thread = std::thread::Builder::new()
            .name("heap-guard".to_owned())
            .spawn(move || {
                while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    if resident(&statm).is_some_and(|bytes| bytes > limit) {
                        seen.store(true, Ordering::Release);
                        // One that has ended by itself needs no other end.
                        let _ = pidfd.send_signal(libc::SIGKILL);
                        return;
                    }
                }
            })
            .map_err(|error| Trouble::new(Exit::Missing, format_args!("cannot start a thread: {error}")))?;
        Ok(Guard {
            tripped,
            end: Some(end),
            thread: Some(thread),
        })
    }

    fn tripped(&self) -> bool {
        self.tripped.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed by itself, and nothing is left to be done.
            let _ = thread.join();
        }
    }
}

/// Resident bytes of a `/proc/<pid>/statm` (proc_pid_statm(5)).
fn resident(statm: &str) -> Option<u64> {
    let text = std::fs::read_to_string(statm).ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(plimsoll_os::page_size() as u64)
}
