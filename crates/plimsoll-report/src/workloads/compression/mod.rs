//! Metrics of the compression scenario: how much was trimmed, how small it became, how fast it left and came back.

mod headline;

use std::collections::BTreeMap;

use super::WorkloadReport;
use crate::analysis::metric::metrics;
use crate::analysis::{PhaseRows, ratio};
use plimsoll_model::columns::Row;
use plimsoll_model::columns::col;
use plimsoll_model::recording::model::{Calibration, Trial};
use plimsoll_model::scenario::Subject;

metrics! {
    TRIM_SPEED "trim_gb_per_s" More false "trim" "Speed of the removal of memory from the working set.";
    RESTORE_SPEED "restore_gb_per_s" More false "restore" "Speed of reading every byte back.";
    FILL_SPEED "fill_gb_per_s" More false "fill" "Speed of filling memory, faults included.";
    STORED "stored_bytes" Less true "stored" "RAM taken by the compressed store for the trimmed memory; with a plain swap file, bytes of the file.";
    COMPRESSION "compression_ratio" More true "ratio" "Trimmed bytes over bytes after compression, as the compressor counts them. Absent if no page was compressed.";
    STORED_RATIO "stored_ratio" More false "saving" "Trimmed bytes over the RAM taken by their store, its overhead included.";
    ORIGINAL "original_bytes" Neither false "original size" "Uncompressed size of the pages in the store after the trim.";
    SWAPPED "swapped_bytes" Neither false "swapped" "Growth of used swap by the trim, on all devices.";
    TRIMMED "trimmed_bytes" More false "trimmed" "Decrease of the workers' resident memory by the trim.";
    TRIMMED_RATIO "trimmed_ratio" More false "trimmed share" "`trimmed_bytes` over the filled bytes.";
    FILL_MEMSET "fill_to_memset_ratio" More false "fill / memset" "Fill speed over the calibrated memset of resident memory.";
    FILL_TOUCH "fill_to_first_touch_ratio" More false "fill / first touch" "Fill speed over the calibrated memset of fresh memory, faults included.";
    TRIM_MEMCPY "trim_to_memcpy_ratio" More false "trim / memcpy" "Trim speed over the calibrated memcpy.";
    RESTORE_READ "restore_to_read_ratio" More false "restore / read" "Restore speed over the calibrated read of resident memory with the same checksum.";
}

pub(super) const REPORT: WorkloadReport = WorkloadReport {
    known: METRICS,
    metrics: |of| metrics(of.trial, of.rows, of.calibration),
    headline: headline::told,
    section: None,
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
    if let Some((_, trim)) = trim {
        // What the store held before the fill was not this trial's.
        let base = rows.first().map_or(&trim.before, |first| &first.before);
        amounts(&mut metrics, trial, trim);
        store(&mut metrics, trial, base, trim);
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
    let (fill, trim, restore) = (speed("fill"), speed("trim"), speed("restore"));
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

fn amounts(metrics: &mut Metrics, trial: &Trial, trim: &PhaseRows) {
    let used = |row: &Row| row.get(col::SWAP_TOTAL)?.checked_sub(row.get(col::SWAP_FREE)?);
    metrics.set(SWAPPED, growth(used(&trim.before), used(&trim.after)));
    let resident = trim.before.get(col::TARGET_RESIDENT);
    let trimmed = growth(trim.after.get(col::TARGET_RESIDENT), resident);
    metrics.set(TRIMMED, trimmed);
    let filled = trial.phases.iter().find(|phase| phase.name == "fill");
    let share = trimmed
        .zip(filled)
        .and_then(|(trimmed, filled)| ratio(trimmed, filled.bytes as f64));
    metrics.set(TRIMMED_RATIO, share);
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
        // Nothing is stored without swap; a subject of another version has counters that are not known here.
        _ => {}
    }
}

/// By how much a level rose, in bytes; 0 where it fell.
fn growth(from: Option<i64>, to: Option<i64>) -> Option<f64> {
    Some(to?.checked_sub(from?)?.max(0) as f64)
}
