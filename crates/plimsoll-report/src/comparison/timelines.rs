//! Values of a whole timeline, for recordings that have no trials.

use super::input::GroupValues;
use super::model::Side;
use crate::analysis::ratio;
use plimsoll_model::recording::{ColumnView, Recording};

/// Identity of the one group that a timeline is.
const GROUP: &str = "timeline";

/// The values of the whole recording: one value each.
pub(super) fn values(recording: &Recording) -> GroupValues {
    let samples = &recording.samples;
    let seconds = match (samples.t_ns().first(), samples.t_ns().last()) {
        (Some(first), Some(last)) => (last - first) as f64 / 1e9,
        _ => 0.0,
    };
    let page = recording.manifest.host.page_size as f64;
    let peak = |name: &str| Some(samples.column(name)?.max()? as f64);
    let growth = |name: &str| samples.column(name).and_then(grown);
    let of_time = |name: &str| ratio(growth(name)? / 1e4, seconds);
    let values = [
        ("timeline.seconds", Some(seconds)),
        ("target.peak_resident_bytes", peak("target_resident")),
        ("swap.peak_used_bytes", peak_of_swap(recording)),
        ("swap.in_bytes", growth("pswpin").map(|pages| pages * page)),
        ("swap.out_bytes", growth("pswpout").map(|pages| pages * page)),
        ("faults.major", growth("pgmajfault")),
        ("faults.anon_refault", growth("workingset_refault_anon")),
        ("pressure.memory_some_percent", of_time("psi_memory_some_us")),
        ("pressure.memory_full_percent", of_time("psi_memory_full_us")),
        ("pressure.io_some_percent", of_time("psi_io_some_us")),
        ("cpu.system_percent_of_one", of_time("cpu_system_us")),
    ];
    let side = |value: f64| Side {
        median: value,
        values: vec![value],
        untrustworthy: false,
    };
    GroupValues {
        group: GROUP.to_owned(),
        label: "the whole timeline".to_owned(),
        note: String::new(),
        sides: values
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), side(value?))))
            .collect(),
    }
}

fn peak_of_swap(recording: &Recording) -> Option<f64> {
    let (total, free) = (
        recording.samples.column("swap_total")?,
        recording.samples.column("swap_free")?,
    );
    let used = total
        .iter()
        .zip(free.iter())
        .filter_map(|(total, free)| total?.checked_sub(free?));
    used.max().map(|bytes| bytes as f64)
}

/// Growth of a counter over the recording; where it goes back, a new part began from nothing.
fn grown(column: ColumnView<'_>) -> Option<f64> {
    let mut values = column.iter().flatten();
    let mut before = values.next()?;
    let mut total = 0_i64;
    for value in values {
        total = total.saturating_add(if value >= before { value - before } else { value });
        before = value;
    }
    Some(total as f64)
}
