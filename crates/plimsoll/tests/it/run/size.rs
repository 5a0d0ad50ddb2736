//! `plimsoll size`: refusals, ends before its time, and the document of a real search.

mod known;
mod programs;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use plimsoll_testkit::sized::SizedRun;
use rustix::process::Signal;
use serde_json::Value;

use super::{Ended, PLIMSOLL, Run, Started, find, has_laboratory, undo_killed};

/// A size of a test: the folder of its recordings. The arguments go to `command`.
fn size() -> Run {
    Run {
        folder: tempfile::tempdir().expect("a folder"),
        arguments: Vec::new(),
    }
}

/// `plimsoll size --json` with `options`, of the program `words`.
fn command(run: &Run, options: &[&str], words: &[&str]) -> Command {
    let mut command = plimsoll_testkit::command(PLIMSOLL);
    command
        .args(["size", "--json", "--output"])
        .arg(run.folder.path())
        .args(options)
        .arg("--")
        .args(words);
    command
}

/// Runs a size to its end, and checks that nothing is left behind.
fn sized(options: &[&str], words: &[&str]) -> (Run, Ended) {
    let run = size();
    let ended = Ended::of(command(&run, options, words).output().expect("plimsoll starts"));
    run.assert_nothing_left();
    (run, ended)
}

/// The recordings of a run by the start of their name.
fn recordings(run: &Run, start: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(run.folder.path())
        .into_iter()
        .flatten()
        .flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(start));
    named.map(|entry| entry.path()).collect()
}

/// Waits until a recording whose name has this start has such an event. Returns its name.
fn await_event(run: &Run, start: &str, is_it: impl Fn(&Value) -> bool) -> String {
    // Long, as the run may wait for those of other tests.
    let deadline = Instant::now() + Duration::from_secs(600);
    // Open files outlive the recording of a pilot, which is removed at its end.
    let mut files = BTreeMap::new();
    while Instant::now() < deadline {
        for folder in recordings(run, start) {
            if let Ok(file) = File::open(folder.join("events.jsonl")) {
                files.entry(folder).or_insert(file);
            }
        }
        for (folder, file) in &mut files {
            let mut text = String::new();
            file.rewind().expect("a file");
            file.read_to_string(&mut text).expect("events");
            let mut events = text
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            if events.any(|event| is_it(&event)) {
                let name = folder.file_name().expect("a name").to_string_lossy();
                return name.into_owned();
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{start} has no such event within ten minutes");
}

/// Waits until a recording whose name has this start runs the program. Returns its name.
fn await_program(run: &Run, start: &str) -> String {
    await_event(run, start, |event| {
        let phase = event["phase"].as_str().unwrap_or_default();
        event["kind"] == "phase-start" && phase.starts_with("limit")
    })
}

/// No journal, cgroup or process of the run of this name, whose program sleeps for `seconds`.
fn assert_gone(name: &str, seconds: &str) {
    for folder in ["/var/lib/plimsoll/runs", "/sys/fs/cgroup"] {
        let left = find(folder.as_ref(), name, 6);
        assert!(left.is_empty(), "{name} left behind: {left:?}");
    }
    assert_no_sleep(seconds);
}

/// No process sleeps for `seconds`, which no other test does.
fn assert_no_sleep(seconds: &str) {
    let sleeps = |pid: &str| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line == format!("sleep\0{seconds}\0").as_bytes()
    };
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let mut pids = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
    assert!(!pids.any(|pid| sleeps(&pid)), "`sleep {seconds}` still runs");
}

fn start<'a>(run: &'a Run, options: &[&str], words: &[&str]) -> Started<'a> {
    run.start_by(command(run, &[&["--wait"], options].concat(), words))
}

#[test]
fn options_without_meaning_are_refused_by_name() {
    for (options, words, names) in [
        (
            &["--engine", "floppy"][..],
            &["true"][..],
            &["--engine", "floppy", "zram"][..],
        ),
        (&["--engine", "jemalloc"], &["true"], &["--engine", "jemalloc"]),
        (&["--engine", "none,none"], &["true"], &["--engine", "none"]),
        (&["--tolerate", "5"], &["true"], &["--tolerate", "5%"]),
        (&["--tolerate=-1%"], &["true"], &["--tolerate"]),
        (&["--metric", "ops"], &["true"], &["--metric", "ops"]),
        (&["--metric", "(a)(b)"], &["true"], &["--metric", "(a)(b)"]),
        (&["--metric", "("], &["true"], &["--metric"]),
        (&["--higher-is-better"], &["true"], &["--metric"]),
        (&["--repeat", "0"], &["true"], &["--repeat"]),
        (
            &["--fail-if-needs-more-than", "lots"],
            &["true"],
            &["--fail-if-needs-more-than", "lots"],
        ),
        (
            &["--fail-if-needs-more-than", "50%"],
            &["true"],
            &["--fail-if-needs-more-than", "50%"],
        ),
        (
            &[],
            &["no-such-program-anywhere"],
            &["no-such-program-anywhere", "PATH"],
        ),
        (&[], &["/nonexistent/program"], &["/nonexistent/program"]),
        (&[], &["/etc/passwd"], &["/etc/passwd"]),
        (&[], &["/etc"], &["/etc"]),
        (&[], &[], &["COMMAND"]),
    ] {
        let (run, ended) = sized(options, words);
        ended.assert_refused(1, names);
        assert!(recordings(&run, "").is_empty(), "{options:?} {words:?}");
    }
}

#[test]
fn an_engine_that_the_machine_lacks_is_refused_before_anything_runs() {
    if !has_laboratory() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let ran = folder.path().join("ran");
    let (run, ended) = sized(
        &["--engine", "none,zram:no-such-algorithm"],
        &["touch", ran.to_str().expect("UTF-8")],
    );
    ended.assert_refused(3, &["no-such-algorithm", "--engine", "none"]);
    assert!(!ran.exists() && recordings(&run, "").is_empty());
}

#[test]
fn without_privileges_it_names_the_lack_and_the_remedy() {
    let found = super::refusals::as_nobody(|command, runs| {
        command.args(["size", "--json", "--output"]).arg(runs).args([
            "--engine",
            "none,swapfile",
            "--",
            "true",
        ]);
    });
    if let Some(ended) = found {
        ended.assert_refused(3, &["--engine none", "CAP_SYS_ADMIN"]);
    }
}

#[test]
fn a_program_that_fails_by_itself_is_found_by_the_pilot() {
    if !has_laboratory() {
        return;
    }
    let (run, ended) = sized(
        &["--wait", "--engine", "none"],
        &["sh", "-c", "echo no luck >&2; exit 9"],
    );
    ended.assert_refused(2, &["exit code 9", "no luck"]);
    assert!(
        recordings(&run, "").is_empty(),
        "the recording of the pilot stays"
    );
}

#[test]
fn a_metric_that_the_program_does_not_print_is_found_by_the_pilot() {
    if !has_laboratory() {
        return;
    }
    let (run, ended) = sized(
        &["--wait", "--engine", "none", "--metric", "ops/s: ([0-9.]+)"],
        &["echo", "no number"],
    );
    ended.assert_refused(2, &["ops/s", "metric"]);
    assert!(
        recordings(&run, "").is_empty(),
        "the recording of the pilot stays"
    );
}

#[test]
fn sigint_in_the_pilot_ends_the_program_and_leaves_nothing() {
    if !has_laboratory() {
        return;
    }
    let run = size();
    let started = start(&run, &["--engine", "none"], &["sleep", "7201"]);
    let name = await_program(&run, "size-pilot");
    started.signal(Signal::INT);
    let ended = started.wait();
    ended.assert_refused(5, &["SIGINT"]);
    assert!(
        recordings(&run, "").is_empty(),
        "the recording of the pilot stays"
    );
    assert_gone(&name, "7201");
}

#[test]
fn sigint_in_the_search_ends_with_everything_undone() {
    if !has_laboratory() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let first = folder.path().join("first");
    // Quick in the pilot, and endless from then on.
    let script = format!("test -e {0} && exec sleep 7202; touch {0}", first.display());
    let run = size();
    let started = start(&run, &["--engine", "none,zram:lz4"], &["sh", "-c", &script]);
    let name = await_program(&run, "size-2");
    started.signal(Signal::INT);
    let ended = started.wait();
    assert_eq!(ended.code, 5, "{}", ended.stderr);
    // The document has what is known.
    assert_eq!(ended.results["schema"], 1, "{:#}", ended.results);
    assert!(recordings(&run, "size-pilot").is_empty());
    assert_eq!(recordings(&run, "size-2").len(), 1);
    assert_gone(&name, "7202");
}

#[test]
fn a_killed_size_is_undone_by_cleanup() {
    if !has_laboratory() {
        return;
    }
    let run = size();
    let started = start(&run, &["--engine", "none"], &["sleep", "7203"]);
    let name = await_program(&run, "size-pilot");
    started.signal(Signal::KILL);
    started.wait();
    undo_killed(&name);
    assert_gone(&name, "7203");
}

#[test]
fn a_second_size_is_refused_with_the_name_of_the_first() {
    if !has_laboratory() {
        return;
    }
    let run = size();
    let started = start(&run, &["--engine", "none"], &["sleep", "7204"]);
    let name = await_program(&run, "size-pilot");
    let (second, ended) = sized(&["--engine", "none"], &["true"]);
    ended.assert_refused(3, &[&name, "--wait"]);
    assert!(recordings(&second, "").is_empty());
    started.signal(Signal::INT);
    started.wait();
    assert_gone(&name, "7204");
}

/// On a busy machine the need may be untrustworthy, and the budget unknown (7).
#[test]
fn a_broken_budget_ends_with_6_and_names_the_engine() {
    if !has_laboratory() {
        return;
    }
    let ended = &programs::OVER_BUDGET.ended;
    let engine = &ended.results["engines"][0];
    let known = engine["untrustworthy"] == false && engine["recommended_bytes"].as_u64().is_some();
    let code = if known { 6 } else { 7 };
    assert_eq!(ended.code, code, "{}\n{engine:#}", ended.stderr);
    assert!(ended.stderr.contains("none"), "{}", ended.stderr);
}

/// The results of `report --json` of a recording.
fn reported(folder: &std::path::Path, format: &[&str]) -> String {
    let output = plimsoll_testkit::command(PLIMSOLL)
        .arg("report")
        .arg(folder)
        .args(format)
        .output()
        .expect("plimsoll starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_recording_of_a_size_is_reported_and_compared() {
    let parent = tempfile::tempdir().expect("a folder");
    let record = |name: &str, need: u64| {
        let sized = SizedRun {
            repeats: 6,
            ..SizedRun::new(name, &[("none", 900), ("zram:lz4", need)])
        };
        sized.record(parent.path())
    };
    let [first, second] = [record("size-1", 400), record("size-2", 600)];
    let results: Value = serde_json::from_str(&reported(&first, &["--json"])).expect("one document");
    let needed = &results["size"]["engines"][1]["recommended_bytes"];
    assert!(
        needed.as_u64().is_some_and(|bytes| bytes >= 400 << 20),
        "{results:#}"
    );
    let text = reported(&first, &["--format", "text"]);
    let need = plimsoll_model::quantity::bytes(needed.as_u64().expect("bytes") as f64);
    assert!(text.contains(&need), "{need}: {text}");
    for (runs, condition, code) in [
        ([&first, &second], "needed_bytes>10%", 6),
        ([&second, &first], "needed_bytes>10%", 0),
        ([&first, &second], "*none/needed_bytes>10%", 0),
    ] {
        let output = plimsoll_testkit::command(PLIMSOLL)
            .arg("compare")
            .args(runs)
            .args(["--fail-on", condition])
            .output()
            .expect("plimsoll starts");
        assert_eq!(output.status.code(), Some(code), "{condition}: {output:?}");
    }
}
