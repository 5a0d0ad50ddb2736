//! A target that forks, becomes another program, ends.

use std::io::Write;

use plimsoll_monitor::watch::{
    Level, MarkKind, Monitor, Options, Program, Source, State, TargetChoice, WatchError,
};

use super::{Kept, wait_for};

fn live(choice: TargetChoice) -> Monitor {
    Monitor::start(&Options::of(Source::Live(choice))).expect("a monitor")
}

fn pids(state: &State) -> &[u32] {
    state.target.as_ref().map_or(&[], |target| &target.pids)
}

fn marked(state: &State, words: &str) -> bool {
    state
        .marks
        .iter()
        .any(|mark| mark.kind == MarkKind::Target && mark.text.contains(words))
}

#[test]
fn a_process_that_forks_becomes_another_and_ends_is_followed() {
    let mut target = Kept::start(
        "bash",
        &["-c", "sleep 100 & read line; kill $!; wait; exec sleep 101"],
    );
    let monitor = live(TargetChoice::Pid(target.pid()));
    wait_for(&monitor, "two processes", |state| pids(state).len() == 2);
    assert_eq!(pids(&monitor.state())[0], target.pid(), "the first one first");
    target.0.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
    wait_for(&monitor, "another program", |state| marked(state, ": sleep"));
    assert_eq!(
        monitor.state().target.as_ref().unwrap().title,
        format!("pid {} sleep", target.pid())
    );
    target.0.kill().unwrap();
    wait_for(&monitor, "the end", |state| {
        state.target.as_ref().is_some_and(|target| target.ended.is_some()) && pids(state).is_empty()
    });
    assert!(marked(&monitor.state(), "ended"));
    // Only a program that was started here ends the monitor.
    assert!(!monitor.ended());
}

#[test]
fn children_outlive_their_parent_in_the_family() {
    let mut parent = Kept::start(
        "sh",
        &["-c", "sleep 100 & sleep 101 & read line; kill $!; wait $!"],
    );
    let monitor = live(TargetChoice::Pid(parent.pid()));
    wait_for(&monitor, "three processes", |state| pids(state).len() == 3);
    parent.0.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
    wait_for(&monitor, "the parent's end", |state| {
        marked(state, "1 of its descendants") && pids(state).len() == 1
    });
    let orphan = pids(&monitor.state())[0];
    assert_ne!(orphan, parent.pid());
    let number = rustix::process::Pid::from_raw(orphan as i32).unwrap();
    rustix::process::kill_process(number, rustix::process::Signal::KILL).unwrap();
    wait_for(&monitor, "the end of all", |state| {
        state.target.as_ref().is_some_and(|target| target.ended.is_some())
    });
}

#[test]
fn a_program_ends_the_monitor_and_says_how() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("r");
    let monitor = Monitor::start(&Options {
        record: Some(record.clone()),
        ..Options::of(Source::Program(Program {
            command: ["sh", "-c", "echo out; echo \x1b[2Jerr >&2; exit 5"]
                .map(Into::into)
                .to_vec(),
            passes_through: false,
        }))
    })
    .unwrap();
    assert!(monitor.wait(super::PATIENCE));
    assert!(monitor.ended());
    wait_for(&monitor, "marks", |state| {
        marked(state, "started") && marked(state, "exit code 5")
    });
    let title = monitor.state().target.as_ref().unwrap().title.clone();
    assert!(!title.contains('\x1b'), "{title:?}");
    let summary = monitor.finish();
    assert_eq!(summary.program.unwrap().exit_code, Some(5));
    assert_eq!(summary.recording.as_deref(), Some(record.as_path()));
    assert_eq!(
        std::fs::read_to_string(record.join("stdout.txt")).unwrap(),
        "out\n"
    );
    assert!(
        std::fs::read_to_string(record.join("stderr.txt"))
            .unwrap()
            .ends_with("err\n")
    );
}

#[test]
fn a_new_target_with_too_many_processes_gives_a_warning() {
    let monitor = live(TargetChoice::None);
    assert!(monitor.state().target.is_none());
    let script = "for i in $(seq 70); do sleep 100 & done; wait";
    let target = Kept::start("bash", &["-c", script]);
    monitor.set_target(TargetChoice::Pid(target.pid()));
    wait_for(&monitor, "71 processes", |state| pids(state).len() == 71);
    let unread = monitor.state().target.as_ref().map(|target| target.unread);
    assert_eq!(unread, Some(7));
    wait_for(&monitor, "a message", |state| {
        state
            .messages
            .iter()
            .any(|message| ["71", "64"].iter().all(|number| message.text.contains(number)))
    });
    monitor.set_target(TargetChoice::Pid(99_999_999));
    wait_for(&monitor, "a refusal", |state| {
        state
            .messages
            .iter()
            .any(|message| message.level == Level::Error && message.text.contains("99999999"))
    });
    let refused = Monitor::start(&Options::of(Source::Live(TargetChoice::Pid(99_999_999))));
    assert!(matches!(refused, Err(WatchError::NoSuchProcess { .. })));
    assert_eq!(
        pids(&monitor.state()).len(),
        71,
        "a failed choice keeps the target"
    );
    let candidates = monitor.candidates();
    assert!(candidates.iter().any(|candidate| candidate.pid == target.pid()));
    assert!(candidates.is_sorted_by(|a, b| a.resident + a.swap >= b.resident + b.swap));
    for pid in pids(&monitor.state()).to_vec() {
        let number = rustix::process::Pid::from_raw(pid as i32).unwrap();
        let _ = rustix::process::kill_process(number, rustix::process::Signal::KILL);
    }
}

#[test]
fn slow_actions_run_in_the_background_with_a_message() {
    let monitor = live(TargetChoice::None);
    let cpu_us = || {
        let usage = plimsoll_os::resource_usage(plimsoll_os::UsageScope::Thread);
        usage.user_us + usage.system_us
    };
    let before_us = cpu_us();
    monitor.trim();
    monitor.count_page_flags();
    monitor.count_page_flags();
    monitor.mark(3);
    monitor.note("a note");
    let used_us = cpu_us() - before_us;
    // The thread that asked does not do the work,
    assert!(used_us < 100_000, "{used_us} us of CPU time");
    wait_for(&monitor, "an answer to both", |state| {
        // Trim fails without a target. The count gives a mark, or an error to a user without the privilege.
        let errors = state
            .messages
            .iter()
            .filter(|message| message.level == Level::Error)
            .count();
        let counted = state.marks.iter().any(|mark| mark.kind == MarkKind::PageFlags);
        errors == if counted { 1 } else { 2 }
    });
    wait_for(&monitor, "nothing to do", |state| state.status.busy.is_none());
    let state = monitor.state();
    assert!(state.marks.iter().any(|mark| mark.kind == MarkKind::Number(3)));
    // nor does it wait for it: both counts together take a second of another thread, on a machine of 16 GiB.
    let set_at = |kind: &MarkKind| state.marks.iter().rfind(|mark| mark.kind == *kind);
    if let (Some(number), Some(counted)) = (set_at(&MarkKind::Number(3)), set_at(&MarkKind::PageFlags)) {
        assert!(number.t_ns < counted.t_ns, "{:?}", state.marks);
    }
    assert!(
        state
            .marks
            .iter()
            .any(|mark| mark.kind == MarkKind::Note && mark.text == "a note")
    );
}
