//! A recording of a run that never happened: plan, manifest, rows, events, trials, results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plimsoll_model::columns::{COLUMNS, Row};
use plimsoll_model::recording::Levels;
use plimsoll_model::recording::Writer;
use plimsoll_model::recording::model::{
    Calibration, Event, EventKind, Host, Manifest, Phase, Results, SamplerSettings, Trial, TrialStatus, file,
};
use plimsoll_model::scenario::{
    Backing, Compression, FillClass, Filling, Order, Plan, Settings, Subject, ThpMode, TrialPlan,
    TrimMechanism, Workload,
};

/// The folder of stored recordings of earlier versions.
pub fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// A plan of `classes` times `repeats` trials of 64 MiB.
pub fn plan(classes: &[FillClass], repeats: u32) -> Plan {
    let mut trials = Vec::new();
    for repeat in 1..=repeats {
        for class in classes {
            trials.push(TrialPlan {
                id: format!("zram/zram:lz4/{class}#{repeat}"),
                section: "zram".into(),
                repeat,
                params: vec![("class".into(), class.to_string())],
                settings: settings(class.clone()),
            });
        }
    }
    Plan {
        sections: Vec::new(),
        scenario: "compression".into(),
        title: "Fill, trim, restore, release".into(),
        description: "For tests.".into(),
        seed: 7,
        quick: true,
        time_limit: Some(600.0),
        order: Order::Fixed,
        trials,
        omitted: Vec::new(),
    }
}

fn settings(class: FillClass) -> Settings {
    Settings {
        workload: Workload::Compression(Compression {
            filling: Filling {
                class,
                size: 64 << 20,
                hold: 0.5,
                thp: ThpMode::Never,
                memory: Backing::Anonymous,
                threads: 1,
            },
            request: 16 << 20,
            trim: TrimMechanism::Worker,
        }),
        subject: Subject::Zram(Some("lz4".into())),
        limit: 96 << 20,
        swap_size: 128 << 20,
        swappiness: Some(100),
        page_cluster: None,
        zswap_pool_percent: None,
        swap_dir: PathBuf::from("/var/tmp"),
        background: None,
        phase_timeout: 60.0,
    }
}

pub fn manifest(run: &str, plan: Plan) -> Manifest {
    Manifest {
        schema: plimsoll_model::recording::model::RECORDING_SCHEMA,
        tool_version: "0.1.0".into(),
        run: run.into(),
        command: vec!["plimsoll".into(), "run".into(), "compression".into()],
        monotonic_start_ns: 5_000_000_000,
        started: "2026-01-02T03:04:05Z".into(),
        plan,
        sampler: SamplerSettings {
            hz: 10,
            locked: Ok(()),
        },
        swap_slots: vec!["/dev/zram1".into()],
        host: Host {
            hostname: "box".into(),
            kernel: "6.18.0".into(),
            cpu: "A CPU".into(),
            cpus: 2,
            mem_total: 4 << 30,
            page_size: 4096,
            cgroup: "v2".into(),
            swap_before: Vec::new(),
            virtualization: "none".into(),
            settings: BTreeMap::from([("vm.swappiness".into(), "60".into())]),
        },
        calibration: Some(calibration()),
        missing: Vec::new(),
        resumed: Vec::new(),
        checksums: BTreeMap::new(),
    }
}

/// A plausible machine.
pub fn calibration() -> Calibration {
    Calibration {
        memset_gb_per_s: 20.0,
        memcpy_gb_per_s: 10.0,
        fault_ns: 500.0,
        first_touch_gb_per_s: 4.0,
        random_access_ns: 90.0,
        timer_ns: 25.0,
        read_gb_per_s: 16.0,
    }
}

/// `count` rows at 10 Hz, every third column absent in every second row.
pub fn rows(count: usize) -> Vec<Row> {
    (0..count)
        .map(|index| {
            let mut row = Row::empty(index as u64 * 100_000_000);
            for column in 0..COLUMNS.len() {
                if index % 2 == 0 || column % 3 != 0 {
                    row.set(column, (index * 1000 + column) as i64);
                }
            }
            row
        })
        .collect()
}

pub fn event(t_ns: u64, kind: EventKind, text: &str) -> Event {
    Event::new(t_ns, kind, text)
}

/// A trial of `plan.trials[index]` with one phase of `seconds`.
pub fn trial(plan: &Plan, index: usize, status: TrialStatus) -> Trial {
    let planned = &plan.trials[index];
    let start = index as u64 * 1_000_000_000;
    Trial {
        id: planned.id.clone(),
        workload: planned.settings.workload.kind().name().to_owned(),
        lists: BTreeMap::new(),
        subject: planned.settings.subject.to_string(),
        params: planned.params.iter().cloned().collect(),
        repeat: planned.repeat,
        status,
        reasons: match status {
            TrialStatus::Ok => Vec::new(),
            _ => vec!["a reason".into()],
        },
        untrustworthy: BTreeMap::new(),
        failures: Vec::new(),
        other_programs: Vec::new(),
        verified: status == TrialStatus::Ok,
        span_ns: (start, start + 900_000_000),
        phases: vec![Phase {
            name: "fill".into(),
            span_ns: (start + 100_000_000, start + 400_000_000),
            seconds: 0.3,
            bytes: 64 << 20,
            gb_per_s: 0.2237,
            cpu_user_s: 0.1,
            cpu_system_s: 0.15,
            cpu_kernel_threads_s: 0.01,
            minor_faults: 16384,
            major_faults: 0,
            before: Levels::from_iter([("free", 1 << 30)]),
            after: Levels::from_iter([("free", (1 << 30) - (64 << 20))]),
            ..Phase::default()
        }],
        metrics: BTreeMap::from([("fill_gb_per_s".into(), 0.2237 + index as f64)]),
    }
}

pub fn results(run: &str, trials: Vec<Trial>) -> Results {
    Results {
        schema: 1,
        calibration: Some(calibration()),
        trials,
        ..Results::unread(&manifest(run, plan(&[], 0)))
    }
}

/// A recording of 25 samples, two events and two trials; an unfinished one has a last batch that is torn.
pub fn recorded(parent: &Path, finished: bool) -> PathBuf {
    let plan = plan(&[FillClass::Random, FillClass::Constant], 1);
    let mut writer = Writer::create(parent, manifest("exported", plan.clone())).unwrap();
    for batch in rows(25).chunks(10) {
        writer.samples(batch).unwrap();
    }
    writer.event(&event(1, EventKind::RunStart, "go")).unwrap();
    writer
        .event(&event(2, EventKind::Mark, "<b>\u{1b}[31m \"here\"\n"))
        .unwrap();
    let trials = [
        trial(&plan, 0, TrialStatus::Ok),
        trial(&plan, 1, TrialStatus::Failed),
    ];
    trials.iter().for_each(|trial| writer.trial(trial).unwrap());
    if finished {
        return writer.finish(&results("exported", trials.to_vec())).unwrap();
    }
    let folder = writer.folder().to_owned();
    drop(writer);
    let live = folder.join(file::SAMPLES_LIVE);
    let mut content = std::fs::read(&live).unwrap();
    content.extend([0xff, 0xff, 0xff, 0xff, 0x10]);
    std::fs::write(&live, content).unwrap();
    folder
}
