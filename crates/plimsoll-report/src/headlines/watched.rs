//! The headline of a recording of `plimsoll watch`, which has no trials.

use crate::workloads::sentence::brief;
use plimsoll_model::quantity::{bytes, count, seconds};
use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::{Headline, Manifest, Results, RunStatus};
use plimsoll_model::sanitize::sanitize;

/// The target, the duration and the peaks between the first and the last sample.
pub(super) fn headline(recording: &Recording, results: &Results) -> Headline {
    let (t_ns, hz) = (recording.samples.t_ns(), results.sampler.hz);
    let cut = match results.status {
        RunStatus::Interrupted => "The recording was interrupted.",
        _ => "",
    };
    let title = title(&recording.manifest);
    let (Some(first), Some(last)) = (t_ns.first(), t_ns.last()) else {
        return Headline {
            finding: brief(&[format!("Watched {title}: no samples.")]),
            bullets: Vec::new(),
            trust: cut.to_owned(),
        };
    };
    let time = duration((last - first) as f64 / 1e9);
    let mut seen = vec![match peak(recording, "target_resident") {
        Some(resident) => format!("peak resident memory of the target {}", bytes(resident)),
        None => memory(recording),
    }];
    let level = |column: &str| peak(recording, column).filter(|value| *value > 0.0);
    seen.extend(level("target_swap").map(|swap| format!("peak swap of the target {}", bytes(swap))));
    seen.extend(level("cgroup_usage").map(|usage| format!("peak charge of its cgroup {}", bytes(usage))));
    let waited = growth(recording, "psi_memory_some_us").map(|us| us / 1e6);
    seen.extend(waited.map(|waited| match waited > 0.0 {
        true => format!("tasks stalled on memory for {}", seconds(waited)),
        false => "no task stalled on memory".to_owned(),
    }));
    let samples = count(results.sampler.samples);
    Headline {
        finding: brief(&[format!(
            "Watched {title} for {time} at {hz} Hz ({samples} samples)."
        )]),
        bullets: seen.into_iter().map(|text| capitalised(&text)).collect(),
        trust: cut.to_owned(),
    }
}

/// The text as a sentence.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect()
}

fn title(manifest: &Manifest) -> String {
    let title = &manifest.plan.title;
    sanitize(title.strip_prefix("watch of ").unwrap_or(title)).into_owned()
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
fn memory(recording: &Recording) -> String {
    let available = recording.samples.column("mem_available");
    let least = available.and_then(|column| column.iter().flatten().min());
    match least {
        Some(least) => format!(
            "at least {} of {} available",
            bytes(least as f64),
            bytes(recording.manifest.host.mem_total as f64)
        ),
        None => "available memory unknown".to_owned(),
    }
}

/// The maximum of a column.
fn peak(recording: &Recording, name: &str) -> Option<f64> {
    let column = recording.samples.column(name)?;
    column.iter().flatten().max().map(|value| value as f64)
}

/// Growth of a counter from the first sample to the last.
fn growth(recording: &Recording, name: &str) -> Option<f64> {
    let values: Vec<i64> = recording.samples.column(name)?.iter().flatten().collect();
    Some(values.last()?.checked_sub(*values.first()?)?.max(0) as f64)
}
