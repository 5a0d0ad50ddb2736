//! Probes inside of a trial's cgroup: how the machine feels to those who share it with the load.

use super::phase::Worked;
use super::stage::Stage;
use super::trial::Trouble;
use crate::latency::Latencies;
use crate::workload::Worker;
use crate::workload::probe::{Probe, ProbeKind};
use crate::workload::protocol::{Command, Cost, Findings, Reply};

/// What is probed, by its name in figures, with the seconds between two probes: a heartbeat fast enough to see a
/// scheduler's delays; a program often enough for a percentile in a short phase; the small set as a program that works
/// now and then.
const PROBES: [(&str, ProbeKind, f64); 3] = [
    ("heartbeat", ProbeKind::Heartbeat, 0.001),
    ("launch", ProbeKind::Launch, 0.25),
    ("small_set", ProbeKind::SmallSet, 0.05),
];

/// A worker for each probe, in the trial's cgroup.
pub(super) struct Probes(Vec<Worker>);

/// What the probes found in a stretch of time, in the order of [`PROBES`].
pub(super) struct Felt {
    latencies: [Latencies; PROBES.len()],
    cost: Cost,
}

impl Probes {
    /// Starts a worker for each.
    pub(super) fn spawn(stage: &mut Stage<'_, '_>) -> Result<Probes, Trouble> {
        let mut probes = Probes(Vec::with_capacity(PROBES.len()));
        for _ in PROBES {
            match stage.spawn() {
                Ok(worker) => probes.0.push(worker),
                Err(trouble) => {
                    probes.retire(stage);
                    return Err(trouble);
                }
            }
        }
        Ok(probes)
    }

    /// Begins to probe.
    pub(super) fn begin(&mut self, stage: &mut Stage<'_, '_>) -> Result<(), Trouble> {
        for ((_, kind, period), worker) in PROBES.into_iter().zip(&mut self.0) {
            stage.ask(worker, &Command::Probe(Probe { kind, period }))?;
        }
        Ok(())
    }

    /// What they found since they began or since the last lap.
    pub(super) fn lap(&mut self, stage: &mut Stage<'_, '_>) -> Result<Felt, Trouble> {
        self.ask(stage, &Command::ProbeLap)
    }

    /// Ends them, which compares every byte of the small set. What they found since the last lap.
    pub(super) fn end(&mut self, stage: &mut Stage<'_, '_>) -> Result<Felt, Trouble> {
        self.ask(stage, &Command::ProbeEnd)
    }

    /// All at once, as one may answer late.
    fn ask(&mut self, stage: &mut Stage<'_, '_>, command: &Command) -> Result<Felt, Trouble> {
        for worker in &mut self.0 {
            worker.send(command).map_err(|error| stage.explain(&error))?;
        }
        let mut felt = Felt::nothing();
        for (worker, latencies) in self.0.iter_mut().zip(&mut felt.latencies) {
            let (timeout, stop) = (stage.timeout(), stage.lab.stop.flag());
            let reply: Reply = worker
                .answer(timeout, stop)
                .map_err(|error| stage.explain(&error))?;
            let Worked { cost, findings, .. } = Worked::of_reply(reply)?;
            felt.cost = felt.cost.and(cost);
            if let Some(found) = findings.latency.and_then(|text| Latencies::from_text(&text).ok()) {
                latencies.merge(&found);
            }
        }
        Ok(felt)
    }

    /// Ends the workers.
    pub(super) fn retire(self, stage: &mut Stage<'_, '_>) {
        for worker in self.0 {
            stage.retire(worker);
        }
    }
}

impl Felt {
    /// What no probe found.
    pub(super) fn nothing() -> Felt {
        Felt {
            latencies: std::array::from_fn(|_| Latencies::new()),
            cost: Cost::default(),
        }
    }

    /// CPU time and faults of the probes.
    pub(super) fn cost(&self) -> Cost {
        self.cost
    }

    /// Counts what was found in another stretch too.
    pub(super) fn merge(&mut self, other: &Felt) {
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            mine.merge(theirs);
        }
        self.cost = self.cost.and(other.cost);
    }

    /// The wake-ups of the heartbeat.
    pub(super) fn heartbeat(&self) -> &Latencies {
        &self.latencies[0]
    }

    /// The visits of the small set.
    pub(super) fn small_set(&self) -> &Latencies {
        &self.latencies[2]
    }

    /// Notes the figures of each probe, and every latency of the heartbeat.
    pub(super) fn note(&self, findings: &mut Findings) {
        for ((name, ..), latencies) in PROBES.iter().zip(&self.latencies) {
            let mut set = |figure: &str, value: Option<f64>| {
                if let Some(value) = value {
                    findings.set(&format!("{name}_{figure}"), value);
                }
            };
            let percentile = |percent: f64| latencies.percentile(percent).map(|ns| ns as f64 / 1e9);
            set("p50_s", percentile(50.0));
            set("p99_s", percentile(99.0));
            set("max_s", latencies.max().map(|ns| ns as f64 / 1e9));
            set("mean_s", latencies.mean().map(|ns| ns / 1e9));
            set("count", Some(latencies.count() as f64));
        }
        findings.latency = Some(self.heartbeat().to_text());
    }
}
