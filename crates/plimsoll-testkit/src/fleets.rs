//! Results of a fleet that never ran.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_model::columns::{COLUMNS, Row};
use plimsoll_model::recording::Writer;
use plimsoll_model::recording::model::TrialStatus;
use plimsoll_model::scenario::FillClass;

use sha2::{Digest, Sha256};

use crate::recordings::{manifest, plan, results, trial};

/// The text of a `plan.json` of the run `demo` for these tasks.
pub fn plan_json(tasks: &[&str]) -> String {
    let tasks: Vec<String> = tasks
        .iter()
        .map(|task| format!(r#"{{"id": "{task}", "repeat": 1}}"#))
        .collect();
    let digest = "0".repeat(64);
    format!(
        r#"{{"version": 1, "run": "demo", "created": "2026-11-30T17:00:00Z",
            "scenario": {{"name": "compression", "sha256": "{digest}"}}, "changes": [], "quick": true,
            "binary": {{"sha256": "{digest}", "bytes": 1, "version": "0.1.0"}},
            "engine": {{"kind": "slurm", "partition": "main", "time_limit_minutes": 10}},
            "at_most": 4, "stop_after": null, "retries": 1, "privileges": [], "tasks": [{}]}}"#,
        tasks.join(", ")
    )
}

/// Makes the result of a task of a run on `host`: a copy of the recording `recording`.
pub fn finished_task(tasks: &Path, id: &str, host: &str, recording: &Path) -> PathBuf {
    let folder = tasks.join(id);
    let copy = folder.join("recording");
    fs::create_dir_all(&copy).unwrap();
    for entry in fs::read_dir(recording).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    fs::write(folder.join("host.json"), host_json(host, "lzo-rle")).unwrap();
    seal(&folder, id);
    attempt(tasks, id, 1, host, "done", Some(0));
    folder
}

/// Writes the `result.json` of a result whose other files are there.
pub fn seal(folder: &Path, id: &str) {
    let files = ["host.json", "recording/manifest.json", "recording/results.json"];
    let checksums: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let hash = Sha256::digest(fs::read(folder.join(file)).ok()?);
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(format!(r#""{file}": "{hash}""#))
        })
        .collect();
    let result = format!(
        r#"{{"version": 1, "task": "{id}", "attempt": 1, "exit": 0, "status": "done",
            "started": "2026-11-30T17:00:00Z", "ended": "2026-11-30T18:00:00Z", "engine_restarts": 0,
            "binary_sha256": "{}", "recording": true, "checksums": {{{}}}}}"#,
        "0".repeat(64),
        checksums.join(", ")
    );
    fs::write(folder.join("result.json"), result).unwrap();
}

/// The text of a `host.json`.
pub fn host_json(host: &str, algorithm: &str) -> String {
    format!(
        r#"{{"version": 1, "host": "{host}", "machine": "A machine", "kernel": "6.18.0", "cpus": 2,
            "memory_bytes": 4294967296, "architecture": "x86_64",
            "swap": [{{"kind": "zram", "bytes": 1073741824, "algorithm": "{algorithm}"}}],
            "settings": {{"vm.swappiness": "60"}}, "class": null}}"#
    )
}

/// Makes the document of an attempt.
pub fn attempt(tasks: &Path, id: &str, number: u32, host: &str, outcome: &str, exit: Option<u8>) {
    let folder = tasks.join(format!("{id}.attempts")).join(number.to_string());
    fs::create_dir_all(&folder).unwrap();
    let exit = exit.map_or("null".to_owned(), |exit| exit.to_string());
    let attempt = format!(
        r#"{{"version": 1, "number": {number}, "task": "{id}", "host": "{host}", "boot_id": "b", "pid": 5,
            "start_ticks": 1, "started": "2026-11-30T17:00:00Z", "exit": {exit}, "outcome": "{outcome}"}}"#
    );
    fs::write(folder.join("attempt.json"), attempt).unwrap();
}

/// A finished recording of `rows` samples, whose counters and levels change as those of a busy machine, and of `trials` trials, the
/// last of them untrustworthy.
pub fn busy_recording(parent: &Path, rows: usize, trials: u32, seed: u64) -> PathBuf {
    let plan = plan(&[FillClass::Random], trials);
    let mut writer = Writer::create(parent, manifest("busy", plan.clone())).unwrap();
    let mut values = vec![0_i64; COLUMNS.len()];
    let mut random = seed | 1;
    let mut at = 0;
    while at < rows {
        let batch: Vec<Row> = (at..rows.min(at + 1000))
            .map(|index| {
                let mut row = Row::empty(index as u64 * 100_000_000 + random % 50_000);
                for (column, value) in values.iter_mut().enumerate() {
                    // Xorshift.
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    match column % 4 {
                        // A level in pages, a counter, a rare counter, and a column that this machine lacks.
                        0 => *value = (*value + (random % 65_536) as i64 * 4096 - (1 << 27)).abs(),
                        1 => *value += (random % 4096) as i64,
                        2 => *value += i64::from(random.is_multiple_of(64)),
                        _ => continue,
                    }
                    row.set(column, *value);
                }
                row
            })
            .collect();
        at += batch.len();
        writer.samples(&batch).unwrap();
    }
    let mut done: Vec<_> = (0..trials as usize)
        .map(|index| trial(&plan, index, TrialStatus::Ok))
        .collect();
    if let Some(last) = done.last_mut() {
        last.status = TrialStatus::Untrustworthy;
        last.reasons = vec!["steal: 7% of the CPU time".to_owned()];
        last.untrustworthy = [("fill_gb_per_s".to_owned(), vec!["steal".to_owned()])].into();
    }
    done.iter().for_each(|trial| writer.trial(trial).unwrap());
    writer.finish(&results("busy", done)).unwrap()
}
