//! The summary of a run: one value a line.

use std::time::Duration;

use crate::exec::Counters;
use plimsoll_model::quantity::{bytes, count, counted, seconds};
use plimsoll_monitor::watch::{FaultTime, Summary};

/// A name and its value.
pub(super) type Row = (&'static str, String);

/// The lines below a title.
pub(super) fn table(title: &str, rows: &[Row]) -> String {
    rows.iter().fold(title.to_owned(), |text, (name, value)| {
        format!("{text}\n  {name:<26} {value}")
    })
}

fn or_unknown<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "unknown".to_owned(), text)
}

/// Bytes as text, or `unknown`.
pub(super) fn size(value: Option<u64>) -> String {
    or_unknown(value, |value| bytes(value as f64))
}

/// A count as text, or `unknown`.
pub(super) fn number(value: Option<u64>) -> String {
    or_unknown(value, count)
}

/// A sampled value. It is negative in no sample.
fn sampled(value: Option<i64>) -> Option<u64> {
    value.and_then(|value| u64::try_from(value).ok())
}

/// Values of the engine pager: counters that processes left, and samples of the whole tree. `counters`: none if they cannot be
/// read.
pub(super) fn of_pager(summary: &Summary, counters: Option<&Counters>, ram: u64) -> Vec<Row> {
    let left = counters.filter(|counters| counters.processes > 0);
    let peaks = summary
        .target
        .map(|target| target.peak_pagers)
        .unwrap_or_default();
    // Counters are of single processes, samples of all together: the larger value is nearer to the peak.
    let most = |at_end: fn(&Counters) -> u64, peak: Option<i64>| left.map(at_end).max(sampled(peak));
    let about = |value: Option<u64>| or_unknown(value, |value| format!("about {}", bytes(value as f64)));
    let stalled = left.map(|left| Duration::from_micros(left.stall_us));
    let sum = |of: fn(&Counters) -> u64| number(left.map(of));
    vec![
        run_time(summary),
        wanted(
            most(|left| left.peak_wanted, peaks.wanted_bytes),
            ram,
            "of the budget",
        ),
        peak_rss(summary),
        ("counters of", or_unknown(counters, reporters)),
        ("refaults", sum(|left| left.refaults)),
        ("trimmed pages", sum(|left| left.trimmed_pages)),
        ("saved pages", sum(|left| left.saved_pages)),
        (
            "compressed, most",
            about(most(|left| left.compressed, peaks.compressed_bytes)),
        ),
        (
            "in the page file, most",
            about(most(|left| left.page_file, peaks.page_file_bytes)),
        ),
        stall(stalled, None),
        slowdown(summary, stalled),
    ]
}

/// Values of the engine kernel, besides those of the cgroup. `stalled_us` is the cgroup's pressure, if the kernel has it.
pub(super) fn of_kernel(summary: &Summary, stalled_us: Option<u64>, ram: u64) -> Vec<Row> {
    let peak = summary.target.and_then(|target| target.peak_memory_bytes);
    let (measured, reason) = match summary.program.as_ref().map(|program| &program.fault_time) {
        Some(FaultTime::Measured { at_least_s, .. }) => (Duration::try_from_secs_f64(*at_least_s).ok(), None),
        Some(FaultTime::Unknown { reason, .. }) => (None, Some(reason.as_str())),
        None => (None, None),
    };
    let stalled = stalled_us.map(Duration::from_micros).or(measured);
    vec![
        run_time(summary),
        wanted(sampled(peak), ram, "of the limit, in RAM and swap"),
        peak_rss(summary),
        stall(stalled, reason),
        slowdown(summary, stalled),
    ]
}

/// Values of a program without a limit.
pub(super) fn without_limit(summary: &Summary) -> Vec<Row> {
    vec![run_time(summary), peak_rss(summary)]
}

fn run_time(summary: &Summary) -> Row {
    ("run time", seconds(summary.seconds))
}

/// A page that several processes share counts once for each, and samples miss peaks: the value can be too high or too low.
fn wanted(peak: Option<u64>, ram: u64, base: &str) -> Row {
    let text = |peak: u64| {
        let percent = 100.0 * peak as f64 / ram as f64;
        format!("about {}, {percent:.0}% {base}", bytes(peak as f64))
    };
    ("peak wanted", or_unknown(peak, text))
}

/// The processes that left counters.
fn reporters(counters: &Counters) -> String {
    let processes = counted(
        usize::try_from(counters.processes).unwrap_or(usize::MAX),
        "process",
    );
    match (counters.processes, counters.is_cut) {
        (0, false) => "none: no process has left its counters".to_owned(),
        (0, true) => "unknown: the program has filled their file".to_owned(),
        (_, false) => processes,
        (_, true) => format!("the first {processes}"),
    }
}

fn peak_rss(summary: &Summary) -> Row {
    let peak = summary.target.and_then(|target| target.peak_resident_bytes);
    (
        "peak RSS of all processes",
        or_unknown(sampled(peak), |peak| {
            format!("{}, as sampled", bytes(peak as f64))
        }),
    )
}

/// `reason`: why it is unknown, if that is known.
fn stall(stalled: Option<Duration>, reason: Option<&str>) -> Row {
    let text = match (stalled, reason) {
        (Some(stalled), _) => seconds(stalled.as_secs_f64()),
        (None, Some(reason)) => format!("unknown: {reason}"),
        (None, None) => "unknown".to_owned(),
    };
    ("time in faults", text)
}

/// The run time as a multiple of that without the waits. Waits of several threads at once sum to more than the run lost.
fn slowdown(summary: &Summary, stalled: Option<Duration>) -> Row {
    let share = stalled.map(|stalled| (summary.seconds, summary.seconds - stalled.as_secs_f64()));
    (
        "estimated slowdown",
        match share {
            None => "unknown".to_owned(),
            Some((all, rest)) if rest > 0.0 => {
                format!("{:.2} times, run time / (run time - time in faults)", all / rest)
            }
            Some(_) => "unknown: threads waited longer together than the program ran".to_owned(),
        },
    )
}

pub(super) fn of_recording(summary: &Summary) -> Vec<Row> {
    let path = |path: &std::path::PathBuf| path.display().to_string();
    let recording = summary
        .recording
        .as_ref()
        .map(|folder| ("recording", path(folder)));
    let report = summary.page.as_ref().map(|page| ("report", path(page)));
    recording.into_iter().chain(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_of_the_counters_are_named() {
        let named = |processes, is_cut| {
            reporters(&Counters {
                processes,
                is_cut,
                ..Counters::default()
            })
        };
        assert_eq!(named(0, false), "none: no process has left its counters");
        assert_eq!(named(1, false), "1 process");
        assert_eq!(named(2, true), "the first 2 processes");
        assert!(named(0, true).starts_with("unknown: "));
    }

    #[test]
    fn a_peak_is_no_bound() {
        let (_, value) = wanted(Some(3 << 20), 2 << 20, "of the budget");
        assert_eq!(value, "about 3.00 MiB, 150% of the budget");
        assert_eq!(wanted(None, 1, "of the budget").1, "unknown");
    }
}
