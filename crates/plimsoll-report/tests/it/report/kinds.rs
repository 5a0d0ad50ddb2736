//! Reports and summaries of all workloads except compression, from made-up values.

use std::collections::BTreeMap;

use plimsoll_model::recording::StatementCode;
use plimsoll_model::recording::model::{Phase, Trial, TrialStatus};
use plimsoll_report::analysis::groups;
use plimsoll_report::{MemoryUse, Page, headlines, html, terminal};

use super::simulation::{QUICK, Simulation};
use super::synthetic;

/// Seconds that a made-up phase lasts.
const PHASE_S: f64 = 1.5;

/// A made-up phase: its name and its values.
pub(super) type Made = (String, Vec<(&'static str, f64)>);

/// A trial of these phases (name, values), one after the other from `start` seconds on.
pub(super) fn trial(
    workload: &str,
    subject: &str,
    repeat: u32,
    start: f64,
    phases: Vec<Made>,
    metrics: &[(&str, f64)],
) -> Trial {
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    let end = start + PHASE_S * phases.len() as f64;
    let named = |values: &[(&str, f64)]| -> BTreeMap<String, f64> {
        values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect()
    };
    let phase = |(index, (name, values)): (usize, Made)| {
        let from = start + PHASE_S * index as f64;
        Phase {
            name,
            span_ns: (ns(from), ns(from + PHASE_S)),
            seconds: PHASE_S,
            cpu_user_s: 0.4,
            cpu_system_s: 0.9,
            minor_faults: 12_000,
            major_faults: 800 * index as u64,
            values: named(&values),
            profile: vec![
                ("zram_bvec_read".to_owned(), 0.31),
                ("lz4_decompress".to_owned(), 0.2),
            ],
            ..Phase::default()
        }
    };
    Trial {
        id: format!("{workload}/{subject}#{repeat}"),
        workload: workload.to_owned(),
        subject: subject.to_owned(),
        params: BTreeMap::from([("size".to_owned(), (64u64 << 20).to_string())]),
        repeat,
        status: TrialStatus::Ok,
        reasons: Vec::new(),
        untrustworthy: Default::default(),
        failures: Vec::new(),
        other_programs: Vec::new(),
        verified: true,
        span_ns: (ns(start), ns(end)),
        phases: phases.into_iter().enumerate().map(phase).collect(),
        metrics: named(metrics),
        lists: BTreeMap::from([("consumers_cycles".to_owned(), vec![40.0, 41.0, 39.0])]),
    }
}

/// Consumers that write at random over two subjects, three repeats each.
pub(crate) fn thrash_trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (place, subject) in ["zram:lz4", "swapfile"].into_iter().enumerate() {
        for repeat in 1..=3u32 {
            let slow = 1.0 + place as f64 * 4.0 + f64::from(repeat) * 0.02;
            let phases = ["rest", "load", "recovery"].map(|name| {
                let values = vec![
                    ("wakeup_p99_s", 0.0004 * slow),
                    ("pages_in_per_s", 21_000.0 / slow),
                ];
                (name.to_owned(), values)
            });
            let metrics = [
                ("cycles_per_s", 180.0 / slow),
                ("cycles_done_percent", 96.0 / slow),
                ("fairness_ratio", 0.99),
                ("load_pages_in_per_s", 21_000.0 / slow),
                ("load_wakeup_p99_s", 0.0004 * slow),
                ("recovery_s", 0.9 * slow),
            ];
            let start = 4.5 * trials.len() as f64;
            trials.push(trial("thrash", subject, repeat, start, phases.into(), &metrics));
        }
    }
    trials
}

/// A ladder of loads, `points` phases a trial.
pub(super) fn loadline_trials(points: u32) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (place, subject) in ["none", "zram:lz4"].into_iter().enumerate() {
        for repeat in 1..=2u32 {
            let phases = (1..=points).map(|point| {
                let load = 0.5 + 2.5 * f64::from(point) / f64::from(points);
                let knee = 1.0 + place as f64 * 0.9;
                let work = 1e6 / (1.0 + (load / knee).powi(12));
                let values = vec![("load", load), ("visits_per_s", work), ("p99_s", 40.0 / work)];
                (format!("load {load:.2}"), values)
            });
            let metrics = [("knee_load", 1.0 + place as f64 * 0.9 + 0.01 * f64::from(repeat))];
            let start = f64::from(points) * PHASE_S * trials.len() as f64;
            trials.push(trial(
                "loadline",
                subject,
                repeat,
                start,
                phases.collect(),
                &metrics,
            ));
        }
    }
    trials
}

/// A program under five limits over two subjects, two repeats each; under the least one the OOM killer ends it.
pub(super) fn program_trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (place, subject) in ["zram:lz4", "none"].into_iter().enumerate() {
        for repeat in 1..=2u32 {
            let phases = [512.0, 384.0, 192.0, 96.0, 48.0]
                .into_iter()
                .enumerate()
                .map(|(index, mib)| {
                    let killed = index + place >= 4;
                    let seconds = 3.0 + (2.0 * index as f64 - 3.0).max(0.0) + 0.01 * f64::from(repeat);
                    let mut values = vec![
                        ("limit_bytes", mib * 1024.0 * 1024.0),
                        ("limit_hits", 100.0 * index as f64),
                        ("status", f64::from(u8::from(killed))),
                        ("wall_s", seconds),
                        ("major_faults", 5000.0 * index as f64),
                    ];
                    values.extend((!killed).then_some(("cost", seconds)));
                    (format!("limit {mib}M"), values)
                });
            let metrics = [("base_wall_s", 3.0), ("needed_bytes", 4e8), ("knee_bytes", 3e8)];
            let start = 5.0 * PHASE_S * trials.len() as f64;
            trials.push(trial(
                "command",
                subject,
                repeat,
                start,
                phases.collect(),
                &metrics,
            ));
        }
    }
    trials
}

/// Allocators under a load of one size over some numbers of threads, and under another one in one thread.
pub(super) fn heap_trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (place, subject) in ["glibc", "mimalloc", "plimsoll:lfh"].into_iter().enumerate() {
        for (size, threads) in [("0-1k", 1u32), ("0-1k", 2), ("0-1k", 64), ("22", 1)] {
            let slow = f64::from(threads).sqrt() * (3.0 - place as f64);
            let metrics = [
                ("operation_cpu_s", 9e-9 * slow),
                ("operations_per_s", 1e8 / slow),
                ("live_percent", 60.0 + 10.0 * place as f64),
            ];
            let start = PHASE_S * trials.len() as f64;
            let values = vec![("live_bytes", 1e6)];
            let mut made = trial(
                "heap",
                subject,
                1,
                start,
                vec![("scaling".to_owned(), values)],
                &metrics,
            );
            made.id = format!("heap/{subject}/block-size={size}/threads={threads}#1");
            made.params = [
                ("block-size", size.to_owned()),
                ("library", format!("lib{place}.so")),
                ("subject", subject.to_owned()),
                ("threads", threads.to_string()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
            trials.push(made);
        }
    }
    trials
}

/// The page of these trials.
pub(super) fn page(title: &str, trials: Vec<Trial>) -> Page {
    let simulation = Simulation::new(QUICK);
    let groups = groups(&trials);
    let marks = synthetic::marks(&trials);
    let timelines = trials.iter().enumerate().map(|(index, trial)| {
        let mut timeline = simulation.timeline(Some(index % simulation.order.len()), QUICK.detail);
        timeline.trial = Some(trial.id.clone());
        timeline
    });
    let timelines = timelines.collect();
    let results = synthetic::results(trials);
    let mut manifest = synthetic::manifest(&results.run);
    manifest.plan.title = title.to_owned();
    Page {
        headline: headlines::of_run(&results, &groups),
        manifest,
        overview: simulation.timeline(None, QUICK.overview),
        trials: timelines,
        marks,
        memory: vec![MemoryUse::default(); groups.len()],
        groups,
        results,
        service: None,
        hold: None,
    }
}

/// A report of allocators alone.
pub(super) fn allocators() -> Page {
    page("allocators", heap_trials())
}

/// The tour, which `plimsoll run` without a name runs.
pub(super) fn tour() -> Page {
    let mut trials = synthetic::page(QUICK).results.trials;
    trials.extend(thrash_trials());
    trials.extend(loadline_trials(4));
    page("What this machine does when memory runs out", trials)
}

fn written(name: &str, page: &Page) -> String {
    let html = html::render(page);
    std::fs::write(synthetic::folder().join(format!("{name}.html")), &html).expect("written");
    html
}

#[test]
fn a_report_shows_only_the_workloads_that_ran() {
    let page = page("Thrashing", thrash_trials());
    let html = written("thrash", &page);
    let [trust] = &page.headline.trust[..] else {
        panic!("{:?}", page.headline)
    };
    assert_eq!(trust.code, StatementCode::TrustDataVerified);
    assert!(html.contains(&trust.text), "{trust}");
    for words in ["id=\"cost-title\"", "restore and verify", "every byte", "NaN"] {
        assert!(!html.contains(words), "{words}");
    }
    for words in [
        "<span class=\"disc\">2</span> load",
        ">Wake-up p99<",
        "zram_bvec_read 31.0%, lz4_decompress 20.0%",
    ] {
        assert!(html.contains(words), "{words}");
    }
}

#[test]
fn a_program_has_its_curves_and_every_run() {
    let page = page("A program", program_trials());
    let html = written("command", &page);
    for part in [
        "data-chart=\"slowdown\"",
        "data-chart=\"major_faults\"",
        "id=\"command-limits\"",
        "oom-killed",
        ">Limit hits<",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let [trust] = &page.headline.trust[..] else {
        panic!("{:?}", page.headline)
    };
    assert_eq!(
        (trust.code, trust.values["trials"]),
        (StatementCode::TrustExitCodesVerified, 4.0)
    );
    assert!(!html.contains("NaN") && !html.contains("inf%"));
}

#[test]
fn a_tour_has_tables_of_each_kind() {
    let html = written("tour", &tour());
    for id in [
        "summary-compression",
        "phases-thrash",
        "trials-loadline",
        "metrics",
    ] {
        assert!(html.contains(&format!("id=\"table-{id}\"")), "{id}");
    }
    assert!(html.contains("id=\"cost-title\""));
}

#[test]
fn hundreds_of_phases_and_groups_make_a_small_report() {
    let html = written("loadline", &page("The load line", loadline_trials(250)));
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    let many = (0..300).map(|index| {
        let values = vec![("cost_s", 0.001 * f64::from(index))];
        let phases = vec![("map".to_owned(), values.clone()), ("touch".to_owned(), values)];
        let start = 3.0 * f64::from(index);
        trial(
            "map",
            &format!("none:{index}"),
            1,
            start,
            phases,
            &[("map_s", 0.001)],
        )
    });
    let html = written("map", &page("Mapping", many.collect()));
    assert!(html.len() < 4_000_000, "{} bytes", html.len());
    assert_eq!(html.matches("<svg class=\"timeline\"").count(), 1);
}

#[test]
fn allocators_are_drawn_over_threads_with_the_ideal_and_as_bars_where_there_is_one_number() {
    let page = page("Allocators", heap_trials());
    let html = written("heap", &page);
    let has = |words: &str| assert!(html.contains(words), "{words}");
    has("Operations per second: block-size=0-1k");
    has(">Ideal<");
    has("CPU time of an allocation and a free: block-size=0-1k");
    has("Memory efficiency: live bytes over bytes taken: block-size=0-1k");
    has("block-size=22, 1 thread");
    has("lib2.so");
    for words in ["NaN", "inf"] {
        assert!(!html.contains(&format!(">{words}<")), "{words}");
    }
    let finding = &page.headline.finding;
    assert_eq!(finding.code, StatementCode::HeapCpuTime);
    assert_eq!(finding.names["subject"], "plimsoll:lfh");
    assert_eq!(finding.values["tests"], 4.0);
    assert!(
        (finding.values["cpu_time_ratio"] - 0.5).abs() < 5e-4,
        "{finding:?}"
    );
}

/// Places of the dots of a line in the drawing of that title, from left to right, and the words at the axes.
fn drawn<'h>(html: &'h str, title: &str, line: &str) -> (Vec<(f64, f64)>, Vec<&'h str>) {
    let svg = html
        .split("<svg")
        .filter_map(|rest| rest.split_once("</svg>"))
        .map(|(svg, _)| svg)
        .find(|svg| svg.contains(title))
        .expect("it is drawn");
    let attribute = |tag: &str, name: &str| -> f64 {
        let value = tag.split(&format!(" {name}=\"")).nth(1).expect("it has a place");
        value
            .split('"')
            .next()
            .and_then(|value| value.parse().ok())
            .expect("a number")
    };
    let dots = svg.split("<circle class=\"dot\"").skip(1);
    let own = dots.filter(|dot| dot.contains(&format!("<title>{line}: ")));
    let places = own.map(|dot| (attribute(dot, "cx"), attribute(dot, "cy")));
    let words = svg.split("class=\"tick ").skip(1);
    let words = words.filter_map(|text| text.split_once('>')?.1.split_once('<'));
    (places.collect(), words.map(|(word, _)| word).collect())
}

#[test]
fn charts_over_threads_are_logarithmic() {
    let html = written("heap", &page("Allocators", heap_trials()));
    // Made up to go with the root of the threads: a straight line where both axes are of factors.
    for title in ["Operations per second", "CPU time of an allocation and a free"] {
        let (dots, words) = drawn(&html, &format!("{title}: block-size=0-1k"), "glibc");
        let [one, two, many] = dots[..] else {
            panic!("{title}: {dots:?}")
        };
        for (place, what) in [
            ((two.0 - one.0) / (many.0 - one.0), "threads"),
            ((two.1 - one.1) / (many.1 - one.1), title),
        ] {
            assert!((place - 1.0 / 6.0).abs() < 0.005, "{what}: 1, 2, 64 at {dots:?}");
        }
        for threads in ["1", "2", "5", "10", "20", "50"] {
            assert!(words.contains(&threads), "{threads}: {words:?}");
        }
    }
    let (dots, words) = drawn(
        &html,
        "Memory efficiency: live bytes over bytes taken: block-size=0-1k",
        "glibc",
    );
    assert_eq!(dots.len(), 3);
    assert!(
        words.contains(&"0"),
        "an axis of sums begins at nothing: {words:?}"
    );
}

#[test]
fn names_in_recordings_of_others_stay_text() {
    const ATTACK: &str = "<img src=x onerror=window.broken=1>\u{1b}[31m";
    let mut trials = thrash_trials();
    for trial in &mut trials {
        trial.metrics.insert(ATTACK.to_owned(), 1.0);
        for phase in &mut trial.phases {
            phase.name += ATTACK;
            phase.values.insert(ATTACK.to_owned(), 1.0);
            phase.profile.push((ATTACK.to_owned(), 0.5));
        }
    }
    let page = page("Thrashing", trials);
    assert!(!written("thrash-hostile", &page).contains("<img"));
    let summary = terminal::summary(&page.results, &page.groups, 200, false);
    assert!(!summary.contains('\u{1b}'), "{summary}");
}

#[test]
fn a_summary_has_a_table_for_each_kind_and_stays_in_its_width() {
    let tour = tour();
    for width in [80, 120] {
        let text = terminal::summary(&tour.results, &tour.groups, width, false);
        println!("{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= usize::from(width), "{width}: {line}");
        }
        for heading in ["compression", "thrash", "loadline"] {
            assert!(text.lines().any(|line| line == heading), "{heading} in {text}");
        }
    }
    let one = page("Thrashing", thrash_trials());
    let text = terminal::summary(&one.results, &one.groups, 80, false);
    assert!(
        !text.lines().any(|line| line == "thrash"),
        "one table needs no heading: {text}"
    );
}
