//! Journals and the machine lock, in state folders of their own: nothing here changes the machine.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_lab::environment::{EnvironmentError, LeftCause, RunState, Session, cleanup_in};
use plimsoll_testkit::capability;
use proptest::prelude::*;
use serde_json::json;

use super::{NEVER, read};

pub(super) fn open(state: &Path, run: &str, wait: Option<Duration>) -> Result<Session, EnvironmentError> {
    Session::open_in(
        state,
        run,
        &["plimsoll".to_owned(), "run".to_owned()],
        wait,
        &NEVER,
    )
}

/// Where a run has its swap file of this name.
pub(super) fn swap_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!(".plimsoll-{name}.swap"))
}

/// The journal of a dead run that made `files`, under another boot if `boot` is given.
pub(super) fn journal_of(state: &Path, run: &str, boot: Option<&str>, files: &[PathBuf]) -> PathBuf {
    let boot_id = boot.map_or_else(|| read("/proc/sys/kernel/random/boot_id"), str::to_owned);
    let header = json!({"journal": 1, "run": run, "command": ["plimsoll"], "pid": 1, "boot_id": boot_id, "started_ns": 5});
    let mut text = json!({ "header": header }).to_string() + "\n";
    for (index, path) in files.iter().enumerate() {
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .unwrap();
        let change = json!({"kind": "file", "path": path, "uuid": "u"});
        text += &(json!({"change": {"number": index + 1, "change": change}}).to_string() + "\n");
    }
    let path = state.join("runs").join(format!("{run}.jsonl"));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state.join("runs"))
        .unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// Appends changes to a journal, numbered from `first` on.
pub(super) fn append(journal: &Path, first: usize, changes: &[serde_json::Value]) {
    let mut text = fs::read_to_string(journal).unwrap();
    for (index, change) in changes.iter().enumerate() {
        text += &(json!({"change": {"number": first + index, "change": change}}).to_string() + "\n");
    }
    fs::write(journal, text).unwrap();
}

#[test]
fn a_second_run_is_refused_by_name_and_gets_its_turn_when_it_waits() {
    let state = tempfile::tempdir().unwrap();
    let first = open(state.path(), "the-first", None).unwrap();
    let refused = open(state.path(), "the-second", None).unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, EnvironmentError::Busy { .. }), "{text}");
    assert!(
        text.contains("the-first") && text.contains(&std::process::id().to_string()),
        "{text}"
    );
    let short = Instant::now();
    assert!(open(state.path(), "the-second", Some(Duration::from_millis(200))).is_err());
    assert!(short.elapsed() >= Duration::from_millis(200));
    let path = state.path().to_owned();
    let waiting =
        std::thread::spawn(move || open(&path, "the-second", Some(Duration::from_secs(300))).map(drop));
    std::thread::sleep(Duration::from_millis(100));
    let _ = first.finish().unwrap();
    waiting.join().unwrap().unwrap();
}

#[test]
fn a_wait_for_the_machine_ends_with_the_stop_that_was_asked_for() {
    let state = tempfile::tempdir().unwrap();
    let first = open(state.path(), "the-first", None).unwrap();
    // No clock reaches the end of this wait: only the stop can end it.
    let for_ever = Some(Duration::from_secs(u64::MAX));
    let stop = Arc::new(AtomicBool::new(false));
    let (path, asked) = (state.path().to_owned(), Arc::clone(&stop));
    let waiting = std::thread::spawn(move || Session::open_in(&path, "the-second", &[], for_ever, &asked));
    std::thread::sleep(Duration::from_millis(200));
    assert!(!waiting.is_finished(), "it did not wait");
    stop.store(true, Ordering::Release);
    let ended = waiting.join().unwrap();
    assert!(matches!(ended, Err(EnvironmentError::Interrupted)), "{ended:?}");
    let _ = first.finish().unwrap();
}

/// Whether the process has taken over SIGINT (number 2), so that the signal does not simply end it.
fn catches_interrupts(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 0b10 != 0
}

#[test]
fn an_interrupt_ends_a_run_that_waits_for_the_machine() {
    if !super::has_cgroup() {
        return;
    }
    let (state, recordings) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = open(state.path(), "the-first", None).unwrap();
    let mut waiting = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["run", "compression", "--set", "subject=none", "--set", "size=32M"])
        .args(["--wait=18446744073709551615", "--output"])
        .arg(recordings.path())
        .env("PLIMSOLL_STATE_DIR", state.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(300);
    while !catches_interrupts(waiting.id()) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    let early = waiting.try_wait().unwrap();
    let pid = rustix::process::Pid::from_child(&waiting);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = waiting.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(early, None, "it did not wait: {text}");
    assert_eq!(ended.status.code(), Some(5), "{text}");
    assert_eq!(fs::read_dir(recordings.path()).unwrap().count(), 0);
    let _ = first.finish().unwrap();
}

#[test]
fn a_finished_session_leaves_no_journal() {
    let state = tempfile::tempdir().unwrap();
    let session = open(state.path(), "run", None).unwrap();
    let journal = state.path().join("runs/run.jsonl");
    assert!(journal.is_file());
    let _ = session.finish().unwrap();
    assert!(!journal.exists());
    drop(open(state.path(), "dropped", None).unwrap());
    assert_eq!(fs::read_dir(state.path().join("runs")).unwrap().count(), 0);
}

#[test]
fn a_live_run_is_not_cleaned_up() {
    let state = tempfile::tempdir().unwrap();
    let mut session = open(state.path(), "alive", None).unwrap();
    let mut child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
    session.process_started(child.id()).unwrap();
    let report = cleanup_in(state.path(), None).unwrap();
    assert_eq!((report.runs.len(), report.runs[0].state), (1, RunState::Live));
    assert!(report.is_clean());
    assert!(
        child.try_wait().unwrap().is_none(),
        "the process of a live run was killed"
    );
    // A dead run beside it has to wait, and the report says for whom.
    let file = swap_file(state.path(), "made");
    journal_of(state.path(), "dead", None, std::slice::from_ref(&file));
    assert_eq!(session.dead_runs().unwrap(), ["dead"]);
    let report = cleanup_in(state.path(), None).unwrap();
    let dead = report.runs.iter().find(|run| run.run == "dead").unwrap();
    assert_eq!(dead.state, RunState::Kept);
    let holder = Some("alive".to_owned());
    assert_eq!(dead.left[0].cause, LeftCause::MachineLocked { holder });
    assert!(file.exists());
    let _ = session.finish().unwrap();
    assert!(
        !child.wait().unwrap().success(),
        "a session that ends kills what it still has"
    );
    assert!(cleanup_in(state.path(), None).unwrap().is_clean());
    assert!(!file.exists());
}

#[test]
fn after_a_reboot_only_files_are_undone() {
    let state = tempfile::tempdir().unwrap();
    let file = swap_file(state.path(), "run");
    let journal = journal_of(
        state.path(),
        "before-reboot",
        Some("another boot"),
        std::slice::from_ref(&file),
    );
    // This very process would be killed, and this value changed, if the journal were of this boot.
    let value = state.path().join("value");
    fs::write(&value, "7").unwrap();
    let me = procfs::process::Process::myself().unwrap().stat().unwrap();
    let mut text = fs::read_to_string(&journal).unwrap();
    for (number, change) in [
        (
            2,
            json!({"kind": "process", "pid": me.pid, "start_time": me.starttime}),
        ),
        (
            3,
            json!({"kind": "value", "path": value, "before": "1", "wrote": "7"}),
        ),
    ] {
        text += &(json!({"change": {"number": number, "change": change}}).to_string() + "\n");
    }
    fs::write(&journal, text).unwrap();
    let report = cleanup_in(state.path(), None).unwrap();
    assert_eq!(report.runs[0].state, RunState::Undone);
    assert!(!file.exists() && !journal.exists());
    assert_eq!(read(&value), "7");
}

#[test]
fn a_failed_undo_keeps_its_journal_and_undoes_the_rest() {
    let state = tempfile::tempdir().unwrap();
    let place = state.path().join("place");
    fs::create_dir(&place).unwrap();
    let (first, second) = (swap_file(state.path(), "first"), swap_file(&place, "second"));
    let journal = journal_of(state.path(), "run", None, &[first.clone(), second.clone()]);
    // A file in a folder that others can write to is not removed.
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    let report = cleanup_in(state.path(), None).unwrap();
    assert_eq!(report.runs[0].state, RunState::Kept, "{report:?}");
    assert_eq!(report.runs[0].left.len(), 1);
    assert!(report.runs[0].left[0].what.contains("second"));
    assert!(!first.exists() && journal.exists());
    fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
    let report = cleanup_in(state.path(), None).unwrap();
    assert_eq!(report.runs[0].state, RunState::Undone, "{report:?}");
    assert_eq!(
        report.runs[0].undone.len(),
        1,
        "what was undone before is not undone again"
    );
    assert!(!journal.exists());
}

/// The run died after it wrote a change down and before it made it: for every kind, undoing finds nothing to do.
#[test]
fn changes_that_were_never_made_are_undone_without_harm() {
    let state = tempfile::tempdir().unwrap();
    let journal = journal_of(state.path(), "run", None, &[]);
    let absent = swap_file(state.path(), "absent");
    let cgroup = Path::new("/sys/fs/cgroup/plimsoll-absent/plimsoll-run-1");
    let now = read("/proc/sys/vm/swappiness");
    let zram: Vec<u32> = (0..1000).collect();
    let changes = [
        json!({"kind": "zram-algorithm", "id": 999_998, "before": "lzo-rle"}),
        json!({"kind": "zram-add", "before": zram}),
        json!({"kind": "zram-algorithm", "id": 999_999, "before": "lzo"}),
        json!({"kind": "zram", "id": 999_999, "added": true, "disksize": 4096, "uuid": "u"}),
        json!({"kind": "swap-on", "path": absent, "uuid": "u"}),
        json!({"kind": "file", "path": absent, "uuid": "u"}),
        json!({"kind": "value", "path": "/proc/sys/vm/swappiness", "before": now, "wrote": "200"}),
        json!({"kind": "cgroup", "path": cgroup}),
        json!({"kind": "memory-controller", "cgroup": cgroup.parent()}),
        json!({"kind": "process", "pid": 4_194_304, "start_time": 1}),
    ];
    append(&journal, 1, &changes);
    let report = cleanup_in(state.path(), None).unwrap();
    assert_eq!(
        (report.runs[0].state, report.runs[0].undone.len()),
        (RunState::Undone, changes.len()),
        "{report:?}"
    );
    assert_eq!(read("/proc/sys/vm/swappiness"), now);
    assert!(!journal.exists() && !absent.exists());
}

#[test]
fn a_corrupt_line_is_reported_and_keeps_the_journal() {
    let state = tempfile::tempdir().unwrap();
    let files = [
        swap_file(state.path(), "first"),
        swap_file(state.path(), "second"),
    ];
    let journal = journal_of(state.path(), "run", None, &files);
    let text = fs::read_to_string(&journal).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1] = "{\"change\": {\"number\": 1, \"chan\u{0}";
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    let report = cleanup_in(state.path(), None).unwrap();
    let [left] = &report.runs[0].left[..] else {
        panic!("{:?}", report.runs[0].left);
    };
    assert_eq!(left.cause, LeftCause::JournalLine { line: 2 });
    assert!(files[0].exists() && !files[1].exists() && journal.exists());
}

#[test]
fn a_journal_of_another_format_is_left_alone() {
    let state = tempfile::tempdir().unwrap();
    let file = swap_file(state.path(), "file");
    let journal = journal_of(state.path(), "run", None, std::slice::from_ref(&file));
    let text = fs::read_to_string(&journal)
        .unwrap()
        .replace("\"journal\":1", "\"journal\":2");
    fs::write(&journal, text).unwrap();
    let report = cleanup_in(state.path(), None).unwrap();
    let cause = &report.runs[0].left[0].cause;
    assert_eq!(cause, &LeftCause::JournalFormat { format: 2 });
    assert!(file.exists() && journal.exists());
    fs::write(&journal, "garbage\n").unwrap();
    let report = cleanup_in(state.path(), None).unwrap();
    let run = &report.runs[0];
    assert_eq!((run.run.as_str(), run.state), ("run", RunState::Kept));
    assert_eq!(run.left[0].cause, LeftCause::JournalHeader);
    assert!(file.exists() && journal.exists());
}

#[test]
fn nothing_to_clean_up() {
    let state = tempfile::tempdir().unwrap();
    assert!(cleanup_in(state.path(), None).unwrap().runs.is_empty());
    assert!(
        cleanup_in(&state.path().join("not/there"), None)
            .unwrap()
            .runs
            .is_empty()
    );
}

#[test]
fn a_run_of_the_same_name_does_not_overwrite_the_journal_of_a_dead_one() {
    let state = tempfile::tempdir().unwrap();
    let file = swap_file(state.path(), "file");
    let journal = journal_of(state.path(), "run", None, std::slice::from_ref(&file));
    let session = open(state.path(), "run", None).unwrap();
    let journals = fs::read_dir(state.path().join("runs")).unwrap().count();
    assert_eq!(journals, 2, "the dead run's journal and the new one");
    let _ = session.finish().unwrap();
    assert!(journal.exists() && file.exists());
}

#[test]
fn a_disk_that_fills_up_under_the_journal_leaves_whole_lines_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mount = |options: &str| {
        let mount = plimsoll_testkit::command("mount")
            .args(["-t", "tmpfs", "-o", options, "plimsoll-test"])
            .arg(folder.path())
            .output();
        mount.is_ok_and(|output| output.status.success())
    };
    if !capability("mount", mount("size=8k,mode=700"), "cannot mount a tmpfs") {
        return;
    }
    // The state folder has two pages: one is the lock's, one the journal's.
    let mut session = open(folder.path(), "full", None).unwrap();
    let mut child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
    let full = (0..1000).find_map(|_| session.process_started(child.id()).err());
    let journal = folder.path().join("runs/full.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let roomy = mount("remount,size=64k");
    let finished = session.finish();
    child.wait().unwrap();
    let left = journal.exists();
    let unmounted = plimsoll_testkit::command("umount").arg(folder.path()).status();
    assert!(unmounted.unwrap().success() && roomy);
    let full = full.expect("the disk is small");
    assert!(
        matches!(&full, EnvironmentError::System { source, .. } if source.raw_os_error() == Some(libc::ENOSPC)),
        "{full:?}"
    );
    assert!(text.len() > 2000 && text.len() < 4096, "{} bytes", text.len());
    assert!(text.ends_with('\n'), "it ends in half a line: {text}");
    for line in text.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
    let _ = finished.unwrap();
    assert!(!left);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A journal cut anywhere undoes exactly the changes whose lines are whole: a torn line's change was not made.
    #[test]
    fn a_journal_torn_anywhere_undoes_its_whole_lines(count in 0usize..5, cut in 0.0f64..=1.0) {
        let state = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = (0..count).map(|index| swap_file(state.path(), &format!("file{index}"))).collect();
        let journal = journal_of(state.path(), "torn", None, &files);
        let text = fs::read(&journal).unwrap();
        let length = (text.len() as f64 * cut) as usize;
        fs::write(&journal, &text[..length]).unwrap();
        let whole = text[..length].iter().filter(|&&byte| byte == b'\n').count();
        let report = cleanup_in(state.path(), None).unwrap();
        prop_assert!(report.is_clean());
        prop_assert!(!journal.exists());
        for (index, path) in files.iter().enumerate() {
            // The header is the first whole line.
            prop_assert_eq!(path.exists(), index + 1 >= whole, "file {}, {} whole lines", index, whole);
        }
    }
}
