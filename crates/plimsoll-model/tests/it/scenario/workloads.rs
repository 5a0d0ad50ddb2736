//! Plans of each workload: its keys, sizes and settings.

use std::collections::BTreeSet;

use plimsoll_model::scenario::{
    Backing, Document, Overrides, Problem, ScenarioError, Settings, Source, Subject, Workload, WorkloadKind,
    find, keys,
};

use super::plans::ids;
use super::{MIB, machine, plan, resolve, sets};

fn workload(text: &str, set: &[&str]) -> Workload {
    resolve(text, &sets(set))
        .unwrap()
        .trials
        .remove(0)
        .settings
        .workload
}

/// The keys that a section of this work must have.
fn required(kind: WorkloadKind) -> &'static str {
    match kind {
        WorkloadKind::Command => "command = [\"true\"]\n",
        _ => "",
    }
}

#[test]
fn every_kind_of_work_has_a_name_and_knows_its_own_keys() {
    for kind in WorkloadKind::ALL {
        let text = format!(
            "[scenario]\nname = \"s\"\n[global]\nworkload = \"{}\"\n{}",
            kind.name(),
            required(kind)
        );
        let plan = plan(&text);
        assert_eq!(plan.trials[0].settings.workload.kind(), kind);
        for (key, _) in &plan.sections[0].keys {
            let key = keys().find(|known| known.name == key).unwrap();
            assert!(key.is_of(kind), "{} is shown for {}", key.name, kind.name());
        }
        let again = Document::parse(&Source::new("shown", plan.to_toml())).unwrap();
        let again = again.resolve(&machine(), &Overrides::default()).unwrap();
        assert_eq!(again.trials, plan.trials, "{}", plan.to_toml());
    }
}

const THRASH: &str =
    "[scenario]\nname = \"t\"\n[global]\nworkload = \"thrash\"\nconsumer-size = \"100M\"\nlimit = \"1G\"\n";

#[test]
fn the_letters_of_the_thrashing_paper_are_keys() {
    let letters = workload(THRASH, &["N=4", "S=8M", "W=77", "ts=250ms", "tc=2"]);
    let words = workload(
        THRASH,
        &[
            "consumers=4",
            "consumer-size=8M",
            "writes=77",
            "sleep=0.25",
            "stagger=2",
        ],
    );
    assert_eq!(letters, words);
    let Workload::Thrash(thrash) = letters else {
        panic!("{letters:?}")
    };
    assert_eq!(
        (thrash.consumers, thrash.consumer_size, thrash.writes),
        (4, 8 * MIB, 77)
    );
    assert_eq!(
        (thrash.sleep, thrash.stagger, thrash.seconds()),
        (0.25, 2.0, 10.0)
    );
}

#[test]
fn scale_shrinks_memory_stagger_and_writes_of_the_file_together() {
    let plan = resolve(THRASH, &sets(&["scale=0.1"])).unwrap();
    let settings = &plan.trials[0].settings;
    let Workload::Thrash(thrash) = &settings.workload else {
        panic!("{settings:?}")
    };
    assert_eq!(thrash.writes, 1000);
    assert!((thrash.stagger - 3.0).abs() < 1e-9 && thrash.sleep == 0.1);
    // Whole pages.
    let near = |bytes: u64, wanted: u64| bytes.abs_diff(wanted) <= 4096;
    assert!(near(thrash.consumer_size, 10 * MIB), "{}", thrash.consumer_size);
    assert!(near(settings.limit, (1 << 30) / 10), "{}", settings.limit);
    assert_eq!(settings.size(), thrash.consumer_size * 25);
    // What the command line says is meant as it is written.
    let Workload::Thrash(given) = workload(THRASH, &["scale=0.1", "S=64M", "tc=5", "W=9"]) else {
        panic!()
    };
    assert_eq!(
        (given.consumer_size, given.stagger, given.writes),
        (64 * MIB, 5.0, 9)
    );
}

#[test]
fn the_size_of_a_loadline_is_its_largest_load() {
    let text =
        "[scenario]\nname = \"l\"\n[global]\nworkload = \"loadline\"\nlimit = \"64M\"\nmax-load = 2.5\n";
    let settings = plan(text).trials.remove(0).settings;
    assert_eq!((settings.limit, settings.size()), (64 * MIB, 160 * MIB));
    assert!(settings.swap_size > settings.size());
}

#[test]
fn sections_of_one_plan_may_do_different_work() {
    let text = "[scenario]\nname = \"mixed\"\n[global]\nsize = \"8M\"\nclass = \"runs20\"\n[cap]\nworkload = \"wscap\"\nload = \
                [1, 2]\n[matrix]\nworkload = \"map\"\ntouch = \"4k\"\n";
    let plan = plan(text);
    let kinds: BTreeSet<WorkloadKind> = plan.trials.iter().map(|t| t.settings.workload.kind()).collect();
    assert_eq!(kinds, BTreeSet::from([WorkloadKind::Wscap, WorkloadKind::Map]));
    assert!(
        ids(&plan).contains(&"cap/zram/runs20/load=2#1"),
        "{:?}",
        ids(&plan)
    );
    // A key of one section's work, given for all, holds for that section alone.
    let mixed = resolve(text, &sets(&["duration=0.5"])).unwrap();
    assert!(mixed.trials.iter().any(|trial| matches!(
        &trial.settings.workload,
        Workload::Wscap(wscap) if wscap.duration == 0.5
    )));
}

/// Pages of files never go to swap: under the name of a swap device they would pass for a result of it.
#[test]
fn memory_of_files_has_no_subject() {
    for kind in ["compression", "wscap"] {
        let text = format!(
            "[scenario]\nname = \"s\"\n[global]\nworkload = \"{kind}\"\nsubject = \"zram\"\nsize = \"16M\"\n\
             memory = [\"anonymous\", \"memfd\", \"file\"]\nthreads = [1, 4]\nrepeat = 1\n"
        );
        let plan = plan(&text);
        let mut found = ids(&plan);
        found.sort_unstable();
        let expected: Vec<String> = [("none", "file"), ("zram", "anonymous"), ("zram", "memfd")]
            .into_iter()
            .flat_map(|(subject, memory)| {
                [1, 4].map(|threads| format!("s/{subject}/random/memory={memory}/threads={threads}#1"))
            })
            .collect();
        assert_eq!(found, expected);
        for trial in &plan.trials {
            let settings = &trial.settings;
            let of_file = settings.memory() == Backing::File;
            assert_eq!(settings.maps_file(), of_file);
            assert_eq!(settings.subject == Subject::NoSwap, of_file);
            settings.check().unwrap();
            let params = settings.workload.params(settings);
            let param = |name: &str| {
                params
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| value.as_str())
            };
            assert_eq!(param("memory"), Some(settings.memory().name()));
            assert_eq!(param("threads"), Some(settings.threads().to_string().as_str()));
        }
        // The file of `size` bytes; swap files there are none.
        assert_eq!(plan.bounds().disk, 16 * MIB);
        let again = Document::parse(&Source::new("shown", plan.to_toml())).unwrap();
        let again = again.resolve(&machine(), &Overrides::default()).unwrap();
        assert_eq!(again.trials, plan.trials, "{}", plan.to_toml());
    }
}

/// A comma separates subjects of a bare list, and the options of a pager.
#[test]
fn options_of_a_pager_belong_to_the_subject_before_them() {
    let subjects = |set: &str| -> Vec<String> {
        let text = "[scenario]\nname = \"x\"\n[global]\norder = \"fixed\"\n[a]\nrepeat = 1\n";
        let plan = resolve(text, &sets(&[set])).unwrap();
        plan.trials
            .iter()
            .map(|trial| trial.settings.subject.to_string())
            .collect()
    };
    assert_eq!(
        subjects("subject=pager:lz4,trim=per-fault"),
        ["pager:lz4,trim=per-fault"]
    );
    for list in [
        "subject=[zram, pager:lz4,trim=per-fault, none,pager]",
        "subject=[zram,pager:lz4,trim=per-fault,none, pager ]",
        "subject=[\"zram\", \"pager:lz4,trim=per-fault\", \"none\", \"pager\"]",
        "subject=[zram, \"pager:lz4,trim=per-fault\", none, 'pager']",
    ] {
        assert_eq!(
            subjects(list),
            ["zram", "pager:lz4,trim=per-fault", "none", "pager"],
            "{list}"
        );
    }
}

/// The pager would ignore them without a word.
#[test]
fn settings_that_mean_nothing_to_a_pager_are_refused_by_name() {
    let refusal = |set: &str| {
        let text = "[scenario]\nname = \"x\"\n[a]\nsubject = \"pager\"\nrepeat = 1\n";
        let plan = resolve(text, &sets(&[set])).unwrap();
        plan.trials[0]
            .settings
            .check()
            .err()
            .map(|unfit| unfit.to_string())
    };
    for (set, key) in [
        ("memory=memfd", "`memory`"),
        ("thp=always", "`thp`"),
        ("thp=never", "`thp`"),
        ("trim=cgroup", "`trim`"),
        ("trim=process-madvise", "`trim`"),
    ] {
        assert!(
            refusal(set).is_some_and(|text| text.starts_with(key)),
            "{set}: {:?}",
            refusal(set)
        );
    }
    assert_eq!(refusal("threads=4"), None);
    let text = "[scenario]\nname = \"x\"\n[a]\nworkload = \"loadline\"\nsubject = \"pager\"\nrepeat = 1\n";
    let check = |set: &str| resolve(text, &sets(&[set])).unwrap().trials[0].settings.check();
    assert!(check("file-percent=50").is_err() && check("file-percent=0").is_ok());
}

/// A scenario that compares caps on the kernel's devices with a pager could not be one section.
#[test]
fn a_sweep_leaves_out_the_values_that_its_pager_does_not_take() {
    let planned = |text: &str, set: &[&str]| {
        let plan = resolve(text, &sets(set)).unwrap();
        let trials = plan.trials.iter().map(|trial| {
            let Workload::Wscap(wscap) = &trial.settings.workload else {
                panic!("{}", trial.id)
            };
            (trial.settings.subject.to_string(), wscap.cap_by.name())
        });
        (trials.collect::<Vec<_>>(), plan.omitted)
    };
    let text = "[scenario]\nname = \"x\"\n[global]\norder = \"fixed\"\nrepeat = 1\n[a]\nworkload = \"wscap\"\n\
                subject = [\"zram\", \"pager:lz4\"]\ncap-by = [\"limit\", \"balance\"]\n";
    let (trials, omitted) = planned(text, &[]);
    let expected = [("zram", "limit"), ("zram", "balance"), ("pager:lz4", "limit")];
    let expected = expected.map(|(subject, cap)| (subject.to_owned(), cap));
    assert_eq!(trials, expected);
    assert_eq!(omitted.len(), 1, "{omitted:?}");
    for part in ["`a`", "`pager:lz4`", "`cap-by = \"balance\"`"] {
        assert!(omitted[0].contains(part), "{part}: {omitted:?}");
    }
    // With no value that it takes, the check of its settings names the key.
    let (trials, omitted) = planned(text, &["cap-by=[balance, high]"]);
    assert_eq!((trials.len(), omitted), (4, vec![]));
    let refused = resolve(text, &sets(&["cap-by=balance", "subject=pager"])).unwrap();
    let refused = refused.trials[0].settings.check().unwrap_err().to_string();
    assert!(refused.contains("`cap-by`"), "{refused}");
}

/// The built-in scenario says so itself: only a change of it makes a warning.
#[test]
fn the_built_in_wscap_has_a_pager_with_the_cap_that_it_takes() {
    let document = Document::parse(&find("wscap").unwrap()).unwrap();
    let planned = |set: &[&str]| document.resolve(&machine(), &sets(set)).unwrap();
    let plan = planned(&["repeat=1"]);
    let of_pager = plan
        .trials
        .iter()
        .filter(|trial| trial.settings.subject.pager().is_some());
    let ids: Vec<&str> = of_pager.map(|trial| trial.id.as_str()).collect();
    assert_eq!(ids, ["wscap/pager:lz4/ratio=2.5/cap-by=limit#1"]);
    assert_eq!((plan.trials.len(), &plan.omitted[..]), (9, &[][..]));
    let changed = planned(&["repeat=1", "subject=[zram, pager]"]);
    assert_eq!((changed.trials.len(), changed.omitted.len()), (3, 1));
}

#[test]
fn the_cgroup_around_a_pager_has_room_beside_its_budget() {
    let text = "[scenario]\nname = \"x\"\n[global]\norder = \"fixed\"\n[a]\nsubject = [\"zram\", \"pager\"]\nrepeat = 1\n";
    let plan = resolve(text, &sets(&["size=1G", "limit=512M"])).unwrap();
    let [zram, pager] = &plan.trials[..] else {
        panic!("two trials")
    };
    assert_eq!(zram.settings.cgroup_limit(), 512 << 20);
    assert_eq!(pager.settings.cgroup_limit(), (512 + 64) << 20);
    assert!(pager.settings.subject.pager().is_some() && !pager.settings.subject.has_swap());
}

/// The pager of each consumer has tables of its own, in the budget of all.
#[test]
fn consumers_with_pagers_share_a_budget_that_holds_their_tables() {
    let text = "[scenario]\nname = \"x\"\n[a]\nworkload = \"thrash\"\nsubject = \"pager\"\nrepeat = 1\n";
    let settings = |limit: &str| {
        let set = sets(&["N=25", "S=10M", limit]);
        resolve(text, &set).unwrap().trials.remove(0).settings
    };
    let fits = settings("limit=100M");
    fits.check().unwrap();
    // A swap device holds what does not fit; a pager has none, and needs no `swap-size`.
    assert!(!fits.subject.has_swap());
    let error = settings("limit=99M").check().unwrap_err().to_string();
    for words in ["25", "100 MiB", "`limit`", "99.0 MiB", "`scale`"] {
        assert!(error.contains(words), "{error}");
    }
    // Room for 25 processes and the probes, which the kernel's subjects have in the limit.
    let room = fits.cgroup_limit() - fits.limit;
    assert_eq!(room, (64 << 20) + 25 * (512 << 10) + (8 << 20));
}

const TWO_SECTIONS: &str = "[scenario]\nname = \"x\"\n[global]\nsubject = \"zram\"\nrepeat = 1\norder = \"fixed\"\n\
                            [a]\nworkload = \"compression\"\n[b]\nworkload = \"map\"\n";

/// A scenario with a section whose work has no place for a pager was refused as a whole.
#[test]
fn sections_leave_out_a_pager_that_their_work_cannot_run_on() {
    let planned = |set: &[&str]| {
        let plan = resolve(TWO_SECTIONS, &sets(set)).unwrap();
        let of = |section: &str| -> Vec<String> {
            let trials = plan.trials.iter().filter(|trial| trial.section == section);
            let mut subjects: Vec<String> = trials.map(|trial| trial.settings.subject.to_string()).collect();
            subjects.dedup();
            subjects
        };
        (of("a"), of("b"), plan.omitted.clone())
    };
    let (a, b, omitted) = planned(&["subject=[zram, pager:zstd]"]);
    assert_eq!(
        (&a[..], &b[..]),
        (
            &["zram".to_owned(), "pager:zstd".to_owned()][..],
            &["zram".to_owned()][..]
        )
    );
    assert_eq!(omitted.len(), 1, "{omitted:?}");
    assert!(
        omitted[0].contains("`b`") && omitted[0].contains("`pager:zstd`") && !omitted[0].contains("--set"),
        "{omitted:?}"
    );
    let (a, b, omitted) = planned(&["subject=pager"]);
    assert_eq!((a, b), (vec!["pager".to_owned()], vec![]));
    assert!(
        omitted.len() == 1 && omitted[0].contains("`--set b.subject=zram`"),
        "{omitted:?}"
    );
    // The remedy.
    let (a, b, omitted) = planned(&["subject=pager", "b.subject=zram"]);
    assert_eq!(
        (a, b, omitted),
        (vec!["pager".to_owned()], vec!["zram".to_owned()], vec![])
    );
    let (_, b, omitted) = planned(&["subject=swapfile"]);
    assert_eq!((b, omitted), (vec!["swapfile".to_owned()], vec![]));
}

/// Whether the error is of the value `pager`, which the work `map` cannot run on.
fn is_pager_for_map(error: &ScenarioError) -> bool {
    let text = error.to_string();
    matches!(error, ScenarioError::Invalid(invalid) if invalid.problem == Problem::BadValue)
        && text.contains("`pager`")
        && text.contains("`map`")
}

/// A subject that the user gives to the section itself, or to sections none of which can run on it, is an error.
#[test]
fn a_pager_given_to_a_section_alone_is_refused() {
    for set in [
        &["b.subject=pager"][..],
        &["subject=zram", "b.subject=[zram, pager]"],
    ] {
        let error = resolve(TWO_SECTIONS, &sets(set)).unwrap_err();
        assert!(is_pager_for_map(&error), "{error}");
    }
    let alone = "[scenario]\nname = \"x\"\n[b]\nworkload = \"map\"\n";
    let error = resolve(alone, &sets(&["subject=pager"])).unwrap_err();
    assert!(is_pager_for_map(&error), "{error}");
}

#[test]
fn more_threads_than_pages_are_refused_by_name() {
    for workload in ["compression", "wscap"] {
        let text = format!("[scenario]\nname = \"s\"\n[global]\nworkload = \"{workload}\"\nsize = \"1M\"\n");
        let settings = |threads: u32| {
            let set = sets(&[&format!("threads={threads}")]);
            resolve(&text, &set).unwrap().trials.remove(0).settings
        };
        settings(256).check().unwrap();
        let error = settings(257).check().unwrap_err().to_string();
        assert!(
            error.contains("`threads`") && error.contains("257") && error.contains("`size`"),
            "{error}"
        );
    }
}

/// Recordings of earlier versions name neither.
#[test]
fn settings_without_a_store_and_threads_are_those_of_one_thread_on_anonymous_memory() {
    let settings = plan("[scenario]\nname = \"s\"\n").trials.remove(0).settings;
    let mut document = serde_json::to_value(&settings).unwrap();
    let own = document["workload"]["compression"].as_object_mut().unwrap();
    assert_eq!(own.remove("memory").unwrap(), "anonymous");
    assert_eq!(own.remove("threads").unwrap(), 1);
    assert_eq!(serde_json::from_value::<Settings>(document).unwrap(), settings);
}
