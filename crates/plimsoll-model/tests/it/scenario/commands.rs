//! Programs of the user in a scenario: their words, their limits, their metric.

use plimsoll_model::scenario::{
    Document, Overrides, PageCache, Problem, ProgramRun, ScenarioError, Settings, Source, SpeedHints,
    Workload,
};

use super::{GIB, MIB, machine, plan, quick, resolve, sets};

/// A scenario of one program with these lines.
fn with(lines: &str) -> String {
    format!("[scenario]\nname = \"c\"\n[global]\nworkload = \"command\"\nrepeat = 1\n{lines}\n")
}

fn settings(lines: &str) -> Settings {
    let mut plan = plan(&with(lines));
    assert_eq!(plan.trials.len(), 1, "one trial: {lines}");
    plan.trials.remove(0).settings
}

fn program(settings: &Settings) -> &ProgramRun {
    match &settings.workload {
        Workload::Command(run) => run,
        other => panic!("{other:?} is no program"),
    }
}

fn problem(lines: &str) -> Problem {
    match resolve(&with(lines), &sets(&[])).unwrap_err() {
        ScenarioError::Invalid(invalid) => invalid.problem,
        other => panic!("not an error of a text: {other}"),
    }
}

#[test]
fn the_words_of_a_command_keep_their_order_and_may_repeat() {
    let settings = settings(r#"command = ["prog", "-v", "-v", "", "two words", "10"]"#);
    let run = program(&settings);
    assert_eq!(run.command, ["prog", "-v", "-v", "", "two words", "10"]);
    assert_eq!(run.command_line(), "prog -v -v '' 'two words' 10");
    assert_eq!(
        (run.limits.len(), run.search, run.tolerate, run.cache),
        (0, false, 0.05, PageCache::Cold)
    );
    assert_eq!((settings.limit, settings.size()), (GIB, GIB));
}

#[test]
fn one_word_is_a_program_without_arguments() {
    assert_eq!(
        program(&settings("command = \"two words\"")).command,
        ["two words"]
    );
}

#[test]
fn the_largest_of_the_limits_is_the_limit_of_the_cgroup() {
    let settings = settings("command = \"p\"\nlimits = [\"64M\", \"256M\", \"128M\"]");
    let run = program(&settings);
    assert_eq!(run.limits, [256 * MIB, 128 * MIB, 64 * MIB]);
    assert_eq!(
        (settings.limit, run.base_limit(settings.limit)),
        (256 * MIB, 256 * MIB)
    );
    assert!(settings.swap_size >= 256 * MIB);
}

/// `--quick` does not lower the limits of a program: every program would be killed.
#[test]
fn quick_shrinks_neither_limits_nor_the_program() {
    let text =
        with("command = \"p\"\nlimits = [\"4G\", \"1G\"]\nrun-time = 60").replace("repeat = 1", "repeat = 3");
    let plan = resolve(&text, &quick()).unwrap();
    assert_eq!(plan.trials.len(), 1);
    assert_eq!(program(&plan.trials[0].settings).limits, [4 * GIB, GIB]);
}

#[test]
fn a_list_of_limits_in_limit_is_a_sweep() {
    let plan = plan(&with(
        "command = \"p\"\nlimit = [\"64M\", \"32M\"]\ncache = [\"cold\", \"warm\"]",
    ));
    assert_eq!(plan.trials.len(), 4);
}

#[test]
fn a_longer_program_has_more_time() {
    let limit = |seconds: u32| {
        let lines = format!("command = \"p\"\nsearch = true\nrun-time = {seconds}");
        plan(&with(&lines)).time_limit()
    };
    // A search of 16 runs, the slowest of which take ten times as long.
    assert!(limit(100) > 20.0 * 100.0 && limit(1) >= 60.0);
    let hints = SpeedHints::default();
    let seconds = |lines: &str| hints.trial_seconds(&settings(lines));
    assert!(seconds("command = \"p\"\nlimits = [\"2M\", \"1M\"]") > seconds("command = \"p\""));
}

#[test]
fn mistakes_about_programs_are_found_before_anything_runs() {
    for (lines, expected) in [
        ("", Problem::Missing),
        ("command = []", Problem::BadList),
        ("command = [\"\", \"a\"]", Problem::BadValue),
        ("command = [\"sleep\", 1]", Problem::WrongType),
        ("command = \"a\\u0000b\"", Problem::BadValue),
        ("command = \"p\"\nmetric = \"no group\"", Problem::BadValue),
        ("command = \"p\"\nmetric = \"(\"", Problem::BadValue),
        ("command = \"p\"\nhigher-is-better = true", Problem::Misplaced),
        (
            "command = \"p\"\nsearch = true\nlimits = [\"1G\"]",
            Problem::Misplaced,
        ),
        (
            "command = \"p\"\nlimit = \"1G\"\nlimits = [\"2G\"]",
            Problem::OutOfRange,
        ),
        (
            "command = \"p\"\nlimits = [\"1G\", \"1048576K\"]",
            Problem::Duplicate,
        ),
        ("command = \"p\"\nlimits = [\"50% limit\"]", Problem::Cycle),
        ("command = \"p\"\ntolerate = 0", Problem::OutOfRange),
        ("command = \"p\"\nsize = \"1G\"", Problem::Misplaced),
    ] {
        assert_eq!(problem(lines), expected, "{lines}");
    }
}

#[test]
fn a_shown_plan_of_a_program_is_the_same_plan() {
    for lines in [
        "command = [\"sh\", \"-c\", \"a 'b' \\\"c\\\" \\\\ | d\\n\"]\nlimits = [\"2G\", \"1G\"]",
        "command = \"p\"\nsearch = true\nmetric = \"ops: ([0-9.]+)\\\\s\"\nhigher-is-better = true\ntolerate = 0.2",
        "command = \"10\"\nlimit = [\"2G\", \"1G\"]\ncache = \"warm\"\nsame-output = true",
    ] {
        let plan = plan(&with(lines));
        let again = Document::parse(&Source::new("shown", plan.to_toml())).unwrap();
        let again = again.resolve(&machine(), &Overrides::default()).unwrap();
        assert_eq!(again.trials, plan.trials, "{}", plan.to_toml());
    }
}

#[test]
fn settings_of_a_program_read_back_from_a_recording() {
    let written = settings("command = [\"p\", \"-v\"]\nlimits = [\"2G\", \"1G\"]\nmetric = \"([0-9]+)\"");
    let text = serde_json::to_string(&written).unwrap();
    assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), written);
}
