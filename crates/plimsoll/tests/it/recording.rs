//! The recording: what is written is read, at every moment, however it was cut or damaged.

mod damage;
mod documents;
mod follow;
mod full_disk;
mod reported;
mod resume;
mod round_trip;
mod swapped;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plimsoll_model::columns::{COLUMNS, Row};
use plimsoll_model::recording::model::{
    Calibration, Event, EventKind, Headline, Host, Manifest, Phase, Results, RunStatus, SamplerReport,
    SamplerSettings, Trial, TrialStatus,
};
use plimsoll_model::recording::{Levels, Recording};
use plimsoll_model::scenario::{
    Compression, FillClass, Filling, Order, Plan, Settings, Subject, ThpMode, TrialPlan, TrimMechanism,
    Workload,
};
use plimsoll_testkit::capability;

/// A plan of `classes` times `repeats` trials of 64 MiB.
pub(crate) fn plan(classes: &[FillClass], repeats: u32) -> Plan {
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
        phase_timeout: 60.0,
    }
}

/// A manifest of the run `run`.
pub(crate) fn manifest(run: &str, plan: Plan) -> Manifest {
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
pub(crate) fn calibration() -> Calibration {
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
pub(crate) fn rows(count: usize) -> Vec<Row> {
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

/// The samples of the recording in `folder` as CSV, for another program to compare with what it reads.
pub(crate) fn csv_of(folder: &Path) -> Vec<u8> {
    let mut csv = Vec::new();
    plimsoll_report::export::csv(&Recording::open(folder).unwrap(), &mut csv).unwrap();
    csv
}

/// Has pyarrow and DuckDB read the recording in `folder`: they must find the values of `csv`, and columns that are
/// described. Returns what they say of it; nothing where neither is there.
pub(crate) fn read_by_others(folder: &Path, csv: &[u8]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/open_recording.py");
    let expected = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(expected.path(), csv).unwrap();
    let mut answers = String::new();
    for module in ["pyarrow", "duckdb"] {
        let import = ["-c", &format!("import {module}")];
        let there = plimsoll_testkit::command("python3").args(import).output();
        let there = there.is_ok_and(|output| output.status.success());
        if !capability(module, there, "python3 cannot import it") {
            continue;
        }
        let output = plimsoll_testkit::command("python3")
            .arg(&script)
            .args(["--with", module, "--csv"])
            .args([expected.path(), folder])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{module}: {said}");
        answers.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    answers
}

/// An event.
pub(crate) fn event(t_ns: u64, kind: EventKind, text: &str) -> Event {
    Event {
        t_ns,
        kind,
        trial: None,
        phase: None,
        number: None,
        code: None,
        text: text.into(),
    }
}

/// A trial of `plan.trials[index]` with one phase of `seconds`.
pub(crate) fn trial(plan: &Plan, index: usize, status: TrialStatus) -> Trial {
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

/// Results of `trials`.
pub(crate) fn results(run: &str, trials: Vec<Trial>) -> Results {
    Results {
        schema: 1,
        version: "0.1.0".into(),
        run: run.into(),
        scenario: "compression".into(),
        status: RunStatus::Ok,
        headline: Headline::default(),
        findings: Vec::new(),
        calibration: Some(calibration()),
        confounders: Vec::new(),
        warnings: Vec::new(),
        sampler: SamplerReport::default(),
        trials,
    }
}
