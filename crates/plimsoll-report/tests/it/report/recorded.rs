//! The synthetic run as a recording with the samples of a sampler.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_model::columns::Row;
use plimsoll_model::columns::col;
use plimsoll_model::recording::model::{Event, EventKind};
use plimsoll_model::recording::{Recording, Samples};

use super::simulation::{MEM_TOTAL, Noise, Shape, Simulation};
use super::synthetic::page;

/// The run of this shape as it would have been recorded at `hz`, with every column that a page draws.
pub(crate) fn recording(shape: Shape, hz: u32) -> Recording {
    recording_of(shape, hz, |_| ())
}

/// The same run with a pager: each of its states has a part of the target's memory.
pub(crate) fn paged(shape: Shape, hz: u32) -> Recording {
    let mut recording = recording_of(shape, hz, |row| {
        let level = |column| row.get(column).unwrap_or(0);
        let (resident, stored) = (level(col::TARGET_ANON), level(col::SWAP0_USED));
        let bytes = shape.size as i64;
        for (column, value) in [
            (col::TARGET_PAGER_BUDGET, bytes),
            (col::TARGET_PAGER_ACTIVE, resident / 10 * 4),
            (col::TARGET_PAGER_MODIFIED, resident / 10 * 2),
            // Pages of all priorities, and those of the low ones.
            (col::TARGET_PAGER_STANDBY, resident / 10 * 4),
            (col::TARGET_PAGER_STANDBY_LOW, resident / 10 * 2),
            (col::TARGET_PAGER_COMPRESSED, stored / 10 * 6),
            (col::TARGET_PAGER_PAGE_FILE, stored / 10 * 4),
            (col::TARGET_PAGER_STORE, stored / 10 * 2),
            (col::TARGET_PAGER_METADATA, bytes / 16),
        ] {
            row.set(column, value);
        }
    });
    let results = recording.results.as_mut().expect("a finished run");
    for trial in recording.trials.iter_mut().chain(&mut results.trials) {
        trial.subject = "pager:lz4".to_owned();
    }
    recording
}

/// The run of this shape, whose rows `add` completes.
fn recording_of(shape: Shape, hz: u32, add: impl Fn(&mut Row)) -> Recording {
    let simulation = Simulation::new(shape);
    let page = page(shape);
    let seconds = shape.trial_s * simulation.order.len() as f64;
    let mut noise = Noise(11);
    let mut counters: BTreeMap<usize, f64> = BTreeMap::new();
    let rows: Vec<Row> = (0..(seconds * f64::from(hz)) as u64)
        .map(|tick| {
            let t = tick as f64 / f64::from(hz);
            let mut row = Row::empty((t * 1e9) as u64);
            for (key, value) in simulation.sample(t, &mut noise) {
                record(&mut row, &mut counters, key, value, 1.0 / f64::from(hz));
            }
            row.set(col::MEM_TOTAL, MEM_TOTAL as i64);
            row.set(col::SWAP_TOTAL, 8 << 30);
            add(&mut row);
            row
        })
        .collect();
    let events = page.marks.iter().map(|mark| Event {
        t_ns: (mark.t * 1e9) as u64,
        kind: EventKind::PhaseStart,
        trial: mark.trial.clone(),
        phase: Some(mark.name.clone()),
        number: mark.label.parse().ok(),
        code: None,
        text: String::new(),
    });
    let mut manifest = page.manifest.clone();
    manifest.sampler.hz = hz;
    Recording {
        folder: PathBuf::new(),
        manifest,
        events: events.collect(),
        trials: page.results.trials.clone(),
        samples: Samples::from_rows(&rows),
        results: Some(page.results),
        warnings: Vec::new(),
        complete: true,
    }
}

/// Puts a simulated value into the columns that a page takes it from.
fn record(row: &mut Row, counters: &mut BTreeMap<usize, f64>, key: &str, value: f64, seconds: f64) {
    let cpus = 2.0;
    let level = match key {
        "kernel" => Some(col::SLAB_UNRECLAIMABLE),
        "target" => Some(col::TARGET_ANON),
        "compressed" => Some(col::NR_ZSPAGES),
        "dirty" => Some(col::DIRTY),
        "page_cache" => Some(col::CACHED),
        "slab_reclaimable" => Some(col::SLAB_RECLAIMABLE),
        "free" => Some(col::MEM_FREE),
        "zram1" => Some(col::SWAP0_USED),
        _ => None,
    };
    let counter = match key {
        "swap-in" => Some((col::PSWPIN, value / 4096.0)),
        "swap-out" => Some((col::PSWPOUT, value / 4096.0)),
        "disk-in" => Some((col::PGPGIN, value)),
        "disk-out" => Some((col::PGPGOUT, value)),
        "minor" => Some((col::PGFAULT, value)),
        "major" => Some((col::PGMAJFAULT, value)),
        "refault" => Some((col::WORKINGSET_REFAULT_ANON, value)),
        "memory-some" => Some((col::PSI_MEMORY_SOME_US, value * 1e4)),
        "memory-full" => Some((col::PSI_MEMORY_FULL_US, value * 1e4)),
        "io-some" => Some((col::PSI_IO_SOME_US, value * 1e4)),
        "cpu-some" => Some((col::PSI_CPU_SOME_US, value * 1e4)),
        "user" => Some((col::CPU_USER_US, value * 1e4 * cpus)),
        "system" => Some((col::CPU_SYSTEM_US, value * 1e4 * cpus)),
        "iowait" => Some((col::CPU_IOWAIT_US, value * 1e4 * cpus)),
        "steal" => Some((col::CPU_STEAL_US, value * 1e4 * cpus)),
        _ => None,
    };
    if let Some(column) = level {
        row.set(column, value as i64);
    }
    if let Some((column, rate)) = counter {
        let sum = counters.entry(column).or_default();
        *sum += rate * seconds;
        row.set(column, *sum as i64);
    }
    match key {
        "target" => {
            row.set(col::TARGET_RESIDENT, value as i64);
            row.set(col::ANON_PAGES, value as i64);
        }
        "other" => row.set(
            col::ANON_PAGES,
            row.get(col::ANON_PAGES).unwrap_or(0) + value as i64,
        ),
        "page_cache" => row.set(col::BUFFERS, 0),
        "zram1" => row.set(col::SWAP_FREE, (8 << 30) - value as i64),
        _ => {}
    }
}
