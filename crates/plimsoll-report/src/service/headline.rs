//! The headline of a recording of `plimsoll size --cgroup`.

use crate::workloads::sentence::brief;
use plimsoll_model::quantity::{bytes, count, seconds, significant};
use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::{EventKind, Headline, Results, RunStatus};
use plimsoll_model::recording::service::{ServiceBound, ServiceSize};
use plimsoll_model::recording::size::SizedSystem;
use plimsoll_model::sanitize::sanitize;

/// Intervals after which a sizing has lowered the cap of a service without pressure.
const LEAST_INTERVALS: f64 = 10.0;

/// The working set, its percentiles, and the settings that it supports.
pub(crate) fn headline(recording: &Recording, results: &Results) -> Headline {
    let trust = match results.status {
        RunStatus::Interrupted => trust(recording),
        _ => String::new(),
    };
    let Some(size) = &results.service else {
        return Headline {
            finding: "No samples of the service.".to_owned(),
            bullets: Vec::new(),
            trust,
        };
    };
    Headline {
        finding: brief(&[finding(size)]),
        bullets: bullets(size),
        trust,
    }
}

fn trust(recording: &Recording) -> String {
    let mut events = recording.events.iter();
    match events.find(|event| event.kind == EventKind::Stopped) {
        Some(event) => format!(
            "The sizing ended early: {}.",
            sanitize(event.text.trim_end_matches('.'))
        ),
        None => "The sizing was interrupted.".to_owned(),
    }
}

fn finding(size: &ServiceSize) -> String {
    let amount = |value: u64| bytes(value as f64);
    match (&size.working_set, size.bound) {
        (Some(set), ServiceBound::Pressure) => format!(
            "The service needs {} (median working set) of the {} that it had taken.",
            amount(set.p50_bytes),
            amount(size.peak_bytes)
        ),
        (Some(set), bound) => format!(
            "The service needs at most {}: {} before pressure appeared.",
            amount(set.p50_bytes),
            match bound {
                ServiceBound::Floor => "the cap reached the floor",
                _ => "the kernel could reclaim no more",
            }
        ),
        (None, _) if never_lowered(size) => format!(
            "No working set found: the service waits for memory in at least {}% of the time without a lower cap.",
            significant(size.settings.target_percent / 2.0)
        ),
        (None, _) => format!(
            "No working set found: without pressure, the memory of the service sank to {} in {}.",
            amount(size.last_bytes),
            seconds(size.seconds)
        ),
    }
}

/// Whether the cap was never below that before although there was time for it: the pressure is not of the sizing's making.
fn never_lowered(size: &ServiceSize) -> bool {
    let before: u64 = size.settings.cap_before.parse().unwrap_or(u64::MAX);
    let least = size.least_cap_bytes.unwrap_or(u64::MAX);
    least >= before && size.seconds > LEAST_INTERVALS * size.settings.interval_s
}

fn bullets(size: &ServiceSize) -> Vec<String> {
    let amount = |value: u64| bytes(value as f64);
    let mut bullets = Vec::new();
    if let Some(set) = &size.working_set {
        bullets.push(format!(
            "Over time: p90 {}, p99 {}, greatest {}.",
            amount(set.p90_bytes),
            amount(set.p99_bytes),
            amount(set.max_bytes)
        ));
    }
    if let Some(settled) = size.settled_s {
        let pressure = size
            .pressure_percent
            .map(|percent| format!("{}% pressure and ", significant(percent)));
        bullets.push(format!(
            "Found after {}; from then on {}{} refaults a second, at a target of {}%.",
            seconds(settled),
            pressure.unwrap_or_default(),
            count(size.refaults_per_s.unwrap_or(0.0) as u64),
            significant(size.settings.target_percent)
        ));
    }
    if let Some(anonymous) = size.anonymous_bytes {
        bullets.push(format!(
            "Anonymous memory, in RAM and in swap: {}.",
            amount(anonymous)
        ));
    }
    for advice in &size.advice {
        let (system, soft, hard) = match advice.system {
            SizedSystem::Kubernetes => ("Kubernetes", "requests", "limits"),
            SizedSystem::Systemd => ("systemd", "MemoryHigh", "MemoryMax"),
            _ => continue,
        };
        bullets.push(format!(
            "{system}: {soft} {}, {hard} {}. {}",
            amount(advice.soft_bytes),
            amount(advice.hard_bytes),
            advice.premise
        ));
    }
    if size.working_set.is_none() && never_lowered(size) {
        bullets.push(
            "It needs more memory than its limits or the machine leave to it; a higher `--psi` accepts that wait."
                .to_owned(),
        );
    } else if size.working_set.is_none() {
        bullets.push(
            "More time (`--duration`) finds the working set; a lower `--psi` finds it sooner.".to_owned(),
        );
    }
    bullets
}
