//! Recordings of every older format stay readable.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use plimsoll_model::columns::{COLUMNS, Row};
use plimsoll_model::recording::model::{EventKind, Manifest, Results, TrialStatus, file};
use plimsoll_model::recording::{Follow, Recording, Statement, StatementCode, Warning, WarningCode, Writer};
use plimsoll_model::scenario::{FillClass, Settings, TrimMechanism, Workload, WorkloadKind};
use serde_json::Value;

use super::{bless, event, manifest, plan, results, rows, trial};

/// The results of version 3, whose warnings are texts without a code.
#[test]
fn warnings_of_results_of_version_3_stay_readable() {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 1);
    let mut writer = Writer::create(parent.path(), manifest("older", plan)).unwrap();
    writer
        .event(&event(0, EventKind::Warning, "an event without a code"))
        .unwrap();
    let folder = writer.finish(&results("older", Vec::new())).unwrap();
    let path = folder.join(file::RESULTS);
    let mut document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    document["schema"] = 3.into();
    document["warnings"] = serde_json::json!(["a text without a code"]);
    std::fs::write(&path, document.to_string()).unwrap();

    let recording = Recording::open(&folder).unwrap();
    let stored = &recording.results.as_ref().unwrap().warnings;
    assert_eq!(
        *stored,
        [Warning::new(WarningCode::Other, "a text without a code")]
    );
    let computed = plimsoll_report::results(&recording);
    assert_eq!(
        computed.warnings,
        [Warning::new(WarningCode::Other, "an event without a code")]
    );
}

fn golden() -> PathBuf {
    plimsoll_testkit::recordings::stored().join("recording-1")
}

/// Writes the golden recordings anew. Only for a new format version, into a folder of its own.
fn write_golden() {
    let _ = std::fs::remove_dir_all(golden());
    let plan = plan(&[FillClass::Random, FillClass::Constant], 1);
    for name in ["finished", "killed"] {
        let mut writer = Writer::create(&golden(), manifest(name, plan.clone())).unwrap();
        for batch in rows(12).chunks(5) {
            writer.samples(batch).unwrap();
        }
        writer.event(&event(0, EventKind::RunStart, "go")).unwrap();
        writer.trial(&trial(&plan, 0, TrialStatus::Ok)).unwrap();
        if name == "killed" {
            continue;
        }
        let trials = vec![
            trial(&plan, 0, TrialStatus::Ok),
            trial(&plan, 1, TrialStatus::Failed),
        ];
        writer.trial(&trials[1]).unwrap();
        writer
            .event(&event(2_000_000_000, EventKind::RunEnd, ""))
            .unwrap();
        writer.finish(&results(name, trials)).unwrap();
    }
}

/// These folders were written by the first version of the format and are never written again: every later version
/// must read them as this one does.
#[test]
fn recordings_of_format_1_stay_readable() {
    if bless() && !golden().exists() {
        write_golden();
    }
    let finished = Recording::open(&golden().join("finished")).unwrap();
    assert!(finished.complete, "{:?}", finished.warnings);
    assert_eq!(
        Recording::read_results(&finished.folder)
            .unwrap()
            .map(|results| results.trials.len()),
        Some(2)
    );
    let killed = Recording::open(&golden().join("killed")).unwrap();
    assert!(!killed.complete);
    for recording in [&finished, &killed] {
        assert_eq!(recording.samples.len(), 12);
        assert_eq!(recording.samples.t_ns()[11], 1_100_000_000);
        let free = recording.samples.column("mem_free").unwrap();
        // The second column in the table of that version, by `rows`.
        assert_eq!((free.get(0), free.get(11)), (Some(1), Some(11_001)));
        assert_eq!(recording.samples.column("mem_total").unwrap().get(1), None);
        assert_eq!(recording.trials[0].phases[0].bytes, 64 << 20);
        assert_eq!(recording.events[0].kind, EventKind::RunStart);
        assert_eq!(recording.manifest.plan.trials.len(), 2);
    }
}

fn golden_of_format_3() -> PathBuf {
    plimsoll_testkit::recordings::stored().join("recording-3")
}

/// Row `index` of the golden recordings of format 3: columns that are always, sometimes and never there, the least and
/// the largest value, and values without order.
fn row_of_format_3(index: usize) -> Row {
    let mut row = Row::empty(index as u64 * 100_000_000);
    let of_format_3 = (0..COLUMNS.len()).filter(|index| !ADDED_SINCE.contains(&COLUMNS[*index].name));
    for (column, index_now) in of_format_3.enumerate() {
        let value = match (column, index) {
            (1, 0) => i64::MIN,
            (1, 1) => i64::MAX,
            (2, 0..300) => (index as i64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64),
            _ => (index / 700 * 1000 + column) as i64,
        };
        let there = match column % 5 {
            3 => index.is_multiple_of(2),
            4 => column % 10 == 4 && index >= 5,
            _ => true,
        };
        if there {
            row.set(index_now, value);
        }
    }
    row
}

/// Columns that version 3 of the format did not have.
const ADDED_SINCE: [&str; 26] = [
    "device_swap_size",
    "device_swap_used",
    "other_swap_size",
    "other_swap_used",
    "cgroup_swap_cached",
    "cgroup_cap",
    "cgroup_refault_anon",
    "cgroup_refault_file",
    "hold_held",
    "hold_available",
    "hold_goal",
    "hold_stalled_ppm",
    "target_pager_budget",
    "target_pager_active",
    "target_pager_modified",
    "target_pager_standby",
    "target_pager_standby_low",
    "target_pager_compressed",
    "target_pager_page_file",
    "target_pager_store",
    "target_pager_metadata",
    "target_pager_soft_faults",
    "target_pager_hard_faults",
    "target_pager_read_ahead",
    "target_pager_trimmed",
    "target_pager_saved",
];
/// Samples of the golden recordings of format 3: of the finished one, enough for several pages of Parquet a column.
const GOLDEN_ROWS: [(&str, usize); 2] = [("finished", 21_000), ("killed", 30)];

/// Writes the golden recordings of format 3. Only a program that writes this format can.
fn write_golden_of_format_3() {
    let plan = plan(&[FillClass::Random, FillClass::Constant], 1);
    for (name, count) in GOLDEN_ROWS {
        let mut manifest = manifest(name, plan.clone());
        manifest.schema = 3;
        let mut writer = Writer::create(&golden_of_format_3(), manifest).unwrap();
        let rows: Vec<Row> = (0..count).map(row_of_format_3).collect();
        for batch in rows.chunks(if count > 1000 { 1000 } else { 7 }) {
            writer.samples(batch).unwrap();
        }
        writer.event(&event(0, EventKind::RunStart, "go")).unwrap();
        let trials = vec![
            trial(&plan, 0, TrialStatus::Ok),
            trial(&plan, 1, TrialStatus::Failed),
        ];
        writer.trial(&trials[0]).unwrap();
        if name == "finished" {
            writer.trial(&trials[1]).unwrap();
            writer.finish(&results(name, trials)).unwrap();
        }
    }
}

/// These folders were written by the last program that used the crates of Arrow and zstd.
#[test]
fn recordings_of_format_3_stay_readable() {
    if bless() && !golden_of_format_3().exists() {
        write_golden_of_format_3();
    }
    for (name, count) in GOLDEN_ROWS {
        let recording = Recording::open(&golden_of_format_3().join(name)).unwrap();
        assert_eq!(recording.manifest.schema, 3);
        assert_eq!(recording.complete, name == "finished", "{:?}", recording.warnings);
        assert_eq!(recording.samples.len(), count);
        for index in 0..count {
            let expected = row_of_format_3(index);
            assert!(recording.samples.row(index) == expected, "{name}: row {index}");
        }
        assert_eq!(recording.events.len(), 1);
        assert_eq!(recording.trials[0].status, TrialStatus::Ok);
    }
}

/// A run of `thrash-e1` by the last program that wrote schema 3, without its samples; the finding in `results.json` is
/// added by hand.
#[test]
fn names_of_schema_3_become_those_of_schema_4() {
    let stored = golden_of_format_3().join("thrash");
    let text = |name: &str| std::fs::read_to_string(stored.join(name)).unwrap();
    for old in ["bystander_p99_s", "load_heartbeat_p99_s", "\"heartbeat_max_s\""] {
        assert!(text(file::TRIALS).contains(old), "{old}");
    }
    let recording = Recording::open(&stored).unwrap();
    let results = Recording::read_results(&stored).unwrap().unwrap();
    for trial in [&recording.trials[0], &results.trials[0]] {
        for name in ["neighbour_p99_s", "load_wakeup_p99_s", "rest_wakeup_p99_s"] {
            assert!(trial.metrics.contains_key(name), "{name}");
        }
        assert!(
            trial
                .phases
                .iter()
                .all(|phase| phase.values.contains_key("wakeup_max_s"))
        );
        let was = serde_json::from_str::<Value>(text(file::TRIALS).lines().next().unwrap()).unwrap();
        assert_eq!(
            trial.metrics["neighbour_p99_s"],
            was["metrics"]["bystander_p99_s"]
        );
        assert_eq!(trial.metrics.len(), was["metrics"].as_object().unwrap().len());
    }
    assert_eq!(results.confounders[0].name, "neighbour");
    let mut follow = Follow::open(&stored).unwrap();
    assert_eq!(follow.poll().unwrap().trials, recording.trials);
    let now = serde_json::to_string(&(&recording.trials, results)).unwrap();
    assert!(
        !now.contains("bystander_") && !now.contains("heartbeat_"),
        "{now}"
    );
}

/// A load line of a pager by the last program that wrote schema 4.
#[test]
fn names_of_schema_4_become_those_of_schema_5() {
    let stored = plimsoll_testkit::recordings::stored().join("recording-4/loadline");
    let text = std::fs::read_to_string(stored.join(file::TRIALS)).unwrap();
    let was: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let recording = Recording::open(&stored).unwrap();
    assert_eq!(recording.manifest.schema, 4);
    assert!(recording.complete, "{:?}", recording.warnings);
    let resident = recording.samples.column("target_resident").unwrap();
    assert!((0..recording.samples.len()).any(|index| resident.get(index) > Some(0)));
    let results = Recording::read_results(&stored).unwrap().unwrap();
    for trial in [&recording.trials[0], &results.trials[0]] {
        for (phase, was) in trial.phases.iter().zip(was["phases"].as_array().unwrap()) {
            let was: BTreeMap<String, f64> = serde_json::from_value(was["figures"].clone()).unwrap();
            assert!(was.len() > 20 && phase.values == was, "{phase:?}");
        }
    }
    let mut follow = Follow::open(&stored).unwrap();
    assert_eq!(follow.poll().unwrap().trials, recording.trials);
    let now = serde_json::to_string(&(&recording.trials, &results)).unwrap();
    assert!(
        now.contains("\"values\":{") && !now.contains("\"figures\""),
        "{now}"
    );
    // Computed anew, its CSV has the values under the new name of their column.
    let csv = plimsoll_report::csv::csv(&plimsoll_report::results(&recording));
    let (header, lines) = csv.split_once('\n').unwrap();
    assert!(header.ends_with(",phase,metric,value"), "{header}");
    assert!(
        lines.lines().any(|line| line.contains(",load 1.5,net_visit_s,")),
        "{csv}"
    );
}

/// The headline and the findings of results of version 5 were texts without codes.
#[test]
fn texts_of_results_of_schema_5_become_statements_without_a_code() {
    let other = |text: &str| Statement::new(StatementCode::Other, text);
    let stored = plimsoll_testkit::recordings::stored().join("recording-4/loadline");
    let results = Recording::read_results(&stored).unwrap().unwrap();
    let was: Value = serde_json::from_slice(&std::fs::read(stored.join(file::RESULTS)).unwrap()).unwrap();
    let text = |field: &str| was["headline"][field].as_str().unwrap();
    assert_eq!(results.headline.finding, other(text("finding")));
    assert_eq!(results.headline.trust, [other(text("trust"))]);
    assert!(results.headline.bullets.is_empty());

    let mut older = was.clone();
    older["schema"] = 5.into();
    older["headline"] = serde_json::json!({"finding": "a", "bullets": ["b", "c"], "trust": ""});
    older["findings"] = serde_json::json!([{"workload": "loadline", "text": "a", "bullets": ["b"]}]);
    let older: Results = serde_json::from_value(older).unwrap();
    assert_eq!(older.headline.finding, other("a"));
    assert_eq!(older.headline.bullets, [other("b"), other("c")]);
    assert!(older.headline.trust.is_empty());
    let [finding] = &older.findings[..] else {
        panic!("{:?}", older.findings)
    };
    assert_eq!(
        (&*finding.workload, &finding.statement, &finding.bullets[..]),
        ("loadline", &other("a"), &[other("b")][..])
    );
    // Computed anew, they have codes.
    let recording = Recording::open(&stored).unwrap();
    let computed = plimsoll_report::results(&recording).headline;
    let codes: Vec<StatementCode> = computed.statements().map(|statement| statement.code).collect();
    assert_eq!(
        codes,
        [StatementCode::RunWithoutResult, StatementCode::TrustUntrustworthy]
    );
}

/// A recording as version 2 of the format wrote it: no kind of work, no values of phases.
#[test]
fn recordings_of_format_2_stay_readable() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 1);
    let mut writer = Writer::create(folder.path(), manifest("older", plan.clone())).unwrap();
    writer.samples(&rows(12)).unwrap();
    writer.event(&event(0, EventKind::RunStart, "go")).unwrap();
    writer.trial(&trial(&plan, 0, TrialStatus::Ok)).unwrap();
    drop(writer);
    let folder = folder.path().join("older");
    let edit = |name: &str, change: &dyn Fn(&mut Value)| {
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut document: Value = serde_json::from_str(&text).unwrap();
        change(&mut document);
        std::fs::write(path, format!("{document}\n")).unwrap();
    };
    edit(file::MANIFEST, &|manifest| manifest["schema"] = 2.into());
    edit(file::TRIALS, &|trial| {
        assert!(trial.as_object_mut().unwrap().remove("workload").is_some());
    });
    let older = Recording::open(&folder).unwrap();
    assert_eq!(older.trials.len(), 1, "{:?}", older.warnings);
    assert_eq!(older.trials[0].workload, "compression");
    assert!(older.trials[0].lists.is_empty() && older.trials[0].phases[0].values.is_empty());
    let workload = &older.manifest.plan.trials[0].settings.workload;
    assert_eq!(workload.kind(), WorkloadKind::Compression);
    assert_eq!(plimsoll_report::results(&older).trials.len(), 1);
}

/// A run of every workload, written when the settings of all workloads were one list (schema 3).
#[test]
fn settings_of_schema_3_are_read_as_those_of_their_workload() {
    let text =
        std::fs::read_to_string(plimsoll_testkit::recordings::stored().join("manifest-3.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let manifest: Manifest = serde_json::from_str(&text).unwrap();
    assert_eq!(manifest.schema, 3);
    let kinds: BTreeSet<&str> = manifest
        .plan
        .trials
        .iter()
        .map(|t| t.settings.workload.kind().name())
        .collect();
    let of_schema_3 = [
        "compression",
        "contention",
        "heap",
        "loadline",
        "map",
        "thrash",
        "wscap",
    ];
    assert_eq!(kinds, BTreeSet::from(of_schema_3));
    for (trial, was) in manifest
        .plan
        .trials
        .iter()
        .zip(document["plan"]["trials"].as_array().unwrap())
    {
        let (settings, was) = (&trial.settings, &was["settings"]);
        let id = &trial.id;
        assert_eq!(settings.size(), was["size"].as_u64().unwrap(), "{id}");
        assert_eq!(settings.limit, was["limit"].as_u64().unwrap(), "{id}");
        assert_eq!(settings.swap_size, was["swap_size"].as_u64().unwrap(), "{id}");
        assert_eq!(
            settings.subject.to_string(),
            was["subject"].as_str().unwrap(),
            "{id}"
        );
        // As it is written now: a value of all workloads is where its own workload has it.
        let now = serde_json::to_value(settings).unwrap();
        let name = settings.workload.kind().name();
        let own = now["workload"][name].as_object().unwrap();
        assert!(!own.is_empty(), "{id}");
        // Settings that came later have the value that stands for what there was before.
        let later = serde_json::json!({"memory": "anonymous", "threads": 1, "free_order": "allocated"});
        for (key, value) in own {
            let written = was.get(key).or_else(|| was["workload"][name].get(key));
            let before = written.unwrap_or_else(|| &later[key]);
            assert_eq!(value, before, "{id}: {key}");
        }
        assert_eq!(
            serde_json::from_value::<Settings>(now).unwrap(),
            *settings,
            "{id}"
        );
    }
    let compression = &manifest.plan.trials[0].settings.workload;
    let Workload::Compression(compression) = compression else {
        panic!("{compression:?}")
    };
    assert_eq!(
        (compression.request, compression.trim),
        (4 << 20, TrimMechanism::Cgroup)
    );
    assert_eq!(
        (compression.filling.hold, compression.filling.class.clone()),
        (0.25, FillClass::Ratio(2.5))
    );
}
