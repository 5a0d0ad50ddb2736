//! Runs that are killed at any moment, with their workers, and cleanups that are killed too: nothing stays behind.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use super::{PLIMSOLL, Run, ends_soon, has_laboratory, undo_killed};
use crate::hostile::{Seed, rounds};

/// The process that is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Victim {
    Runner,
    Worker,
    /// The runner, and then `cleanup` itself, three times.
    RunnerAndCleanup,
}

fn cleanup() -> std::process::Command {
    let mut command = plimsoll_testkit::command(PLIMSOLL);
    command.args(["cleanup", "--json"]).stdin(Stdio::null());
    command
}

/// Starts a run and waits until a moment of it that `seed` chooses: set up, filling, trimming, at rest.
fn started<'a>(run: &'a Run, seed: &mut Seed) -> super::Started<'a> {
    let mut started = run.start();
    let moments = [
        ("trial-start", ""),
        ("environment", ""),
        ("phase-start", "fill"),
        ("phase-end", "fill"),
        ("phase-start", "trim"),
        ("phase-end", "trim"),
    ];
    let (kind, phase) = moments[seed.below(moments.len())];
    started.await_event(kind, phase);
    std::thread::sleep(Duration::from_millis(seed.below(40) as u64));
    started
}

fn kill_round(number: u64, victim: Victim) {
    let mut seed = Seed::of(number);
    let run = Run::new(&["--set", "class=random", "--set", "hold=0.5"]);
    let mut started = started(&run, &mut seed);
    let name = run.name().expect("a recording");
    let children = started.children();
    if victim == Victim::Worker {
        if let Some(worker) = children.last().and_then(|pid| i32::try_from(*pid).ok()) {
            let pid = rustix::process::Pid::from_raw(worker).expect("a process id");
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        // The runner undoes its changes, whatever became of the trial.
        let ended = started.finish();
        assert!(
            (0..=7).contains(&ended.code),
            "exit {}: {}",
            ended.code,
            ended.stderr
        );
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        return;
    }
    if started
        .child
        .as_mut()
        .expect("not ended")
        .try_wait()
        .expect("a child")
        .is_none()
    {
        started.signal(Signal::KILL);
    }
    started.wait();
    if victim == Victim::RunnerAndCleanup {
        for _ in 0..3 {
            let mut child = cleanup()
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("plimsoll starts");
            std::thread::sleep(Duration::from_millis(seed.below(60) as u64));
            child.kill().expect("a child");
            child.wait().expect("a child");
        }
    }
    undo_killed(&name);
    run.assert_nothing_left();
    for pid in children {
        assert!(ends_soon(pid), "a worker outlived its runner");
    }
}

fn signal_round(number: u64, signal: Signal) {
    let run = Run::new(&["--set", "class=random", "--set", "hold=0.5"]);
    let mut started = started(&run, &mut Seed::of(number));
    let children = started.children();
    if started
        .child
        .as_mut()
        .expect("not ended")
        .try_wait()
        .expect("a child")
        .is_none()
    {
        started.signal(signal);
    }
    let ended = started.finish();
    // 0 or 7 where the run had ended before the signal.
    assert!(
        [0, 5, 7].contains(&ended.code),
        "exit {}: {}",
        ended.code,
        ended.stderr
    );
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    for pid in children {
        assert!(ends_soon(pid), "a worker outlived its runner");
    }
}

#[test]
fn a_killed_runner_worker_or_cleanup_leaves_nothing_behind() {
    if !has_laboratory() {
        return;
    }
    let victims = [Victim::Runner, Victim::Worker, Victim::RunnerAndCleanup];
    for number in rounds(1) {
        for (index, victim) in victims.into_iter().enumerate() {
            kill_round(number * 10 + index as u64, victim);
        }
    }
    eprintln!("{} rounds of SIGKILL", rounds(1).count() * victims.len());
}

#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    if !has_laboratory() {
        return;
    }
    for number in rounds(1) {
        for (index, signal) in [Signal::INT, Signal::TERM].into_iter().enumerate() {
            signal_round(number * 10 + 5 + index as u64, signal);
        }
    }
    eprintln!("{} rounds of SIGINT and SIGTERM", 2 * rounds(1).count());
}
