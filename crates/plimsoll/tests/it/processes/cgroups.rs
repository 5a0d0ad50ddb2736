//! `plimsoll ps --cgroups` as a program: the document, the tree, hostile names, wrong options.

use std::process::Command;

use plimsoll_proc::cgroup::Hierarchy;
use plimsoll_testkit::capability;
use serde_json::Value;

use super::storms::Group;

fn plimsoll(arguments: &[&str]) -> Command {
    let mut command = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"));
    command
        .args(["ps", "--cgroups", "--interval", "0.1"])
        .args(arguments);
    command.env("NO_COLOR", "1");
    command
}

fn stdout(arguments: &[&str]) -> String {
    let output = plimsoll(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_document_of_cgroups_has_these_fields_and_parents_come_first() {
    let found = Hierarchy::of_this_process();
    if !capability("cgroup", found.is_ok(), "needs a memory cgroup hierarchy") {
        return;
    }
    let document: Value = serde_json::from_str(&stdout(&["--json", "--depth", "3"])).unwrap();
    let keys = |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(
        keys(&document),
        [
            "cgroups",
            "complete",
            "interval_s",
            "mount",
            "notes",
            "schema",
            "version"
        ]
    );
    let cgroups = document["cgroups"].as_array().unwrap();
    assert_eq!(
        keys(&cgroups[0]),
        [
            "caps",
            "depth",
            "name",
            "path",
            "refaults_per_s",
            "stalled_percent",
            "swap",
            "usage"
        ]
    );
    assert_eq!(
        (cgroups[0]["path"].as_str(), cgroups[0]["depth"].as_u64()),
        (Some("/"), Some(0))
    );
    let mut above: Vec<String> = Vec::new();
    for cgroup in &cgroups[1..] {
        let (path, depth) = (
            cgroup["path"].as_str().unwrap(),
            cgroup["depth"].as_u64().unwrap(),
        );
        assert!((1..=3).contains(&depth));
        above.truncate(depth as usize - 1);
        let (parent, name) = path.rsplit_once('/').unwrap();
        assert_eq!(above.last().map_or("", String::as_str), parent);
        assert_eq!(cgroup["name"], name);
        above.push(path.to_owned());
    }
}

/// The owner of a delegated cgroup names its children, also with control characters that clear the screen.
#[test]
fn a_hostile_name_of_a_cgroup_is_sanitized() {
    let name = "\x1b[2J\u{202e}\u{9b}31m";
    let Some(group) = Group::new(name, 64 << 20) else {
        return;
    };
    let raw = group.folder.file_name().unwrap().to_str().unwrap().to_owned();
    let acts = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
    let tree = stdout(&[]);
    assert!(!tree.contains(acts), "{tree:?}");
    let shown = raw.replace(acts, "\u{fffd}");
    let line = tree.lines().find(|line| line.ends_with(&shown)).unwrap();
    assert!(line.contains("64.0 MiB"), "{line:?}");
    let json = stdout(&["--json"]);
    assert!(!json.contains(acts));
    let document: Value = serde_json::from_str(&json).unwrap();
    let listed = document["cgroups"].as_array().unwrap();
    let entry = listed
        .iter()
        .find(|cgroup| cgroup["name"] == raw.as_str())
        .unwrap();
    assert_eq!(entry["caps"][0]["kind"], "limit");
    assert_eq!(entry["caps"][0]["bytes"], 64 << 20);
    assert!(entry["usage"].is_u64() && entry["swap"].is_u64());
}

#[test]
fn options_of_processes_are_no_options_of_cgroups() {
    for arguments in [
        &["--storm"][..],
        &["--pss"],
        &["--sort", "pid"],
        &["--sort", "cpu"],
    ] {
        let output = plimsoll(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
    let mut command = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"));
    let output = command.args(["ps", "--depth", "2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}
