//! `plimsoll fleet submit`, `cancel` and `collect`: their files, documents and exit codes, without an engine.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use plimsoll_fleet::Submitted;
use plimsoll_testkit::fleets::{attempt, busy_recording, finished_task, plan_json};
use serde_json::Value;
use tempfile::TempDir;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

/// A planned fleet of Slurm, with an `sbatch` of its own in `bin`.
struct Planned(TempDir);

impl Planned {
    fn new(sbatch: &str) -> Planned {
        let work = tempfile::tempdir().expect("a folder");
        fs::create_dir(work.path().join("bin")).expect("a folder");
        plimsoll_testkit::write_script(work.path().join("bin/sbatch"), sbatch);
        fs::write(work.path().join("program"), "a program").expect("written");
        let planned = Planned(work);
        let output = planned.plimsoll(&[
            "plan", "tour", "--slurm", "batch", "--tasks", "2", "--folder", "fleet", "--binary", "program",
        ]);
        assert!(output.status.success(), "{output:?}");
        planned
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("fleet")
    }

    fn plimsoll(&self, arguments: &[&str]) -> Output {
        let path = std::env::var("PATH").expect("tests have a PATH");
        let mut command = plimsoll_testkit::command(PLIMSOLL);
        command.arg("fleet").args(arguments).current_dir(self.0.path());
        command.env("PATH", format!("{}:{path}", self.0.path().join("bin").display()));
        command.output().expect("plimsoll starts")
    }
}

#[test]
fn a_dry_run_prints_the_commands_and_submits_nothing() {
    let planned = Planned::new("#!/bin/sh\ntouch submitted\n");
    let output = planned.plimsoll(&["submit", "fleet", "--dry-run"]);
    assert!(output.status.success(), "{output:?}");
    let commands = fs::read_to_string(planned.folder().join("submit.sh")).expect("the commands");
    assert_eq!(String::from_utf8_lossy(&output.stdout), commands);
    assert!(!planned.folder().join("submitted").exists());
}

#[test]
fn a_fleet_is_submitted_once() {
    let planned = Planned::new("#!/bin/sh\necho 4242\n");
    assert!(planned.plimsoll(&["submit", "fleet"]).status.success());
    let job = Submitted::read(&planned.folder())
        .expect("a file")
        .expect("it is submitted");
    assert_eq!((job.engine.as_str(), job.job.as_str()), ("slurm", "4242"));
    let again = planned.plimsoll(&["submit", "fleet"]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    let errors = String::from_utf8_lossy(&again.stderr);
    let reason = format!("already submitted as job 4242 at {}", job.at);
    assert!(
        errors.contains(&reason) && errors.contains("fleet cancel fleet"),
        "{errors}"
    );
}

#[test]
fn a_refused_submission_ends_with_3_and_can_be_repeated() {
    let planned = Planned::new("#!/bin/sh\necho 'invalid partition' >&2\nexit 1\n");
    for _ in 0..2 {
        let output = planned.plimsoll(&["submit", "fleet"]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("invalid partition"));
        assert_eq!(Submitted::read(&planned.folder()).expect("no file"), None);
    }
}

#[test]
fn a_fleet_that_is_not_submitted_cannot_be_cancelled() {
    let planned = Planned::new("#!/bin/sh\n");
    let output = planned.plimsoll(&["cancel", "fleet"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("not submitted by `fleet submit`"), "{errors}");
}

#[test]
fn commands_need_a_folder_with_a_plan() {
    let planned = Planned::new("#!/bin/sh\n");
    for command in ["submit", "cancel", "collect", "report"] {
        let output = planned.plimsoll(&[command, "nowhere"]);
        assert_eq!(output.status.code(), Some(3), "{command}: {output:?}");
    }
    fs::write(planned.folder().join("plan.json"), "{\"version\":99}").expect("written");
    let output = planned.plimsoll(&["collect", "fleet"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

#[test]
fn collect_lists_every_task_and_ends_with_2_until_all_are_done() {
    let work = tempfile::tempdir().expect("a folder");
    let folder = work.path().join("fleet");
    let tasks = folder.join("tasks");
    fs::create_dir_all(&tasks).expect("a folder");
    fs::write(folder.join("plan.json"), plan_json(&["a", "b", "c", "d"])).expect("a plan");
    let recording = busy_recording(&work.path().join("source"), 20, 1, 1);
    finished_task(&tasks, "a", "node1", &recording);
    attempt(&tasks, "b", 1, "node2", "failed", Some(2));
    fs::create_dir(tasks.join("c")).expect("a folder");
    fs::write(tasks.join("c/result.json"), "{").expect("written");
    let collect = || {
        let mut command = plimsoll_testkit::command(PLIMSOLL);
        command.args(["fleet", "collect", "--json"]).arg(&folder);
        let output = command.output().expect("plimsoll starts");
        let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
        (output.status.code(), document)
    };
    let (code, document) = collect();
    assert_eq!(code, Some(2), "{document}");
    let states: Vec<(&str, &str)> = document["tasks"]
        .as_array()
        .expect("tasks")
        .iter()
        .map(|task| {
            (
                task["id"].as_str().expect("an id"),
                task["state"].as_str().expect("a state"),
            )
        })
        .collect();
    assert_eq!(
        states,
        [("a", "done"), ("b", "failed"), ("c", "corrupt"), ("d", "missing")]
    );
    for state in ["done", "failed", "corrupt", "missing"] {
        assert_eq!(document["counts"][state], 1, "{document}");
    }
    assert_eq!(document["tasks"][1]["attempts"][0]["exit"], 2);
    fs::remove_dir_all(tasks.join("c")).expect("removed");
    for (task, host) in [("b", "node2"), ("c", "node3"), ("d", "node4")] {
        finished_task(&tasks, task, host, &recording);
    }
    let (code, document) = collect();
    assert_eq!(code, Some(0), "{document}");
    assert_eq!(
        (&document["copied"], &document["kept"]),
        (&Value::from(3), &Value::from(1))
    );
}
