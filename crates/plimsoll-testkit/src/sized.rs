//! A recording of a search that never happened: a program with a known need on each engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plimsoll_model::recording::Writer;
use plimsoll_model::recording::model::{EventKind, Phase, Trial, TrialStatus};
use plimsoll_model::scenario::workloads::command::{Point, Status, bracket, curve, finding};
use plimsoll_model::scenario::{Order, PageCache, Plan, ProgramRun, Settings, Subject, TrialPlan, Workload};

use crate::recordings;

const MIB: u64 = 1 << 20;

/// A program and its search.
#[derive(Debug, Clone)]
pub struct SizedRun {
    /// The name of the run.
    pub run: String,
    /// Engines with the need of the program in bytes.
    pub engines: Vec<(Subject, u64)>,
    pub repeats: u32,
    /// Growth of the need from one repeat to the next, as a share.
    pub spread: f64,
    pub peak: u64,
    /// Page cache at the peak.
    pub file: u64,
}

impl SizedRun {
    /// A program with a peak of 1000 MiB, 200 of them page cache, three repeats, and these needs in MiB.
    pub fn new(run: &str, needs: &[(&str, u64)]) -> SizedRun {
        let engine = |(name, need): &(&str, u64)| (name.parse().expect("an engine"), need * MIB);
        SizedRun {
            run: run.to_owned(),
            engines: needs.iter().map(engine).collect(),
            repeats: 3,
            spread: 0.0,
            peak: 1000 * MIB,
            file: 200 * MIB,
        }
    }

    /// Writes the finished recording into a folder of the run's name.
    pub fn record(&self, parent: &Path) -> PathBuf {
        let plan = self.plan();
        let manifest = recordings::manifest(&self.run, plan.clone());
        let mut writer = Writer::create(parent, manifest).expect("a recording");
        for (t_ns, kind) in [(1, EventKind::RunStart), (2, EventKind::RunEnd)] {
            writer.event(&recordings::event(t_ns, kind, "")).expect("written");
        }
        let trials: Vec<Trial> = (0..plan.trials.len())
            .map(|index| self.trial(&plan, index))
            .collect();
        trials
            .iter()
            .for_each(|trial| writer.trial(trial).expect("written"));
        writer
            .finish(&recordings::results(&self.run, trials))
            .expect("finished")
    }

    fn plan(&self) -> Plan {
        let combinations = (1..=self.repeats).flat_map(|repeat| {
            let engines = self.engines.iter();
            engines.map(move |(subject, _)| (repeat, subject))
        });
        let trial = |(repeat, subject): (u32, &Subject)| TrialPlan {
            id: format!("size/{subject}#{repeat}"),
            section: "size".into(),
            repeat,
            params: vec![("subject".into(), subject.to_string())],
            settings: self.settings(subject),
        };
        Plan {
            sections: Vec::new(),
            scenario: "size".into(),
            title: "RAM that a program needs".into(),
            description: "For tests.".into(),
            seed: 7,
            quick: false,
            time_limit: Some(600.0),
            order: Order::Fixed,
            trials: combinations.map(trial).collect(),
            omitted: Vec::new(),
        }
    }

    fn settings(&self, subject: &Subject) -> Settings {
        Settings {
            workload: Workload::Command(ProgramRun {
                command: vec!["prog".into(), "two words".into()],
                limits: Vec::new(),
                search: true,
                tolerate: 0.05,
                metric: None,
                higher_is_better: false,
                same_output: false,
                cache: PageCache::Cold,
                run_time: 1.0,
            }),
            subject: subject.clone(),
            limit: self.peak / 10 * 11,
            swap_size: 2 * self.peak,
            swappiness: None,
            page_cluster: None,
            zswap_pool_percent: None,
            swap_dir: PathBuf::from("/var/tmp"),
            background: None,
            phase_timeout: 60.0,
        }
    }

    fn trial(&self, plan: &Plan, index: usize) -> Trial {
        let (repeat, subject) = {
            let planned = &plan.trials[index];
            (planned.repeat, &planned.settings.subject)
        };
        let mut engines = self.engines.iter();
        let (_, need) = engines.find(|(engine, _)| engine == subject).expect("planned");
        let need = *need as f64 * (1.0 + self.spread * f64::from(repeat - 1));
        let findings = self.search(need, *subject == Subject::NoSwap);
        let points: Vec<Point> = findings.iter().filter_map(Point::of).collect();
        let found = bracket(&curve(&points), 0.05).expect("a tolerated base");
        let metrics = [
            ("base_peak_bytes", Some(self.peak as f64)),
            ("base_wall_s", Some(1.0)),
            ("needed_bytes", Some(found.high.limit as f64)),
            ("knee_bytes", found.knee()),
        ];
        let metrics = metrics
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let phase = |values: BTreeMap<String, f64>| Phase {
            name: ProgramRun::phase(values[finding::LIMIT] as u64),
            seconds: 1.0,
            values,
            ..Phase::default()
        };
        Trial {
            phases: findings.into_iter().map(phase).collect(),
            metrics: metrics.collect(),
            ..recordings::trial(plan, index, TrialStatus::Ok)
        }
    }

    /// The findings of a search: downwards from the base, then between the limits next to the need.
    fn search(&self, need: f64, no_swap: bool) -> Vec<BTreeMap<String, f64>> {
        let mut limit = self.peak as f64 * 1.1;
        let mut points = Vec::new();
        let (mut low, mut high) = (0.0, limit);
        while low == 0.0 || high > 1.05 * low {
            let is_enough = limit >= need;
            points.push(self.point(limit, need, no_swap));
            match is_enough {
                true => high = limit,
                false => low = limit,
            }
            limit = match low == 0.0 {
                true => 0.75 * limit,
                false => (low + high) / 2.0,
            };
        }
        points
    }

    fn point(&self, limit: f64, need: f64, no_swap: bool) -> BTreeMap<String, f64> {
        let short = (need / limit - 1.0).max(0.0);
        let is_killed = short > 0.0 && no_swap || short > 1.0;
        let status = match is_killed {
            true => Status::Killed,
            false => Status::Done,
        };
        let cost = 1.0 + 4.0 * short;
        let mut values = vec![
            (finding::LIMIT, limit.floor()),
            (finding::STATUS, status.number()),
            (finding::PEAK, limit.min(self.peak as f64)),
            (finding::FILE_PEAK, self.file as f64),
            (finding::ANON_PEAK, (self.peak - self.file) as f64),
            (
                finding::SWAP_PEAK,
                if no_swap {
                    0.0
                } else {
                    (self.peak as f64 - limit).max(0.0)
                },
            ),
        ];
        if !is_killed {
            values.extend([
                (finding::COST, cost),
                (finding::SLOWDOWN, cost - 1.0),
                (finding::WALL, cost),
            ]);
        }
        let named = values.into_iter();
        named.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
