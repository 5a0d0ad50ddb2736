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
use plimsoll_proc::{KeptFile, Statm};

use crate::environment;
use crate::run::context::{Surroundings, TrialContext};
use crate::run::services::{HeapService, HeapState};
use crate::run::trial_error::{TrialError, lacking};
use crate::workload::Findings;
use crate::workload::Worker;
use crate::workload::protocol::{Command, Reply};

use load::HeapStep;
use plimsoll_model::exit::Exit;
use plimsoll_model::quantity;
use plimsoll_model::recording::FailureCode;
use plimsoll_model::scenario::workloads::heap::finding;
use plimsoll_model::scenario::{Allocator, FrontEnd, Heap, HeapLoad, HeapProfile, WorkloadKind};

pub(super) use load::Load as Requests;

/// The part of a trial that needs an environment.
pub(super) const CONFINED: &str = "heap";

/// The variable that chooses the allocator of a process.
const PRELOAD: &str = "LD_PRELOAD";
/// Period of the limit's check of a worker without a cgroup: a process touches some 50 MB in it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs the trial's work: the load, a rest, and a measurement of the rest of its memory.
pub(super) fn run(context: &mut TrialContext<'_, '_>, heap: &Heap) -> Result<(), TrialError> {
    if let Surroundings::Lacking(missing) = &context.surroundings
        && !missing.is_empty()
    {
        return Err(lacking("heap", missing));
    }
    note_params(context, heap);
    let Some(allocator) = context.plan.settings.subject.allocator().cloned() else {
        return Err(TrialError::new(
            Exit::Usage,
            FailureCode::Allocator,
            format_args!("`{}` is no allocator", context.plan.settings.subject),
        ));
    };
    let preloaded = Preloaded::of(&allocator, context.runner.services.heap)?;
    let mut worker = context.spawn_with(preloaded.variables())?;
    context.watch(&[worker.pid()]);
    let guard = match context.cgroup() {
        Some(_) => Ok(None),
        None => Guard::start(worker.pid(), context.plan.settings.limit).map(Some),
    };
    let ended = guard.and_then(|guard| {
        let ended = work(context, &mut worker, &preloaded, heap);
        match guard.filter(|guard| guard.tripped()) {
            Some(_) if context.runner.stop.cause().is_none() => Err(over_limit(context)),
            _ => ended,
        }
    });
    context.retire(worker);
    context.verified = ended.is_ok();
    ended
}

/// Parameters of the load for the record, swept or not.
fn note_params(context: &mut TrialContext<'_, '_>, heap: &Heap) {
    context.param("heap-load", heap.load.name());
    if heap.load != HeapLoad::Fragmentation {
        context.param("threads", heap.threads.to_string());
        context.param("block-size", heap.sizes.to_string());
    }
    if heap.has_blocks() {
        context.param("blocks", heap.blocks.to_string());
    }
    if heap.load == HeapLoad::Aggressive {
        context.param("free-order", heap.free_order.name());
    }
}

fn work(
    context: &mut TrialContext<'_, '_>,
    worker: &mut Worker,
    preloaded: &Preloaded,
    heap: &Heap,
) -> Result<(), TrialError> {
    let library = match context.ask(worker, &Command::work(WorkloadKind::Heap, &HeapStep::Which))? {
        Reply::Named { name } => name,
        other => return Err(TrialError::unexpected(&other)),
    };
    preloaded.check(&library)?;
    preloaded.check_options(worker.pid())?;
    context.param("library", library);
    let seed = context.seed();
    let load = Command::work(WorkloadKind::Heap, &HeapStep::Load { heap: *heap, seed });
    context.phase(heap.load.name(), Some(1), |context, _| {
        let mut worked = context.find(worker, &load)?;
        if heap.load == HeapLoad::Fragmentation {
            preloaded.look_inside(worker.pid(), &mut worked.findings)?;
        }
        Ok(worked)
    })?;
    if heap.load == HeapLoad::Fragmentation {
        let free = Command::work(WorkloadKind::Heap, &HeapStep::Free);
        context.phase("free", None, |context, _| context.find(worker, &free))?;
    }
    let hold = heap.hold;
    if hold > 0.0 {
        context.phase("left", Some(2), |context, _| {
            context.rest(hold)?;
            context.find(worker, &Command::work(WorkloadKind::Heap, &HeapStep::Left))
        })?;
    }
    Ok(())
}

/// The allocator of a worker.
struct Preloaded {
    allocator: Allocator,
    /// None of the C library's own.
    library: Option<PathBuf>,
    service: HeapService,
}

impl Preloaded {
    fn of(allocator: &Allocator, service: HeapService) -> Result<Preloaded, TrialError> {
        let library = match allocator {
            Allocator::Glibc => None,
            Allocator::Plimsoll(..) => Some(
                (service.unpack)()
                    .map_err(|error| TrialError::new(Exit::Missing, FailureCode::Allocator, error))?,
            ),
            other => Some(environment::allocator_library(other).ok_or_else(|| {
                TrialError::new(
                    Exit::Missing,
                    FailureCode::Allocator,
                    format_args!("the library of `{other}` is gone"),
                )
            })?),
        };
        Ok(Preloaded {
            allocator: allocator.clone(),
            library,
            service,
        })
    }

    /// The environment of its worker: preloads nothing but the allocator.
    fn variables(&self) -> Vec<(&'static str, Option<OsString>)> {
        match (self.options(), &self.library) {
            (Some((front_end, profile)), Some(library)) => {
                let variables = (self.service.variables)(library, front_end, profile).into_iter();
                variables.map(|(name, value)| (name, Some(value))).collect()
            }
            _ => vec![(PRELOAD, self.library.clone().map(PathBuf::into_os_string))],
        }
    }

    /// The front end and the profile, if it is our own.
    fn options(&self) -> Option<(FrontEnd, HeapProfile)> {
        match self.allocator {
            Allocator::Plimsoll(front_end, profile) => Some((front_end, profile)),
            _ => None,
        }
    }

    /// Notes the fragmentation of a worker's heap, if it is our own.
    fn look_inside(&self, pid: u32, into: &mut Findings) -> Result<(), TrialError> {
        if self.options().is_none() {
            return Ok(());
        }
        if let Some(heap) = self.heap_of(pid)? {
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

    /// Refuses a worker whose `plimsoll-malloc` has another front end or profile than requested.
    fn check_options(&self, pid: u32) -> Result<(), TrialError> {
        if self.options().is_none() {
            return Ok(());
        }
        let heap = self.heap_of(pid)?;
        let found = heap.and_then(|heap| Some(Allocator::Plimsoll(heap.front_end?, heap.profile)));
        if found.as_ref() == Some(&self.allocator) {
            return Ok(());
        }
        let found = found.map_or_else(|| "no such heap".to_owned(), |found| found.to_string());
        Err(TrialError::failed(
            FailureCode::Allocator,
            format_args!(
                "the worker runs on the wrong heap: wanted {}, found {found}",
                self.allocator
            ),
        ))
    }

    /// Reads the process's own heap of a worker on our allocator.
    fn heap_of(&self, pid: u32) -> Result<Option<HeapState>, TrialError> {
        (self.service.inspect)(pid).map_err(|error| TrialError::failed(FailureCode::Allocator, error))
    }

    /// Refuses a worker whose malloc comes from elsewhere: its values would bear a wrong name.
    fn check(&self, found: &str) -> Result<(), TrialError> {
        let wanted = self.library.as_ref().and_then(|path| path.file_name());
        let right = match wanted {
            Some(name) => name.to_string_lossy() == found,
            None => found.starts_with("libc.so") || found.starts_with("libc-"),
        };
        if right {
            return Ok(());
        }
        let wanted = wanted.map_or_else(|| "the C library".into(), |name| name.to_string_lossy());
        Err(TrialError::failed(
            FailureCode::Allocator,
            format_args!(
                "the worker was to run on `{}` ({wanted}), and its malloc comes from {found}: the loader did not take \
                 the library, as where this program is linked statically or the library is of another machine",
                self.allocator
            ),
        ))
    }
}

fn over_limit(context: &TrialContext<'_, '_>) -> TrialError {
    let settings = &context.plan.settings;
    TrialError::new(
        Exit::Killed,
        FailureCode::OverLimit,
        format_args!(
            "the worker held more than its limit of {} and was ended; raise `limit`, or ask for fewer blocks or threads",
            quantity::bytes(settings.limit as f64)
        ),
    )
}

/// Enforces the limit of a worker without a cgroup: ends a worker that takes more, until dropped. (`RLIMIT_AS` would
/// change the measurement: allocators reserve more address space than they use.)
struct Guard {
    tripped: Arc<AtomicBool>,
    /// The thread waits for its drop.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Guard {
    fn start(pid: u32, limit: u64) -> Result<Guard, TrialError> {
        let pidfd = Pidfd::open(pid).map_err(|errno| {
            TrialError::failed(
                FailureCode::WorkerStart,
                format_args!("cannot watch the worker: {errno}"),
            )
        })?;
        let (end, ended) = channel::<()>();
        let tripped = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&tripped);
        // Belongs to the process, not to its number.
        let statm = KeptFile::open(format!("/proc/{pid}/statm"));
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
            .map_err(|error| {
                TrialError::new(
                    Exit::Missing,
                    FailureCode::WorkerStart,
                    format_args!("cannot start a thread: {error}"),
                )
            })?;
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

fn resident(statm: &KeptFile) -> Option<u64> {
    Some(Statm::parse(statm.read(&mut [0; 256])?)?.resident)
}
