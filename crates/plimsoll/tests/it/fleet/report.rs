//! `plimsoll fleet report`: from results of tasks to the page, by way of `plimsoll fleet collect`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use plimsoll_testkit::fleets::{attempt, busy_recording, finished_task, host_json, plan_json, seal};
use serde_json::Value;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

/// A fleet's folder with a task per host, of which one is slow and has another algorithm, and a task without a result.
struct Fleet {
    folder: tempfile::TempDir,
}

const HOSTS: usize = 12;
const SLOW: usize = 4;
/// Seconds of the phase `fill` on an average host.
const FILL: f64 = 1.0;

impl Fleet {
    /// `factor` is that of all times, `slow` that of the slow host.
    fn new(factor: f64, slow: f64) -> Fleet {
        let folder = tempfile::tempdir().expect("a folder");
        let ids: Vec<String> = (0..=HOSTS).map(|index| format!("t{index:02}")).collect();
        let names: Vec<&str> = ids.iter().map(String::as_str).collect();
        fs::write(folder.path().join("plan.json"), plan_json(&names)).expect("a plan");
        let recording = busy_recording(&folder.path().join("source"), 20, 3, 1);
        let tasks = folder.path().join("tasks");
        for (index, id) in names[..HOSTS].iter().enumerate() {
            let name = format!("node{index:02}");
            let result = finished_task(&tasks, id, &name, &recording);
            let is_slow = index == SLOW;
            let noise = 1.0 + (index % 5) as f64 / 250.0;
            let seconds = FILL * factor * noise * if is_slow { slow } else { 1.0 };
            set_fill(&result.join("recording/results.json"), seconds);
            let algorithm = if is_slow { "lzo" } else { "lz4" };
            fs::write(result.join("host.json"), host_json(&name, algorithm)).expect("a host");
            seal(&result, id);
        }
        attempt(&tasks, names[HOSTS], 1, "node99", "failed", Some(2));
        Fleet { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn collect(&self) -> Output {
        plimsoll(&["fleet", "collect"], self.path(), &[])
    }

    fn report(&self, options: &[&str]) -> (Output, String) {
        let output = plimsoll(&["fleet", "report"], self.path(), options);
        let html = fs::read_to_string(self.path().join("report.html")).unwrap_or_default();
        (output, html)
    }
}

fn plimsoll(command: &[&str], folder: &Path, options: &[&str]) -> Output {
    let mut plimsoll = plimsoll_testkit::command(PLIMSOLL);
    plimsoll.args(command).arg(folder).args(options);
    plimsoll.output().expect("plimsoll starts")
}

/// Sets the time of the phase `fill` of every trial.
fn set_fill(path: &Path, seconds: f64) {
    let text = fs::read_to_string(path).expect("results");
    let mut results: Value = serde_json::from_str(&text).expect("JSON");
    for trial in results["trials"].as_array_mut().expect("trials") {
        for phase in trial["phases"].as_array_mut().expect("phases") {
            phase["seconds"] = seconds.into();
        }
    }
    fs::write(path, results.to_string()).expect("written");
}

fn text(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr];
    streams.map(|stream| String::from_utf8_lossy(stream)).join("\n")
}

#[test]
fn a_host_with_another_algorithm_is_named_on_the_page_and_on_the_terminal() {
    let fleet = Fleet::new(1.0, 1.5);
    let collected = fleet.collect();
    assert_eq!(collected.status.code(), Some(2), "{}", text(&collected));
    let (reported, html) = fleet.report(&[]);
    assert_eq!(reported.status.code(), Some(0), "{}", text(&reported));
    let slow = format!("node{SLOW:02}");
    for shown in [&text(&reported), &html] {
        assert!(
            shown.contains(&slow) && shown.contains("algorithm lzo in place of lz4"),
            "{shown}"
        );
    }
    // The numbers of the data set: the values of hosts, and the task without a result.
    let slow_value = FILL * 1.5 * (1.0 + (SLOW % 5) as f64 / 250.0);
    assert!(html.contains(&format!("{slow}: {slow_value:.2} s")), "{html}");
    assert!(html.contains("node99"));
    assert_eq!(html.matches("<script").count(), 1);
    assert!(html.contains("default-src &#39;none&#39;") || html.contains("default-src &#x27;none&#x27;"));
}

#[test]
fn a_slower_fleet_ends_with_6_and_an_equal_one_with_0() {
    let [old, same, slower] = [1.0, 1.0, 1.3].map(|factor| Fleet::new(factor, 1.0));
    for fleet in [&old, &same, &slower] {
        assert_eq!(fleet.collect().status.code(), Some(2));
    }
    let against = old.path().to_str().expect("UTF-8");
    let condition = ["--against", against, "--fail-on", "fill.seconds>10%"];
    for (fleet, code) in [(&same, 0), (&slower, 6)] {
        let (reported, html) = fleet.report(&condition);
        assert_eq!(reported.status.code(), Some(code), "{}", text(&reported));
        assert!(html.contains("id=\"comparison\""), "{html}");
    }
    let (unknown, _) = same.report(&["--against", against, "--fail-on", "no_such_metric>10%"]);
    assert_eq!(unknown.status.code(), Some(1), "{}", text(&unknown));
}

#[test]
fn a_fleet_without_a_data_set_ends_with_3_and_the_command_to_run() {
    let [fleet, other] = [1.0, 1.0].map(|factor| Fleet::new(factor, 1.0));
    let (reported, _) = fleet.report(&[]);
    assert_eq!(reported.status.code(), Some(3), "{}", text(&reported));
    let advice = format!("run `plimsoll fleet collect {}`", fleet.path().display());
    assert!(text(&reported).contains(&advice), "{}", text(&reported));
    fleet.collect();
    let against = other.path().to_str().expect("UTF-8");
    let (compared, _) = fleet.report(&["--against", against]);
    assert_eq!(compared.status.code(), Some(3), "{}", text(&compared));
    assert!(
        text(&compared).contains("cannot compare with"),
        "{}",
        text(&compared)
    );
}

#[test]
fn the_page_opens_in_a_browser_and_runs_its_script() {
    let chromium = PathBuf::from(std::env::var_os("CHROMIUM").unwrap_or("/usr/bin/chromium".into()));
    if !plimsoll_testkit::capability("chromium", chromium.exists(), "no Chromium") {
        return;
    }
    let fleet = Fleet::new(1.0, 1.5);
    fleet.collect();
    let (reported, _) = fleet.report(&[]);
    assert_eq!(reported.status.code(), Some(0), "{}", text(&reported));
    let profile = tempfile::tempdir().expect("a folder");
    let opened = plimsoll_testkit::command(&chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
            "--virtual-time-budget=3000",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", fleet.path().join("report.html").display()))
        .output()
        .expect("Chromium starts");
    let page = String::from_utf8_lossy(&opened.stdout);
    assert!(opened.status.success(), "{}", text(&opened));
    // The script puts a button into each head of a table.
    assert!(page.contains("<button type=\"button\">Host</button>"), "{page}");
    assert!(!text(&opened).contains("Refused to"), "{}", text(&opened));
    let circles = page.matches("<circle class=\"host").count();
    assert!(circles >= HOSTS, "{circles} hosts");
}
