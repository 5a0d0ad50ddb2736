//! The text format of Prometheus, read by a parser that follows its grammar to the letter.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_model::columns::{COLUMNS, Row, col};
use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::TrialStatus;
use plimsoll_model::scenario::FillClass;
use plimsoll_report::export;
use proptest::prelude::*;

use plimsoll_testkit::recordings::recorded;
use plimsoll_testkit::recordings::{manifest, plan, results, trial};

/// Values by name and labels.
type Values = BTreeMap<(String, BTreeMap<String, String>), f64>;

/// Reads the format: every line ends with LF; families have HELP, TYPE, then their samples, and come once; no sample
/// comes twice; names and labels are of the allowed characters; only `\\`, `\"` and `\n` are escapes.
fn parse(text: &str) -> Result<(BTreeMap<String, String>, Values), String> {
    let mut types = BTreeMap::new();
    let mut values = Values::new();
    let mut family: Option<String> = None;
    let mut helped = BTreeSet::new();
    let text = text.strip_suffix('\n').ok_or("the last line has no end")?;
    for line in text.split('\n') {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, _) = help.split_once(' ').ok_or("help without words")?;
            if !helped.insert(name.to_owned()) {
                return Err(format!("{name} has help twice"));
            }
            family = Some(name.to_owned());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').ok_or("a type without a kind")?;
            if family.as_deref() != Some(name) || !["gauge", "counter"].contains(&kind) {
                return Err(format!("type of {name} out of place"));
            }
            if (kind == "counter") != name.ends_with("_total") {
                return Err(format!("{name} is a {kind}"));
            }
            types.insert(name.to_owned(), kind.to_owned());
        } else {
            let (name, labels, value) = sample(line)?;
            if family.as_ref() != Some(&name) || !types.contains_key(&name) {
                return Err(format!("{name} is not with its family"));
            }
            if values.insert((name.clone(), labels), value).is_some() {
                return Err(format!("{name} has a sample twice"));
            }
        }
    }
    Ok((types, values))
}

fn sample(line: &str) -> Result<(String, BTreeMap<String, String>, f64), String> {
    let (name, rest) = line.split_once('{').ok_or_else(|| format!("no labels: {line}"))?;
    let legal = |name: &str| {
        let mut bytes = name.bytes();
        bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if !legal(name) {
        return Err(format!("not a name: {name}"));
    }
    let mut labels = BTreeMap::new();
    let mut rest = rest;
    loop {
        let (label, after) = rest.split_once("=\"").ok_or("a label without a value")?;
        if !legal(label) {
            return Err(format!("not a label: {label}"));
        }
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().ok_or("a value without an end")? {
                (at, '"') => break at + 1,
                (_, '\\') => value.push(match chars.next() {
                    Some((_, '\\')) => '\\',
                    Some((_, '"')) => '"',
                    Some((_, 'n')) => '\n',
                    other => return Err(format!("not an escape: {other:?}")),
                }),
                (_, c) if c.is_control() => return Err(format!("a control character: {c:?}")),
                (_, c) => value.push(c),
            }
        };
        if labels.insert(label.to_owned(), value).is_some() {
            return Err(format!("label {label} twice"));
        }
        rest = &after[end..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    let value = rest.strip_prefix("} ").ok_or("no value")?;
    let value: f64 = value.parse().map_err(|error| format!("{value}: {error}"))?;
    Ok((name.to_owned(), labels, value))
}

fn exported(recording: &Recording) -> String {
    let mut text = Vec::new();
    export::prometheus(recording, &plimsoll_report::results(recording), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn the_exposition_is_legal_and_in_base_units() {
    let parent = tempfile::tempdir().unwrap();
    let mut recording = Recording::open(&recorded(parent.path(), true)).unwrap();
    let mut last = Row::empty(3_000_000_000);
    last.set(col::MEM_FREE, 4096);
    last.set(col::PSWPIN, 10);
    last.set(col::CPU_USER_US, 2_500_000);
    last.set(col::TICK_LATE_NS, 1_500_000);
    last.set(col::MISSED_TICKS, 3);
    recording.samples = plimsoll_model::recording::Samples::from_rows(&[last]);
    let text = exported(&recording);
    let (types, values) = parse(&text).unwrap();
    let of_run = BTreeMap::from([("run".to_owned(), "exported".to_owned())]);
    let value = |name: &str| values[&(name.to_owned(), of_run.clone())];
    assert_eq!(value("plimsoll_sample_mem_free_bytes"), 4096.0);
    assert_eq!(value("plimsoll_sample_pswpin_bytes_total"), 40960.0);
    assert_eq!(value("plimsoll_sample_cpu_user_seconds_total"), 2.5);
    assert_eq!(value("plimsoll_sample_tick_late_seconds"), 0.0015);
    assert_eq!(value("plimsoll_sample_missed_ticks_total"), 3.0);
    assert_eq!(value("plimsoll_sample_age_seconds"), 3.0);
    assert_eq!(value("plimsoll_calibration_memset_bytes_per_second"), 20e9);
    assert_eq!(value("plimsoll_calibration_fault_seconds"), 5e-7);
    assert_eq!(types["plimsoll_sample_pswpin_bytes_total"], "counter");
    assert!(!values.keys().any(|(name, _)| name.contains("mem_total")));
    let trial: Vec<_> = values
        .iter()
        .filter(|((name, labels), _)| {
            name == "plimsoll_trial_fill_bytes_per_second" && labels["status"] == "ok"
        })
        .collect();
    let [((_, labels), &speed)] = trial[..] else {
        panic!("{trial:?}");
    };
    assert!((speed - 0.2237e9).abs() < 1.0, "{speed}");
    for (label, expected) in [
        ("run", "exported"),
        ("scenario", "compression"),
        ("trial", "zram/zram:lz4/random#1"),
        ("subject", "zram:lz4"),
        ("class", "random"),
        ("repeat", "1"),
    ] {
        assert_eq!(labels[label], expected);
    }
    let phase = values
        .iter()
        .find(|((name, _), _)| name == "plimsoll_phase_duration_seconds");
    let ((_, labels), &seconds) = phase.unwrap();
    assert_eq!((labels["phase"].as_str(), seconds), ("fill", 0.3));
}

#[test]
fn every_column_has_a_family_of_its_own() {
    let mut row = Row::empty(0);
    (0..COLUMNS.len()).for_each(|column| row.set(column, 1));
    let parent = tempfile::tempdir().unwrap();
    let mut recording = Recording::open(&recorded(parent.path(), true)).unwrap();
    recording.samples = plimsoll_model::recording::Samples::from_rows(&[row]);
    let (types, _) = parse(&exported(&recording)).unwrap();
    let sampled = types
        .keys()
        .filter(|name| name.starts_with("plimsoll_sample_") && *name != "plimsoll_sample_age_seconds");
    assert_eq!(sampled.count(), COLUMNS.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_words_are_escaped_so_that_they_read_back(words in "\\PC*|(\\n|\\\\|\"|,|\\}|a){0,12}|.*", metric in ".{0,12}") {
        let parent = tempfile::tempdir().unwrap();
        let plan = plan(&[FillClass::Random], 1);
        let mut trial = trial(&plan, 0, TrialStatus::Ok);
        trial.id = words.clone();
        trial.subject = words.clone();
        trial.params.insert("class".into(), words.clone());
        trial.phases[0].name = words.clone();
        trial.metrics.insert(metric, 1.5);
        let mut manifest = manifest("words", plan);
        manifest.host.hostname = words.clone();
        manifest.plan.scenario = words.clone();
        let writer = plimsoll_model::recording::Writer::create(parent.path(), manifest).unwrap();
        let mut recording = Recording::open(writer.folder()).unwrap();
        recording.trials = vec![trial.clone()];
        let mut text = Vec::new();
        export::prometheus(&recording, &results("words", vec![trial]), &mut text).unwrap();
        let (_, values) = parse(&String::from_utf8(text).unwrap()).map_err(TestCaseError::fail)?;
        let sanitized: String = words
            .chars()
            .map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c })
            .collect();
        let labels = |name: &str| &values.keys().find(|(found, _)| found == name).unwrap().1;
        prop_assert_eq!(&labels("plimsoll_run_info")["hostname"], &sanitized);
        prop_assert_eq!(&labels("plimsoll_phase_bytes")["phase"], &sanitized);
        prop_assert_eq!(&labels("plimsoll_trial_verified")["class"], &sanitized);
    }
}
