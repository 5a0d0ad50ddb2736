//! Trust by metric: a confounder spoils the metrics that it can change, and spares the others, in every output.

use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::{Confounder, EventKind, Headline, Results, RunStatus, TrialStatus};
use plimsoll_report::analysis::groups;
use plimsoll_report::comparison::{Condition, Input, State, Verdict, check, compare};
use plimsoll_report::{csv::csv, headlines, judge, run_status, terminal};

use crate::report::recorded::recording;
use crate::report::simulation::{QUICK, Shape};
use plimsoll_testkit::recordings::event;

/// A run of compression with six repeats, all its trials disturbed by these confounders.
fn disturbed_by(names: &[&str]) -> (Recording, Results) {
    let mut recording = recording(Shape { repeats: 6, ..QUICK }, 10);
    recording.events.push(event(u64::MAX, EventKind::RunEnd, ""));
    let mut results = recording.results.clone().expect("a finished run");
    results.trials = recording.trials.clone();
    let confounder = |name: &&str| Confounder {
        name: (*name).to_owned(),
        evidence: "seen".to_owned(),
        spoils: results.trials.iter().map(|trial| trial.id.clone()).collect(),
        advice: String::new(),
    };
    results.confounders = names.iter().map(confounder).collect();
    for trial in &mut results.trials {
        judge(trial, &results.confounders);
    }
    results.status = run_status(&recording, &results.trials);
    (recording, results)
}

fn headline(results: &Results) -> Headline {
    headlines::of_run(results, &groups(&results.trials))
}

#[test]
fn cpu_load_spoils_the_times_of_a_trial_and_not_its_stored_bytes() {
    for name in ["other-load", "steal"] {
        let (_, results) = disturbed_by(&[name]);
        for trial in &results.trials {
            assert_eq!(
                (trial.status, trial.reasons.len()),
                (TrialStatus::Ok, 0),
                "{trial:?}"
            );
            for spoiled in [
                "trim_gb_per_s",
                "trim_to_memcpy_ratio",
                "restore.seconds",
                "restore.gb_per_s",
            ] {
                assert_eq!(trial.status_of(spoiled), TrialStatus::Untrustworthy, "{spoiled}");
                assert_eq!(trial.untrustworthy[spoiled], [name]);
            }
            for spared in ["stored_bytes", "compression_ratio", "stored_ratio"] {
                assert!(trial.metrics.contains_key(spared), "{spared}");
                assert_eq!(trial.status_of(spared), TrialStatus::Ok, "{spared}");
            }
        }
        // The stored bytes are the main metrics of this workload: no exit code 7.
        assert_eq!(results.status, RunStatus::Ok);
    }
}

#[test]
fn a_spoiled_main_metric_makes_the_run_untrustworthy() {
    for name in [
        "foreign-pages",
        "inconsistent-bytes",
        "zswap",
        "of-a-later-version",
    ] {
        let (_, results) = disturbed_by(&[name]);
        assert_eq!(results.status, RunStatus::Untrustworthy, "{name}");
        let trial = &results.trials[0];
        assert_eq!(trial.status, TrialStatus::Untrustworthy);
        assert_eq!(trial.status_of("compression_ratio"), TrialStatus::Untrustworthy);
        assert!(trial.reasons[0].starts_with(name), "{:?}", trial.reasons);
    }
}

#[test]
fn no_untrustworthy_metric_stands_in_a_headline() {
    let (_, undisturbed) = disturbed_by(&[]);
    let ratio = groups(&undisturbed.trials)[0]
        .median("compression_ratio")
        .expect("a ratio");
    // Whether it states the ratio, a speed, and a confounder.
    let stated = |names: &[&str]| {
        let headline = headline(&disturbed_by(names).1);
        let has = |name: &str| {
            let mut statements = headline.statements();
            statements.any(|statement| statement.values.keys().any(|stated| stated.ends_with(name)))
        };
        let ratios: Vec<f64> = headline
            .statements()
            .filter_map(|statement| statement.values.get("high_compression_ratio").copied())
            .collect();
        assert_eq!(!ratios.is_empty(), has("compression_ratio"), "{headline:?}");
        assert!(ratios.iter().all(|stated| *stated == ratio), "{headline:?}");
        let confounders = headline
            .trust
            .iter()
            .find_map(|trust| trust.names.get("confounders").cloned());
        (has("compression_ratio"), has("gb_per_s"), confounders)
    };
    let named = |names: &str| Some(names.to_owned());
    assert_eq!(stated(&[]), (true, true, None));
    assert_eq!(stated(&["other-load"]), (true, false, named("other-load")));
    assert_eq!(
        stated(&["inconsistent-bytes"]),
        (false, true, named("inconsistent-bytes"))
    );
    // The other load spoils no main metric of the workload.
    assert_eq!(
        stated(&["other-load", "inconsistent-bytes"]),
        (false, false, named("inconsistent-bytes"))
    );
}

#[test]
fn one_disturbed_repeat_leaves_the_medians_to_the_others() {
    let (_, mut results) = disturbed_by(&[]);
    let disturbed = results.trials[0].id.clone();
    results.trials[0]
        .metrics
        .insert("trim_gb_per_s".to_owned(), 1000.0);
    let load = Confounder {
        name: "other-load".to_owned(),
        evidence: "seen".to_owned(),
        spoils: vec![disturbed.clone()],
        advice: String::new(),
    };
    judge(&mut results.trials[0], &[load]);
    let groups = groups(&results.trials);
    let group = groups
        .iter()
        .find(|group| group.trials.iter().any(|id| **id == *disturbed))
        .expect("its group");
    let values = |metric: &str| group.metrics[metric].values();
    assert_eq!(
        (values("trim_gb_per_s").len(), values("stored_bytes").len()),
        (5, 6)
    );
    assert!(!values("trim_gb_per_s").contains(&1000.0));
    assert!(!group.metrics["trim_gb_per_s"].untrustworthy());
}

#[test]
fn a_comparison_gives_a_verdict_on_the_metrics_that_a_load_spares() {
    let (quiet, loaded) = (disturbed_by(&[]), disturbed_by(&["other-load"]));
    let inputs = [&quiet, &loaded].map(|(recording, results)| Input { recording, results });
    let comparison = compare(&inputs, 0.05).expect("comparable");
    let of = |metric: &str| {
        let row = comparison.rows.iter().find(|row| row.metric == metric);
        row.unwrap_or_else(|| panic!("no row of {metric}"))
    };
    assert_eq!(of("compression_ratio").verdict, Verdict::Same);
    assert!(!of("compression_ratio").other.untrustworthy);
    let times = of("restore.seconds");
    assert_eq!(
        (
            times.verdict,
            times.other.untrustworthy,
            times.baseline.untrustworthy
        ),
        (Verdict::Unclear, true, false)
    );
    let stands = |condition: &str| {
        let condition: Condition = condition.parse().expect("a condition");
        check(&condition, &comparison).expect("outcomes")[0].state
    };
    assert_eq!(stands("compression_ratio<-10%"), State::Passed);
    assert_eq!(stands("restore.seconds>10%"), State::Unknown);
}

/// The cells of the tables of a report that are marked as untrustworthy.
fn marked(html: &str) -> usize {
    let classes = html
        .split("<td class=\"")
        .skip(1)
        .filter_map(|cell| cell.split('"').next());
    classes
        .filter(|classes| classes.split(' ').any(|class| class == "doubt"))
        .count()
}

#[test]
fn tables_mark_the_untrustworthy_values_alone() {
    let (recording, results) = disturbed_by(&["steal"]);
    let groups = groups(&results.trials);
    let table = terminal::summary(&results, &groups, 200, false);
    let row = table
        .lines()
        .find(|line| line.contains("random"))
        .expect("the row");
    assert!(row.contains("! "), "{row}");
    assert!(row.contains("ok"), "{row}");
    let stored =
        plimsoll_model::quantity::metric("stored_bytes", groups[0].median("stored_bytes").expect("bytes"));
    assert!(
        table.contains(&stored) && !table.contains(&format!("! {stored}")),
        "{table}"
    );

    let lines = csv(&results);
    let status = |metric: &str| -> Vec<&str> {
        let of = lines.lines().filter(|line| line.contains(&format!(",{metric},")));
        of.map(|line| line.rsplit(',').nth(4).expect("a status"))
            .collect()
    };
    for (metric, expected) in [
        ("trim_gb_per_s", "untrustworthy"),
        ("seconds", "untrustworthy"),
        ("cpu_user_s", "untrustworthy"),
        ("stored_bytes", "ok"),
        ("bytes", "ok"),
    ] {
        let found = status(metric);
        assert!(
            !found.is_empty() && found.iter().all(|status| *status == expected),
            "{metric}: {found:?}"
        );
    }
    let page = plimsoll_report::html::render(&plimsoll_report::page::build(&recording, &results));
    assert!(marked(&page) > 0);
    let quiet = disturbed_by(&[]);
    let page = plimsoll_report::html::render(&plimsoll_report::page::build(&quiet.0, &quiet.1));
    assert_eq!(marked(&page), 0);
}

#[test]
fn results_carry_the_headline_the_findings_and_the_untrustworthy_metrics() {
    let recording = recording(QUICK, 10);
    let results = plimsoll_report::results(&recording);
    let groups = groups(&results.trials);
    assert_eq!(results.headline, headlines::of(&recording, &results, &groups));
    assert!(!results.findings.is_empty());
    for finding in &results.findings {
        assert!(
            results
                .headline
                .statements()
                .any(|stated| *stated == finding.statement),
            "{finding:?}"
        );
    }
    assert_eq!(results.findings[0].workload, "compression");
    let document = serde_json::to_value(&results).expect("a document");
    assert_eq!(document["schema"], 6);
    let (headline, finding) = (&document["headline"], &document["findings"][0]);
    assert_eq!(finding["code"], "compression-stored");
    assert_eq!(finding["text"], results.findings[0].statement.text);
    assert!(finding["values"]["high_compression_ratio"].is_number() && finding["bullets"].is_array());
    assert_eq!(headline["finding"]["code"], finding["code"]);
    assert_eq!(headline["bullets"][0]["code"], finding["bullets"][0]["code"]);
    assert!(headline["trust"][0]["code"].is_string(), "{headline:#}");
    let read: Results = serde_json::from_value(document).expect("it reads back");
    assert_eq!(
        (&read.headline, &read.findings),
        (&results.headline, &results.findings)
    );
    // Those of a trial are in the document where there are any.
    let (_, loaded) = disturbed_by(&["other-load"]);
    let document = serde_json::to_value(&loaded.trials[0]).expect("a document");
    assert_eq!(document["untrustworthy"]["trim_gb_per_s"][0], "other-load");
}

#[test]
fn a_trial_of_an_older_document_is_untrustworthy_as_a_whole() {
    let (_, mut results) = disturbed_by(&[]);
    let trial = &mut results.trials[0];
    trial.status = TrialStatus::Untrustworthy;
    assert_eq!(trial.status_of("stored_bytes"), TrialStatus::Untrustworthy);
    let mut document = serde_json::to_value(&results).expect("a document");
    document["schema"] = 3.into();
    let fields = document.as_object_mut().expect("an object");
    for newer in ["headline", "findings"] {
        fields.remove(newer);
    }
    let older: Results = serde_json::from_value(document).expect("results of version 3");
    assert_eq!(
        (older.headline.statements().count(), older.findings.len()),
        (0, 0)
    );
}
