//! The headline of a recording of `plimsoll watch`, which has no trials.

use crate::workloads::sentence::brief_text;
use plimsoll_model::quantity::{bytes, count, seconds};
use plimsoll_model::recording::model::{Headline, Manifest, Results, RunStatus};
use plimsoll_model::recording::{Recording, Statement, StatementCode};
use plimsoll_model::sanitize::sanitize;

/// The target, the duration and the peaks between the first and the last sample.
pub(super) fn headline(recording: &Recording, results: &Results) -> Headline {
    let interrupted = results.status == RunStatus::Interrupted;
    let trust = interrupted
        .then(|| Statement::new(StatementCode::WatchInterrupted, "The recording was interrupted."));
    let t_ns = recording.samples.t_ns();
    let (finding, bullets) = match t_ns.first().zip(t_ns.last()) {
        Some((first, last)) => (
            finding(recording, results, (last - first) as f64 / 1e9),
            seen(recording),
        ),
        None => (without_samples(&recording.manifest), Vec::new()),
    };
    Headline {
        finding,
        bullets,
        trust: trust.into_iter().collect(),
    }
}

fn without_samples(manifest: &Manifest) -> Statement {
    let title = title(manifest);
    let text = format!("Watched {title}: no samples.");
    brief_text(StatementCode::WatchWithoutSamples, [text]).naming("target", title)
}

fn finding(recording: &Recording, results: &Results, time: f64) -> Statement {
    let (title, hz) = (title(&recording.manifest), results.sampler.hz);
    let text = format!(
        "Watched {title} for {} at {hz} Hz ({} samples).",
        duration(time),
        count(results.sampler.samples)
    );
    brief_text(StatementCode::WatchTarget, [text])
        .naming("target", title)
        .with("duration_s", time)
        .with("samples", results.sampler.samples as f64)
        .with("samples_per_s", f64::from(hz))
}

/// The peaks of the target, and the pressure.
fn seen(recording: &Recording) -> Vec<Statement> {
    let highest = |code: StatementCode, label: &str, column: &str| {
        let value = recording.samples.column(column)?.max()? as f64;
        let statement = Statement::new(code, format!("{label} {}.", bytes(value)));
        Some((value, statement.with(format!("{column}_bytes"), value)))
    };
    // Zero says nothing.
    let level = |code, label, column| highest(code, label, column).filter(|(value, _)| *value > 0.0);
    let resident = highest(
        StatementCode::WatchResident,
        "Peak resident memory of the target",
        "target_resident",
    );
    let swap = level(StatementCode::WatchSwap, "Peak swap of the target", "target_swap");
    let usage = level(
        StatementCode::WatchCharge,
        "Peak charge of its cgroup",
        "cgroup_usage",
    );
    let mut seen = vec![resident.map_or_else(|| memory(recording), |(_, statement)| statement)];
    seen.extend(
        [swap, usage]
            .into_iter()
            .flatten()
            .map(|(_, statement)| statement),
    );
    seen.extend(growth(recording, "psi_memory_some_us").map(|us| stalled(us / 1e6)));
    seen
}

fn stalled(waited: f64) -> Statement {
    match waited > 0.0 {
        true => Statement::new(
            StatementCode::WatchStalled,
            format!("Tasks stalled on memory for {}.", seconds(waited)),
        )
        .with("stalled_s", waited),
        false => Statement::new(StatementCode::WatchNotStalled, "No task stalled on memory."),
    }
}

fn title(manifest: &Manifest) -> String {
    sanitize(manifest.target()).into_owned()
}

/// A time to remember: in minutes from two of them on, in hours from two of those on.
fn duration(all: f64) -> String {
    match all {
        hours if hours >= 7200.0 => format!("{:.1} h", hours / 3600.0),
        minutes if minutes >= 120.0 => format!("{:.0} min", minutes / 60.0),
        _ => seconds(all),
    }
}

/// The minimum of available memory.
fn memory(recording: &Recording) -> Statement {
    let available = recording.samples.column("mem_available");
    let least = available.and_then(|column| column.iter().flatten().min());
    let Some(least) = least else {
        return Statement::new(StatementCode::WatchAvailableUnknown, "Available memory unknown.");
    };
    let (least, total) = (least as f64, recording.manifest.host.mem_total as f64);
    let text = format!("At least {} of {} available.", bytes(least), bytes(total));
    Statement::new(StatementCode::WatchAvailable, text)
        .with("mem_available_bytes", least)
        .with("mem_total_bytes", total)
}

/// Growth of a counter from the first sample to the last.
fn growth(recording: &Recording, name: &str) -> Option<f64> {
    let values: Vec<i64> = recording.samples.column(name)?.iter().flatten().collect();
    Some(values.last()?.checked_sub(*values.first()?)?.max(0) as f64)
}
