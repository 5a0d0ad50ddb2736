//! `--report` and `--watch` on the engine pager: the recording, the summary, and the end of the program.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use plimsoll_model::recording::RecordingError;
use plimsoll_testkit::next_line;
use serde_json::Value;

use super::programs::{Place, installed};
use super::{PLIMSOLL, assert_engine, built, document, documents, exec, ran, text};
use crate::heap::has;
use crate::watch::terminal::pseudo_terminal::{OWNED, Terminal};

pub(super) const MIB: f64 = (1 << 20) as f64;

/// A program that writes 64 MiB of random bytes, reads them twice, and keeps them until samples have met them.
pub(super) const RANDOM: &str = "import mmap, os, time\n\
    size, part = 64 << 20, 1 << 20\n\
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n\
    for at in range(0, size, part): memory[at:at + part] = os.urandom(part)\n\
    for _ in range(2): read = sum(memory[at] for at in range(0, size, 4096))\n\
    time.sleep(2.5)\n\
    print(read > 0)\n\
    raise SystemExit(7)\n";

/// The rows of a summary on standard error, by name.
pub(super) fn rows(said: &str) -> HashMap<String, String> {
    let row = |line: &str| {
        let (name, value) = line.strip_prefix("  ")?.split_at_checked(27)?;
        Some((name.trim_end().to_owned(), value.to_owned()))
    };
    said.lines().filter_map(row).collect()
}

/// The amount in a value: bytes or seconds by its unit, or a plain count.
pub(super) fn amount(value: &str) -> f64 {
    let value = value.strip_prefix("about ").unwrap_or(value);
    let end = value.find(',').unwrap_or(value.len());
    let (number, unit) = match value[..end].trim_end().rsplit_once(' ') {
        Some((number, unit)) if unit.parse::<u64>().is_err() => (number, unit),
        _ => (&value[..end], ""),
    };
    let unit = match unit {
        "KiB" => 1024.0,
        "MiB" => MIB,
        "ms" => 1e-3,
        "" | "s" | "B" | "times" | "process" | "processes" => 1.0,
        unit => panic!("{unit}: {value}"),
    };
    let digits: String = number.chars().filter(|letter| !letter.is_whitespace()).collect();
    unit * digits
        .parse::<f64>()
        .unwrap_or_else(|error| panic!("{error}: {value}"))
}

/// Signals that would end a process, and that the monitor does not forward.
pub(super) fn not_forwarded() -> [i32; 6] {
    [
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGXCPU,
        libc::SIGIO,
        libc::SIGRTMIN() + 3,
    ]
}

/// The largest value of a column in a recording.
pub(super) fn largest(recording: &Path, column: &str) -> Option<f64> {
    let output = ran(plimsoll_testkit::command(PLIMSOLL)
        .args(["export", "--format", "csv"])
        .arg(recording));
    let csv = text(&output.stdout);
    let mut lines = csv.lines().filter(|line| !line.starts_with('#'));
    let at = lines.next()?.split(',').position(|name| name == column)?;
    let values = lines.filter_map(|line| line.split(',').nth(at)?.parse::<f64>().ok());
    values.reduce(f64::max)
}

/// Checks that the other commands read a recording.
pub(super) fn assert_opens(recording: &Path) {
    assert!(recording.join("report.html").exists());
    let report = ran(plimsoll_testkit::command(PLIMSOLL)
        .args(["report", "--format", "text"])
        .arg(recording));
    assert!(
        text(&report.stdout).contains("Watched"),
        "{}",
        text(&report.stderr)
    );
    let parent = recording.parent().expect("a folder");
    let runs = ran(plimsoll_testkit::command(PLIMSOLL).arg("runs").arg(parent));
    let name = recording.file_name().expect("a name").to_string_lossy();
    assert!(text(&runs.stdout).contains(&*name), "{}", text(&runs.stdout));
}

/// `plimsoll exec` on the pager, as user nobody.
fn of_nobody(place: &Place) -> Command {
    let mut command = place.native(place.plimsoll().to_str().expect("text"));
    command.args(["exec", "--engine", "pager"]);
    command
}

/// The values of a program whose memory is known, as user nobody: 64 MiB that cannot be compressed, in 24 MiB of RAM.
#[test]
fn the_summary_and_the_recording_have_the_memory_of_the_program() {
    if !installed(&["python3"]) {
        return;
    }
    let place = Place::new();
    let output = ran(of_nobody(&place)
        .args(["--ram", "24M", "--page-file", "/var/tmp,256M", "--report"])
        .args(["--", "python3", "-c", RANDOM]));
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(7), "True\n"),
        "{said}"
    );
    let rows = rows(&said);
    let value = |name: &str| amount(&rows[name]);
    let mib = |name: &str| value(name) / MIB;
    assert!(rows["peak wanted"].starts_with("about "), "{said}");
    assert!((64.0..80.0).contains(&mib("peak wanted")), "{said}");
    assert!((8.0..48.0).contains(&mib("peak RSS of all processes")), "{said}");
    assert_eq!(value("counters of"), 1.0, "{said}");
    // At most the budget was in RAM when the reading began.
    let beyond = 40.0 * MIB / 4096.0;
    for name in ["refaults", "trimmed pages", "saved pages"] {
        assert!(value(name) >= beyond, "{name}: {said}");
    }
    let outside = mib("compressed, most") + mib("in the page file, most");
    assert!((40.0..100.0).contains(&outside), "{said}");
    let (time, stalled) = (value("run time"), value("time in faults"));
    assert!(time >= 2.5 && stalled > 0.0 && stalled < time, "{said}");
    let slowdown = value("estimated slowdown");
    assert!(
        (slowdown - time / (time - stalled)).abs() < 0.03 * slowdown,
        "{said}"
    );
    let recording = place.work().join(&rows["recording"]);
    assert!(
        recording.starts_with(place.work().join("plimsoll-runs")),
        "{said}"
    );
    assert_eq!(rows["report"], format!("{}/report.html", rows["recording"]));
    assert_opens(&recording);
    assert_eq!(largest(&recording, "target_pager_budget"), Some(24.0 * MIB));
    let in_file = largest(&recording, "target_pager_page_file").expect("sampled");
    assert!(in_file >= 16.0 * MIB, "{in_file}");
}

/// The last line of the program has no end, and its path is no text.
#[test]
fn the_last_document_is_a_line_of_its_own_and_complete() {
    let run = |program: &str| {
        let place = tempfile::tempdir().expect("a temporary folder");
        let mut report = std::ffi::OsString::from("--report=");
        report.push(place.path().join(std::ffi::OsStr::from_bytes(b"\xff")));
        let output = ran(exec()
            .args([
                "--engine",
                "pager",
                "--ram",
                "24M",
                "--page-file",
                "none",
                "--json",
            ])
            .arg(&report)
            .args(["--", "sh", "-c", program]));
        document(&text(&output.stderr), "end")
    };
    let end = run("printf half >&2");
    assert_eq!(end["program"]["exit_code"], 0, "{end:#}");
    let recording = end["monitor"]["recording"].as_str().expect("a path");
    assert!(recording.ends_with('\u{fffd}'), "{recording}");
    // A killed process leaves no counters: they are unknown, not 0.
    let end = run("kill -9 $$");
    assert_eq!(end["program"]["signal"], 9, "{end:#}");
    assert!(end["counters"].is_null(), "{end:#}");
}

/// The values as JSON, also of a program without a limit.
#[test]
fn the_documents_have_the_engine_and_the_values_at_the_end() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let run = |name: &str, program: &[&str]| {
        let mut report = std::ffi::OsString::from("--report=");
        report.push(place.path().join(name));
        let output = ran(exec()
            .args(["--engine", "pager", "--ram", "24M", "--page-file", "none"])
            .args(["--allow-unmanaged", "--json"])
            .arg(report)
            .arg("--")
            .args(program));
        let said = text(&output.stderr);
        assert_eq!(documents(&said).len(), 2, "{said}");
        let lines = said.lines().filter(|line| !line.is_empty());
        assert_eq!(lines.count(), 2, "{said}");
        (document(&said, "engine"), document(&said, "end"))
    };
    let budget = Some(24 << 20);
    let (chosen, end) = run("managed", &["false"]);
    assert_engine(&chosen, "pager", budget, "requested");
    assert_eq!(
        (&end["engine"], end["ram_bytes"].as_u64()),
        (&"pager".into(), budget),
        "{end:#}"
    );
    assert_eq!(end["program"]["exit_code"], 1, "{end:#}");
    assert_eq!(end["counters"]["processes"], 1, "{end:#}");
    assert!(end["counters"]["peak_wanted_bytes"].as_u64() > Some(0), "{end:#}");
    assert!(end["cgroup"].is_null() && end["oom_killed"].is_null(), "{end:#}");
    let recording = place.path().join("managed");
    assert_eq!(
        end["monitor"]["recording"].as_str(),
        recording.to_str(),
        "{end:#}"
    );
    let Some(program) = has("gcc").then(|| built(&["-static"])).flatten() else {
        return;
    };
    let (chosen, end) = run("unmanaged", &[program.to_str().expect("text")]);
    assert_engine(&chosen, "none", None, "static");
    assert_eq!(
        (&end["engine"], &end["ram_bytes"], &end["counters"]),
        (&"none".into(), &Value::Null, &Value::Null),
        "{end:#}"
    );
}

/// A program that closes all descriptors in its children, as Python does, has their counters all the same.
#[test]
fn counters_of_executed_children_are_summed_and_those_of_a_killed_program_unknown() {
    if !installed(&["python3"]) {
        return;
    }
    let place = Place::new();
    let run = |script: &str, folder: &str, output: &str| {
        let report = format!("--report={folder}");
        let command = ["--ram", "64M", output, &report, "--", "python3", "-c", script];
        text(&ran(of_nobody(&place).args(command)).stderr)
    };
    let said = run(
        "import subprocess\nfor _ in range(3): subprocess.run(['/bin/true'], check=True)",
        "children",
        "--stats",
    );
    assert_eq!(amount(&rows(&said)["counters of"]), 4.0, "{said}");
    let lines = said.lines().filter(|line| line.starts_with("{\"version\":1,"));
    assert_eq!(lines.count(), 4, "{said}");
    let said = run("import os; os.kill(os.getpid(), 9)", "killed", "--stats");
    let rows = rows(&said);
    for name in ["refaults", "time in faults", "estimated slowdown"] {
        assert_eq!(rows[name], "unknown", "{said}");
    }
    let said = run("import os; os.kill(os.getpid(), 9)", "killed-json", "--json");
    let end = document(&said, "end");
    assert_eq!(end["program"]["signal"], 9, "{said}");
    assert_eq!(end.get("counters"), Some(&Value::Null), "{said}");
}

/// The text of an error has a limit, and the command line came first: a long one displaced the values.
#[test]
fn a_long_command_line_leaves_the_values_in_the_summary() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let mut report = std::ffi::OsString::from("--report=");
    report.push(place.path().join("recording"));
    let output = ran(exec()
        .args(["--engine", "pager", "--ram", "64M"])
        .arg(report)
        .args(["--", "sh", "-c", "exit 0"])
        .arg("long ".repeat(2000)));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let rows = rows(&said);
    for name in ["run time", "peak wanted", "estimated slowdown", "report"] {
        assert!(rows.contains_key(name), "{name}: {said}");
    }
}

/// The summary had the rows of the pager, and percentages of a budget.
#[test]
fn the_summary_of_a_program_without_a_limit_has_no_budget() {
    let Some(program) = has("gcc").then(|| built(&["-static"])).flatten() else {
        return;
    };
    let place = tempfile::tempdir().expect("a temporary folder");
    let mut report = std::ffi::OsString::from("--report=");
    report.push(place.path().join("recording"));
    let output = ran(exec()
        .args([
            "--engine",
            "pager",
            "--ram",
            "64M",
            "--allow-unmanaged",
            "--stats",
        ])
        .arg(report)
        .arg("--")
        .arg(&program));
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(0), "ran\n"),
        "{said}"
    );
    let mut names: Vec<String> = rows(&said).into_keys().collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["peak RSS of all processes", "recording", "report", "run time"],
        "{said}"
    );
}

/// A program that knows the file for the counters fills it with bytes that are no text.
#[test]
fn a_program_that_fills_the_file_for_the_counters_has_no_counters() {
    if !installed(&["python3"]) {
        return;
    }
    let place = Place::new();
    let script = "import os\n\
        settings = dict(part.split('=') for part in os.environ['PLIMSOLL_EXEC'].split(';')[1:])\n\
        file = int(settings['stats'].split(',')[0])\n\
        for _ in range(20): os.write(file, b'\\xff' * (1 << 20))\n";
    let output = ran(of_nobody(&place)
        .args(["--ram", "64M", "--stats", "--json", "--report=filled"])
        .args(["--", "python3", "-c", script]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    // The lines of the command end in one such character each.
    let most = 1 << 14;
    assert!(!said.contains("\u{fffd}\u{fffd}") && said.len() < most, "{said}");
    assert_eq!(
        document(&said, "end").get("counters"),
        Some(&Value::Null),
        "{said}"
    );
}

#[test]
fn codes_and_signals_of_the_program_pass_through() {
    let place = tempfile::tempdir().expect("a temporary folder");
    for (number, (script, code, signal)) in [
        ("exit 0", Some(0), None),
        ("exit 41", Some(41), None),
        ("kill -TERM $$", None, Some(15)),
        ("kill -KILL $$", None, Some(9)),
    ]
    .into_iter()
    .enumerate()
    {
        let mut report = std::ffi::OsString::from("--report=");
        report.push(place.path().join(number.to_string()));
        let output = ran(exec()
            .args(["--engine", "pager", "--ram", "64M"])
            .arg(report)
            .args(["--", "sh", "-c", script]));
        let said = text(&output.stderr);
        assert_eq!(
            (output.status.code(), output.status.signal()),
            (code, signal),
            "{script}: {said}"
        );
        assert_opens(&place.path().join(number.to_string()));
    }
    let script = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = exec()
        .args([
            "--engine", "pager", "--ram", "64M", "--report", "--", "sh", "-c", script,
        ])
        .current_dir(place.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("plimsoll starts");
    assert_eq!(next_line(&mut child), "ready");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    assert_eq!(child.wait().expect("a child").code(), Some(3));
}

/// Signals that the monitor does not forward ended it, and the program ran on without it.
#[test]
fn other_signals_do_not_end_the_monitor() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recording = place.path().join("recording");
    let script = "echo ready; read line; exit 5";
    let mut child = exec()
        .args(["--engine", "pager", "--ram", "64M"])
        .arg(format!("--report={}", recording.display()))
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("plimsoll starts");
    assert_eq!(next_line(&mut child), "ready");
    let process = plimsoll_os::Pidfd::open(child.id()).expect("it is there");
    for signal in not_forwarded() {
        process.send_signal(signal).expect("it takes signals");
    }
    drop(child.stdin.take());
    let ended = child.wait().expect("a child");
    assert_eq!(ended.code(), Some(5), "{ended}");
    assert_opens(&recording);
}

#[test]
fn a_program_that_does_not_run_leaves_no_recording() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recording = place.path().join("recording");
    let run = |ram: &str, option: &str, program: &Path| {
        let mut report = std::ffi::OsString::from("--report=");
        report.push(&recording);
        let mut command = exec();
        command.args(["--engine", "pager", "--ram", ram, option]);
        let output = ran(command
            .arg(report)
            .arg("--")
            .arg(program)
            .arg("-c")
            .arg("echo ran"));
        let said = text(&output.stderr);
        assert!(output.stdout.is_empty() && !said.is_empty(), "{said}");
        (output.status.code(), said)
    };
    let of = |path: &str| Path::new(path).to_owned();
    let quiet = "--quiet";
    for (ram, option, program, code) in [
        ("64M", quiet, of("/no/such/program"), 127),
        ("64M", quiet, of("/etc/passwd"), 126),
        ("64K", quiet, of("/bin/sh"), 1),
        ("64M", "--watch", of("/bin/sh"), 1),
    ] {
        let (found, said) = run(ram, option, &program);
        assert_eq!(found, Some(code), "{}: {said}", program.display());
        assert!(!recording.exists(), "{}: {said}", program.display());
    }
    if let Some(program) = has("gcc").then(|| built(&["-static"])).flatten() {
        assert_eq!(run("64M", quiet, &program).0, Some(4));
        assert!(!recording.exists());
    }
    fs::create_dir(&recording).expect("made");
    let (code, said) = run("64M", quiet, &of("/bin/sh"));
    assert_eq!(code, Some(1), "{said}");
    let exists = RecordingError::Exists { path: recording };
    assert!(said.contains(&exists.to_string()), "{said}");
}

/// The monitor has the terminal: the program has no input, and its output goes into the recording.
#[test]
fn the_monitor_shows_the_program_and_ends_with_it() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recording = place.path().join("recording");
    let report = format!("--report={}", recording.display());
    let cache = crate::heap::cache();
    let cache = cache.to_str().expect("text");
    let start = |report: &[&str], script: &str| {
        let mut command = vec![PLIMSOLL, "exec", "--engine", "pager", "--ram", "64M", "--watch"];
        command.extend(report);
        command.extend(["--", "sh", "-c", script]);
        Terminal::start(OWNED, &command, &[("XDG_CACHE_HOME", cache)])
    };
    // The programs wait for the test, and the test for them: each may be slow on a busy machine.
    let [seen, trapped] = ["seen", "trapped"].map(|name| place.path().join(name));
    let until_seen = format!("until [ -e {} ]; do sleep 0.05; done", seen.display());
    let mut terminal = start(&[&report], &format!("cat; echo said; {until_seen}; exit 9"));
    terminal.until_text("page cache");
    terminal.until_text("sh -c");
    fs::write(&seen, "").expect("written");
    assert_eq!(terminal.end(), Some(9));
    terminal.until_text("estimated slowdown");
    assert_eq!(
        fs::read(recording.join("stdout.txt")).expect("it is there"),
        b"said\n"
    );
    assert_opens(&recording);
    // The user quits.
    let loops = format!(
        "trap 'exit 4' TERM; : >{}; while :; do sleep 0.05; done",
        trapped.display()
    );
    let mut terminal = start(&[], &loops);
    terminal.until_text("page cache");
    terminal.until("the trap of the program", |_| trapped.exists());
    terminal.press("q");
    assert_eq!(terminal.end(), Some(4));
    assert!(
        !terminal.contents().contains("recording  "),
        "{}",
        terminal.contents()
    );
}
