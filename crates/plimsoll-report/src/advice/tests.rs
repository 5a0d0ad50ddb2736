//! Advice of made-up runs: plans of real scenarios, with metrics that each test chooses.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Advice, of};
use crate::analysis::groups;
use plimsoll_model::recording::model::{
    Host, Manifest, RECORDING_SCHEMA, SamplerSettings, Trial, TrialStatus,
};
use plimsoll_model::recording::{RecommendationCode, WithheldCode};
use plimsoll_model::scenario::{AllocatorSet, Document, Machine, Overrides, Plan, Settings, Source};

const GIB: u64 = 1 << 30;
const LOADLINE: &str = "workload = \"loadline\"\nclass = \"ratio=2.5\"\nsubject = [\"zram:lz4\", \"zram:lzo-rle\", \"swapfile\"]\n";
const COMPRESSION: &str = "class = \"ratio=2.5\"\nsubject = \"zram:lz4\"\n";

fn plan(keys: &str, repeats: u32) -> Plan {
    let machine = Machine {
        ram: 16 * GIB,
        available: 12 * GIB,
        cgroup_limit: None,
        cpus: 4,
        allocators: AllocatorSet::default(),
    };
    let text = format!("[scenario]\nname = \"made-up\"\n[global]\n{keys}\nrepeat = {repeats}\n");
    let document = Document::parse(&Source::new("made-up.toml", text)).unwrap();
    document.resolve(&machine, &Overrides::default()).unwrap()
}

fn manifest(plan: &Plan) -> Manifest {
    Manifest {
        schema: RECORDING_SCHEMA,
        tool_version: String::new(),
        run: String::new(),
        command: Vec::new(),
        monotonic_start_ns: 0,
        started: String::new(),
        plan: plan.clone(),
        sampler: SamplerSettings {
            hz: 10,
            locked: Ok(()),
        },
        swap_slots: Vec::new(),
        host: Host {
            mem_total: 16 * GIB,
            settings: [
                ("/proc/sys/vm/swappiness".to_owned(), "60".to_owned()),
                ("/proc/sys/vm/page-cluster".to_owned(), "3\n".to_owned()),
            ]
            .into(),
            ..Host::default()
        },
        calibration: None,
        missing: Vec::new(),
        resumed: Vec::new(),
        checksums: BTreeMap::new(),
    }
}

type Metrics = Vec<(&'static str, f64)>;

/// The trials of a plan, each with the metrics of its settings; repeats differ by less than 1%.
fn trials(plan: &Plan, metrics: impl Fn(&Settings) -> Metrics) -> Vec<Trial> {
    let trial = |planned: &plimsoll_model::scenario::TrialPlan| {
        let settings = &planned.settings;
        let mut params: BTreeMap<String, String> = planned.params.iter().cloned().collect();
        params.extend(
            settings
                .workload
                .params(settings)
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value)),
        );
        let noise = 1.0 + 0.001 * f64::from(planned.repeat % 7);
        let metrics = metrics(settings).into_iter();
        Trial {
            id: planned.id.clone(),
            subject: settings.subject.to_string(),
            params,
            repeat: planned.repeat,
            metrics: metrics
                .map(|(name, value)| (name.to_owned(), value * noise))
                .collect(),
            ..Trial::made_up(settings.workload.kind().name(), Vec::new())
        }
    };
    plan.trials.iter().map(trial).collect()
}

fn advice(plan: &Plan, trials: &[Trial]) -> Advice {
    of(&groups(trials), &manifest(plan))
}

fn codes(advice: &Advice) -> Vec<WithheldCode> {
    advice.withheld.iter().map(|withheld| withheld.code).collect()
}

/// Load lines and CPU times by subject.
fn by_subject(values: &'static [(&'static str, f64, f64)]) -> impl Fn(&Settings) -> Metrics {
    move |settings| {
        let subject = settings.subject.to_string();
        let found = values.iter().find(|(name, ..)| *name == subject);
        let (_, line, cpu) = found.expect("the subject has values");
        vec![("knee_ram_load", *line), ("cpu_per_visit_at_1_5_ratio", *cpu)]
    }
}

const CLEAR: &[(&str, f64, f64)] = &[
    ("zram:lz4", 1.5, 2.0),
    ("zram:lzo-rle", 1.3, 2.0),
    ("swapfile", 1.1, 1.0),
];

#[test]
fn a_clear_winner_is_recommended_with_its_worth_over_the_next() {
    let plan = plan(LOADLINE, 6);
    let found = advice(&plan, &trials(&plan, by_subject(CLEAR)));
    assert_eq!(codes(&found), []);
    let [best] = &found.recommendations[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(best.code, RecommendationCode::SwapSubject);
    assert_eq!((best.setting.as_str(), best.value.as_str()), ("swap", "zram:lz4"));
    assert_eq!(best.against.as_deref(), Some("zram:lzo-rle"));
    assert_eq!((best.basis.as_str(), best.repeats), ("knee_ram_load", 6));
    assert_eq!(best.conditions["class"], "ratio=2.5");
    assert!((best.worth.median - 1.5 / 1.3).abs() < 0.01, "{:?}", best.worth);
    assert!(1.1 < best.worth.low && best.worth.high < 1.2, "{:?}", best.worth);
    // Half of the RAM, which no data can exceed.
    let lines = &best.persistent.as_ref().unwrap().lines;
    assert!(lines.contains(&"zram-size = 8192".to_owned()), "{lines:?}");
    assert!(
        best.commands
            .iter()
            .any(|line| line.contains("--algorithm lz4 --size 8192MiB"))
    );
}

#[test]
fn the_second_criterion_decides_between_overlapping_subjects() {
    let plan = plan(LOADLINE, 6);
    let metrics = by_subject(&[
        ("zram:lz4", 1.5, 2.0),
        ("zram:lzo-rle", 1.5, 2.6),
        ("swapfile", 1.1, 1.0),
    ]);
    let found = advice(&plan, &trials(&plan, metrics));
    let [best] = &found.recommendations[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(best.value, "zram:lz4");
    assert_eq!(
        (best.basis.as_str(), best.against.as_deref()),
        ("cpu_per_visit_at_1_5_ratio", Some("zram:lzo-rle"))
    );
    assert!(best.worth.high < 0.8, "less is better: {:?}", best.worth);
}

#[test]
fn subjects_that_overlap_in_both_criteria_have_no_recommendation() {
    let plan = plan(LOADLINE, 6);
    // The means differ by 3%, more than the repeats: certain, and not worth while.
    for line in [1.5, 1.545] {
        let found = advice(
            &plan,
            &trials(&plan, |settings| {
                let best = settings.subject.to_string() == "zram:lz4";
                vec![
                    ("knee_ram_load", if best { line } else { 1.5 }),
                    ("cpu_per_visit_at_1_5_ratio", 2.0),
                ]
            }),
        );
        assert_eq!(found.recommendations, []);
        assert_eq!(codes(&found), [WithheldCode::NotSeparated]);
    }
}

#[test]
fn too_few_repeats_have_no_recommendation() {
    for repeats in [1, 3, 4] {
        let plan = plan(LOADLINE, repeats);
        let found = advice(&plan, &trials(&plan, by_subject(CLEAR)));
        assert_eq!(found.recommendations, [], "{repeats} repeats");
        assert_eq!(codes(&found), [WithheldCode::TooFewRepeats]);
        assert_eq!(found.withheld[0].setting, "swap");
    }
}

#[test]
fn an_untrustworthy_candidate_withholds_the_recommendation() {
    let plan = plan(LOADLINE, 6);
    for subject in ["zram:lz4", "swapfile"] {
        let mut trials = trials(&plan, by_subject(CLEAR));
        for trial in trials.iter_mut().filter(|trial| trial.subject == subject) {
            trial
                .untrustworthy
                .insert("knee_ram_load".to_owned(), vec!["steal".to_owned()]);
        }
        let found = advice(&plan, &trials);
        assert_eq!(found.recommendations, [], "{subject}");
        assert_eq!(codes(&found), [WithheldCode::Untrustworthy]);
    }
}

#[test]
fn untrustworthy_repeats_do_not_count() {
    let plan = plan(LOADLINE, 7);
    let mut trials = trials(&plan, by_subject(CLEAR));
    let spoiled = trials
        .iter_mut()
        .find(|trial| trial.subject == "zram:lz4")
        .unwrap();
    spoiled.metrics.insert("knee_ram_load".to_owned(), 99.0);
    spoiled
        .untrustworthy
        .insert("knee_ram_load".to_owned(), vec!["steal".to_owned()]);
    let found = advice(&plan, &trials);
    assert_eq!(found.recommendations[0].repeats, 6);
    assert!(found.recommendations[0].worth.high < 1.2);
}

#[test]
fn a_subject_without_a_load_line_withholds_the_recommendation() {
    let plan = plan(LOADLINE, 6);
    let mut trials = trials(&plan, by_subject(CLEAR));
    // It carried more than the largest load in one repeat: its load line is not known.
    let above = trials
        .iter_mut()
        .find(|trial| trial.subject == "swapfile")
        .unwrap();
    above.metrics.remove("knee_ram_load");
    let found = advice(&plan, &trials);
    assert_eq!(found.recommendations, []);
    assert_eq!(codes(&found), [WithheldCode::NotMeasured]);
}

#[test]
fn a_subject_that_failed_is_not_ranked_and_named() {
    let plan = plan(LOADLINE, 6);
    let mut trials = trials(&plan, by_subject(CLEAR));
    for trial in trials.iter_mut().filter(|trial| trial.subject == "zram:lz4") {
        trial.status = TrialStatus::Failed;
    }
    let found = advice(&plan, &trials);
    let best = &found.recommendations[0];
    assert_eq!(
        (best.value.as_str(), best.against.as_deref()),
        ("zram:lzo-rle", Some("swapfile"))
    );
    assert!(best.premises.iter().any(|premise| premise.contains("zram:lz4")));
    // Trials that the run did not come to are none of its subjects either.
    trials.retain(|trial| trial.subject == "swapfile");
    assert_eq!(advice(&plan, &trials), Advice::default());
}

#[test]
fn no_swap_is_never_recommended() {
    let plan = plan(
        "workload = \"loadline\"\nclass = \"ratio=2.5\"\nsubject = [\"none\", \"swapfile\"]",
        6,
    );
    let metrics = by_subject(&[("none", 1.5, 1.0), ("swapfile", 1.1, 1.0)]);
    let found = advice(&plan, &trials(&plan, metrics));
    assert_eq!(found.recommendations, []);
    assert_eq!(codes(&found), [WithheldCode::NoGain]);
}

#[test]
fn a_size_follows_from_the_careful_end_of_the_ratio_and_half_of_the_ram() {
    let plan = plan(COMPRESSION, 6);
    let found = advice(&plan, &trials(&plan, |_| vec![("stored_ratio", 2.4)]));
    let [size] = &found.recommendations[..] else {
        panic!("{found:#?}")
    };
    assert_eq!((size.code, size.repeats), (RecommendationCode::ZramSize, 6));
    assert_eq!(size.conditions["subject"], "zram:lz4");
    let bytes: u64 = size.value.parse().unwrap();
    let half = 8.0 * GIB as f64;
    assert!(
        bytes as f64 <= half * 2.4 * 1.006 && bytes as f64 >= half * 2.39,
        "{bytes}"
    );
    assert_eq!(bytes % (1 << 20), 0);
    assert!(
        1.69 < size.worth.low && size.worth.low <= size.worth.median,
        "{:?}",
        size.worth
    );
    // The worst case, 19 GiB of incompressible data in 16 GiB of RAM, is bounded by the limit.
    let lines = &size.persistent.as_ref().unwrap().lines;
    assert!(
        lines.contains(&"zram-resident-limit = 8192".to_owned()),
        "{lines:?}"
    );
    assert!(
        size.commands
            .iter()
            .any(|line| line.contains("8192M") && line.contains("mem_limit"))
    );
    assert_eq!(size.premises.len(), 3);
}

#[test]
fn a_zram_device_that_the_machine_has_is_turned_off_first() {
    let plan = plan(COMPRESSION, 6);
    let mut manifest = manifest(&plan);
    manifest.host.swap_before = vec![("/dev/zram0".to_owned(), 4 * GIB)];
    let found = of(
        &groups(&trials(&plan, |_| vec![("stored_ratio", 2.4)])),
        &manifest,
    );
    let premises = &found.recommendations[0].premises;
    assert!(
        premises
            .iter()
            .any(|premise| premise.contains("sudo swapoff /dev/zram0"))
    );
}

#[test]
fn data_that_no_program_has_lead_to_no_size_and_no_device() {
    let plan = plan(
        "class = [\"random\", \"runs20\", \"constant\"]\nsubject = [\"zram:lz4\", \"zram:lzo-rle\"]",
        6,
    );
    let found = advice(
        &plan,
        &trials(&plan, |settings| {
            let best = settings.subject.to_string() == "zram:lz4";
            vec![
                ("stored_ratio", if best { 5.0 } else { 3.0 }),
                ("restore_gb_per_s", 1.0),
            ]
        }),
    );
    assert_eq!(found.recommendations, []);
    let told: Vec<(&str, WithheldCode)> = found
        .withheld
        .iter()
        .map(|withheld| (withheld.setting.as_str(), withheld.code))
        .collect();
    assert_eq!(
        told,
        [
            ("swap", WithheldCode::MadeUpData),
            ("zram-size", WithheldCode::MadeUpData)
        ]
    );
}

#[test]
fn data_that_do_not_compress_have_no_size() {
    let plan = plan(COMPRESSION, 6);
    let found = advice(&plan, &trials(&plan, |_| vec![("stored_ratio", 1.2)]));
    assert_eq!(found.recommendations, []);
    assert_eq!(codes(&found), [WithheldCode::NoGain]);
}

#[test]
fn an_algorithm_that_saves_more_and_is_slower_is_the_users_choice() {
    let plan = plan(
        "class = \"ratio=2.5\"\nsubject = [\"zram:lz4\", \"zram:zstd\", \"swapfile\"]",
        6,
    );
    let metrics = |slow: f64| {
        move |settings: &Settings| match settings.subject.to_string().as_str() {
            "zram:lz4" => vec![("stored_ratio", 2.4), ("restore_gb_per_s", 0.8)],
            "zram:zstd" => vec![("stored_ratio", 3.1), ("restore_gb_per_s", slow)],
            // A swap file has no store: it does not take part.
            _ => vec![("restore_gb_per_s", 0.3)],
        }
    };
    let found = advice(&plan, &trials(&plan, metrics(0.4)));
    assert_eq!(codes(&found), [WithheldCode::TradeOff]);
    // The size without a device is that of the algorithm that compresses least.
    assert_eq!(found.recommendations[0].conditions["subject"], "zram:lz4");
    assert_eq!(found.recommendations[0].premises.len(), 4);
    let found = advice(&plan, &trials(&plan, metrics(0.8)));
    let [swap, size] = &found.recommendations[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(
        (swap.value.as_str(), swap.basis.as_str()),
        ("zram:zstd", "stored_ratio")
    );
    assert_eq!(size.conditions["subject"], "zram:zstd");
    assert_eq!(swap.commands, size.commands, "one device, created in one way");
    assert_eq!(size.premises.len(), 3);
}

const SWEEP: &str =
    "workload = \"loadline\"\nclass = \"ratio=2.5\"\nsubject = \"zram:lz4\"\nfile-percent = 50\n";

fn swept(values: &str, line: impl Fn(Option<u32>) -> f64) -> Advice {
    let plan = plan(&format!("{SWEEP}swappiness = {values}"), 6);
    let metrics = |settings: &Settings| vec![("knee_ram_load", line(settings.swappiness))];
    advice(&plan, &trials(&plan, metrics))
}

#[test]
fn a_swept_setting_with_an_effect_is_recommended_against_the_present_value() {
    // 150 and 200 are alike: the one nearer to 60 is the smaller change.
    let effect = |value: Option<u32>| if value.unwrap_or(60) > 100 { 1.5 } else { 1.2 };
    for values in ["[\"system\", 20, 150, 200]", "[20, 60, 150, 200]"] {
        let found = swept(values, effect);
        let [best] = &found.recommendations[..] else {
            panic!("{found:#?}")
        };
        assert_eq!(best.code, RecommendationCode::KernelSetting);
        assert_eq!(
            (best.setting.as_str(), best.value.as_str()),
            ("vm.swappiness", "150")
        );
        assert_eq!(best.against.as_deref(), Some("60"));
        assert!((best.worth.median - 1.25).abs() < 0.01 && best.worth.low > 1.2);
        assert_eq!(best.commands, ["sudo sysctl vm.swappiness=150"]);
    }
}

#[test]
fn a_swept_setting_without_an_effect_has_no_recommendation() {
    let found = swept("[\"system\", 20, 150, 200]", |_| 1.2);
    assert_eq!(found.recommendations, []);
    assert_eq!(codes(&found), [WithheldCode::NotSeparated]);
}

#[test]
fn the_present_value_must_be_measured_and_may_be_the_best() {
    let found = swept("[20, 200]", |value| if value == Some(20) { 1.0 } else { 1.5 });
    assert_eq!(codes(&found), [WithheldCode::PresentNotMeasured]);
    let found = swept("[20, 60, 200]", |value| if value == Some(60) { 1.5 } else { 1.0 });
    assert_eq!(codes(&found), [WithheldCode::PresentIsBest]);
    assert_eq!(found.recommendations, []);
}

/// Of a machine whose present value is one of the sweep's, both are the present value: neither is compared with the other.
#[test]
fn the_present_value_by_its_number_is_no_other_candidate() {
    let found = swept("[\"system\", 60, 200]", |value| match value {
        None => 1.0,
        // A drift between the two that no setting makes.
        Some(60) => 1.2,
        Some(_) => 2.0,
    });
    let [best] = &found.recommendations[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(
        (best.value.as_str(), best.against.as_deref()),
        ("200", Some("60"))
    );
    assert!((best.worth.median - 2.0 / 1.1).abs() < 0.01, "{:?}", best.worth);
    let found = swept(
        "[\"system\", 60]",
        |value| if value == Some(60) { 1.5 } else { 1.0 },
    );
    assert_eq!(found.recommendations, []);
}

#[test]
fn swappiness_has_no_recommendation_from_a_workload_without_page_cache() {
    let keys = SWEEP.replace("file-percent = 50", "");
    let plan = plan(&format!("{keys}swappiness = [20, 60, 200]"), 6);
    let better = |settings: &Settings| f64::from(settings.swappiness.unwrap_or(60));
    let metrics = |settings: &Settings| vec![("knee_ram_load", better(settings))];
    let found = advice(&plan, &trials(&plan, metrics));
    assert_eq!(found.recommendations, []);
    assert_eq!(codes(&found), [WithheldCode::NoPageCache]);
}

#[test]
fn a_recommendation_of_swappiness_states_the_share_of_file_pages() {
    let found = swept("[60, 200]", |value| if value == Some(200) { 2.0 } else { 1.0 });
    assert_eq!(found.recommendations[0].conditions["file-percent"], "50");
    assert!(found.recommendations[0].premises[0].contains("file-percent 50"));
}

#[test]
fn swappiness_0_is_not_recommended() {
    let found = swept("[0, 60]", |value| if value == Some(0) { 1.5 } else { 1.0 });
    assert_eq!(found.recommendations, []);
    assert_eq!(codes(&found), [WithheldCode::Unsafe]);
}

#[test]
fn other_settings_keep_subjects_apart() {
    let plan = plan(&format!("{LOADLINE}page-cluster = [0, 3]"), 6);
    let found = advice(
        &plan,
        &trials(&plan, |settings| {
            let subject = settings.subject.to_string();
            let own = if subject == "swapfile" { 1.0 } else { 1.3 };
            let line = if subject == "zram:lz4" { 1.6 } else { own };
            let read_ahead = if settings.page_cluster == Some(0) {
                1.2
            } else {
                1.0
            };
            vec![
                ("knee_ram_load", line * read_ahead),
                ("cpu_per_visit_at_1_5_ratio", 1.0),
            ]
        }),
    );
    let swaps = found
        .recommendations
        .iter()
        .filter(|one| one.setting == "swap" && one.value == "zram:lz4");
    let clusters: Vec<&str> = swaps.map(|one| one.conditions["page-cluster"].as_str()).collect();
    assert_eq!(clusters, ["0", "3"]);
    let settings = found
        .recommendations
        .iter()
        .filter(|one| one.setting == "vm.page-cluster" && one.value == "0");
    assert_eq!(settings.count(), 3, "{found:#?}");
}

/// Load lines of the repeats of three subjects.
fn load_lines() -> impl Strategy<Value = Vec<Vec<f64>>> {
    proptest::collection::vec(proptest::collection::vec(0.5..3.0_f64, 7), 3)
}

/// Trials with these load lines, by the place of their subject and their repeat.
fn with_lines(plan: &Plan, lines: &[Vec<f64>]) -> Vec<Trial> {
    let mut trials = trials(plan, |_| vec![("cpu_per_visit_at_1_5_ratio", 1.0)]);
    for trial in &mut trials {
        let place = CLEAR
            .iter()
            .position(|(name, ..)| *name == trial.subject)
            .unwrap();
        let line = lines[place][trial.repeat as usize - 1];
        trial.metrics.insert("knee_ram_load".to_owned(), line);
    }
    trials
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_trials_changes_nothing(
        lines in load_lines(),
        order in Just((0..21).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let plan = plan(LOADLINE, 7);
        let trials = with_lines(&plan, &lines);
        let shuffled: Vec<Trial> = order.iter().map(|&place| trials[place].clone()).collect();
        prop_assert_eq!(advice(&plan, &trials), advice(&plan, &shuffled));
    }

    #[test]
    fn a_better_subject_never_loses(mut lines in load_lines(), best in 0..3_usize) {
        let plan = plan(LOADLINE, 7);
        let most = lines.iter().flatten().copied().fold(0.0, f64::max);
        for line in &mut lines[best] {
            // Better than every repeat of every other one.
            *line = most * (1.1 + *line / 10.0);
        }
        let found = advice(&plan, &with_lines(&plan, &lines));
        prop_assert_eq!(found.recommendations.len(), 1);
        prop_assert_eq!(found.recommendations[0].value.as_str(), CLEAR[best].0);
    }

    #[test]
    fn a_recommendation_has_an_interval_above_chance(lines in load_lines()) {
        let plan = plan(LOADLINE, 7);
        for one in advice(&plan, &with_lines(&plan, &lines)).recommendations {
            prop_assert!(1.0 < one.worth.low && one.worth.low <= one.worth.median);
            prop_assert!(one.worth.median <= one.worth.high && one.worth.high.is_finite());
            prop_assert_eq!(one.repeats, 7);
        }
    }
}
