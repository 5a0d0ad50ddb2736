//! The points of a load line: searched, given as loads, given as limits of one working set.

use plimsoll_model::scenario::{Loadline, Plan, Problem, ScenarioError, Settings, SpeedHints, Workload};

use super::{MIB, parse, plan, rendered, resolve, sets};

/// A scenario of one load line with these lines.
fn with(lines: &str) -> String {
    format!("[scenario]\nname = \"l\"\n[line]\nworkload = \"loadline\"\n{lines}\n")
}

fn settings(lines: &str) -> Settings {
    let mut plan = plan(&with(&format!("repeat = 1\n{lines}")));
    assert_eq!(plan.trials.len(), 1, "one trial measures all points: {lines}");
    plan.trials.remove(0).settings
}

fn loadline(settings: &Settings) -> &Loadline {
    match &settings.workload {
        Workload::Loadline(loadline) => loadline,
        other => panic!("{other:?} is no load line"),
    }
}

/// The kind of an error, and the error as a user sees it.
fn problem(lines: &str) -> (Problem, String) {
    let error = resolve(&with(lines), &sets(&[])).unwrap_err();
    match &error {
        ScenarioError::Invalid(invalid) => (invalid.problem, rendered(&error)),
        other => panic!("not an error of a text: {other}"),
    }
}

#[test]
fn without_new_keys_a_load_line_is_what_it_was() {
    let settings = settings("limit = \"64M\"");
    let loadline = loadline(&settings);
    assert!(loadline.given_loads().is_empty());
    assert_eq!(
        (loadline.working_set, loadline.target_p99, loadline.rate),
        (None, None, None)
    );
    assert_eq!(
        (loadline.threads, loadline.write_percent, loadline.target_work),
        (1, 100, 0.5)
    );
    let params: Vec<&str> = settings
        .workload
        .params(&settings)
        .iter()
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(params, ["size", "class"]);
    assert_eq!(loadline.phase(1.5), "load 1.5");
    // The loads of a list of limits without a size are trials of their own.
    let swept = plan(&with("repeat = 1\nlimit = [\"64M\", \"128M\"]"));
    assert_eq!(swept.trials.len(), 2);
}

/// A recording of a version without these settings keeps its meaning, and one of the defaults is written as before.
#[test]
fn default_settings_are_written_as_in_older_recordings() {
    let settings = settings("limit = \"64M\"");
    let document = serde_json::to_value(&settings).unwrap();
    let own = document["workload"]["loadline"].as_object().unwrap();
    let names: Vec<&str> = own.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["class", "compute", "duration", "max_load", "pattern", "thp"]
    );
    assert_eq!(serde_json::from_value::<Settings>(document).unwrap(), settings);
}

#[test]
fn settings_round_trip() {
    for lines in [
        "size = \"96M\"\nlimit = [\"96M\", \"48M\"]\nthreads = 3\nwrite-percent = 0",
        "file-percent = 30",
        "loads = [0.5, 1.25]\nrate = 1000\ntarget-p99 = 0.001\ntarget-work = 0.9",
    ] {
        let settings = settings(lines);
        let document = serde_json::to_value(&settings).unwrap();
        assert_eq!(serde_json::from_value::<Settings>(document).unwrap(), settings);
    }
}

#[test]
fn limits_beside_a_size_are_the_points_of_one_trial() {
    let settings = settings("size = \"96M\"\nlimit = [\"48M\", \"100% size\", \"192M\", \"64M\"]");
    let loadline = loadline(&settings);
    assert_eq!(loadline.limits, [192, 96, 64, 48].map(|mib| mib * MIB));
    assert_eq!(loadline.given_loads(), [0.5, 1.0, 1.5, 2.0]);
    // The environment is made with the largest; the swap holds all of the working set.
    assert_eq!((settings.limit, settings.size()), (192 * MIB, 96 * MIB));
    assert!(settings.swap_size >= 96 * MIB);
    for (load, limit) in loadline.given_loads().into_iter().zip(&loadline.limits) {
        assert_eq!(loadline.size_and_limit(load, settings.limit), (96 * MIB, *limit));
    }
    assert_eq!(loadline.phase(1.5), "limit 64M");
    let params = settings.workload.params(&settings);
    assert!(
        params.contains(&("limits", "192M,96M,64M,48M".to_owned())),
        "{params:?}"
    );
}

#[test]
fn given_loads_are_the_points_of_one_trial() {
    let of_sizes = settings("limit = \"64M\"\nloads = [2, 0.5, 1.25]\nmax-load = 9");
    assert_eq!(loadline(&of_sizes).given_loads(), [0.5, 1.25, 2.0]);
    assert_eq!(
        of_sizes.size(),
        128 * MIB,
        "the largest load, not that of a search"
    );
    let one = settings("limit = \"64M\"\nloads = 1.5");
    assert_eq!(loadline(&one).given_loads(), [1.5]);
    // With a fixed working set the loads make the limits.
    let of_limits = settings("size = \"96M\"\nloads = [0.5, 1.5]");
    assert_eq!((of_limits.limit, of_limits.size()), (192 * MIB, 96 * MIB));
    assert_eq!(
        loadline(&of_limits).size_and_limit(1.5, of_limits.limit),
        (96 * MIB, 64 * MIB)
    );
    // And a search of the limit begins at the largest.
    let searched = settings("size = \"96M\"");
    assert_eq!((searched.limit, searched.size()), (192 * MIB, 96 * MIB));
    assert!(loadline(&searched).given_loads().is_empty());
}

#[test]
fn one_value_keys_are_swept_and_lists_of_points_are_not() {
    let text = with(
        "size = [\"32M\", \"64M\"]\nlimit = [\"200% size\", \"50% size\"]\nthreads = [1, 2]\nwrite-percent = [50, 100]\n\
         rate = [0, 5000]\ntarget-p99 = [\"1ms\", \"10ms\"]\ntarget-work = [0.5, 0.9]\nrepeat = 1",
    );
    let plan = plan(&text);
    assert_eq!(plan.trials.len(), 64);
    for trial in &plan.trials {
        let settings = &trial.settings;
        assert_eq!(loadline(settings).given_loads(), [0.5, 2.0], "{}", trial.id);
        assert!(
            trial.params.iter().all(|(name, _)| name != "limit"),
            "{}",
            trial.id
        );
    }
}

/// The share of useful work follows from the rate, so that sweeps of both have their own.
#[test]
fn a_rate_has_a_share_of_its_own() {
    assert_eq!(loadline(&settings("rate = 10000")).target_work, 0.95);
    assert_eq!(
        loadline(&settings("rate = 10000\ntarget-work = 0.5")).target_work,
        0.5
    );
}

#[test]
fn a_shown_load_line_is_the_same_again() {
    for lines in [
        "",
        "limit = [\"64M\", \"128M\"]",
        "loads = [0.5, 1, 1.25, 1.5]",
        "loads = 1.5\nlimit = [\"64M\", \"128M\"]",
        "size = \"96M\"",
        "size = \"96M\"\nloads = [0.5, 2]",
        "size = \"96M\"\nlimit = \"64M\"",
        "size = \"96M\"\nlimit = [\"192M\", \"96M\", \"50% size\"]",
        "size = [\"96M\", \"1G\"]\nlimit = [\"150% size\", \"50% size\"]\nthreads = [1, 4]",
        "size = [\"96M\", \"1G\"]",
        "rate = 1000\ntarget-p99 = 0.001\nwrite-percent = 50\nthreads = 3",
        "file-percent = [0, 50, 100]\nswappiness = [\"system\", 200]",
    ] {
        let first: Plan = plan(&with(lines));
        let again = plan(&first.to_toml());
        assert_eq!(again.trials, first.trials, "{}", first.to_toml());
    }
}

#[test]
fn impossible_points_name_their_key() {
    for (lines, expected, key) in [
        ("loads = []", Problem::BadList, "`loads`"),
        ("loads = [0.5, 0.5]", Problem::Duplicate, "`loads`"),
        ("loads = [0.5, 0.05]", Problem::OutOfRange, "`loads`"),
        ("loads = [\"0.5\"]", Problem::WrongType, "`loads`"),
        (
            "size = \"8M\"\nlimit = [\"16M\", \"16384K\"]",
            Problem::Duplicate,
            "`limit`",
        ),
        (
            "size = \"8M\"\nlimit = [\"16M\"]\nloads = [1]",
            Problem::Misplaced,
            "`loads`",
        ),
        (
            "size = \"50% limit\"\nlimit = [\"200% size\"]",
            Problem::Cycle,
            "limit",
        ),
        ("size = \"50% limit\"", Problem::Cycle, "limit"),
        ("threads = 0", Problem::OutOfRange, "`threads`"),
        ("write-percent = 101", Problem::OutOfRange, "`write-percent`"),
        ("target-work = 0", Problem::OutOfRange, "`target-work`"),
        ("target-p99 = \"2h\"", Problem::OutOfRange, "`target-p99`"),
        ("file-percent = 101", Problem::OutOfRange, "`file-percent`"),
        ("rate = -1", Problem::OutOfRange, "`rate`"),
        ("max-load = [1, 2]", Problem::BadList, "`max-load`"),
    ] {
        let (found, message) = problem(lines);
        assert_eq!(found, expected, "{lines}: {message}");
        assert!(message.contains(key), "{lines}: {message}");
    }
    let many: Vec<String> = (0..101)
        .map(|place| format!("{}", 1.0 + f64::from(place) / 100.0))
        .collect();
    assert_eq!(
        problem(&format!("loads = [{}]", many.join(", "))).0,
        Problem::BadList
    );
    assert!(parse(&with("rwmixwrite = 50")).is_ok(), "fio's name");
}

#[test]
fn settings_that_do_not_fit_each_other_name_their_key() {
    for (lines, key) in [
        ("limit = \"16M\"\nthreads = 100", "`threads`"),
        (
            "size = \"64M\"\nlimit = [\"64M\", \"1M\"]\nthreads = 8",
            "`threads`",
        ),
        ("rate = 10\nduration = 1", "`rate`"),
        (
            "rate = 150\nduration = 1\nthreads = 200\nlimit = \"512M\"",
            "`rate`",
        ),
    ] {
        let message = settings(lines).check().unwrap_err().to_string();
        assert!(message.contains(key), "{lines}: {message}");
    }
    for lines in [
        "limit = \"64M\"\nthreads = 64",
        "rate = 100\nduration = 1",
        "limit = \"4K\"",
    ] {
        settings(lines)
            .check()
            .unwrap_or_else(|unfit| panic!("{lines}: {unfit}"));
    }
}

#[test]
fn a_share_of_the_pages_is_that_of_a_file() {
    let mixed = settings("limit = \"64M\"\nfile-percent = 50");
    let of = |settings: &Settings, size: u64| loadline(settings).file_bytes(size);
    assert_eq!(of(&mixed, 96 * MIB), 48 * MIB);
    assert_eq!(of(&mixed, 3 << 12), 1 << 12, "whole pages");
    assert!(mixed.maps_file() && mixed.visits_file() && mixed.fills_file());
    let params = mixed.workload.params(&mixed);
    assert!(params.contains(&("file-percent", "50".to_owned())), "{params:?}");
    let whole = settings("limit = \"64M\"\nfile-percent = 100");
    assert_eq!(of(&whole, u64::MAX), u64::MAX >> 12 << 12);
    let none = settings("limit = \"64M\"");
    assert_eq!(of(&none, 96 * MIB), 0);
    assert!(!none.maps_file() && !none.visits_file() && !none.fills_file());
    // The file takes disk space, and its pages no RAM of the store.
    let estimate = |lines: &str| {
        plan(&with(&format!("limit = \"64M\"\nclass = \"random\"\n{lines}"))).estimate(&SpeedHints::default())
    };
    let (none, half) = (estimate(""), estimate("file-percent = 50"));
    assert!(none.disk_bytes == 0 && half.disk_bytes >= 96 * MIB);
    assert!(half.peak_memory_bytes < none.peak_memory_bytes);
}

/// Time and memory of a plan follow its points.
#[test]
fn estimates_follow_the_points() {
    let seconds = |lines: &str| plan(&with(lines)).estimate(&SpeedHints::default()).seconds;
    let search = seconds("limit = \"64M\"");
    assert!(seconds("limit = \"64M\"\nloads = [0.5, 1]") < search / 2.0);
    assert!(seconds("limit = \"64M\"\ntarget-p99 = 0.001") > search);
    let fixed = plan(&with(
        "size = \"96M\"\nlimit = [\"1G\", \"64M\"]\nsubject = \"swapfile\"",
    ));
    assert!(fixed.estimate(&SpeedHints::default()).peak_memory_bytes <= 96 * MIB);
}
