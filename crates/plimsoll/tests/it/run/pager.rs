//! The pager as a subject: alone without any privilege, beside zram as root, and refused with the reason.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use plimsoll_testkit::{capability, refuse_userfaultfd, status_of_fork};
use serde_json::Value;

use super::loadline::{SEARCHES, scenario, trials_of};
use super::refusals::{as_nobody, unprivileged};
use super::{Ended, PLIMSOLL, Run, has_laboratory, phase, phase_names, phases};

const SMALL: [&str; 8] = [
    "compression",
    "--set",
    "size=32M",
    "--set",
    "hold=0.1",
    "--repeat",
    "1",
    "--wait",
];

pub(crate) fn has_userfaultfd() -> bool {
    let setting = Path::new("/proc/sys/vm/unprivileged_userfaultfd");
    capability("userfaultfd", setting.exists(), "the kernel has no userfaultfd")
}

fn metric(trial: &Value, name: &str) -> f64 {
    trial["metrics"][name]
        .as_f64()
        .unwrap_or_else(|| panic!("no {name}: {trial:#}"))
}

/// Every byte verified, the pages out of the working set, and the metrics of the pager's own store.
fn check(trial: &Value, size: f64) {
    assert_eq!(trial["verified"], true, "{trial:#}");
    assert_eq!(
        phase_names(trial),
        ["fill", "trim", "restore", "release"],
        "{trial:#}"
    );
    assert!(metric(trial, "trimmed_bytes") >= 0.95 * size, "{trial:#}");
    assert!(metric(trial, "original_bytes") >= 0.95 * size, "{trial:#}");
    // A small part of the fill may find no frame of its own, and is compressed at once.
    assert!(metric(trial, "original_bytes") <= size, "{trial:#}");
    let stored = metric(trial, "stored_bytes");
    let ratio = metric(trial, "original_bytes") / stored;
    assert!(
        (metric(trial, "stored_ratio") / ratio - 1.0).abs() < 1e-9,
        "{trial:#}"
    );
    for phase in phases(trial) {
        assert!(phase["seconds"].as_f64() > Some(0.0), "{phase:#}");
        let cpu = ["cpu_user_s", "cpu_system_s"].map(|name| phase[name].as_f64().expect("seconds"));
        assert!(
            cpu.iter().sum::<f64>() > 0.0 || phase["name"] == "release",
            "{phase:#}"
        );
    }
    assert!(trial["metrics"].get("swapped_bytes").is_none(), "{trial:#}");
}

/// `plimsoll run compression` ended with 3 for a user without root, and measured nothing but the fill.
#[test]
fn the_main_job_runs_on_the_pager_without_root() {
    if !has_userfaultfd() {
        return;
    }
    let Some(ended) = unprivileged(&SMALL) else { return };
    ended.assert_went_well();
    assert!(
        ended.warning_codes().contains(&"subject-replaced"),
        "{:#}",
        ended.results
    );
    assert!(
        !ended.warning_codes().contains(&"capability-missing"),
        "{:#}",
        ended.results
    );
    assert_eq!(ended.trials().len(), 3, "random, runs20, constant");
    let lines = ended.stderr.lines().filter(|line| line.contains("`pager`"));
    assert_eq!(lines.count(), 1, "{}", ended.stderr);
    for trial in ended.trials() {
        assert_eq!(trial["subject"], "pager");
        check(trial, f64::from(32 << 20));
    }
    let stored = |class: &str| {
        let trial = ended
            .trials()
            .iter()
            .find(|trial| trial["params"]["class"] == class);
        metric(trial.expect("a trial of each class"), "stored_bytes")
    };
    assert!(stored("random") > 32e6, "random data does not compress");
    assert!(stored("constant") < 4e6, "constant data needs next to nothing");
    assert!(stored("runs20") < stored("random") / 2.0 && stored("runs20") > stored("constant"));
}

/// Only the default subject is replaced: a subject that the user names stays, and so does its error.
#[test]
fn a_named_subject_is_not_replaced() {
    let arguments = [
        &SMALL[..],
        &["--set", "subject=[zram:lz4, pager:lz4]", "--set", "class=random"],
    ]
    .concat();
    if !has_userfaultfd() {
        return;
    }
    let Some(ended) = unprivileged(&arguments) else {
        return;
    };
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(
        !ended.warning_codes().contains(&"subject-replaced"),
        "{:#}",
        ended.results
    );
    assert!(
        ended.warning_codes().contains(&"capability-missing"),
        "{:#}",
        ended.results
    );
    for trial in ended.trials() {
        let lacks = trial["subject"] == "zram:lz4";
        assert_eq!(trial["status"] == "failed", lacks, "{trial:#}");
        match lacks {
            true => assert_eq!(phase_names(trial), ["fill", "restore", "release"], "{trial:#}"),
            false => check(trial, f64::from(32 << 20)),
        }
    }
}

/// The trials are planned before anything starts: `--check` and `--dry-run` show the plan of the run.
#[test]
fn a_plan_shows_the_subject_that_will_run() {
    if !has_userfaultfd() {
        return;
    }
    let ended = as_nobody(|command, _| {
        command.args(["run", "compression", "--dry-run", "--json", "--repeat", "1"]);
    });
    let Some(ended) = ended else { return };
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let ids = ended.trials().iter().filter_map(Value::as_str);
    let ids: Vec<&str> = ids.collect();
    assert_eq!(ids.len(), 3, "{:#}", ended.results);
    assert!(
        ids.iter().all(|id| id.starts_with("compression/pager/")),
        "{ids:?}"
    );
    assert_eq!(ended.results["missing"].as_array().map(Vec::len), Some(0));
    assert_eq!(ended.results["incomplete"].as_array().map(Vec::len), Some(0));
}

/// More memory than the pager may have: it saves pages during the fill, and loses none.
#[test]
fn a_fill_beyond_the_budget_is_a_size_that_was_not_reached() {
    if !has_userfaultfd() {
        return;
    }
    let arguments = [
        &SMALL[..],
        &[
            "--set",
            "subject=[pager, \"pager:lz4,trim=per-fault\", pager:zstd]",
        ],
        &["--set", "class=ratio=4", "--set", "limit=16M"],
    ]
    .concat();
    let Some(ended) = unprivileged(&arguments) else {
        return;
    };
    ended.assert_failed(2, "size-not-reached");
    assert_eq!(ended.trials().len(), 3);
    for trial in ended.trials() {
        assert_eq!(trial["verified"], true, "{trial:#}");
        assert!(metric(trial, "stored_bytes") < 16e6, "{trial:#}");
    }
}

/// The points of a loadline trial, by load.
fn points(trial: &Value) -> Vec<(f64, &Value)> {
    let mut points: Vec<(f64, &Value)> = phases(trial)
        .iter()
        .map(|phase| (super::phase_value(phase, "load"), phase))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Load lines of a user without root, in one run for two tests; none where this user cannot become another.
pub(super) static UNPRIVILEGED: LazyLock<Option<Ended>> = LazyLock::new(|| {
    let sections = r#"
[compressible]
subject = "pager:lz4"
class = "ratio=4"
loads = [0.5, 1, 1.5, 2, 3]
[random]
subject = "pager:lz4"
class = "random"
max-load = 3
[file]
subject = "pager:lz4,pagefile"
class = "random"
loads = [0.5, 1, 1.5, 2, 3]
"#;
    as_nobody(|command, runs| {
        let file = runs.with_file_name("sections.toml");
        std::fs::write(&file, scenario(sections)).expect("write");
        // Another user reads it, whatever the umask.
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("opened");
        command
            .arg("run")
            .arg(file)
            .args(["--json", "--output"])
            .arg(runs);
    })
});

/// The pager carries loads beyond its budget without root; data that do not compress exceed it, which is no useful work.
#[test]
fn a_load_line_of_the_pager_needs_no_root() {
    if !has_userfaultfd() {
        return;
    }
    let Some(ended) = &*UNPRIVILEGED else { return };
    for section in ["compressible", "random"] {
        let trial = trials_of(ended, section)[0];
        let compresses = section == "compressible";
        let points = points(trial);
        let at = |load: f64| points.iter().find(|(at, _)| *at == load).map(|(_, point)| *point);
        let light = at(0.5).expect("the lowest load");
        assert_eq!(super::phase_value(light, "pager_hard_faults"), 0.0, "{light:#}");
        for (_, point) in &points {
            let killed = point["values"]["oom_killed"]
                .as_f64()
                .is_some_and(|killed| killed > 0.0);
            let over = point["values"]["over_budget_bytes"].as_f64();
            assert_eq!(killed, over.is_some(), "{point:#}");
            if !killed {
                let (ram, load) = (
                    super::phase_value(point, "ram_load"),
                    super::phase_value(point, "load"),
                );
                assert!(
                    (ram / load - 1.0).abs() < 0.01,
                    "the store is in the limit: {point:#}"
                );
                assert!(super::phase_value(point, "store_bytes") > 0.0, "{point:#}");
            }
        }
        let (top, heavy) = points.last().expect("points");
        if compresses {
            assert!(
                *top >= 1.5 && super::phase_value(heavy, "visits_per_s") > 0.0,
                "{heavy:#}"
            );
            assert!(super::phase_value(heavy, "pager_hard_faults") > 0.0, "{heavy:#}");
        } else {
            assert!(super::phase_value(heavy, "over_budget_bytes") > 0.0, "{heavy:#}");
            assert!(metric(trial, "oom_killed_load") <= 2.0, "{trial:#}");
        }
    }
}

/// The fewest faults of a scan of 16 MiB under two thirds of it: each fault restores its page and 32 more at most.
///
/// A scan of cached random data has 125 to 155 on a quiet machine. A slow one has time for pages ahead, and had below 100 in
/// half a second, most of which it spent on the pages that the cap had left in RAM.
pub(super) const FEWEST_FAULTS: f64 = 4096.0 / 3.0 / 33.0;

/// Scans of 16 MiB of this class under a budget of two thirds of it. If a trial completed no scan under its budget, the run is
/// repeated with 4 s: [`FEWEST_FAULTS`] are those of a whole scan.
pub(super) fn capped_scans(subjects: &str, class: &str) -> Option<Ended> {
    let run = |duration: &str| {
        let mut arguments = vec!["wscap", "--repeat", "1"];
        let settings = [
            subjects,
            class,
            duration,
            "cap-by=limit",
            "size=16M",
            "load=1.5",
            "hold=0",
        ];
        for setting in settings {
            arguments.extend(["--set", setting]);
        }
        let ended = unprivileged(&arguments)?;
        ended.assert_went_well();
        Some(ended)
    };
    let ended = run("duration=1")?;
    let is_whole = |trial: &Value| phase(trial, "capped")["values"]["first_scan_s"].is_number();
    match ended.trials().iter().all(is_whole) {
        true => Some(ended),
        false => run("duration=4"),
    }
}

/// The text's 32 MiB cap without a cgroup: each scan of 16 MiB under a budget of 10 MiB faults on the pager. Under the
/// pathological rule, which trims a page at every fault, nearly every page faults; a balance-set manager restores ahead.
#[test]
fn a_budget_is_a_cap_that_needs_no_cgroup() {
    if !has_userfaultfd() {
        return;
    }
    let Some(ended) = capped_scans("subject=[pager:lz4, pager:lz4,trim=per-fault]", "class=ratio=4") else {
        return;
    };
    assert_eq!(ended.trials().len(), 2);
    for trial in ended.trials() {
        let names = ["fill", "uncapped", "capped", "emptied", "verify"];
        assert_eq!(phase_names(trial), names, "{trial:#}");
        let [_, uncapped, capped, emptied, _] = phases(trial) else {
            panic!("five phases: {trial:#}");
        };
        let faults = |phase: &Value| super::phase_value(phase, "faults_per_scan_count");
        assert_eq!(faults(uncapped), 0.0, "{trial:#}");
        assert!(faults(capped) > FEWEST_FAULTS, "{trial:#}");
        assert!(super::phase_value(emptied, "stayed_bytes") < 1e6, "{trial:#}");
        assert!(metric(trial, "slowdown_ratio") > 1.0, "{trial:#}");
        assert_eq!(trial["params"]["mechanism"], "budget of the worker's pager");
    }
    let of = |subject: &str, name: &str| {
        let mut trials = ended.trials().iter();
        metric(
            trials.find(|trial| trial["subject"] == subject).expect(subject),
            name,
        )
    };
    // Measured, five times: 25 to 28 times the faults, 5 to 7 times the CPU time.
    for (name, factor) in [("faults_per_scan_count", 8.0), ("cpu_slowdown_ratio", 2.0)] {
        let (balanced, per_fault) = (of("pager:lz4", name), of("pager:lz4,trim=per-fault", name));
        assert!(
            per_fault > factor * balanced,
            "{name}: {per_fault} and {balanced}"
        );
    }
}

/// Every scenario that can run on the pager, small.
const BARE: [&[&str]; 5] = [
    &["compression", "size=16M", "hold=0"],
    &["loadline", "limit=16M", "max-load=1.5", "duration=0.1"],
    &["wscap", "size=32M", "duration=0.1", "hold=0"],
    &[
        "thrash",
        "N=3",
        "S=16M",
        "limit=32M",
        "W=100",
        "tc=0.3",
        "hold=0.1",
    ],
    &["contention", "size=16M", "hold=0"],
];

/// README says that these measure the pager without root. `loadline` and `wscap` named other subjects alone, and measured
/// nothing.
#[test]
fn without_root_every_bare_scenario_has_verified_trials_of_the_pager() {
    if !has_userfaultfd() {
        return;
    }
    for bare in BARE {
        let Some(ended) = unprivileged(&[bare, &["--wait", "--repeat", "1"]].concat()) else {
            return;
        };
        let of_pager = |trial: &&Value| {
            let subject = trial["subject"].as_str();
            subject.is_some_and(|subject| subject.starts_with("pager"))
        };
        let trials: Vec<&Value> = ended.trials().iter().filter(of_pager).collect();
        assert!(!trials.is_empty(), "{bare:?}: {}", ended.stderr);
        for trial in trials {
            assert_ne!(trial["status"], "failed", "{trial:#}");
            assert_eq!(trial["verified"], true, "{trial:#}");
        }
        // The trials of other subjects failed, if the scenario has any.
        let lacks = ended.warning_codes().contains(&"capability-missing");
        assert_eq!(ended.code == 3, lacks, "{bare:?}: {}", ended.stderr);
    }
}

/// The cap as the limit of a cgroup and as the budget of a pager, and the kernel's other way, in one section.
#[test]
fn wscap_on_zram_and_on_the_pager_is_one_report() {
    if !has_userfaultfd() || !has_laboratory() {
        return;
    }
    let small = [
        "subject=[zram:lz4, pager:lz4]",
        "size=32M",
        "duration=0.3",
        "hold=0",
    ];
    let run = Run::of("wscap", &[&small[..], &["--repeat", "1"]].concat());
    let ended = run.finish();
    ended.assert_went_well();
    let trials = ended.trials().iter();
    let mut shown: Vec<[&str; 2]> = trials
        .map(|trial| {
            [&trial["subject"], &trial["params"]["cap-by"]].map(|text| text.as_str().expect("a text"))
        })
        .collect();
    shown.sort_unstable();
    let expected = [
        ["pager:lz4", "limit"],
        ["zram:lz4", "balance"],
        ["zram:lz4", "limit"],
    ];
    assert_eq!(shown, expected);
    assert!(
        ended.warning_codes().contains(&"subject-omitted"),
        "{}",
        ended.stderr
    );
    for trial in ended.trials() {
        assert!(metric(trial, "faults_per_scan_count") > 0.0, "{trial:#}");
    }
    let recording = run.recording().expect("a recording");
    let page = std::fs::read_to_string(recording.join("report.html")).expect("a page");
    for subject in ["zram:lz4", "pager:lz4"] {
        assert!(page.contains(&format!("<td>{subject} ")), "no {subject}");
    }
    check_samples(&samples(&recording));
}

/// The samples of a recording, as `plimsoll export` prints them.
pub(super) fn samples(recording: &Path) -> String {
    let mut export = plimsoll_testkit::command(PLIMSOLL);
    export.arg("export").arg(recording);
    let table = export
        .args(["--format", "csv"])
        .output()
        .expect("plimsoll starts");
    String::from_utf8(table.stdout).expect("UTF-8")
}

/// The samples of a recording show the pager's memory in frames and in its store.
///
/// A worker makes its pager when it fills its memory. The samples had looked for pagers only before that, and the timeline of
/// these experiments had no pager.
fn check_samples(table: &str) {
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("a heading");
    let column = |wanted: &str| names.iter().position(|name| *name == wanted).expect("a column");
    let (active, compressed) = (column("target_pager_active"), column("target_pager_compressed"));
    let holds = |cell: &str| cell.parse::<f64>().is_ok_and(|bytes| bytes > f64::from(1 << 20));
    let (mut in_frames, mut in_store) = (0, 0);
    for line in lines {
        in_frames += u32::from(holds(line[active]));
        in_store += u32::from(holds(line[compressed]));
    }
    assert!(
        in_frames > 0 && in_store > 0,
        "{in_frames} and {in_store} samples"
    );
}

/// One chart with a line for each.
#[test]
fn load_lines_of_pager_and_zram_are_drawn_together() {
    if !has_userfaultfd() || !has_laboratory() {
        return;
    }
    let [zram, pager] = ["zram", "pager"].map(|section| trials_of(&SEARCHES.ended, section));
    for trial in zram.into_iter().chain(pager) {
        let of_pager = trial["subject"] == "pager:lz4";
        for (_, point) in points(trial) {
            let faults = point["values"]["pager_hard_faults"].as_f64();
            assert_eq!(faults.is_some(), of_pager, "{point:#}");
        }
    }
    assert!(SEARCHES.page.contains("data-chart=\"work-over-load\""));
    for subject in ["zram:lz4", "pager:lz4"] {
        assert!(SEARCHES.page.contains(subject), "no {subject}");
    }
}

#[test]
fn the_samples_show_the_states_of_the_pager() {
    if !has_userfaultfd() || !has_laboratory() {
        return;
    }
    check_samples(&SEARCHES.samples);
}

/// Rows of one report: the same classes over both, in one run of root.
#[test]
fn pager_and_zram_are_rows_of_one_report() {
    if !has_userfaultfd() || !has_laboratory() {
        return;
    }
    let subjects = "subject=[zram:lz4, pager:lz4, \"pager:zstd,trim=per-fault\"]";
    let run = Run::new(&[
        "--set",
        subjects,
        "--set",
        "class=[random, ratio=2.5]",
        "--set",
        "threads=2",
    ]);
    let ended = run.finish();
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 6);
    for trial in ended.trials() {
        match trial["subject"].as_str() {
            Some("zram:lz4") => assert!(trial["metrics"].get("swapped_bytes").is_some(), "{trial:#}"),
            _ => check(trial, f64::from(32 << 20)),
        }
    }
    let recording = run.recording().expect("a recording");
    check_samples(&samples(&recording));
    let shown = |format: &[&str]| {
        let mut command = plimsoll_testkit::command(PLIMSOLL);
        let output = command.arg("report").arg(&recording).args(format).output();
        let output = output.expect("plimsoll starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let page = std::fs::read_to_string(recording.join("report.html")).expect("a page");
    for text in [
        shown(&["--json"]),
        shown(&["--format", "csv"]),
        shown(&["--format", "markdown"]),
        page,
    ] {
        for subject in ["zram:lz4", "pager:lz4", "pager:zstd,trim=per-fault"] {
            assert!(text.contains(subject), "no {subject} in {text}");
        }
    }
}

/// In a container whose seccomp profile refuses userfaultfd, the run says which setting is to change, and records nothing.
#[test]
fn a_refused_userfaultfd_ends_the_run_with_the_setting() {
    let status = status_of_fork(|| {
        refuse_userfaultfd(libc::EPERM, true);
        let folder = tempfile::tempdir().expect("a folder");
        let run = |arguments: &[&str]| {
            let mut command: Command = plimsoll_testkit::command(PLIMSOLL);
            command
                .arg("run")
                .args(SMALL)
                .args(["--set", "subject=pager:lz4"]);
            command.args(arguments).arg("--output").arg(folder.path());
            Ended::of(command.output().expect("plimsoll starts"))
        };
        run(&[]).assert_refused(3, &["seccomp", "--security-opt"]);
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
        let planned = run(&["--check", "--json"]);
        assert_eq!(planned.code, 3, "{}", planned.stderr);
        assert_eq!(
            planned.results["missing"][0]["kind"], "userfaultfd",
            "{:#}",
            planned.results
        );
    });
    assert_eq!(status, 0);
}
