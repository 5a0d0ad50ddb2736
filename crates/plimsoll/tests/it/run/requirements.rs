//! A plan whose requirements this machine lacks is refused before anything starts, by `run`, `--check` and `--dry-run`.

use std::path::Path;

use plimsoll_testkit::capability;
use serde_json::Value;

use super::refusals::unprivileged;
use super::{Ended, PLIMSOLL};

/// `plimsoll run` with these arguments, and the names of its recordings.
fn run(arguments: &[&str]) -> (Ended, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = plimsoll_testkit::command(PLIMSOLL);
    command
        .arg("run")
        .args(arguments)
        .arg("--output")
        .arg(folder.path());
    let ended = Ended::of(command.output().expect("plimsoll starts"));
    let recordings = std::fs::read_dir(folder.path()).expect("the folder").count();
    (ended, recordings)
}

/// The one missing requirement of a plan: `--check`, `--dry-run` and the run itself must end with 3, and leave no recording.
fn lack(arguments: &[&str]) -> Value {
    let documents = ["--check", "--dry-run"].map(|option| {
        let (ended, _) = run(&[arguments, &[option, "--json"]].concat());
        assert_eq!(ended.code, 3, "{arguments:?} {option}: {}", ended.stderr);
        assert_eq!(
            (&ended.results["schema"], &ended.results["runs"]),
            (&1.into(), &false.into())
        );
        ended.results
    });
    assert_eq!(documents[0], documents[1]);
    let missing = documents[0]["missing"].as_array().expect("a list");
    assert_eq!(missing.len(), 1, "{missing:#?}");
    let (refused, recordings) = run(arguments);
    assert_eq!((refused.code, recordings), (3, 0), "{}", refused.stderr);
    let what = missing[0]["what"].as_str().expect("a name");
    assert!(refused.stderr.contains(what), "{}", refused.stderr);
    missing[0].clone()
}

fn names(list: &Value) -> Vec<&str> {
    let names = list.as_array().map(Vec::as_slice).unwrap_or_default();
    names.iter().filter_map(Value::as_str).collect()
}

/// The algorithms that the kernel lists for a zram device of this machine.
fn zram_algorithms() -> Option<Vec<String>> {
    let listed = std::fs::read_to_string("/sys/block/zram0/comp_algorithm").ok();
    let names = |text: String| {
        text.split_whitespace()
            .map(|name| name.trim_matches(['[', ']']).to_owned())
            .collect()
    };
    let there = capability("zram", listed.is_some(), "there is no device /dev/zram0");
    listed.filter(|_| there).map(names)
}

#[test]
fn a_zram_algorithm_that_the_kernel_lacks_is_refused_with_those_that_it_has() {
    let Some(known) = zram_algorithms() else { return };
    let there = format!("zram:{}", known[0]);
    let subjects = format!("subject=[\"{there}\", \"zram:nonesuch\"]");
    let arguments = ["compression", "--set", &subjects, "--repeat", "2", "size=16M"];
    let lack = lack(&arguments);
    assert_eq!(lack["kind"], "zram-algorithm");
    let expected: Vec<String> = known.iter().map(|name| format!("zram:{name}")).collect();
    assert_eq!(names(&lack["available"]), expected);
    let (refused, _) = run(&arguments);
    // The settings that the refusal proposes pass.
    let proposed = refused
        .stderr
        .split("--set '")
        .nth(1)
        .and_then(|rest| rest.split('\'').next());
    let proposed = proposed.unwrap_or_else(|| panic!("no proposal: {}", refused.stderr));
    let (passed, _) = run(&["compression", "--set", proposed, "size=16M", "--check"]);
    assert_eq!(passed.code, 0, "{proposed}: {}", passed.stderr);
}

#[test]
fn every_kind_of_missing_requirement_is_found_before_the_start() {
    let zswap = Path::new("/sys/module/zswap/parameters/enabled").exists();
    if zswap {
        let lack = lack(&["compression", "subject=zswap:nonesuch", "size=16M"]);
        assert_eq!(lack["kind"], "zswap-compressor");
        assert!(!names(&lack["available"]).is_empty(), "{lack:#}");
    }
    let tmpfs = lack(&["compression", "subject=swapfile", "swap-dir=/dev/shm", "size=16M"]);
    assert_eq!(tmpfs["kind"], "swap-folder");
    for folder in ["/dev/shm", "/nonexistent"] {
        let folder = format!("swap-dir={folder}");
        let files = lack(&["compression", "memory=file", &folder, "size=16M"]);
        assert_eq!(files["kind"], "swap-folder", "{files:#}");
    }
    let file = lack(&[
        "compression",
        "class=file=/nonexistent/dump",
        "size=16M",
        "subject=none",
    ]);
    assert_eq!(file["kind"], "data-file");
    let allocator = lack(&[
        "heap-larson",
        "--quick",
        "subject=preload=/nonexistent/libmalloc.so",
    ]);
    assert_eq!(allocator["kind"], "allocator");
    assert!(names(&allocator["available"]).contains(&"glibc"), "{allocator:#}");
    if Path::new("/sys/fs/cgroup/memory").exists() {
        let high = lack(&["wscap", "cap-by=high", "subject=zram", "size=16M"]);
        assert_eq!(high["kind"], "memory-high");
        assert_eq!(names(&high["available"]), ["cap-by=limit", "cap-by=balance"]);
    }
    let free = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    if free.is_ok_and(|text| text.trim() == "0") {
        let pages = lack(&[
            "map",
            "mapping=hugetlb",
            "subject=none",
            "touch=whole",
            "size=16M",
        ]);
        assert_eq!(pages["kind"], "huge-pages");
        assert!(
            names(&pages["available"]).contains(&"mapping=anonymous"),
            "{pages:#}"
        );
    }
}

#[test]
fn a_missing_privilege_is_noted_and_refuses_nothing() {
    let Some(ended) = unprivileged(&["compression", "subject=swapfile", "size=16M", "--check"]) else {
        return;
    };
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.results["runs"], true);
    let incomplete = ended.results["incomplete"].as_array().expect("a list");
    assert!(
        incomplete.iter().any(|lack| lack["kind"] == "privilege"),
        "{incomplete:#?}"
    );
    assert_eq!(ended.results["missing"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_size_that_this_machine_cannot_hold_does_not_pass_a_check() {
    let (ended, _) = run(&["compression", "size=99T", "--check", "--json"]);
    assert_eq!(
        (ended.code, &ended.results["runs"]),
        (3, &false.into()),
        "{}",
        ended.stderr
    );
    assert!(ended.results["too_large"].is_string());
}

#[test]
fn a_plan_without_a_run_is_one_json_document() {
    let document = |option: &str| {
        let (ended, recordings) = run(&["tour", option, "--json"]);
        assert_eq!((ended.code, recordings), (0, 0), "{option}: {}", ended.stderr);
        assert_eq!(ended.results["schema"], 1, "{option}");
        assert_eq!(ended.results["version"], env!("CARGO_PKG_VERSION"));
        ended.results
    };
    let (checked, planned, shown) = (document("--check"), document("--dry-run"), document("--show"));
    assert_eq!(checked, planned);
    let trials = shown["plan"]["trials"].as_array().expect("trials");
    let ids: Vec<&Value> = trials.iter().map(|trial| &trial["id"]).collect();
    let planned_ids: Vec<&Value> = planned["trials"].as_array().expect("ids").iter().collect();
    assert_eq!(planned_ids, ids);
    assert!(!ids.is_empty());
    assert_eq!(shown["plan"]["scenario"], planned["scenario"]);
    for bound in [
        "expected_s",
        "time_limit_s",
        "memory_bytes",
        "memory_limit_bytes",
        "cgroup_limit_bytes",
        "recording_bytes",
    ] {
        assert!(
            planned["bounds"][bound].as_f64().is_some_and(|value| value > 0.0),
            "{bound}: {planned:#}"
        );
    }
}
