//! `plimsoll fleet collect`: the data set, as other programs read it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use plimsoll_testkit::fleets::{attempt, busy_recording, finished_task, plan_json};

/// A fleet's folder with two results of other numbers of samples, a failed task and a missing one.
fn fleet() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tasks = folder.path().join("tasks");
    for (id, host, rows) in [("007", "node-1", 30), ("b", "x=y/z", 700)] {
        let recording = busy_recording(&folder.path().join(format!("source-{id}")), rows, 2, rows as u64);
        finished_task(&tasks, id, host, &recording);
    }
    attempt(&tasks, "c", 1, "node-3", "failed", Some(2));
    fs::write(
        folder.path().join("plan.json"),
        plan_json(&["007", "b", "c", "d"]),
    )
    .unwrap();
    folder
}

fn collect(folder: &Path) -> Output {
    plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["fleet", "collect", "--json"])
        .arg(folder)
        .output()
        .expect("plimsoll starts")
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The facts that a reader finds in a data set; `None` if Python lacks the module.
fn facts(module: &str, data: &Path) -> Option<Value> {
    let import = ["-c", &format!("import {module}")];
    let there = plimsoll_testkit::command("python3").args(import).output();
    let there = there.is_ok_and(|output| output.status.success());
    if !plimsoll_testkit::capability(module, there, "python3 cannot import it") {
        return None;
    }
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/open_data_set.py");
    let output = plimsoll_testkit::command("python3")
        .arg(script)
        .arg(module)
        .arg(data)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{module}: {said}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn pyarrow_and_duckdb_read_the_data_set_alike() {
    let fleet = fleet();
    let output = collect(fleet.path());
    assert_eq!(output.status.code(), Some(2), "two tasks are not done");
    let rows = document(&output)["tasks"].clone();
    let found: Vec<Value> = ["pyarrow", "duckdb"]
        .into_iter()
        .filter_map(|module| facts(module, &fleet.path().join("data")))
        .collect();
    assert!(found.windows(2).all(|two| two[0] == two[1]), "{found:?}");
    for found in &found {
        assert_eq!(
            found["tasks"],
            json!([
                ["007", "node-1", "done"],
                ["b", "x=y/z", "done"],
                ["c", "node-3", "failed"],
                ["d", null, "missing"]
            ])
        );
        for (index, (task, host, count)) in [("007", "node-1", 30), ("b", "x=y/z", 700)]
            .into_iter()
            .enumerate()
        {
            let samples = found["samples"][index].as_array().unwrap();
            assert_eq!(
                samples[..4],
                [json!("demo"), json!(host), json!(task), json!(count)]
            );
            assert_eq!(rows[index]["rows"]["samples"], count);
            assert_eq!(found["metrics"][index][1], rows[index]["rows"]["metrics"]);
        }
        assert_eq!(found["trials"].as_array().unwrap().len(), 4);
        assert_eq!(found["trials"][1][2], "untrustworthy");
        let untrusted = found["untrusted"].as_array().unwrap();
        assert!(
            untrusted.contains(&json!(["b", "fill_gb_per_s", "GB/s", "steal"])),
            "{untrusted:?}"
        );
    }
}

#[test]
fn a_second_collection_keeps_every_result() {
    let fleet = fleet();
    let first = document(&collect(fleet.path()));
    let second = document(&collect(fleet.path()));
    assert_eq!((&first["copied"], &first["kept"]), (&json!(2), &json!(0)));
    assert_eq!((&second["copied"], &second["kept"]), (&json!(0), &json!(2)));
    assert_eq!(first["tasks"], second["tasks"]);
    assert_eq!(
        second["counts"],
        json!({"done": 2, "failed": 1, "missing": 1, "corrupt": 0, "unreadable": 0})
    );
}

#[test]
fn a_damaged_result_is_listed() {
    let fleet = fleet();
    let samples = fleet.path().join("tasks/b/recording/samples.parquet");
    let mut bytes = fs::read(&samples).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&samples, bytes).unwrap();
    let output = collect(fleet.path());
    assert_eq!(output.status.code(), Some(2));
    let document = document(&output);
    assert_eq!(document["counts"]["corrupt"], 1);
    assert_eq!(document["tasks"][1]["state"], "corrupt");
    assert!(
        document["tasks"][1]["reason"]
            .as_str()
            .unwrap()
            .contains("samples.parquet")
    );
}
