//! `plimsoll compare` on recordings on the disk.

use std::path::{Path, PathBuf};
use std::process::Output;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

fn compare(arguments: &[&Path], options: &[&str]) -> Output {
    let mut command = plimsoll_testkit::command(PLIMSOLL);
    command.arg("compare").args(arguments).args(options);
    command.output().expect("plimsoll starts")
}

fn stored() -> PathBuf {
    plimsoll_testkit::recordings::stored().join("recording-1/finished")
}

/// A copy of the stored recording, without the samples by which its trials are judged untrustworthy, whose fills take `factor` times as long.
fn copy(folder: &Path, factor: f64) {
    std::fs::create_dir_all(folder).expect("a folder");
    for entry in std::fs::read_dir(stored()).expect("the recording") {
        let entry = entry.expect("an entry");
        if entry.file_name() != "samples.parquet" {
            std::fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
        }
    }
    let path = folder.join("trials.jsonl");
    let lines = std::fs::read_to_string(&path).expect("trials");
    let slowed = lines.lines().map(|line| {
        let mut trial: serde_json::Value = serde_json::from_str(line).expect("a trial");
        for phase in trial["phases"].as_array_mut().expect("phases") {
            if phase["name"] == "fill" {
                let seconds = phase["seconds"].as_f64().expect("seconds");
                phase["seconds"] = (seconds * factor).into();
            }
        }
        format!("{trial}\n")
    });
    let slowed: String = slowed.collect();
    std::fs::write(path, slowed).expect("written");
}

#[test]
fn an_injected_regression_ends_with_6_and_says_which() {
    let folder = tempfile::tempdir().expect("a folder");
    let [baseline, same, slow] = ["baseline", "same", "slow"].map(|name| folder.path().join(name));
    copy(&baseline, 1.0);
    copy(&same, 1.0);
    copy(&slow, 1.5);
    let condition = &["--fail-on", "*random/fill.seconds>10%"];
    let passed = compare(&[&baseline, &same], condition);
    assert_eq!(
        passed.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&passed.stderr)
    );
    let failed = compare(&[&baseline, &slow], condition);
    let text = String::from_utf8_lossy(&failed.stdout).into_owned();
    assert_eq!(failed.status.code(), Some(6), "{text}");
    assert!(
        text.contains("FAILED *random/fill.seconds>10%") && text.contains("+50.0%"),
        "{text}"
    );
    // The other group has no trial that did not fail.
    let unknown = compare(&[&baseline, &same], &["--fail-on", "fill.seconds>10%"]);
    assert_eq!(unknown.status.code(), Some(7));
    let json = compare(
        &[&baseline, &slow],
        &["--json", "--fail-on", "*random/fill.seconds>10%"],
    );
    assert_eq!(json.status.code(), Some(6));
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).expect("one document");
    assert_eq!(document["schema"], 2);
    assert_eq!(document["conditions"][0]["state"], "failed");
    let doubtful = compare(&[&stored(), &same], condition);
    assert_eq!(
        doubtful.status.code(),
        Some(7),
        "all trials of the baseline are untrustworthy"
    );
    let page = folder.path().join("page.html");
    let made = compare(
        &[&baseline, &slow],
        &["--format", "html", "--output", page.to_str().expect("text")],
    );
    assert_eq!(made.status.code(), Some(0));
    assert!(
        std::fs::read_to_string(&page)
            .expect("the page")
            .ends_with("</html>")
    );
}

/// It said that the runs shared no group, as a failed trial has no metric.
#[test]
fn a_run_whose_trials_all_failed_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let [good, other, failed] = ["good", "other", "failed"].map(|name| folder.path().join(name));
    for run in [&good, &other, &failed] {
        copy(run, 1.0);
    }
    let path = failed.join("trials.jsonl");
    let lines = std::fs::read_to_string(&path).expect("trials");
    let lines = lines.lines().map(|line| {
        let mut trial: serde_json::Value = serde_json::from_str(line).expect("a trial");
        trial["status"] = "failed".into();
        trial["reasons"] = vec!["the worker was killed"].into();
        format!("{trial}\n")
    });
    std::fs::write(path, lines.collect::<String>()).expect("written");
    for runs in [[&good, &failed], [&failed, &good]] {
        let refused = compare(&runs.map(PathBuf::as_path), &[]);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        // Warnings precede the error.
        let error = text.trim_end().lines().last().unwrap_or_default();
        let named = |run: &Path| error.contains(&run.display().to_string());
        assert!(named(&failed) && !named(&good), "{text}");
    }
    // Beside a comparable run it is a warning.
    let compared = compare(&[&good, &other, &failed], &["--format", "json"]);
    let text = String::from_utf8_lossy(&compared.stdout);
    assert_eq!(compared.status.code(), Some(0), "{text}");
    let comparison: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(!comparison["rows"].as_array().expect("rows").is_empty());
    let warnings = comparison["warnings"].to_string();
    assert!(warnings.contains("C ("), "{warnings}");
}

#[test]
fn incomparable_runs_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let newer = folder.path().join("newer");
    copy(&newer, 1.0);
    let manifest = std::fs::read_to_string(newer.join("manifest.json")).expect("a manifest");
    let mut manifest: serde_json::Value = serde_json::from_str(&manifest).expect("a document");
    manifest["schema"] = 999.into();
    std::fs::write(newer.join("manifest.json"), manifest.to_string()).expect("written");
    let stored = stored();
    let itself = stored.display().to_string();
    for (runs, options, code, said) in [
        ([stored.as_path(), folder.path()], &[][..], 1, "manifest.json"),
        ([&stored, &stored], &[], 1, itself.as_str()),
        ([&stored, &newer], &[], 4, "schema 999"),
        (
            [&stored, &newer],
            &["--fail-on", "restore.seconds=3"],
            1,
            "no `>`",
        ),
        ([&stored, &newer], &["--threshold=-1"], 1, "--threshold -1"),
    ] {
        let output = compare(&runs, options);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(said), "{error}");
        assert!(output.stdout.is_empty());
    }
}

/// A run of schema 3, and the same run under the names of today.
#[test]
fn a_recording_of_schema_3_shares_its_metrics_with_one_of_schema_4() {
    let old = plimsoll_testkit::recordings::stored().join("recording-3/thrash");
    let folder = tempfile::tempdir().expect("a folder");
    let new = folder.path().join("new");
    std::fs::create_dir_all(&new).expect("a folder");
    for name in ["manifest.json", "trials.jsonl", "events.jsonl", "results.json"] {
        let text = std::fs::read_to_string(old.join(name)).expect("text");
        let text = text
            .replace("bystander", "neighbour")
            .replace("heartbeat", "wakeup");
        std::fs::write(new.join(name), text).expect("written");
    }
    let compared = compare(&[&old, &new], &["--json"]);
    let document: serde_json::Value = serde_json::from_slice(&compared.stdout).expect("one document");
    assert_eq!(
        document["lone"].as_array().map(Vec::len),
        Some(0),
        "{}",
        document["lone"]
    );
    let rows = document["rows"].as_array().expect("rows");
    for metric in ["neighbour_p99_s", "load_wakeup_p99_s"] {
        let joined: Vec<_> = rows.iter().filter(|row| row["metric"] == metric).collect();
        assert_eq!(joined.len(), 1, "{metric}: {rows:?}");
        assert_eq!(joined[0]["baseline"]["values"], joined[0]["other"]["values"]);
    }
}
