//! Metrics of the compression scenario: how much was trimmed, how small it became, how fast it left and came back.

mod headline;
mod summary;

use std::collections::BTreeMap;

use super::criteria::{Criteria, Measure};
use super::{TimedPhases, WorkloadReport, memory_of, verification};
use crate::analysis::metric::metrics;
use crate::analysis::{PhaseRows, ratio};
use plimsoll_model::columns::Row;
use plimsoll_model::columns::col;
use plimsoll_model::recording::model::{Calibration, Trial};
use plimsoll_model::scenario::Subject;
use plimsoll_model::scenario::workloads::compression::{finding, phase};
use plimsoll_model::scenario::workloads::finding::{PAGER_FILE, PAGER_METADATA, PAGER_SAVED, PAGER_STORE};

metrics! {
    TRIM_SPEED "trim_gb_per_s" More false "trim" "Speed of the removal of memory from the working set.";
    RESTORE_SPEED "restore_gb_per_s" More false "restore" "Speed of reading every byte back.";
    WRITEBACK_SPEED "writeback_gb_per_s" More false "writeback" "Speed of writing dirty pages to their file. Of file memory alone; absent if the kernel wrote them before.";
    FILL_SPEED "fill_gb_per_s" More false "fill" "Speed of filling memory, faults included.";
    STORED "stored_bytes" Less true STORE "stored" "RAM taken by the compressed store for the trimmed memory; with a plain swap file, bytes of the file; with a pager, its store and metadata.";
    COMPRESSION "compression_ratio" More true STORE "ratio" "Trimmed bytes over bytes after compression, as the compressor counts them; with a pager, those of the store, its metadata and the page file. Absent if no page was compressed.";
    STORED_RATIO "stored_ratio" More false STORE "saving" "Trimmed bytes over the RAM taken by their store, its overhead included.";
    ORIGINAL "original_bytes" Neither false STORE "original size" "Uncompressed size of the pages in the store after the trim.";
    SWAPPED "swapped_bytes" Neither false STORE "swapped" "Growth of used swap by the trim, on all devices.";
    PAGE_FILE "page_file_bytes" Neither false STORE "page file" "Disk taken by copies in the page file of a pager after the trim. Absent without a page file.";
    DIRTY "dirty_bytes" Neither false CAPPED "dirty" "Bytes that the kernel had not yet written to the file when the writeback began. Of file memory alone.";
    CACHED "cached_bytes" Less false RESIDENT "in page cache" "Bytes of the file in the page cache after the trim: restore does not read them from the disk. Of file memory alone.";
    TRIMMED "trimmed_bytes" More false TRIMMED "trimmed" "Decrease of the workers' resident memory by the trim; with a pager, of its pages outside of its store.";
    TRIMMED_RATIO "trimmed_ratio" More false TRIMMED "trimmed share" "`trimmed_bytes` over the filled bytes.";
    FILL_MEMSET "fill_to_memset_ratio" More false TIME "fill / memset" "Fill speed over the calibrated memset of resident memory.";
    FILL_TOUCH "fill_to_first_touch_ratio" More false TIME "fill / first touch" "Fill speed over the calibrated memset of fresh memory, faults included.";
    TRIM_MEMCPY "trim_to_memcpy_ratio" More false TIME "trim / memcpy" "Trim speed over the calibrated memcpy.";
    RESTORE_READ "restore_to_read_ratio" More false TIME "restore / read" "Restore speed over the calibrated read of resident memory with the same checksum.";
}

const RANKED_RESTORE: Measure = Measure {
    metric: RESTORE_SPEED,
    noun: "restore speed",
};

const CRITERIA: Criteria = Criteria {
    first: Measure {
        metric: STORED_RATIO,
        noun: "saving of RAM",
    },
    second: RANKED_RESTORE,
    opposing: true,
    setting: RANKED_RESTORE,
    limit: "Only compressed stores are ranked: `loadline` compares them with a swap file.",
    all_subjects: false,
};

const TIMED_PHASES: TimedPhases = TimedPhases {
    main: &[phase::FILL, phase::TRIM, phase::RESTORE],
    verifying: phase::RESTORE,
    columns: summary::columns,
    summary: summary::groups,
    trials: summary::trials,
};

pub(super) const REPORT: WorkloadReport = WorkloadReport {
    known: METRICS,
    metrics: |of| metrics(of.trial, of.rows, of.calibration),
    headline: headline::told,
    section: None,
    timed_phases: Some(&TIMED_PHASES),
    verification: &verification::EVERY_BYTE,
    criteria: Some(&CRITERIA),
};

/// Computes the metrics of a trial.
///
/// `rows` are the samples next to each of `trial.phases`, in the same order. A metric that cannot be known is absent.
pub fn metrics(
    trial: &Trial,
    rows: &[PhaseRows],
    calibration: Option<&Calibration>,
) -> BTreeMap<String, f64> {
    let mut metrics = Metrics::default();
    speeds(&mut metrics, trial, calibration);
    let trim = trial
        .phases
        .iter()
        .zip(rows)
        .find(|(phase, _)| phase.name == "trim");
    if let Some((phase, trim)) = trim {
        // What the store held before the fill was not this trial's.
        let base = rows.first().map_or(&trim.before, |first| &first.before);
        let is_paged = matches!(trial.subject.parse(), Ok(Subject::Pager(_)));
        // A pager's store is as resident as the pages were.
        let trimmed = match is_paged {
            true => Some(phase.bytes as f64),
            false => growth(
                trim.after.get(col::TARGET_RESIDENT),
                trim.before.get(col::TARGET_RESIDENT),
            ),
        };
        amounts(&mut metrics, trial, trimmed);
        if memory_of(&trial.params).goes_to_swap() {
            if !is_paged {
                swap(&mut metrics, trim);
            }
            store(&mut metrics, trial, base, trim);
        }
    }
    metrics.0
}

#[derive(Default)]
struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    fn set(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.0.insert(name.to_owned(), value);
        }
    }
}

fn speeds(metrics: &mut Metrics, trial: &Trial, calibration: Option<&Calibration>) {
    let speed = |name: &str| {
        let phase = trial.phases.iter().find(|phase| phase.name == name)?;
        Some(phase.gb_per_s).filter(|&speed| speed > 0.0)
    };
    let (fill, trim, restore) = (speed(phase::FILL), speed(phase::TRIM), speed(phase::RESTORE));
    metrics.set(WRITEBACK_SPEED, speed(phase::WRITEBACK));
    let value = |name: &str, metric: &str| {
        let phase = trial.phases.iter().find(|phase| phase.name == name)?;
        phase.values.get(metric).copied()
    };
    metrics.set(DIRTY, value(phase::WRITEBACK, finding::DIRTY));
    metrics.set(CACHED, value(phase::TRIM, finding::CACHED));
    metrics.set(FILL_SPEED, fill);
    metrics.set(TRIM_SPEED, trim);
    metrics.set(RESTORE_SPEED, restore);
    let Some(calibration) = calibration else {
        return;
    };
    let over = |speed: Option<f64>, calibrated: f64| ratio(speed?, calibrated);
    metrics.set(FILL_MEMSET, over(fill, calibration.memset_gb_per_s));
    metrics.set(FILL_TOUCH, over(fill, calibration.first_touch_gb_per_s));
    metrics.set(TRIM_MEMCPY, over(trim, calibration.memcpy_gb_per_s));
    metrics.set(RESTORE_READ, over(restore, calibration.read_gb_per_s));
}

fn swap(metrics: &mut Metrics, trim: &PhaseRows) {
    let used = |row: &Row| row.get(col::SWAP_TOTAL)?.checked_sub(row.get(col::SWAP_FREE)?);
    metrics.set(SWAPPED, growth(used(&trim.before), used(&trim.after)));
}

fn amounts(metrics: &mut Metrics, trial: &Trial, trimmed: Option<f64>) {
    metrics.set(TRIMMED, trimmed);
    let filled = trial.phases.iter().find(|phase| phase.name == "fill");
    let share = trimmed
        .zip(filled)
        .and_then(|(trimmed, filled)| ratio(trimmed, filled.bytes as f64));
    metrics.set(TRIMMED_RATIO, share);
}

fn trim_value(trial: &Trial, name: &str) -> Option<f64> {
    let trim = trial.phases.iter().find(|one| one.name == phase::TRIM)?;
    trim.values.get(name).copied()
}

/// Growth of the compressed store from before the trial to after the trim, by the counters of the subject.
fn store(metrics: &mut Metrics, trial: &Trial, base: &Row, trim: &PhaseRows) {
    let grown = |column: usize| growth(base.get(column).or(Some(0)), trim.after.get(column));
    let over = |original: Option<f64>, size: Option<f64>| ratio(original?, size?);
    match trial.subject.parse() {
        Ok(Subject::Zram(_)) => {
            let original = grown(col::ZRAM_ORIG_DATA_SIZE);
            let stored = grown(col::ZRAM_MEM_USED_TOTAL);
            metrics.set(ORIGINAL, original);
            metrics.set(STORED, stored);
            metrics.set(COMPRESSION, over(original, grown(col::ZRAM_COMPR_DATA_SIZE)));
            metrics.set(STORED_RATIO, over(original, stored));
        }
        Ok(Subject::Zswap(_)) => {
            let original = grown(col::ZSWAP_STORED);
            let stored = grown(col::ZSWAP_POOL);
            metrics.set(ORIGINAL, original);
            metrics.set(STORED, stored);
            metrics.set(COMPRESSION, over(original, stored));
            metrics.set(STORED_RATIO, over(original, stored));
        }
        Ok(Subject::SwapFile) => {
            let swapped = metrics.0.get(SWAPPED).copied();
            metrics.set(STORED, swapped);
        }
        Ok(Subject::Pager(_)) => {
            let value = |name: &str| trim_value(trial, name);
            let stored = value(PAGER_STORE);
            let with_metadata = stored.zip(value(PAGER_METADATA)).map(|(store, own)| store + own);
            let file = value(PAGER_FILE);
            let all = with_metadata.map(|in_ram| in_ram + file.unwrap_or(0.0));
            let original = value(PAGER_SAVED);
            metrics.set(ORIGINAL, original);
            metrics.set(STORED, with_metadata);
            metrics.set(PAGE_FILE, file);
            metrics.set(COMPRESSION, over(original, all));
            metrics.set(STORED_RATIO, over(original, with_metadata));
        }
        // Nothing is stored without swap; a subject of another version has counters that are not known here.
        _ => {}
    }
}

/// By how much a level rose, in bytes; 0 where it fell.
fn growth(from: Option<i64>, to: Option<i64>) -> Option<f64> {
    Some(to?.checked_sub(from?)?.max(0) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::recording::model::Phase;

    fn metrics_of(memory: Option<&str>) -> BTreeMap<String, f64> {
        let phase = |name: &str, values: &[(&str, f64)]| Phase {
            name: name.to_owned(),
            gb_per_s: 2.0,
            bytes: 100,
            values: values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            ..Phase::default()
        };
        let phases = vec![
            phase("fill", &[]),
            phase("writeback", &[("dirty_bytes", 90.0)]),
            phase("trim", &[("cached_bytes", 3.0)]),
            phase("restore", &[]),
        ];
        let row = |resident, free| {
            let mut row = Row::empty(0);
            row.set(col::TARGET_RESIDENT, resident);
            row.set(col::SWAP_TOTAL, 1000);
            row.set(col::SWAP_FREE, free);
            row
        };
        let full = row(100, 900);
        let trimmed = row(4, 800);
        let rows = [(full, full), (full, full), (full, trimmed), (trimmed, full)];
        let rows = rows.map(|(before, after)| PhaseRows { before, after });
        let mut trial = Trial::made_up("compression", phases);
        trial.subject = "swapfile".to_owned();
        trial
            .params
            .extend(memory.map(|memory| ("memory".to_owned(), memory.to_owned())));
        metrics(&trial, &rows, None)
    }

    /// The store of a pager is in the worker: its values are the worker's, and swap is another program's.
    #[test]
    fn a_pager_counts_its_own_store_and_metadata() {
        let mut trim = Phase {
            name: "trim".to_owned(),
            bytes: 90,
            ..Phase::default()
        };
        let values = [
            ("pager_saved_bytes", 90.0),
            ("pager_store_bytes", 28.0),
            ("pager_metadata_bytes", 2.0),
        ];
        trim.values = values.map(|(name, value)| (name.to_owned(), value)).into();
        let mut trial = Trial::made_up("compression", vec![trim]);
        trial.subject = "pager:lz4,trim=per-fault".to_owned();
        let mut before = Row::empty(0);
        before.set(col::TARGET_RESIDENT, 200);
        before.set(col::SWAP_TOTAL, 1000);
        before.set(col::SWAP_FREE, 900);
        let mut after = before;
        after.set(col::TARGET_RESIDENT, 190);
        after.set(col::SWAP_FREE, 500);
        let metrics = metrics(&trial, &[PhaseRows { before, after }], None);
        assert_eq!(
            (metrics[TRIMMED], metrics[ORIGINAL], metrics[STORED]),
            (90.0, 90.0, 30.0)
        );
        assert_eq!((metrics[COMPRESSION], metrics[STORED_RATIO]), (3.0, 3.0));
        assert!(
            !metrics.contains_key(SWAPPED) && !metrics.contains_key(PAGE_FILE),
            "{metrics:?}"
        );

        trial.phases[0].values.insert("pager_file_bytes".to_owned(), 15.0);
        let metrics = super::metrics(&trial, &[PhaseRows { before, after }], None);
        assert_eq!(
            (
                metrics[STORED],
                metrics[PAGE_FILE],
                metrics[COMPRESSION],
                metrics[STORED_RATIO]
            ),
            (30.0, 15.0, 2.0, 3.0)
        );
    }

    /// Pages of files leave without swap and compression: a swapped byte is another program's.
    #[test]
    fn memory_of_files_has_no_metrics_of_swap() {
        let of_swap = [SWAPPED, STORED, COMPRESSION, STORED_RATIO, ORIGINAL];
        let file = metrics_of(Some("file"));
        assert!(of_swap.iter().all(|name| !file.contains_key(*name)), "{file:?}");
        assert_eq!((file[TRIMMED], file[DIRTY], file[CACHED]), (96.0, 90.0, 3.0));
        assert_eq!(file[WRITEBACK_SPEED], 2.0);
        for memory in [None, Some("anonymous"), Some("memfd")] {
            let swapped = metrics_of(memory);
            assert_eq!(
                (swapped[SWAPPED], swapped[STORED], swapped[TRIMMED]),
                (100.0, 100.0, 96.0)
            );
        }
    }
}
