//! Latency probes inside a trial's cgroup, beside the load.

use super::context::TrialContext;
use super::phase::Worked;
use super::trial_error::TrialError;
use crate::workload::Worker;
use crate::workload::probe::{Probe, ProbeKind};
use crate::workload::protocol::{Command, Reply};
use crate::workload::{Cost, Findings};
use plimsoll_model::latency::Latencies;
use plimsoll_model::quantity::ratio;

/// The probes: name in metrics, kind and period in seconds. The wake-up probe is fast enough to see a scheduler's
/// delays; a program often enough for a percentile in a short phase; the small set as a program that works now and
/// then.
const PROBES: [(&str, ProbeKind, f64); 3] = [
    ("wakeup", ProbeKind::Wakeup, 0.001),
    ("launch", ProbeKind::Launch, 0.25),
    ("small_set", ProbeKind::SmallSet, 0.05),
];

/// A worker for each probe, in the trial's cgroup.
pub(super) struct Probes(Vec<Worker>);

/// Findings of the probes in an interval, in the order of [`PROBES`].
pub(super) struct Readings {
    probes: [ProbeReadings; PROBES.len()],
    cost: Cost,
}

#[derive(Default)]
struct ProbeReadings {
    /// Includes corrected latencies of probes that could not begin in time.
    latencies: Latencies,
    /// Includes failed probes.
    count: f64,
    /// Programs that did not start. They have no latency.
    failed: f64,
    /// Total seconds of the probes that did not fail.
    took_s: f64,
}

impl Probes {
    pub(super) fn spawn(context: &mut TrialContext<'_, '_>) -> Result<Probes, TrialError> {
        let mut probes = Probes(Vec::with_capacity(PROBES.len()));
        for _ in PROBES {
            match context.spawn() {
                Ok(worker) => probes.0.push(worker),
                Err(error) => {
                    probes.retire(context);
                    return Err(error);
                }
            }
        }
        Ok(probes)
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.0.iter().map(Worker::pid).collect()
    }

    pub(super) fn begin(&mut self, context: &mut TrialContext<'_, '_>) -> Result<(), TrialError> {
        for ((_, kind, period), worker) in PROBES.into_iter().zip(&mut self.0) {
            context.ask(worker, &Command::Probe(Probe { kind, period }))?;
        }
        Ok(())
    }

    /// Findings since their start or the last lap.
    pub(super) fn lap(&mut self, context: &mut TrialContext<'_, '_>) -> Result<Readings, TrialError> {
        self.ask(context, &Command::ProbeLap)
    }

    /// Ends them, which verifies every byte of the small set. Returns the findings since the last lap.
    pub(super) fn end(&mut self, context: &mut TrialContext<'_, '_>) -> Result<Readings, TrialError> {
        self.ask(context, &Command::ProbeEnd)
    }

    /// Sends to all workers before it waits, as one may answer late.
    fn ask(&mut self, context: &mut TrialContext<'_, '_>, command: &Command) -> Result<Readings, TrialError> {
        for worker in &mut self.0 {
            worker.send(command).map_err(|error| context.explain(&error))?;
        }
        let mut readings = Readings::empty();
        for (worker, probed) in self.0.iter_mut().zip(&mut readings.probes) {
            let (timeout, stop) = (context.timeout(), context.runner.stop.flag());
            let reply: Reply = worker
                .answer(timeout, stop)
                .map_err(|error| context.explain(&error))?;
            let Worked { cost, findings, .. } = Worked::of_reply(reply)?;
            readings.cost = readings.cost.and(cost);
            *probed = ProbeReadings::of(&findings);
        }
        Ok(readings)
    }

    pub(super) fn retire(self, context: &mut TrialContext<'_, '_>) {
        for worker in self.0 {
            context.retire(worker);
        }
    }
}

impl ProbeReadings {
    fn of(findings: &Findings) -> ProbeReadings {
        let value = |name: &str| findings.values.get(name).copied().unwrap_or(0.0);
        let latencies = findings.latency.as_ref();
        ProbeReadings {
            latencies: latencies
                .and_then(|text| Latencies::from_text(text).ok())
                .unwrap_or_default(),
            count: value("probes_count"),
            failed: value("failed_count"),
            took_s: value("took_s"),
        }
    }

    fn merge(&mut self, other: &ProbeReadings) {
        self.latencies.merge(&other.latencies);
        self.count += other.count;
        self.failed += other.failed;
        self.took_s += other.took_s;
    }

    /// Mean seconds of the probes that did not fail. Not the histogram's mean, which includes corrected latencies.
    fn mean_s(&self) -> Option<f64> {
        ratio(self.took_s, self.count - self.failed)
    }
}

impl Readings {
    pub(super) fn empty() -> Readings {
        Readings {
            probes: std::array::from_fn(|_| ProbeReadings::default()),
            cost: Cost::default(),
        }
    }

    pub(super) fn cost(&self) -> Cost {
        self.cost
    }

    /// Adds the findings of another interval.
    pub(super) fn merge(&mut self, other: &Readings) {
        for (mine, theirs) in self.probes.iter_mut().zip(&other.probes) {
            mine.merge(theirs);
        }
        self.cost = self.cost.and(other.cost);
    }

    pub(super) fn wakeup(&self) -> &Latencies {
        &self.probes[0].latencies
    }

    /// Wake-ups in the interval, without the corrected latencies of those that could not begin in time.
    pub(super) fn wakeup_count(&self) -> f64 {
        self.probes[0].count
    }

    pub(super) fn launch(&self) -> &Latencies {
        &self.probes[1].latencies
    }

    pub(super) fn small_set(&self) -> &Latencies {
        &self.probes[2].latencies
    }

    /// Notes the metrics of each probe, and the latencies of the wake-up probe.
    pub(super) fn note(&self, findings: &mut Findings) {
        for ((name, kind, _), probed) in PROBES.iter().zip(&self.probes) {
            let latencies = &probed.latencies;
            let mut set = |metric: &str, value: Option<f64>| {
                if let Some(value) = value {
                    findings.set(&format!("{name}_{metric}"), value);
                }
            };
            let percentile = |percent: f64| latencies.percentile(percent).map(|ns| ns as f64 / 1e9);
            set("p50_s", percentile(50.0));
            set("p99_s", percentile(99.0));
            set("max_s", latencies.max().map(|ns| ns as f64 / 1e9));
            set("mean_s", probed.mean_s());
            set("count", Some(probed.count));
            // The other two cannot fail.
            if *kind == ProbeKind::Launch {
                set("failed_count", Some(probed.failed));
            }
        }
        findings.latency = Some(self.wakeup().to_text());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(took_ms: &[u64], failed: u32) -> Findings {
        let mut latencies = Latencies::new();
        for ms in took_ms {
            latencies.record_corrected(ms * 1_000_000, 50_000_000);
        }
        let mut findings = Findings::default();
        findings.set("probes_count", took_ms.len() as f64 + f64::from(failed));
        findings.set("failed_count", f64::from(failed));
        findings.set("took_s", took_ms.iter().sum::<u64>() as f64 / 1e3);
        findings.latency = Some(latencies.to_text());
        findings
    }

    #[test]
    fn the_mean_excludes_corrected_and_failed_probes() {
        let mut probed = ProbeReadings::of(&reported(&[10, 10, 1000], 2));
        assert!(probed.latencies.count() > 20, "what waited behind the long one");
        assert!((probed.mean_s().unwrap() - 0.34).abs() < 1e-9);
        probed.merge(&ProbeReadings::of(&reported(&[180], 1)));
        let mut readings = Readings::empty();
        readings.probes[1] = probed;
        let mut findings = Findings::default();
        readings.note(&mut findings);
        let value = |name: &str| findings.values.get(name).copied();
        assert!((value("launch_mean_s").unwrap() - 0.3).abs() < 1e-9);
        assert_eq!(value("launch_count"), Some(7.0));
        assert_eq!(value("launch_failed_count"), Some(3.0));
        assert_eq!(value("small_set_count"), Some(0.0));
        assert_eq!(value("small_set_mean_s"), None);
        assert_eq!(value("small_set_failed_count"), None);
    }
}
