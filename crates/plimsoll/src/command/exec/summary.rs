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

/// A value that is not known: of no process, of no sample, or of no kernel.
pub(super) fn or_unknown<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "unknown".to_owned(), text)
}

fn size(value: i64) -> String {
    bytes(value as f64)
}

/// Values of the engine pager: counters that processes left, and samples of the whole tree. Both have lower bounds of a peak.
pub(super) fn of_pager(summary: &Summary, counters: Option<&Counters>, ram: u64) -> Vec<Row> {
    let left = counters.filter(|counters| counters.processes > 0);
    let peaks = summary
        .target
        .map(|target| target.peak_pagers)
        .unwrap_or_default();
    // The only process that left its counters may still not be the only one.
    let most = |at_end: fn(&Counters) -> u64, sampled: Option<i64>| {
        let at_end = left.map(|left| i64::try_from(at_end(left)).unwrap_or(i64::MAX));
        at_end.max(sampled)
    };
    let wanted = most(|left| left.peak_wanted, peaks.wanted_bytes);
    let at_least = |value: Option<i64>| or_unknown(value, |value| format!("at least {}", size(value)));
    let stalled = left.map(|left| Duration::from_micros(left.stall_us));
    let sum = |of: fn(&Counters) -> u64| or_unknown(left, |left| count(of(left)));
    vec![
        ("run time", seconds(summary.seconds)),
        (
            "peak wanted",
            or_unknown(wanted, |wanted| {
                let percent = 100.0 * wanted as f64 / ram as f64;
                format!("at least {}, {percent:.0}% of the budget", size(wanted))
            }),
        ),
        peak_rss(summary),
        (
            "counters of",
            match left {
                Some(left) => counted(usize::try_from(left.processes).unwrap_or(usize::MAX), "process"),
                None => "no process: those that end by a signal or _exit(2), and forked children, leave none"
                    .to_owned(),
            },
        ),
        ("refaults", sum(|left| left.refaults)),
        ("trimmed pages", sum(|left| left.trimmed_pages)),
        ("saved pages", sum(|left| left.saved_pages)),
        (
            "compressed, most",
            at_least(most(|left| left.compressed, peaks.compressed_bytes)),
        ),
        (
            "in the page file, most",
            at_least(most(|left| left.page_file, peaks.page_file_bytes)),
        ),
        stall(stalled, ""),
        slowdown(summary, stalled),
    ]
}

/// Values of the engine kernel, besides those of the cgroup. `stalled_us` is the cgroup's pressure, if the kernel has it.
pub(super) fn of_kernel(summary: &Summary, stalled_us: Option<u64>, ram: u64) -> Vec<Row> {
    let wanted = summary.target.and_then(|target| target.peak_memory_bytes);
    let (measured, reason) = match summary.program.as_ref().map(|program| &program.fault_time) {
        Some(FaultTime::Measured { at_least_s, .. }) => (Duration::try_from_secs_f64(*at_least_s).ok(), ""),
        Some(FaultTime::Unknown { reason, .. }) => (None, reason.as_str()),
        None => (None, ""),
    };
    let stalled = stalled_us.map(Duration::from_micros).or(measured);
    vec![
        ("run time", seconds(summary.seconds)),
        (
            "peak wanted",
            or_unknown(wanted, |wanted| {
                let percent = 100.0 * wanted as f64 / ram as f64;
                format!(
                    "at least {}, {percent:.0}% of the limit, in RAM and swap",
                    size(wanted)
                )
            }),
        ),
        peak_rss(summary),
        stall(stalled, reason),
        slowdown(summary, stalled),
    ]
}

fn peak_rss(summary: &Summary) -> Row {
    let peak = summary.target.and_then(|target| target.peak_resident_bytes);
    (
        "peak RSS of all processes",
        or_unknown(peak, |peak| format!("{}, as sampled", size(peak))),
    )
}

/// `reason`: why it is unknown, if there is one to name.
fn stall(stalled: Option<Duration>, reason: &str) -> Row {
    let known = stalled.map(|stalled| seconds(stalled.as_secs_f64()));
    let unknown = match reason {
        "" => "unknown".to_owned(),
        reason => format!("unknown: {reason}"),
    };
    ("time in faults", known.unwrap_or(unknown))
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

/// The recording and its report.
pub(super) fn of_recording(summary: &Summary) -> Vec<Row> {
    let path = |path: &std::path::PathBuf| path.display().to_string();
    let recording = summary
        .recording
        .as_ref()
        .map(|folder| ("recording", path(folder)));
    let report = summary.page.as_ref().map(|page| ("report", path(page)));
    recording.into_iter().chain(report).collect()
}
