//! `plimsoll report`, `compare` and `export` on recordings of `plimsoll watch`.

use std::path::Path;
use std::process::{Child, Output};

use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::file;

/// A process to watch, ended with the test.
struct Watched(Child);

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn plimsoll(command: &str, folders: &[&Path], arguments: &[&str]) -> Output {
    plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"))
        .arg(command)
        .args(folders)
        .args(arguments)
        .output()
        .expect("plimsoll starts")
}

fn said(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn recordings_of_watch_are_reported_compared_and_exported() {
    let parent = tempfile::tempdir().unwrap();
    let process = Watched(
        plimsoll_testkit::command("sleep")
            .arg("600")
            .spawn()
            .expect("a process"),
    );
    let pid = process.0.id().to_string();
    let folders = ["first", "second"].map(|name| parent.path().join(name));
    for folder in &folders {
        let arguments = ["--headless", "--pid", &pid, "--duration", "1.5", "--record"];
        said(&plimsoll(
            "watch",
            &[],
            &[&arguments[..], &[folder.to_str().unwrap()]].concat(),
        ));
    }
    let [first, second] = &folders;
    let text = plimsoll("report", &[first], &["--format", "text"]);
    assert!(text.stderr.is_empty(), "{text:?}");
    let text = said(&text);
    let recording = Recording::open(first).expect("a recording");
    let target = recording.samples.column("target_resident").expect("sampled");
    let peak = plimsoll_model::quantity::bytes(target.iter().flatten().max().expect("a target") as f64);
    assert!(text.replace('\n', " ").contains(&peak), "{text}");
    let results = recording.results.expect("finished");
    assert!(
        results.confounders.is_empty() && results.trials.is_empty(),
        "{results:?}"
    );
    let document = said(&plimsoll("report", &[first], &["--format", "markdown"]));
    for shown in [&text, &document] {
        assert!(shown.contains(&format!("pid {pid} sleep")), "{shown}");
    }
    let chart = said(&plimsoll(
        "report",
        &[first],
        &["--format", "svg", "--theme", "dark"],
    ));
    assert!(chart.starts_with("<svg xmlns") && chart.ends_with("</svg>\n"));
    let named = |name: &str, format: &str| {
        let arguments = ["--format", format, "--theme", "dark", "--chart", name];
        plimsoll("report", &[first], &arguments)
    };
    assert_eq!(said(&named("overview", "svg")), chart);
    for (output, expected) in [
        (named("fairness", "svg"), &["fairness", "overview"][..]),
        (named("overview", "csv"), &["--format svg"]),
    ] {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        let line = error.replace('\n', " ");
        assert!(expected.iter().all(|word| line.contains(word)), "{error}");
    }
    said(&plimsoll("report", &[first], &[]));
    let page = std::fs::read_to_string(first.join(file::REPORT)).expect("the page");
    assert!(page.contains("data-chart=\"overview\"") && !page.contains("NaN"));

    let compared = said(&plimsoll("compare", &[first, second], &["--json"]));
    let compared: serde_json::Value = serde_json::from_str(&compared).expect("a document");
    assert_eq!(compared["basis"], "timelines", "{compared}");
    assert!(
        compared["rows"].as_array().is_some_and(|rows| !rows.is_empty()),
        "{compared}"
    );
    for format in ["parquet", "csv", "json", "prometheus"] {
        let output = plimsoll("export", &[first], &["--format", format]);
        assert_eq!(output.status.code(), Some(0), "{format}: {output:?}");
        assert!(
            !output.stdout.is_empty() && output.stderr.is_empty(),
            "{format}: {:?}",
            output.stderr
        );
    }
}
