//! Runs whose caller leaves them signals, file descriptors or a umask that differ from a login shell's.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use super::{PLIMSOLL, Run, has_laboratory};

/// The command of `run` as `starter` executes it.
fn started_by(starter: &[&str], run: &Run) -> Command {
    let plain = run.command();
    let mut command = plimsoll_testkit::command(starter[0]);
    command
        .args(&starter[1..])
        .arg(plain.get_program())
        .args(plain.get_args());
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
}

/// A signal set of `/proc/PID/status`, without the signals that glibc keeps for itself.
fn signals(pid: u32, set: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(set));
    let found = u64::from_str_radix(line.expect("the set").trim(), 16).expect("hexadecimal digits");
    found & !(0b11 << 31)
}

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// `nohup plimsoll run ... &` in a script: the run took SIGHUP over, and the terminal's end ended it.
#[test]
fn a_run_under_nohup_ignores_the_signals_of_its_caller() {
    if !has_laboratory() {
        return;
    }
    let run = Run::new(&["--set", "class=constant", "--set", "hold=1"]);
    let nohup = started_by(&["env", "--ignore-signal=HUP,INT", "--block-signal=USR1"], &run);
    let mut started = run.start_by(nohup);
    started.await_event("phase-end", "fill");
    let ignored = bit(libc::SIGHUP) | bit(libc::SIGINT);
    assert_eq!(signals(started.pid(), "SigIgn:") & ignored, ignored);
    for worker in started.children() {
        // Rust's runtime ignores SIGPIPE in every program.
        assert_eq!(signals(worker, "SigIgn:"), bit(libc::SIGPIPE));
        assert_eq!(signals(worker, "SigBlk:"), 0);
    }
    started.signal(Signal::HUP);
    started.signal(Signal::INT);
    started.finish().assert_went_well();
}

/// A launcher that blocks SIGTERM leaves a run that only SIGKILL would end, and one that ignores SIGCHLD a run that
/// cannot wait for its workers.
#[test]
fn a_run_is_stopped_where_its_caller_blocked_the_signal() {
    if !has_laboratory() {
        return;
    }
    let run = Run::new(&["--set", "hold=600"]);
    let blocked = started_by(&["env", "--ignore-signal=CHLD", "--block-signal=TERM,INT"], &run);
    let mut started = run.start_by(blocked);
    started.await_event("phase-end", "fill");
    started.signal(Signal::TERM);
    started.finish().assert_stopped(5, "signal", "SIGTERM");
}

/// The first files that a program opens would otherwise become its standard input, output and error.
#[test]
fn a_run_without_standard_files_writes_into_its_recording_alone() {
    if !has_laboratory() {
        return;
    }
    let run = Run::new(&["--set", "class=constant", "--set", "hold=1"]);
    let closed = started_by(&["sh", "-c", "umask 077; exec \"$@\" <&- >&- 2>&-", "sh"], &run);
    let mut started = run.start_by(closed);
    started.await_event("phase-end", "fill");
    for fd in 0..3 {
        let file = std::fs::read_link(format!("/proc/{}/fd/{fd}", started.pid())).expect("a file");
        assert_eq!(file.to_str(), Some("/dev/null"), "file descriptor {fd}");
    }
    let ended = started.finish();
    assert!([0, 7].contains(&ended.code), "exit {}", ended.code);
    let report = plimsoll_testkit::command(PLIMSOLL)
        .arg("report")
        .arg(run.recording().expect("a recording"))
        .arg("--json")
        .output()
        .expect("plimsoll starts");
    let results: serde_json::Value = serde_json::from_slice(&report.stdout).expect("one document");
    assert_eq!(results["trials"].as_array().map(Vec::len), Some(1), "{results:#}");
}

/// A browser that does not start is an error of a run that went well, and hides no worse exit code.
#[test]
fn a_run_opens_its_report_and_keeps_its_exit_code() {
    if !has_laboratory() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let opened = folder.path().join("opened");
    let script = folder.path().join("browser");
    std::fs::write(&script, "printf '%s\n' \"$2\" >>\"$1\"\n").expect("written");
    // Words without a shell: no path here has a space.
    let browser = format!("sh {} {} %s", script.display(), opened.display());
    let (fine, late) = (["--set", "hold=0.1"], ["--set", "hold=600"]);
    for (browser, hold, limit, codes) in [
        (browser.as_str(), fine, "time-limit=600", [0, 7]),
        ("/nonexistent", fine, "time-limit=600", [3, 7]),
        (browser.as_str(), late, "time-limit=1", [2, 2]),
        ("/nonexistent", late, "time-limit=1", [2, 2]),
    ] {
        let set = ["--set", "class=constant", "--set", limit, "--open"];
        let run = Run::new(&[hold.as_slice(), set.as_slice()].concat());
        let before = lines_of(&opened).len();
        let mut command = run.command();
        command.env("BROWSER", browser);
        let ended = run.start_by(command).finish();
        let said = format!("{browser}: exit {}: {}", ended.code, ended.stderr);
        assert!(codes.contains(&ended.code), "{said}");
        // A machine with other load makes metrics untrustworthy, and that is worse than no browser.
        assert_eq!(
            ended.code == 7,
            ended.results["status"] == "untrustworthy",
            "{said}"
        );
        let page = run.recording().expect("a recording").join("report.html");
        assert!(page.exists(), "{said}");
        let urls = lines_of(&opened);
        let expected = (browser != "/nonexistent").then(|| format!("file://{}", page.display()));
        assert_eq!(urls[before..], Vec::from_iter(expected), "{said}");
    }
}

/// The lines of a file; none without the file.
fn lines_of(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Without standard error no message appears: the exit code and the effect of `cleanup` remain.
#[test]
fn cleanup_works_without_standard_files() {
    let script = "umask 077; \"$0\" cleanup <&- >&- 2>&-; echo $?";
    let output = plimsoll_testkit::command("sh")
        .args(["-c", script, PLIMSOLL])
        .output()
        .expect("a shell starts");
    let code = String::from_utf8_lossy(&output.stdout);
    // 3: another test's run holds the machine, or this user is not root.
    assert!(["0", "3"].contains(&code.trim()), "{code}");
}
