//! `docs/recording-format.md` lists every column, field and code of a recording.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use plimsoll_model::recording::hold::{HOLD_SCHEMA, HeldLevel, HoldEnd, HoldGoal, HoldSettings, Spread};
use plimsoll_model::recording::model::{Confounder, EventKind, Finding, Resumption, TrialStatus, file};
use plimsoll_model::recording::service::{
    PressureSignal, SERVICE_SCHEMA, ServiceBound, ServiceSettings, ServiceSize, WorkingSet,
};
use plimsoll_model::recording::size::ProgramSize;
use plimsoll_model::recording::{
    ConfigurationFile, FailureCode, Recommendation, RecommendationCode, Recording, Statement, StatementCode,
    TrialFailure, Warning, WarningCode, Withheld, WithheldCode, Worth, format_table_markdown,
    statements_markdown,
};
use plimsoll_model::scenario::{FillClass, WorkloadKind};
use plimsoll_testkit::sized::SizedRun;
use serde_json::Value;

use super::{bless, event, manifest, plan, results, trial};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn format_document() -> (PathBuf, String) {
    let path = repository().join("docs/recording-format.md");
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// Held by a test that may write the document.
static DOCUMENT: Mutex<()> = Mutex::new(());

/// Compares tables of the document with those that the code writes.
#[test]
fn the_document_has_the_tables_that_the_code_writes() {
    let _held = DOCUMENT.lock().unwrap_or_else(PoisonError::into_inner);
    let (path, mut text) = format_document();
    for (name, expected) in [
        ("columns", format_table_markdown()),
        ("statements", statements_markdown()),
        ("metrics", plimsoll_report::workloads::metrics_markdown()),
    ] {
        let begin = format!(
            "<!-- {name}: written by `PLIMSOLL_BLESS=1 cargo test -p plimsoll --test it documents` -->\n"
        );
        let end = format!("<!-- end of {name} -->\n");
        let (head, rest) = text.split_once(&begin).expect("the document marks the table");
        let (table, tail) = rest.split_once(&end).expect("the document marks the table's end");
        if bless() {
            text = format!("{head}{begin}{expected}{end}{tail}");
            continue;
        }
        assert_eq!(
            table, expected,
            "the {name} changed: write the table anew with PLIMSOLL_BLESS=1"
        );
    }
    if bless() {
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn the_document_lists_the_workloads() {
    const FIELD: &str = "| `workload` | the workload: ";
    let _held = DOCUMENT.lock().unwrap_or_else(PoisonError::into_inner);
    let (path, text) = format_document();
    let (head, rest) = text
        .split_once(FIELD)
        .expect("the document has a row of the workloads");
    let (listed, tail) = rest.split_once('.').expect("a sentence ends");
    let names = WorkloadKind::ALL
        .map(|kind| format!("`{}`", kind.name()))
        .join(", ");
    if bless() {
        std::fs::write(path, format!("{head}{FIELD}{names}.{tail}")).unwrap();
        return;
    }
    assert_eq!(
        listed, names,
        "the workloads changed: write the row anew with PLIMSOLL_BLESS=1"
    );
}

/// Field names of a document and of all its parts. Maps by name (`params`, `settings`, ...) are not looked into.
fn fields(value: &Value, into: &mut BTreeSet<String>) {
    const MAPS: [&str; 11] = [
        "conditions",
        "names",
        "params",
        "metrics",
        "before",
        "after",
        "checksums",
        "settings",
        "values",
        "lists",
        "untrustworthy",
    ];
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                into.insert(name.clone());
                // `settings` of a trial's plan is described by the scenario format.
                if !MAPS.contains(&name.as_str()) && name != "plan" && name != "locked" {
                    fields(value, into);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, into)),
        _ => {}
    }
}

/// Names in the first column of the table after the heading `## <heading>`.
fn documented(text: &str, heading: &str) -> BTreeSet<String> {
    let section = text
        .split("\n## ")
        .find(|section| section.starts_with(heading))
        .unwrap_or_else(|| panic!("the document has a section `{heading}`"));
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.rsplit('.').next().unwrap_or(name).to_owned())
        .collect()
}

#[test]
fn the_document_lists_the_fields_of_every_file() {
    let (_, text) = format_document();
    let plan = plan(&[FillClass::Random], 1);
    let mut trial = trial(&plan, 0, TrialStatus::Ok);
    trial.lists.insert("consumers_cycles".into(), vec![1.0, 2.0]);
    let spoiled = ("fill_gb_per_s".into(), vec!["steal".into()]);
    trial.untrustworthy = [spoiled].into();
    trial.other_programs.push(("cc1".into(), 12.5));
    trial.failures.push(TrialFailure {
        exit_code: Some(1),
        signal: Some(9),
        ..TrialFailure::new(FailureCode::Other, "")
    });
    let phase = &mut trial.phases[0];
    phase.values.insert("scans_per_s".into(), 1.0);
    phase.latency = Some("HISTFAAA".into());
    phase.profile.push(("do_swap_page".into(), 0.5));
    phase.cpu_background_s = 0.1;
    let mut full_manifest = manifest("doc", plan);
    full_manifest.missing.push("zram".into());
    full_manifest.checksums.insert("a".into(), "b".into());
    full_manifest.resumed.push(Resumption {
        started: String::new(),
        monotonic_ns: 0,
        t_ns: 0,
        tool_version: String::new(),
    });
    let mut full_event = event(1, EventKind::PhaseStart, "words");
    full_event.trial = Some("t".into());
    full_event.phase = Some("fill".into());
    full_event.number = Some(1);
    full_event.code = Some(WarningCode::Other);
    let mut full_results = results("doc", vec![trial.clone()]);
    let statement = Statement::new(StatementCode::WscapGroup, "")
        .with("slowdown_ratio", 1.0)
        .naming("group", "");
    full_results.findings.push(Finding {
        workload: "compression".into(),
        statement: statement.clone(),
        bullets: vec![statement.clone()],
    });
    full_results.headline.bullets.push(statement.clone());
    full_results.headline.trust.push(statement);
    full_results.recommendations.push(recommendation());
    full_results.withheld.push(Withheld {
        code: WithheldCode::Other,
        setting: String::new(),
        workload: String::new(),
        text: String::new(),
    });
    full_results.size = Some(size());
    full_results.confounders.push(Confounder {
        name: "steal".into(),
        evidence: String::new(),
        spoils: Vec::new(),
        advice: String::new(),
    });
    full_results.service = Some(service());
    full_results.hold = Some(held_level());
    full_results.warnings.push(Warning::new(WarningCode::Other, ""));
    let json = |value: Result<Value, serde_json::Error>| value.unwrap();
    let mut results_alone = json(serde_json::to_value(&full_results));
    // Trials have a section of their own.
    results_alone["trials"] = Value::Array(Vec::new());
    for (heading, document) in [
        (file::MANIFEST, json(serde_json::to_value(&full_manifest))),
        (file::EVENTS, json(serde_json::to_value(&full_event))),
        (file::TRIALS, json(serde_json::to_value(&trial))),
        (file::RESULTS, results_alone),
    ] {
        let mut named = BTreeSet::new();
        fields(&document, &mut named);
        assert_eq!(documented(&text, heading), named, "section `{heading}`");
    }
}

/// A held level with every field; a goal has one of four.
fn held_level() -> HeldLevel {
    let mut bytes = Spread::default();
    bytes.add(1, 1.0);
    let mut percent = Spread::default();
    percent.add(1.0, 1.0);
    HeldLevel {
        schema: HOLD_SCHEMA,
        ended: Some(HoldEnd::Duration),
        seconds: 1.0,
        settings: HoldSettings {
            goal: HoldGoal::AvailableBytes(1),
            leak_bytes_per_s: Some(1),
            cgroup: Some("/web".into()),
            total_bytes: Some(1),
            reserve_bytes: 1,
            ramp_s: 0.0,
            duration_s: Some(1.0),
            class: Some("random".into()),
            touch_every_s: Some(1.0),
        },
        reached_s: Some(0.5),
        within: Some(1.0),
        held_bytes: bytes.known(),
        off_bytes: bytes.known(),
        stalled_percent: percent.known(),
        cpu_percent: Some(0.1),
    }
}

/// The size of a program with every field.
fn size() -> ProgramSize {
    let parent = tempfile::tempdir().unwrap();
    let folder = SizedRun::new("size-1", &[("zram:lz4", 400)]).record(parent.path());
    let recording = Recording::open(&folder).unwrap();
    plimsoll_report::results(&recording).size.expect("a search")
}

/// The size of a service with every field.
fn service() -> ServiceSize {
    let set = WorkingSet {
        p50_bytes: 1,
        p90_bytes: 2,
        p99_bytes: 3,
        max_bytes: 4,
    };
    ServiceSize {
        schema: SERVICE_SCHEMA,
        settings: ServiceSettings {
            cgroup: "/web".into(),
            cap_file: "memory.high".into(),
            cap_before: "max".into(),
            target_percent: 0.1,
            floor_bytes: 0,
            interval_s: 1.0,
            signal: PressureSignal::Cgroup,
        },
        seconds: 1.0,
        bound: ServiceBound::Pressure,
        settled_s: Some(0.5),
        working_set: Some(set),
        last_bytes: 4,
        peak_bytes: 8,
        peak_file_bytes: Some(1),
        anonymous_bytes: Some(7),
        least_cap_bytes: Some(1),
        pressure_percent: Some(0.1),
        refaults_per_s: Some(1.0),
        advice: plimsoll_report::service::advice(&set, Some(7)),
    }
}

/// A recommendation with every field.
fn recommendation() -> Recommendation {
    Recommendation {
        code: RecommendationCode::SwapSubject,
        setting: "swap".into(),
        value: "zram:lz4".into(),
        against: Some("swapfile".into()),
        workload: "loadline".into(),
        conditions: [("class".into(), "ratio=2.5".into())].into(),
        basis: "knee_ram_load".into(),
        repeats: 6,
        worth: Worth {
            median: 1.25,
            low: 1.2,
            high: 1.3,
        },
        text: String::new(),
        premises: vec![String::new()],
        commands: vec![String::new()],
        persistent: Some(ConfigurationFile {
            path: "/etc/sysctl.d/90-swap.conf".into(),
            lines: vec![String::new()],
        }),
    }
}

#[test]
fn the_document_lists_every_code() {
    fn names(codes: &[impl serde::Serialize]) -> BTreeSet<String> {
        let name = |code| serde_json::to_value(code).unwrap().as_str().map(str::to_owned);
        codes.iter().filter_map(name).collect()
    }
    let (_, text) = format_document();
    for (field, codes) in [
        ("warnings.code", names(&WarningCode::ALL)),
        ("failures.code", names(&FailureCode::ALL)),
        ("recommendations.code", names(&RecommendationCode::ALL)),
        ("withheld.code", names(&WithheldCode::ALL)),
    ] {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| `{field}` ")))
            .expect("the document has a row of the codes");
        let listed: BTreeSet<String> = row.split('`').skip(3).step_by(2).map(str::to_owned).collect();
        assert_eq!(listed, codes, "{field}");
    }
}
