//! The headline of a recording of `plimsoll size --cgroup`.

use crate::workloads::sentence::brief_text;
use plimsoll_model::quantity::{bytes, count, seconds, significant};
use plimsoll_model::recording::model::{EventKind, Headline, Results, RunStatus};
use plimsoll_model::recording::service::{ServiceBound, ServiceSize, WorkingSet};
use plimsoll_model::recording::size::{SizeAdvice, SizedSystem};
use plimsoll_model::recording::{Recording, Statement, StatementCode};
use plimsoll_model::sanitize::sanitize;

/// Intervals after which a sizing has lowered the cap of a service without pressure.
const LEAST_INTERVALS: f64 = 10.0;

/// The working set, its percentiles, and the settings that it supports.
pub(crate) fn headline(recording: &Recording, results: &Results) -> Headline {
    let trust = match results.status {
        RunStatus::Interrupted => vec![trust(recording)],
        _ => Vec::new(),
    };
    let Some(size) = &results.service else {
        return Headline {
            finding: Statement::new(StatementCode::ServiceWithoutSamples, "No samples of the service."),
            bullets: Vec::new(),
            trust,
        };
    };
    Headline {
        finding: finding(size),
        bullets: bullets(size),
        trust,
    }
}

fn trust(recording: &Recording) -> Statement {
    let mut events = recording.events.iter();
    match events.find(|event| event.kind == EventKind::Stopped) {
        Some(event) => Statement::new(
            StatementCode::ServiceStopped,
            format!(
                "The sizing ended early: {}.",
                sanitize(event.text.trim_end_matches('.'))
            ),
        ),
        None => Statement::new(StatementCode::ServiceInterrupted, "The sizing was interrupted."),
    }
}

fn finding(size: &ServiceSize) -> Statement {
    match &size.working_set {
        Some(set) => need(size, set),
        None => no_working_set(size),
    }
}

fn need(size: &ServiceSize, set: &WorkingSet) -> Statement {
    let (median, peak) = (set.p50_bytes as f64, size.peak_bytes as f64);
    let at_most = |end: &str| {
        format!(
            "The service needs at most {}: {end} before pressure appeared.",
            bytes(median)
        )
    };
    let (code, text) = match size.bound {
        ServiceBound::Pressure => (
            StatementCode::ServiceNeeds,
            format!(
                "The service needs {} (median working set) of the {} that it had taken.",
                bytes(median),
                bytes(peak)
            ),
        ),
        ServiceBound::Floor => (StatementCode::ServiceFloor, at_most("the cap reached the floor")),
        _ => (
            StatementCode::ServiceUnreclaimable,
            at_most("the kernel could reclaim no more"),
        ),
    };
    let statement = brief_text(code, [text]).with("p50_bytes", median);
    match code {
        StatementCode::ServiceNeeds => statement.with("peak_bytes", peak),
        _ => statement,
    }
}

fn no_working_set(size: &ServiceSize) -> Statement {
    if never_lowered(size) {
        let waiting = size.settings.target_percent / 2.0;
        let text = format!(
            "No working set found: the service waits for memory in at least {}% of the time without a lower cap.",
            significant(waiting)
        );
        return brief_text(StatementCode::ServiceWaits, [text]).with("waiting_percent", waiting);
    }
    let last = size.last_bytes as f64;
    let text = format!(
        "No working set found: without pressure, the memory of the service sank to {} in {}.",
        bytes(last),
        seconds(size.seconds)
    );
    brief_text(StatementCode::ServiceWithoutPressure, [text])
        .with("last_bytes", last)
        .with("duration_s", size.seconds)
}

/// Whether the cap was never below that before although there was time for it: the pressure is not of the sizing's making.
fn never_lowered(size: &ServiceSize) -> bool {
    let before: u64 = size.settings.cap_before.parse().unwrap_or(u64::MAX);
    let least = size.least_cap_bytes.unwrap_or(u64::MAX);
    least >= before && size.seconds > LEAST_INTERVALS * size.settings.interval_s
}

fn bullets(size: &ServiceSize) -> Vec<Statement> {
    let mut bullets: Vec<Statement> = [
        size.working_set.as_ref().map(percentiles),
        size.settled_s.map(|settled| found(size, settled)),
        size.anonymous_bytes.map(anonymous),
    ]
    .into_iter()
    .flatten()
    .collect();
    bullets.extend(size.advice.iter().filter_map(advised));
    bullets.extend(size.working_set.is_none().then(|| remedy(size)));
    bullets
}

/// The working set over time.
fn percentiles(set: &WorkingSet) -> Statement {
    let [p90, p99, max] = [set.p90_bytes, set.p99_bytes, set.max_bytes].map(|value| value as f64);
    let text = format!(
        "Over time: p90 {}, p99 {}, greatest {}.",
        bytes(p90),
        bytes(p99),
        bytes(max)
    );
    Statement::new(StatementCode::ServicePercentiles, text)
        .with("p90_bytes", p90)
        .with("p99_bytes", p99)
        .with("max_bytes", max)
}

/// The time until the bound, and the state since then.
fn found(size: &ServiceSize, settled: f64) -> Statement {
    let (pressure, target) = (size.pressure_percent, size.settings.target_percent);
    let refaults = size.refaults_per_s.unwrap_or(0.0);
    let under = pressure.map(|percent| format!("{}% pressure and ", significant(percent)));
    let text = format!(
        "Found after {}; from then on {}{} refaults a second, at a target of {}%.",
        seconds(settled),
        under.unwrap_or_default(),
        count(refaults as u64),
        significant(target)
    );
    Statement::new(StatementCode::ServiceSettled, text)
        .with("settled_s", settled)
        .with("pressure_percent", pressure)
        .with("refaults_per_s", refaults)
        .with("target_percent", target)
}

fn anonymous(anonymous: u64) -> Statement {
    let anonymous = anonymous as f64;
    let text = format!("Anonymous memory, in RAM and in swap: {}.", bytes(anonymous));
    Statement::new(StatementCode::ServiceAnonymous, text).with("anonymous_bytes", anonymous)
}

/// The settings of a system; `None` for one of a later version.
fn advised(advice: &SizeAdvice) -> Option<Statement> {
    let (system, soft, hard) = match advice.system {
        SizedSystem::Kubernetes => ("Kubernetes", "requests", "limits"),
        SizedSystem::Systemd => ("systemd", "MemoryHigh", "MemoryMax"),
        _ => return None,
    };
    let (soft_bytes, hard_bytes) = (advice.soft_bytes as f64, advice.hard_bytes as f64);
    let text = format!(
        "{system}: {soft} {}, {hard} {}. {}",
        bytes(soft_bytes),
        bytes(hard_bytes),
        advice.premise
    );
    let statement = Statement::new(StatementCode::ServiceAdvice, text)
        .with("soft_bytes", soft_bytes)
        .with("hard_bytes", hard_bytes)
        .naming("system", system.to_lowercase());
    Some(statement)
}

/// The way to a working set, where none was found.
fn remedy(size: &ServiceSize) -> Statement {
    match never_lowered(size) {
        true => Statement::new(
            StatementCode::ServiceNeedsMore,
            "It needs more memory than its limits or the machine leave to it; a higher `--psi` accepts that wait.",
        ),
        false => Statement::new(
            StatementCode::ServiceNeedsTime,
            "More time (`--duration`) finds the working set; a lower `--psi` finds it sooner.",
        ),
    }
}
