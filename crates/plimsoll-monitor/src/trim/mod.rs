//! Trims working sets and releases reclaimable cache, on demand.
//!
//! [`trim`] makes the kernel reclaim a process, a cgroup or every process. It measures the pages that left the working
//! set, their destination, the pages that returned within [`WATCHED`], and the pages that stayed with the reason.
//! [`release`] empties the caches that no working set holds.
//!
//! Neither changes a setting or a limit: both use only `process_madvise(2)`, `memory.reclaim`, `memory.force_empty` and
//! `drop_caches`.

mod cgroup;
mod error;
mod holdings;
mod kept;
mod machine;
mod model;
mod page_out;
mod process;
mod refusal;
pub mod release;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use error::TrimError;
pub use holdings::Holdings;
pub use kept::{Kept, Reason};
pub use model::{Destination, Mechanism, Report, Returned, TrimmedProcess, What};
pub use process::{Candidates, candidates};
pub use refusal::Refusal;

use holdings::Swap;
use machine::Machine;
use page_out::Pass;
use process::Process;

/// How long a trim watches for returning pages.
pub const WATCHED: Duration = Duration::from_secs(1);

/// Interval between two checks of `stop`.
const POLL: Duration = Duration::from_millis(20);

/// Trims `what`: at most `limit` bytes, or all that the kernel can reclaim. Returns about [`WATCHED`] after the trim,
/// or soon after `stop` becomes true.
///
/// A part that cannot be trimmed is no error: the report names it. Nor is a process without memory to reclaim.
///
/// # Errors
///
/// If nothing can be trimmed: no such process or cgroup, a missing privilege, a kernel thread, the root cgroup, a
/// kernel without the system call.
pub fn trim(what: &What, limit: Option<u64>, stop: &AtomicBool) -> Result<Report, TrimError> {
    match what {
        What::Process { pid, start_ticks } => {
            let process = Process::open(*pid, *start_ticks)?;
            let title = process.title();
            trim_processes(title, vec![process], Vec::new(), limit, stop)
        }
        What::Family(identities) => {
            let opened = identities
                .iter()
                .map(|process| Process::open(process.pid, Some(process.start_ticks)));
            let (opened, refused): (Vec<_>, Vec<_>) = opened.partition(Result::is_ok);
            let processes: Vec<Process> = opened.into_iter().flatten().collect();
            let title = processes.first().map_or_else(String::new, Process::title);
            let title = match processes.len() {
                0 | 1 => title,
                all => format!("{title} and {} more", all - 1),
            };
            let refused = refused.into_iter().filter_map(Result::err).collect();
            trim_processes(title, processes, refused, limit, stop)
        }
        What::All => {
            let (processes, refused) = process::all();
            trim_processes("all processes".to_owned(), processes, refused, limit, stop)
        }
        What::Cgroup(path) => trim_cgroup(path, limit, stop),
    }
}

/// Trims the processes and reports on them together. `refused` holds the errors of processes that could not be opened.
fn trim_processes(
    title: String,
    processes: Vec<Process>,
    refused: Vec<TrimError>,
    limit: Option<u64>,
    stop: &AtomicBool,
) -> Result<Report, TrimError> {
    let (start, machine) = (Instant::now(), Machine::now());
    let Pass {
        done,
        mut failed,
        advised,
        interrupted,
    } = page_out::pass(processes, limit, stop);
    failed.extend(refused);
    let seconds = start.elapsed().as_secs_f64();
    if done.is_empty() && !interrupted {
        return Err(failed.into_iter().next().unwrap_or(TrimError::Nobody));
    }
    let after_machine = Machine::now();
    let watched_s = watch(stop);
    let mut kept: Vec<Kept> = failed.iter().map(TrimError::as_kept).collect();
    let (mut before, mut after, mut later) = (Holdings::default(), Holdings::default(), Holdings::default());
    let mut processes = Vec::with_capacity(done.len());
    for trimmed in done {
        // The exit of the process freed its memory, not the trim.
        let Ok(last) = trimmed.process.holdings() else {
            kept.push(Kept::processes(Reason::Ended, 1));
            continue;
        };
        before += trimmed.before;
        after += trimmed.after;
        later += last;
        processes.push(TrimmedProcess {
            pid: trimmed.process.pid(),
            name: trimmed.process.name().to_owned(),
            before: trimmed.before.resident,
            left: trimmed.before.resident.saturating_sub(trimmed.after.resident),
        });
    }
    let left = before.resident.saturating_sub(after.resident);
    // After a limit or a stop, the rest was never advised on.
    if !interrupted && limit.is_none_or(|limit| left < limit) {
        kept.extend(after.kept(Swap::of(&after_machine)));
    }
    Ok(Report {
        title,
        mechanism: Mechanism::ProcessMadvise,
        limit,
        advised,
        left,
        returned: Returned::between(&after, &later, left, watched_s),
        went: Destination::between((&machine, &before), (&after_machine, &after)),
        before,
        after,
        kept: Kept::gathered(kept),
        processes,
        interrupted,
        seconds,
    })
}

/// Trims a cgroup with its descendants: through its control file if it has a suitable one, otherwise process by
/// process.
fn trim_cgroup(path: &Path, limit: Option<u64>, stop: &AtomicBool) -> Result<Report, TrimError> {
    let group = cgroup::Group::find(path)?;
    let Some(mechanism) = group.mechanism(limit) else {
        let (processes, refused) = process::of_pids(&group.members()?);
        return trim_processes(group.title(), processes, refused, limit, stop);
    };
    let machine = Machine::now();
    let before = group.holdings()?;
    let start = Instant::now();
    let asked = limit.unwrap_or(before.resident);
    let interrupted = group.reclaim(mechanism, asked, stop)?;
    let seconds = start.elapsed().as_secs_f64();
    let (after, after_machine) = (group.holdings()?, Machine::now());
    let watched_s = watch(stop);
    let later = group.holdings()?;
    let left = before.resident.saturating_sub(after.resident);
    let mut kept = Vec::new();
    if !interrupted && limit.is_none_or(|limit| left < limit) {
        kept = after.kept(group.swap(&after_machine));
    }
    Ok(Report {
        title: group.title(),
        mechanism,
        limit,
        advised: asked,
        left,
        returned: Returned::between(&after, &later, left, watched_s),
        went: Destination::between((&machine, &before), (&after_machine, &after)),
        before,
        after,
        kept: Kept::gathered(kept),
        processes: Vec::new(),
        interrupted,
        seconds,
    })
}

/// Waits for [`WATCHED`], or until `stop`. Returns the seconds waited.
fn watch(stop: &AtomicBool) -> f64 {
    let start = Instant::now();
    while start.elapsed() < WATCHED && !stop.load(Ordering::Acquire) {
        thread::sleep(POLL);
    }
    start.elapsed().as_secs_f64()
}
