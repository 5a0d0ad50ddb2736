//! Error messages of wrong scenarios.

use plimsoll_model::scenario::{
    MAX_FILE_BYTES, Overrides, Problem, ScenarioError, Source, WorkloadKind, builtin, find, keys,
};

use super::{parse, rendered, resolve, sets};

fn invalid(error: &ScenarioError) -> Problem {
    match error {
        ScenarioError::Invalid(invalid) => invalid.problem,
        other => panic!("not an error of a text: {other}"),
    }
}

/// A scenario whose one section holds these lines.
fn with(lines: &str) -> String {
    format!("[scenario]\nname = \"bad\"\n\n[trial]\n{lines}\n")
}

/// Asserts the kind of error of a text and how it is shown.
macro_rules! shows {
    ($name:ident, $problem:ident, $text:expr) => {
        shows!($name, $problem, $text, Overrides::default());
    };
    ($name:ident, $problem:ident, $text:expr, $overrides:expr) => {
        #[test]
        fn $name() {
            let error = resolve(&$text, &$overrides).unwrap_err();
            assert_eq!(invalid(&error), Problem::$problem, "{}", rendered(&error));
            insta::assert_snapshot!(stringify!($name), rendered(&error));
        }
    };
}

shows!(unknown_key, UnknownKey, with("siez = \"1G\""));
shows!(
    unknown_key_with_underscore,
    UnknownKey,
    with("swap_size = \"1G\"")
);
shows!(unknown_store_of_memory, BadValue, with("memory = \"shmem\""));
shows!(
    subjects_of_memory_of_files,
    Duplicate,
    with("memory = \"file\"\nsubject = [\"zram\", \"swapfile\"]")
);
shows!(threads_out_of_range, OutOfRange, with("threads = 0"));
shows!(unknown_key_like_nothing, UnknownKey, with("xyzzy = 1"));
shows!(unknown_scenario_key, UnknownKey, "[scenario]\nnmae = \"x\"\n");
shows!(
    key_in_scenario_table,
    Misplaced,
    "[scenario]\nname = \"x\"\nsize = 1\n"
);
shows!(
    key_outside_of_tables,
    Misplaced,
    "size = 1\n[scenario]\nname = \"x\"\n"
);
shows!(whole_plan_key_in_section, Misplaced, with("seed = 3"));
shows!(wrong_type, WrongType, with("subject = 5"));
shows!(wrong_type_of_size, WrongType, with("size = 1.5"));
shows!(wrong_type_in_list, WrongType, with("class = [\"random\", true]"));
shows!(nested_table, WrongType, with("[trial.size]\nbytes = 3"));
shows!(not_a_size, BadValue, with("size = \"lots\""));
shows!(unknown_unit, BadValue, with("size = [\"1G\", \"2Gibi\"]"));
shows!(unknown_base, BadValue, with("limit = \"120% sizes\""));
shows!(zero_size, OutOfRange, with("size = 0"));
shows!(negative_size, OutOfRange, with("size = \"-1G\""));
shows!(overflowing_size, OutOfRange, with("size = \"16E\""));
shows!(overflowing_default, OutOfRange, with("size = \"15.9E\""));
shows!(
    overflowing_share,
    OutOfRange,
    with("size = \"8E\"\nlimit = \"300% size\"")
);
shows!(
    overflow_by_another_key,
    OutOfRange,
    with(
        "workload = \"heap\"\nheap-load = \"aggressive\"\nsubject = \"glibc\"\nvolume = \"9999T\"\nthreads = 4096"
    )
);
shows!(
    overflow_by_a_limit,
    OutOfRange,
    with("workload = \"loadline\"\nlimit = \"15E\"")
);
shows!(class_typo, BadValue, with("class = \"ramdom\""));
shows!(subject_typo, BadValue, with("subject = [\"zram\", \"zwsap\"]"));
shows!(pager_codec_typo, BadValue, with("subject = \"pager:lz5\""));
shows!(
    pager_option_typo,
    BadValue,
    with("subject = [\"zram\", \"pager:lz4,trim=never\"]")
);
shows!(
    pager_option_value,
    BadValue,
    with("subject = \"pager:lz4,store-cap=1K\"")
);
shows!(
    subjects_without_brackets,
    BadValue,
    with("subject = \"zram,pager:lz4\"")
);
shows!(
    pager_for_other_work,
    BadValue,
    with("workload = \"map\"\nsubject = \"pager\"")
);
shows!(allocator_for_other_work, BadValue, with("subject = \"jemalloc\""));
shows!(
    place_for_pages_as_allocator,
    BadValue,
    with("workload = \"heap\"\nsubject = [\"glibc\", \"zram\"]")
);
shows!(
    sizes_of_alike_blocks,
    BadValue,
    with("workload = \"heap\"\nheap-load = \"aggressive\"\nblock-size = \"16-64\"")
);
shows!(
    odd_number_of_pairs,
    BadValue,
    with("workload = \"heap\"\nheap-load = \"cross-thread\"\nthreads = 3")
);
shows!(
    not_a_block_size,
    BadValue,
    with("workload = \"heap\"\nblock-size = \"1-0k\"")
);
shows!(ratio_out_of_range, OutOfRange, with("class = \"ratio=0.5\""));
shows!(trim_typo, BadValue, with("trim = \"process_madvise\""));
shows!(empty_list, BadList, with("class = []"));
shows!(list_of_unsweepable_key, BadList, with("repeat = [1, 2]"));
shows!(
    duplicate_in_sweep,
    Duplicate,
    with("size = [\"1G\", \"2G\", \"1024M\"]")
);
shows!(
    same_after_resolution,
    Duplicate,
    with("size = \"64M\"\nrequest = [\"1G\", \"2G\"]")
);
shows!(repeat_zero, OutOfRange, with("repeat = 0"));
shows!(repeat_too_large, OutOfRange, with("repeat = 1001"));
shows!(seconds_negative, OutOfRange, with("phase-timeout = -1"));
shows!(seconds_nan, OutOfRange, with("phase-timeout = nan"));
shows!(percent_over_100, OutOfRange, with("zswap-pool-percent = 101"));
shows!(cycle, Cycle, with("size = \"50% limit\"\nlimit = \"200% size\""));
shows!(cycle_through_default, Cycle, with("size = \"50% limit\""));
shows!(cycle_with_itself, Cycle, with("size = \"50% size\""));
shows!(
    cycle_across_set,
    Cycle,
    with("size = \"50% limit\"\nlimit = \"1G\""),
    sets(&["limit=200% size"])
);
shows!(
    too_many_trials,
    TooManyTrials,
    with(&format!(
        "hold = {:?}\nswappiness = {:?}\nsubject = [\"zram\", \"zswap\"]",
        (0..100).collect::<Vec<_>>(),
        (0..100).collect::<Vec<_>>()
    ))
);
shows!(not_toml, Syntax, with("size = = 1G"));
shows!(bare_size, Syntax, with("size = 1G"));
shows!(key_twice, Syntax, with("hold = 1\nhold = 2"));
shows!(no_scenario, Missing, "[trial]\nsize = \"1G\"\n");
shows!(empty_file, Missing, "");
shows!(no_name, Missing, "[scenario]\ntitle = \"x\"\n");
shows!(bad_name, BadName, "[scenario]\nname = \"a/b\"\n");
shows!(
    mistyped_global,
    UnknownSection,
    "[scenario]\nname = \"x\"\n[globl]\nsize = \"1G\"\n"
);
shows!(
    list_of_sections,
    WrongType,
    "[scenario]\nname = \"x\"\n[[trial]]\nsize = \"1G\"\n"
);
shows!(set_unknown_key, UnknownKey, with(""), sets(&["siez=1G"]));
shows!(
    set_unknown_section,
    UnknownSection,
    with(""),
    sets(&["trail.size=1G"])
);
shows!(
    set_bad_value,
    BadValue,
    with(""),
    sets(&["size=1G", "quick.class=[random, rnus20]"])
);
shows!(set_without_value, Syntax, with(""), sets(&["size"]));
shows!(
    set_plan_key_in_section,
    Misplaced,
    with(""),
    sets(&["trial.seed=4"])
);
shows!(
    repeat_option_zero,
    OutOfRange,
    with(""),
    Overrides {
        repeat: Some(0),
        ..Overrides::default()
    }
);

#[test]
fn a_mistake_in_quick_is_found_without_quick() {
    let error = parse(&with("[quick]\nsize = \"0\"")).unwrap_err();
    assert_eq!(invalid(&error), Problem::OutOfRange);
}

/// CPU time of this thread in microseconds.
fn cpu_us() -> u64 {
    let usage = plimsoll_os::resource_usage(plimsoll_os::UsageScope::Thread);
    usage.user_us + usage.system_us
}

#[test]
fn a_million_values_are_refused_at_once() {
    let values: Vec<String> = (0..200_000).map(|n| n.to_string()).collect();
    let started_us = cpu_us();
    let error = parse(&with(&format!("hold = [{}]", values.join(",")))).unwrap_err();
    assert_eq!(invalid(&error), Problem::TooManyTrials);
    let used_us = cpu_us() - started_us;
    assert!(used_us < 10_000_000, "{used_us} us of CPU time");
}

#[test]
fn the_largest_plan_is_made_in_seconds() {
    let values = |count: u32| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let largest = with(&format!("repeat = 1\nhold = [{}]", values(10_000)));
    let started_us = cpu_us();
    let plan = resolve(&largest, &Overrides::default()).unwrap();
    assert_eq!(plan.trials.len(), 10_000);
    let used_us = cpu_us() - started_us;
    assert!(used_us < 20_000_000, "{used_us} us of CPU time");
}

#[test]
fn an_argument_is_one_value() {
    for argument in [
        "hold=1 2",
        "hold=1, 2",
        "hold=1\nsize=2",
        "hold=",
        "=1",
        "a.b.c=1",
        ".size=1",
    ] {
        assert!(resolve(&with(""), &sets(&[argument])).is_err(), "{argument}");
    }
}

#[test]
fn an_unknown_name_offers_the_nearest() {
    let error = find("compresion").unwrap_err();
    insta::assert_snapshot!(rendered(&error));
    let error = find("something/else.toml").unwrap_err();
    let all: Vec<&str> = builtin().iter().map(|scenario| scenario.name).collect();
    insta::assert_snapshot!(rendered(&error).replace(&all.join(", "), "SCENARIOS"));
}

#[test]
fn files_that_are_no_scenarios() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let open = |name: &str| find(path(name).to_str().unwrap());

    assert!(matches!(
        find("/"),
        Err(ScenarioError::NotAFile { what: "a folder", .. })
    ));
    assert!(matches!(find("/dev/zero"), Err(ScenarioError::NotAFile { .. })));

    std::fs::write(path("latin1.toml"), b"[scenario]\nname = \"caf\xe9\"\n").unwrap();
    assert!(matches!(
        open("latin1.toml"),
        Err(ScenarioError::NotText { offset: 22, .. })
    ));

    std::fs::write(path("huge.toml"), vec![b'#'; MAX_FILE_BYTES as usize + 1]).unwrap();
    assert!(matches!(open("huge.toml"), Err(ScenarioError::TooLarge { .. })));
    std::fs::write(path("large.toml"), vec![b'#'; MAX_FILE_BYTES as usize]).unwrap();
    assert!(open("large.toml").is_ok());

    // A path through a file exists for nobody, root neither.
    assert!(matches!(
        open("large.toml/x"),
        Err(ScenarioError::Unreadable { .. })
    ));
    assert!(matches!(
        open("missing.toml"),
        Err(ScenarioError::NotFound { .. })
    ));
}

#[test]
fn a_pipe_is_refused_without_waiting_for_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe.toml");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert!(matches!(
        Source::read(&path),
        Err(ScenarioError::NotAFile { what: "a pipe", .. })
    ));
}

#[test]
fn a_class_that_was_written_as_a_key_is_put_right() {
    let error = resolve(&with(""), &sets(&["ratio=3"])).unwrap_err();
    let shown = rendered(&error);
    assert!(shown.contains("--set 'class=\"ratio=3\"'"), "{shown}");
}

shows!(
    key_of_other_work_in_a_section,
    Misplaced,
    with("workload = \"map\"\nwrites = 5")
);
shows!(
    key_that_no_section_knows,
    Misplaced,
    "[scenario]\nname = \"bad\"\n[global]\nload = 2\n"
);
shows!(
    set_of_a_key_that_the_work_does_not_know,
    Misplaced,
    with("size = \"8M\""),
    sets(&["N=3"])
);
shows!(
    choice_typo,
    BadValue,
    with("workload = \"loadline\"\npattern = \"zipff\"")
);
shows!(
    number_out_of_range,
    OutOfRange,
    with("workload = \"wscap\"\nload = [0.5, 1000]")
);
shows!(
    flag_that_is_text,
    WrongType,
    with("workload = \"contention\"\nsuspended = \"maybe\"")
);

#[test]
fn limit_of_more_than_ram() {
    let error = resolve(&with("limit = \"150%\""), &Overrides::default()).unwrap_err();
    assert_eq!(invalid(&error), Problem::OutOfRange, "{}", rendered(&error));
    let shown = rendered(&error);
    let (shown, others) = shown.split_once("; for thrash: ").unwrap();
    assert!(others.starts_with("40% size; for "), "{others}");
    insta::assert_snapshot!("limit_of_more_than_ram", shown);
}

#[test]
fn size_of_work_that_makes_its_own() {
    let text = with("workload = \"thrash\"\nsize = \"1G\"");
    let error = resolve(&text, &Overrides::default()).unwrap_err();
    assert_eq!(invalid(&error), Problem::Misplaced, "{}", rendered(&error));
    let size = keys().find(|key| key.name == "size").unwrap();
    let kinds = WorkloadKind::ALL.into_iter().filter(|kind| size.is_of(*kind));
    let kinds: Vec<&str> = kinds.map(WorkloadKind::name).collect();
    assert!(kinds.contains(&"compression") && !kinds.contains(&"thrash"));
    insta::assert_snapshot!(
        "size_of_work_that_makes_its_own",
        rendered(&error).replace(&kinds.join(", "), "WORKLOADS")
    );
}
