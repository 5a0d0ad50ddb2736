//! The head of a report: one short sentence of findings, then bullets, then trust; each fact once, alike in every format.

use std::collections::BTreeMap;

use plimsoll_model::recording::StatementCode;
use plimsoll_model::recording::model::{Headline, Trial, TrialStatus};
use plimsoll_model::scenario::WorkloadKind;
use plimsoll_report::analysis::groups;
use plimsoll_report::workloads::metrics_of;
use plimsoll_report::{headlines, html, terminal};

use super::kinds::{heap_trials, loadline_trials, page, thrash_trials, trial};
use super::simulation::QUICK;
use super::synthetic;

/// Words of a finding at most.
const MOST_WORDS: usize = 20;

/// Trials with these metrics: one for each set of parameters and repeat, on each subject.
pub(super) fn made(
    workload: &str,
    subjects: &[&str],
    params: &[&[(&str, &str)]],
    repeats: u32,
    metrics: &[(&str, f64)],
) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (place, subject) in subjects.iter().enumerate() {
        for (number, own) in params.iter().enumerate() {
            for repeat in 1..=repeats {
                // Each group and repeat has values of its own.
                let factor = 1.0 + place as f64 + 0.1 * number as f64 + 0.001 * f64::from(repeat);
                let values: Vec<(&str, f64)> = metrics
                    .iter()
                    .map(|(name, value)| (*name, value * factor))
                    .collect();
                let mut one = trial(
                    workload,
                    subject,
                    repeat,
                    trials.len() as f64,
                    Vec::new(),
                    &values,
                );
                let named = own.iter().map(|(name, value)| format!("/{name}={value}"));
                one.id = format!("{workload}/{subject}{}#{repeat}", named.collect::<String>());
                let own = own
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
                one.params = own.collect::<BTreeMap<String, String>>();
                trials.push(one);
            }
        }
    }
    trials
}

const FEW: [&str; 1] = ["zram:lz4"];
const MANY: [&str; 5] = [
    "zram:lz4",
    "zram:lzo-rle",
    "swapfile",
    "zswap:zstd",
    "a subject of a later version whose name has many more words than a finding may have",
];

/// Runs of one workload: of one group, and of many with names as long as they come.
fn runs(kind: WorkloadKind) -> Vec<Vec<Trial>> {
    let some: &[&[(&str, &str)]] = match kind.name() {
        "compression" => &[
            &[("class", "random")],
            &[("class", "runs20")],
            &[("class", "ratio=2.5")],
        ],
        "wscap" => &[
            &[("load", "2"), ("cap-by", "limit")],
            &[("load", "2"), ("cap-by", "balance")],
            &[("load", "2"), ("cap-by", "high")],
            &[("load", "0.5"), ("cap-by", "limit")],
        ],
        "map" => &[
            &[("mapping", "anonymous"), ("touch", "whole")],
            &[("mapping", "shared"), ("touch", "4096")],
        ],
        "contention" => &[&[("suspended", "true")], &[("suspended", "false")]],
        "loadline" => &[
            &[("class", "ratio=2.5"), ("pattern", "uniform")],
            &[("class", "random"), ("pattern", "hot-cold")],
        ],
        "thrash" => &[&[("consumers", "8")], &[("consumers", "16")]],
        "command" => &[
            &[("command", "/usr/bin/gzip -9 file"), ("cache", "cold")],
            &[("command", "'a program' with spaces"), ("tolerate", "0.2")],
        ],
        "heap" => return vec![heap_trials(), heap_trials().split_off(8)],
        // Without values of its own.
        _ => &[&[]],
    };
    let ones: Vec<(&str, f64)> = metrics_of(kind).iter().map(|metric| (metric.name, 1.0)).collect();
    let metrics: &[(&str, f64)] = match kind {
        WorkloadKind::Compression => &[
            ("compression_ratio", 2.4),
            ("trim_gb_per_s", 0.8),
            ("restore_gb_per_s", 1.6),
            ("neighbour_p99_s", 0.002),
        ],
        WorkloadKind::Wscap => &[("slowdown_ratio", 120.0), ("fault_path_percent", 9.0)],
        WorkloadKind::Map => &[
            ("dontneed_release_per_page_s", 1e-7),
            ("dontneed_reuse_per_page_s", 4e-7),
            ("dontneed_back_percent", 100.0),
            ("free_release_per_page_s", 1e-8),
            ("free_reuse_per_page_s", 1e-8),
            ("free_back_percent", 1.0),
            ("free_pressure_s", 0.2),
        ],
        WorkloadKind::Contention => &[
            ("trim_start_bytes", 1e8),
            ("trim_start_percent", 10.0),
            ("holder_lost_percent", 9.0),
            ("asker_lost_percent", 3.0),
            ("holder_swapped_bytes", 1e8),
            ("compressed_growth_bytes", 4e7),
            ("slowest_ask_s", 0.02),
            ("slowest_ask_ratio", 3.0),
        ],
        WorkloadKind::Loadline => &[
            ("knee_load", 1.9),
            ("knee_low_load", 1.8),
            ("knee_high_load", 2.0),
            ("knee_ram_load", 1.2),
            ("oom_killed_load", 3.0),
        ],
        WorkloadKind::Thrash => &[
            ("cycles_per_s", 180.0),
            ("cycles_done_percent", 9.0),
            ("load_pages_in_per_s", 21_000.0),
            ("recovery_s", 0.9),
        ],
        WorkloadKind::Command => &[
            ("base_wall_s", 3.1),
            ("base_peak_bytes", 4e8),
            ("base_anon_peak_bytes", 3e8),
            ("base_file_peak_bytes", 1e8),
            ("knee_bytes", 1.9e8),
            ("needed_bytes", 2e8),
            ("too_small_bytes", 1.8e8),
            ("oom_killed_limit_bytes", 1e8),
        ],
        _ => &ones,
    };
    vec![
        made(kind.name(), &FEW, &some[..1], 1, metrics),
        made(kind.name(), &FEW, some, 3, metrics),
        made(kind.name(), &FEW, some, 6, metrics),
        made(kind.name(), &MANY, some, 2, metrics),
        made(kind.name(), &MANY[4..], some, 1, metrics),
    ]
}

fn headline(trials: &[Trial]) -> Headline {
    headlines::of_run(&synthetic::results(trials.to_vec()), &groups(trials))
}

fn texts(headline: &Headline) -> impl Iterator<Item = &str> {
    headline.statements().map(|statement| &*statement.text)
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn assert_brief_and_nothing_twice(name: &str, headline: &Headline) {
    let finding = &headline.finding.text;
    assert!(
        words(finding) <= MOST_WORDS,
        "{name}: {} words: {finding}",
        words(finding)
    );
    assert!(!finding.contains('\n') && words(finding) > 2, "{name}: {finding}");
    let lines: Vec<&str> = texts(headline).collect();
    for (place, line) in lines.iter().enumerate() {
        for other in &lines[place + 1..] {
            assert!(
                !other.contains(line) && !line.contains(other),
                "{name}: {line} twice: {other}"
            );
        }
        assert!(!line.contains("original"), "{name}: {line}");
    }
}

#[test]
fn headlines_are_brief_and_say_nothing_twice() {
    for kind in WorkloadKind::ALL {
        for trials in runs(kind) {
            let headline = headline(&trials);
            println!("{headline:#?}");
            assert_brief_and_nothing_twice(kind.name(), &headline);
            let code = headline.finding.code.to_string();
            assert!(
                code.starts_with(&format!("{}-", kind.name())),
                "no result is found: {code}"
            );
        }
    }
}

#[test]
fn the_headline_of_a_tour_has_the_finding_of_each_workload() {
    let mut trials = Vec::new();
    for kind in WorkloadKind::ALL {
        trials.extend(runs(kind).swap_remove(0));
    }
    let tour = headline(&trials);
    assert_brief_and_nothing_twice("tour", &tour);
    // Each workload, and the neighbour.
    assert_eq!(1 + tour.bullets.len(), WorkloadKind::ALL.len() + 1, "{tour:#?}");
    for bullet in &tour.bullets {
        assert!(words(&bullet.text) <= MOST_WORDS, "{bullet}");
    }
}

#[test]
fn every_format_shows_the_parts_of_the_headline_once() {
    let mut tour = thrash_trials();
    tour.extend(loadline_trials(4));
    for page in [
        synthetic::page(QUICK),
        synthetic::troubled(QUICK),
        page("Thrashing", thrash_trials()),
        page("Tour", tour),
    ] {
        let html = html::render(&page);
        let wide = terminal::summary(&page.results, &page.groups, 2000, false);
        assert!(texts(&page.headline).count() >= 3, "{:?}", page.headline);
        for line in texts(&page.headline) {
            assert_eq!(wide.matches(line).count(), 1, "{line} in {wide}");
            let line = line.replace('\'', "&#39;");
            assert_eq!(html.matches(&line).count(), 1, "{line}");
        }
        let place = |line: &str| wide.find(line).expect("it is shown");
        let places: Vec<usize> = texts(&page.headline).map(place).collect();
        assert!(places.is_sorted(), "finding, bullets, trust: {wide}");
    }
}

#[test]
fn a_run_without_a_trustworthy_trial_has_no_finding_of_metrics() {
    let mut trials = thrash_trials();
    let reason = "the OOM killer ended it";
    for trial in &mut trials {
        trial.status = TrialStatus::Failed;
        trial.reasons = vec![reason.to_owned()];
    }
    let failed = headline(&trials);
    assert!(failed.bullets.is_empty(), "{failed:?}");
    assert_eq!(failed.finding.code, StatementCode::RunWithoutResult);
    let [trust] = &failed.trust[..] else {
        panic!("{failed:?}")
    };
    let number = trials.len() as f64;
    assert_eq!(trust.code, StatementCode::TrustFailed);
    assert_eq!(trust.names["trial"], trials[0].id);
    assert_eq!(
        (trust.values["failed_trials"], trust.values["trials"]),
        (number, number)
    );
    // The reason of the trial itself.
    assert!(trust.text.contains(reason), "{trust}");
}
