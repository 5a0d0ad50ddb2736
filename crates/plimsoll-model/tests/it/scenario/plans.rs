//! Plans that scenarios resolve to.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use plimsoll_model::scenario::{
    AllocatorSet, Amount, Compression, Document, FillClass, HeapLoad, Level, Machine, Order, Overrides,
    PAGER_OPTIONS, PagerCodec, Problem, ScenarioError, Settings, Source, SpeedHints, Subject, TrimMechanism,
    Workload, WorkloadKind, builtin, find, keys_help, keys_markdown,
};

use super::{GIB, MIB, machine, parse, plan, quick, resolve, sets};

fn compression(settings: &Settings) -> &Compression {
    match &settings.workload {
        Workload::Compression(compression) => compression,
        other => panic!("{other:?} is no compression"),
    }
}

pub(super) fn ids(plan: &plimsoll_model::scenario::Plan) -> Vec<&str> {
    plan.trials.iter().map(|trial| trial.id.as_str()).collect()
}

#[test]
fn built_in_scenarios_resolve_on_every_machine() {
    let machines = [
        machine(),
        Machine {
            ram: 64 * MIB,
            available: 0,
            cgroup_limit: None,
            cpus: 1,
            allocators: AllocatorSet::default(),
        },
        Machine {
            ram: 6 << 40,
            available: 5 << 40,
            cgroup_limit: Some(512 * MIB),
            cpus: 256,
            allocators: AllocatorSet::default(),
        },
    ];
    for builtin in builtin() {
        let document = Document::parse(&find(builtin.name).unwrap()).unwrap();
        assert_eq!(document.name(), builtin.name);
        for machine in &machines {
            let full = document.resolve(machine, &Overrides::default()).unwrap();
            assert_eq!(full.title, builtin.title);
            assert!(!full.description.is_empty());
            for trial in &full.trials {
                let settings = &trial.settings;
                assert!(settings.size() >= MIB, "{}", trial.id);
                // Only what is meant to run short has less than it asks for.
                let short = matches!(
                    settings.workload.kind(),
                    WorkloadKind::Thrash | WorkloadKind::Loadline
                );
                assert_eq!(short, settings.limit < settings.size(), "{}", trial.id);
            }
            let quick = document.resolve(machine, &quick()).unwrap();
            let seconds = quick.estimate(&SpeedHints::default()).seconds;
            assert!((5.0..=75.0).contains(&seconds), "{}: {seconds} s", builtin.name);
        }
    }
}

#[test]
fn compression_is_three_classes_three_times() {
    let document = Document::parse(&find("compression").unwrap()).unwrap();
    let plan = document.resolve(&machine(), &quick()).unwrap();
    assert_eq!(plan.trials.len(), 9);
    let settings = &plan.trials[0].settings;
    assert_eq!(
        (settings.size(), compression(settings).request),
        (256 * MIB, 64 * MIB)
    );
    assert_eq!(settings.limit, 256 * MIB + 32 * MIB + 64 * MIB);
    assert!(ids(&plan).contains(&"compression/zram/runs20#3"));
}

#[test]
fn a_bare_list_of_subjects_keeps_the_profile_of_a_heap() {
    let document = Document::parse(&find("heap-large").unwrap()).unwrap();
    let subjects = |list: &str| {
        let set = format!("subject={list}");
        let plan = document.resolve(&machine(), &sets(&[&set])).unwrap();
        let subjects = plan.trials.iter().map(|trial| trial.settings.subject.to_string());
        subjects.collect::<BTreeSet<String>>()
    };
    let expected = ["glibc", "plimsoll:lfh", "plimsoll:lfh,hardened"].map(str::to_owned);
    for list in [
        "[glibc, plimsoll:lfh, plimsoll:lfh,hardened]",
        "[glibc, \"plimsoll:lfh\", \"plimsoll:lfh,hardened\"]",
    ] {
        assert_eq!(subjects(list), BTreeSet::from(expected.clone()), "{list}");
    }
}

/// The work of the trials of a built-in heap scenario, for every allocator, as `THREADS x BLOCKS of SIZES`.
fn heap_loads(name: &str) -> BTreeSet<String> {
    let document = Document::parse(&find(name).unwrap()).unwrap();
    let plan = document.resolve(&machine(), &Overrides::default()).unwrap();
    let loads = plan.trials.iter().map(|trial| match &trial.settings.workload {
        Workload::Heap(heap) if heap.load == HeapLoad::CrossThread => {
            format!("{} x pairs of {}", heap.threads, heap.sizes)
        }
        Workload::Heap(heap) if heap.has_blocks() => {
            format!("{} x {} of {}", heap.threads, heap.blocks, heap.sizes)
        }
        Workload::Heap(heap) => format!("{} x {} MiB of {}", heap.threads, heap.volume / MIB, heap.sizes),
        other => panic!("{name} is no load on malloc: {other:?}"),
    });
    loads.collect()
}

fn loads(threads: &[u32], what: &str) -> BTreeSet<String> {
    threads
        .iter()
        .map(|threads| format!("{threads} x {what}"))
        .collect()
}

/// The parameters of the talks behind these scenarios.
#[test]
fn the_heap_scenarios_have_the_parameters_of_their_talk() {
    let mut replacement = BTreeSet::new();
    for sizes in ["0-1k", "1-2k", "22"] {
        replacement.append(&mut loads(&[1, 16], &format!("10000 of {sizes}")));
        replacement.append(&mut loads(&[1], &format!("100000 of {sizes}")));
    }
    assert_eq!(heap_loads("heap-replacement"), replacement);
    let mut scaling = BTreeSet::new();
    for sizes in ["0-1k", "1-2k"] {
        let threads = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
        scaling.append(&mut loads(&threads, &format!("100000 of {sizes}")));
    }
    assert_eq!(heap_loads("heap-scaling"), scaling);
    let mut larson = loads(&[1, 2, 4, 16, 64], "3000 of 0-1k");
    larson.append(&mut loads(&[2], "50000 of 1-2k"));
    assert_eq!(heap_loads("heap-larson"), larson);
    assert_eq!(
        heap_loads("heap-aggressive"),
        loads(&[1, 2, 4, 8], "50 MiB of 32")
    );
    assert_eq!(heap_loads("heap-large"), loads(&[1, 4], "64 of 16-1024k"));
    assert_eq!(heap_loads("heap-idle-threads"), loads(&[1000], "16 of 0-1k"));
    let mut cross = loads(&[2, 4], "pairs of 8-2048");
    cross.append(&mut loads(&[2, 8], "pairs of log:8-1000"));
    assert_eq!(heap_loads("heap-cross-thread"), cross);
    let fragmentation = heap_loads("heap-fragmentation");
    assert!(
        fragmentation.iter().all(|load| load.starts_with("1 x 70 MiB")),
        "{fragmentation:?}"
    );
}

#[test]
fn defaults_fit_the_machine() {
    let bare = "[scenario]\nname = \"bare\"\n";
    let settings = &plan(bare).trials[0].settings;
    assert_eq!(settings.size(), GIB, "a tenth of 12 GiB is more than the most");
    assert_eq!(compression(settings).request, 256 * MIB);
    assert_eq!(settings.limit, GIB + GIB / 8 + 64 * MIB);
    assert_eq!(
        settings.swap_size,
        (GIB + GIB / 10 + 16 * MIB).next_multiple_of(4096)
    );
    assert_eq!(
        (&settings.subject, settings.class()),
        (&Subject::Zram(None), Some(&FillClass::Random))
    );

    let small = Machine {
        cgroup_limit: Some(GIB),
        ..machine()
    };
    let plan = parse(bare)
        .unwrap()
        .resolve(&small, &Overrides::default())
        .unwrap();
    assert_eq!(
        plan.trials[0].settings.size(),
        102 * MIB,
        "a tenth of the cgroup's limit, in whole MiB"
    );
}

#[test]
fn a_file_without_sections_is_one_section_of_its_name() {
    let plan = plan("[scenario]\nname = \"alone\"\n[global]\nsize = \"64M\"\nrepeat = 2\n");
    assert_eq!(ids(&plan), ["alone/zram/random#1", "alone/zram/random#2"]);
}

#[test]
fn sizes_are_shares_of_ram_size_and_limit() {
    let text = "[scenario]\nname = \"s\"\n[a]\nsize = \"25%\"\nlimit = \"120% size\"\nrequest = \"12.5% of limit\"\n\
        swap-size = \"200% size\"\n";
    let settings = &plan(text).trials[0].settings;
    let limit = (4 * GIB * 6 / 5).next_multiple_of(4096);
    assert_eq!(settings.size(), 4 * GIB);
    assert_eq!(settings.limit, limit);
    assert_eq!(compression(settings).request, (limit / 8).next_multiple_of(4096));
    assert_eq!(settings.swap_size, 8 * GIB);
    // Of RAM means of what is left of it to us.
    let capped = Machine {
        cgroup_limit: Some(2 * GIB),
        ..machine()
    };
    let plan = parse(text)
        .unwrap()
        .resolve(&capped, &Overrides::default())
        .unwrap();
    assert_eq!(plan.trials[0].settings.size(), GIB / 2);
}

#[test]
fn a_request_is_at_most_the_size_and_sizes_are_whole_pages() {
    let text = "[scenario]\nname = \"s\"\n[a]\nsize = 10000\nrequest = \"1G\"\n";
    let settings = &plan(text).trials[0].settings;
    assert_eq!((settings.size(), compression(settings).request), (12288, 12288));
}

#[test]
fn layers_win_in_their_order() {
    let text = "[scenario]\nname = \"s\"\n[global]\nhold = 1\nrepeat = 1\nswappiness = 10\n\
        [a]\nhold = 2\nswappiness = \"system\"\n[b]\n[quick]\nhold = 3\n";
    let holds = |overrides: &Overrides| {
        let mut trials = resolve(text, overrides).unwrap().trials;
        trials.sort_by(|x, y| x.section.cmp(&y.section));
        (
            compression(&trials[0].settings).filling.hold,
            compression(&trials[1].settings).filling.hold,
        )
    };
    assert_eq!(holds(&Overrides::default()), (2.0, 1.0));
    assert_eq!(holds(&quick()), (3.0, 3.0));
    assert_eq!(holds(&sets(&["global.hold=7"])), (2.0, 7.0));
    assert_eq!(holds(&sets(&["hold=7"])), (7.0, 7.0));
    assert_eq!(holds(&sets(&["a.hold=8", "hold=7"])), (8.0, 7.0));
    assert_eq!(holds(&sets(&["hold=7", "hold=500ms"])), (0.5, 0.5));
    let both = Overrides {
        quick: true,
        ..sets(&["quick.hold=9", "b.hold=4"])
    };
    assert_eq!(holds(&both), (9.0, 4.0));
    let plan = resolve(text, &Overrides::default()).unwrap();
    let swappiness = |section: &str| {
        plan.trials
            .iter()
            .find(|t| t.section == section)
            .unwrap()
            .settings
            .swappiness
    };
    assert_eq!((swappiness("a"), swappiness("b")), (None, Some(10)));
}

#[test]
fn set_takes_lists_quoted_or_not() {
    let text = "[scenario]\nname = \"s\"\n[a]\n";
    for list in [
        "class=[random, runs20 , ratio=2.5]",
        "class=[\"random\",\"runs20\",\"ratio=2.5\"]",
    ] {
        let plan = resolve(
            text,
            &Overrides {
                repeat: Some(1),
                ..sets(&[list, "order=fixed"])
            },
        )
        .unwrap();
        assert_eq!(
            ids(&plan),
            ["a/zram/random#1", "a/zram/runs20#1", "a/zram/ratio=2.5#1"]
        );
    }
    let plan = resolve(text, &sets(&["size=25%", "class=file=/a=b", "a.swappiness=0"])).unwrap();
    let settings = &plan.trials[0].settings;
    assert_eq!(settings.size(), 4 * GIB);
    assert_eq!(settings.class(), Some(&FillClass::File("/a=b".into())));
    assert_eq!(settings.swappiness, Some(0));
}

#[test]
fn repeat_and_seed_options_win() {
    let text = "[scenario]\nname = \"s\"\n[global]\nseed = 5\n[a]\nrepeat = 2\n[quick]\nrepeat = 3\n";
    let overrides = Overrides {
        quick: true,
        repeat: Some(4),
        seed: Some(u64::MAX),
        ..sets(&["a.repeat=7", "seed=6"])
    };
    let plan = resolve(text, &overrides).unwrap();
    assert_eq!((plan.trials.len(), plan.seed), (4, u64::MAX));
    let again = resolve(&plan.to_toml(), &quick()).unwrap();
    assert_eq!(again, plan, "the largest seed is kept");
}

#[test]
fn fixed_order_is_as_written_repeat_by_repeat() {
    let text = "[scenario]\nname = \"s\"\n[global]\norder = \"fixed\"\nrepeat = 2\nsubject = [\"zram\", \"none\"]\n\
        [a]\nhold = [1, 0.5]\nclass = \"constant\"\n[b]\nsubject = \"swapfile\"\nrepeat = 1\n";
    assert_eq!(
        ids(&plan(text)),
        [
            "a/zram/constant/hold=1#1",
            "a/zram/constant/hold=0.5#1",
            "a/none/constant/hold=1#1",
            "a/none/constant/hold=0.5#1",
            "b/swapfile/random#1",
            "a/zram/constant/hold=1#2",
            "a/zram/constant/hold=0.5#2",
            "a/none/constant/hold=1#2",
            "a/none/constant/hold=0.5#2",
        ]
    );
}

#[test]
fn random_order_shuffles_within_repeats_by_the_seed() {
    let text = "[scenario]\nname = \"s\"\n[a]\nhold = [0,1,2,3,4,5,6,7,8,9]\n";
    let seeded = |seed| {
        resolve(
            text,
            &Overrides {
                seed: Some(seed),
                ..Overrides::default()
            },
        )
        .unwrap()
    };
    let plan = seeded(1);
    assert_eq!(ids(&plan), ids(&seeded(1)));
    assert_ne!(ids(&plan), ids(&seeded(2)));
    let rounds: Vec<Vec<f64>> = plan
        .trials
        .chunks(10)
        .map(|round| {
            round
                .iter()
                .map(|trial| compression(&trial.settings).filling.hold)
                .collect()
        })
        .collect();
    assert_ne!(rounds[0], rounds[1], "another repeat has another order");
    for (number, round) in rounds.iter().enumerate() {
        assert!(
            plan.trials[number * 10..][..10]
                .iter()
                .all(|t| t.repeat as usize == number + 1)
        );
        assert_eq!(
            round
                .iter()
                .map(|hold| *hold as u64)
                .collect::<HashSet<_>>()
                .len(),
            10
        );
    }
    // The order that this seed has meant since the first version: recordings are compared by it.
    assert_eq!(rounds[0], ORDER_OF_SEED_1);
}

const ORDER_OF_SEED_1: [f64; 10] = [8.0, 3.0, 0.0, 2.0, 4.0, 5.0, 7.0, 6.0, 9.0, 1.0];

#[test]
fn swept_sizes_keep_what_follows_them_when_shown() {
    let text =
        "[scenario]\nname = \"s\"\n[a]\nsize = [\"256M\", \"1G\"]\nlimit = [\"120% size\", \"60% size\"]\n";
    let plan = plan(text);
    insta::assert_snapshot!(plan.to_toml());
    assert_eq!(plan.trials.len(), 12);
    let of = |id: &str| compression(&plan.trials.iter().find(|t| t.id == id).unwrap().settings).request;
    assert_eq!(of("a/zram/random/size=1G/limit=629148K#1"), 256 * MIB);
}

#[test]
fn quick_without_a_quick_table_fits_a_minute() {
    let text = "[scenario]\nname = \"s\"\n[a]\nsize = [\"1G\", \"4G\", \"25%\", \"50%\"]\nlimit = \"2G\"\nhold = 30\n\
        class = [\"random\", \"runs20\", \"constant\"]\nrepeat = 10\n";
    let text = text.replace("\"4G\", ", "");
    let plan = resolve(&text, &quick()).unwrap();
    assert_eq!(plan.trials.len(), 9, "once each");
    let estimate = plan.estimate(&SpeedHints::default());
    assert!(estimate.seconds <= 61.0, "{estimate:?}");
    let size = |index: usize| {
        plan.sections[0].keys[0].1[index]
            .parse::<plimsoll_model::scenario::SizeExpr>()
            .unwrap()
    };
    assert_eq!(size(2), plimsoll_model::scenario::SizeExpr::Bytes(256 * MIB));
    assert_eq!(
        size(0),
        plimsoll_model::scenario::SizeExpr::Bytes(32 * MIB),
        "all shrink by the same factor"
    );
    assert_eq!(plan.trials[0].settings.limit, 64 * MIB);
    assert_eq!(compression(&plan.trials[0].settings).filling.hold, 0.5);

    // What the command line says is meant as it is written.
    let asked = resolve(
        &text,
        &Overrides {
            quick: true,
            ..sets(&["size=3G", "hold=4", "repeat=2"])
        },
    )
    .unwrap();
    let settings = &asked.trials[0].settings;
    assert_eq!(
        (
            settings.size(),
            compression(settings).filling.hold,
            asked.trials.len()
        ),
        (3 * GIB, 4.0, 6)
    );
}

#[test]
fn estimates_count_what_is_used() {
    let text = "[scenario]\nname = \"s\"\n[a]\nsize = \"1G\"\nlimit = \"512M\"\nclass = \"ratio=2\"\nrepeat = 2\nhold = 10\n";
    let hints = SpeedHints::default();
    let zram = plan(text).estimate(&hints);
    assert_eq!((zram.peak_memory_bytes, zram.disk_bytes), (GIB, 0));
    assert!(zram.seconds > 40.0);
    let file = resolve(text, &sets(&["subject=swapfile", "swap-size=2G"]))
        .unwrap()
        .estimate(&hints);
    assert_eq!((file.peak_memory_bytes, file.disk_bytes), (GIB / 2, 2 * GIB));
    let faster = SpeedHints {
        disk_gb_per_s: 10.0,
        ..hints
    };
    let sped = resolve(text, &sets(&["subject=swapfile"]))
        .unwrap()
        .estimate(&faster);
    assert!(sped.seconds < file.seconds);
}

#[test]
fn choices_are_called_as_in_recordings() {
    for (key, names) in [
        ("trim", vec!["worker", "process-madvise", "cgroup"]),
        ("thp", vec!["system", "always", "never"]),
        ("memory", vec!["anonymous", "memfd", "file"]),
    ] {
        for name in names {
            let plan = resolve("[scenario]\nname = \"s\"\n", &sets(&[&format!("{key}={name}")])).unwrap();
            let settings = serde_json::to_value(&plan.trials[0].settings).unwrap();
            assert_eq!(settings["workload"]["compression"][key], name);
        }
    }
    let fixed = resolve("[scenario]\nname = \"s\"\n", &sets(&["order=fixed"])).unwrap();
    assert_eq!(fixed.order, Order::Fixed);
}

#[test]
fn a_fallback_changes_the_subject_alone() {
    let settings = plan("[scenario]\nname = \"s\"\n").trials.remove(0).settings;
    let fallback = settings.with_subject(Subject::SwapFile);
    assert_eq!(fallback.subject, Subject::SwapFile);
    assert_eq!(fallback.with_subject(Subject::Zram(None)), settings);
    assert_eq!(compression(&settings).trim, TrimMechanism::Worker);
}

#[test]
fn a_chapter_of_each_workload_has_its_keys() {
    let chapters = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src");
    let chapters: Vec<String> = std::fs::read_dir(chapters)
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok())
        .collect();
    let workloads = WorkloadKind::ALL.map(|kind| (kind.name(), Some(kind)));
    for (name, kind) in workloads.into_iter().chain([("every workload", None)]) {
        let mark = |edge| format!("<!-- keys of {name}: {edge} -->\n");
        let tables: Vec<&str> = chapters
            .iter()
            .filter_map(|chapter| chapter.split_once(&mark("begin"))?.1.split_once(&mark("end")))
            .map(|(table, _)| table)
            .collect();
        let expected = keys_markdown(kind);
        assert_eq!(
            tables,
            [&expected],
            "put this into the chapter:\n{}{expected}{}",
            mark("begin"),
            mark("end")
        );
    }
}

#[test]
fn the_example_of_the_reference_page_is_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/scenarios.md");
    let page = std::fs::read_to_string(path).unwrap();
    let example = page
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    let plan = Document::parse(&Source::new("scenarios.md", example))
        .unwrap()
        .resolve(&machine(), &Overrides::default())
        .unwrap();
    // Named on the page as an example of a trial's name.
    assert!(
        ids(&plan).contains(&"thorough/zram:zstd/file=/srv/data/dump.bin/limit=1G#2"),
        "{:?}",
        ids(&plan)
    );
    assert!(page.contains("thorough/zram:zstd/file=/srv/data/dump.bin/limit=314576K#2"));
    for subject in ["zram", "zswap", "swapfile", "none"] {
        assert!(keys_help(WorkloadKind::Map).contains("subject") && page.contains(&format!("`{subject}`")));
    }
    for option in PAGER_OPTIONS {
        let row = format!("| `{}` | {} |\n", option.example, option.meaning);
        assert!(
            page.contains(&row),
            "put this into the table of a pager's options:\n{row}"
        );
    }
    for (_, codec) in PagerCodec::ALL {
        assert!(page.contains(&format!("`{codec}`")), "{codec}");
    }
}

#[test]
fn a_background_is_a_level_and_a_list_is_a_sweep() {
    let plan = plan(
        "[scenario]\nname = \"x\"\n[global]\nbackground = [\"used=80%\", \"bytes=1G\"]\nrepeat = 1\norder = \"fixed\"\n[a]\n",
    );
    let levels = plan.trials.iter().map(|trial| trial.settings.background);
    assert_eq!(
        levels.collect::<Vec<_>>(),
        [
            Some(Level::Used(Amount::Share(80_000))),
            Some(Level::Bytes(Amount::Bytes(GIB)))
        ]
    );
    assert_eq!(plan.backgrounds(), "used=80%, bytes=1G");
    let written = serde_json::to_value(&plan.trials[0].settings).unwrap();
    assert_eq!(written["background"], "used=80%");
    // A plan that is shown resolves to itself.
    let shown = parse(&plan.to_toml()).unwrap();
    let again = shown.resolve(&machine(), &Overrides::default()).unwrap();
    assert_eq!(again.backgrounds(), plan.backgrounds());
}

#[test]
fn a_trial_without_a_background_does_not_name_one() {
    let plan = plan("[scenario]\nname = \"x\"\n[global]\nrepeat = 1\n[a]\n");
    let settings = &plan.trials[0].settings;
    assert_eq!((settings.background, plan.backgrounds().as_str()), (None, ""));
    let written = serde_json::to_value(settings).unwrap();
    assert!(written.get("background").is_none(), "{written:#}");
    assert!(!plan.to_toml().contains("background"));
}

#[test]
fn other_backgrounds_are_refused() {
    for (level, problem) in [
        ("free=1G", Problem::BadValue),
        ("80%", Problem::BadValue),
        ("used=80% size", Problem::BadValue),
        ("used=101%", Problem::OutOfRange),
        ("used=0", Problem::OutOfRange),
    ] {
        let refused = resolve(
            &format!("[scenario]\nname = \"x\"\n[a]\nbackground = \"{level}\"\n"),
            &Overrides::default(),
        );
        match refused {
            Err(ScenarioError::Invalid(invalid)) => assert_eq!(invalid.problem, problem, "{level}"),
            other => panic!("{level}: {other:?}"),
        }
    }
}
