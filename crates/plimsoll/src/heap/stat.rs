//! Reads the heaps of running processes.

use std::collections::BTreeMap;
use std::time::Instant;

use plimsoll_lfh::inspect::{HeapStatistics, MemoryError, Space, SpaceError, validate};

use super::error::HeapStatError;
use super::find;
use super::model::{
    Cell, DamageReport, HEAP_SCHEMA, HeapSurvey, ProcessHeaps, UnreadHeaps, ValidationReport,
};
use super::report;
use plimsoll_monitor::processes::{Depth, Process, list};
use plimsoll_proc::process_memory::Snapshot;

/// A survey with the cells of its map.
#[derive(Debug, Clone, PartialEq)]
pub struct Stat {
    pub survey: HeapSurvey,
    /// For each process of the survey.
    pub cells: Vec<Vec<Cell>>,
}

/// Reads the heaps of one process while it runs; validates them if `check` is set.
///
/// # Errors
/// [`HeapStatError`] if the process does not exist, does not run on this heap, or is unreadable.
pub fn stat(pid: u32, check: bool) -> Result<Stat, HeapStatError> {
    let name = Process::read(pid, Depth::Counters)
        .map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => HeapStatError::NoSuchProcess { pid },
            std::io::ErrorKind::PermissionDenied => HeapStatError::Denied { pid },
            _ => HeapStatError::Proc {
                path: format!("/proc/{pid}"),
                source,
            },
        })?
        .name;
    let (heaps, cells) = read(pid, &name, check)?;
    Ok(Stat {
        survey: HeapSurvey {
            schema: HEAP_SCHEMA,
            processes: vec![heaps],
            unread: Vec::new(),
            denied: 0,
        },
        cells: vec![cells],
    })
}

/// Reads the heaps of every process that runs on this heap.
///
/// # Errors
/// [`HeapStatError::Proc`] if `/proc` is unreadable. The survey counts processes without access, and lists those that
/// fail otherwise.
pub fn stat_all(check: bool) -> Result<Stat, HeapStatError> {
    let found = list(Depth::Counters).map_err(|source| HeapStatError::Proc {
        path: "/proc".to_owned(),
        source,
    })?;
    let mut survey = HeapSurvey {
        schema: HEAP_SCHEMA,
        processes: Vec::new(),
        unread: Vec::new(),
        denied: found.denied,
    };
    let mut cells = Vec::new();
    for process in found.processes {
        match read(process.identity.pid, &process.name, check) {
            Ok((heaps, own)) => {
                survey.processes.push(heaps);
                cells.push(own);
            }
            Err(HeapStatError::Denied { .. }) => survey.denied += 1,
            // The process has ended, is ending, or runs on another heap.
            Err(
                HeapStatError::NotOnThisHeap { .. }
                | HeapStatError::NoSuchProcess { .. }
                | HeapStatError::Ended { .. },
            ) => {}
            // One unreadable process must not hide the others.
            Err(error) => survey.unread.push(UnreadHeaps {
                pid: process.identity.pid,
                damaged: matches!(error, HeapStatError::Damaged { .. }),
                why: error.to_string(),
            }),
        }
    }
    Ok(Stat { survey, cells })
}

fn read(pid: u32, name: &str, check: bool) -> Result<(ProcessHeaps, Vec<Cell>), HeapStatError> {
    let address = find::control_block(pid)?.ok_or_else(|| HeapStatError::NotOnThisHeap {
        pid,
        name: name.to_owned(),
    })?;
    let start = Instant::now();
    let memory = Snapshot::new(pid);
    let space = Space::open(&memory, address).map_err(|error| space_error(pid, name, error))?;
    let unreadable = |error| memory_error(pid, error);
    let mut counts: BTreeMap<u32, HeapStatistics> = BTreeMap::new();
    let mut cells = Vec::new();
    for run in space.runs() {
        let run = run.map_err(unreadable)?;
        let statistics = counts.entry(run.description.heap).or_default();
        let used = statistics.count(&space, &run).map_err(unreadable)?;
        cells.extend(report::cells(&run, used));
    }
    let mut heaps = Vec::new();
    let (mut hardened, mut affinity) = (false, "none");
    for record in space.heaps() {
        let record = record.map_err(unreadable)?;
        let mut statistics = counts.remove(&record.number).unwrap_or_default();
        statistics.count_slots(&space, &record).map_err(unreadable)?;
        if record.front.slots > 0 {
            affinity = if record.front.restartable { "rseq" } else { "lock" };
        }
        hardened |= record.hardened;
        heaps.push(report::report(&record, &statistics));
    }
    let validation = match check {
        true => Some(validation(&space).map_err(unreadable)?),
        false => None,
    };
    let counted = space.counts();
    let heaps = ProcessHeaps {
        pid,
        name: name.to_owned(),
        control_block: address as u64,
        window: space.window() as u64,
        layout: plimsoll_lfh::LAYOUT,
        hardened,
        affinity,
        growths: counted.growths,
        refusals: counted.refusals,
        purges: counted.purges,
        purged_bytes: counted.purged_bytes,
        heaps,
        validation,
        took_us: start.elapsed().as_micros() as u64,
    };
    Ok((heaps, cells))
}

fn validation(space: &Space<'_, Snapshot>) -> Result<ValidationReport, MemoryError> {
    let mut damage = Vec::new();
    let seen = validate(space, &mut |found| {
        damage.push(DamageReport {
            heap: found.heap,
            address: found.address as u64,
            code: found.fault.code(),
            what: found.fault.to_string(),
        });
    })?;
    Ok(ValidationReport {
        units: seen.units,
        all_units: seen.all_units,
        partial: seen.stopped || seen.cut_short,
        free_blocks: seen.free_blocks,
        cached_blocks: seen.cached_blocks,
        guarded_blocks: seen.guarded_blocks,
        quarantined_blocks: seen.quarantined_blocks,
        moved: seen.moved,
        damaged: seen.damaged,
        damage,
    })
}

fn space_error(pid: u32, name: &str, error: SpaceError) -> HeapStatError {
    let name = name.to_owned();
    match error {
        SpaceError::Memory(error) => memory_error(pid, error),
        SpaceError::NotAHeap => HeapStatError::NotOnThisHeap { pid, name },
        SpaceError::OtherLayout { found } => HeapStatError::OtherLayout { pid, name, found },
        source => HeapStatError::Damaged { pid, name, source },
    }
}

fn memory_error(pid: u32, error: MemoryError) -> HeapStatError {
    match error {
        MemoryError::NoProcess => HeapStatError::Ended { pid },
        MemoryError::Denied => HeapStatError::Denied { pid },
        source => HeapStatError::Unreadable { pid, source },
    }
}
