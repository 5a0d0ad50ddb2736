//! The monitor without a user interface: targets, programs, recordings, replay.

mod command;
mod pressure;
mod recordings;
mod targets;

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use plimsoll_monitor::watch::{Monitor, State};

use crate::kept::Kept;

/// Longest that anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// `plimsoll watch --headless` with `arguments`.
fn headless(arguments: &[&str]) -> Command {
    let mut command = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["watch", "--headless"]).args(arguments);
    command
}

/// Runs it to its end.
fn watch(arguments: &[&str]) -> Output {
    headless(arguments).output().expect("plimsoll starts")
}

/// The summary of a run with `--json`.
fn summary(output: &Output) -> serde_json::Value {
    // What the program printed comes before the document.
    let text = String::from_utf8_lossy(&output.stdout);
    let start = text.find("{\n").unwrap_or(0);
    serde_json::from_str(&text[start..])
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until the state of a monitor is as it should be.
fn wait_for(monitor: &Monitor, what: &str, is_so: impl Fn(&State) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so(&monitor.state()) {
        if Instant::now() > deadline {
            let state = monitor.state();
            panic!(
                "not {what}: {:?} {:?} {:?} {:?}",
                state.target, state.marks, state.messages, state.status
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes of a file; 0 while it is not there.
fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}
