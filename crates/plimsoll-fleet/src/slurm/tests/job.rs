//! `job.sbatch`.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// On a busy machine.
const LONGEST: Duration = Duration::from_secs(60);
/// Ends by itself, as the test would otherwise wait forever where no signal arrives: after 30 s, with code 9.
const WAITING_TASK: &str = ": >started
n=0
while [ $n -lt 300 ]; do
    sleep 0.1
    n=$((n + 1))
done
exit 9
";

/// Starts the first task, whose script is `at_signal` in a trap and [`WAITING_TASK`], and returns when it waits.
fn waiting(stubs: &Stubs, at_signal: &str) -> Child {
    let started = stubs.folder.path().join("started");
    let _ = std::fs::remove_file(&started);
    stubs.task(&format!("trap '{at_signal}' TERM\n{WAITING_TASK}"));
    let mut job = stubs.job(0, 0);
    let child = job.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.expect("a shell");
    let end = Instant::now() + LONGEST;
    // The shell may be slower than its task.
    while !(started.exists() && catches_sigterm(&child)) {
        assert!(Instant::now() < end, "no task in {LONGEST:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn catches_sigterm(process: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).expect("it runs");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.expect("a mask").trim(), 16).expect("a mask");
    caught & (1 << (Signal::TERM.as_raw() - 1)) != 0
}

/// Sends SIGTERM to the shell of the job alone, as Slurm does with `proctrack/cgroup`, and returns its exit code.
fn end(mut job: Child, signals: u32) -> Option<i32> {
    for _ in 0..signals {
        kill_process(Pid::from_child(&job), Signal::TERM).expect("it runs");
        std::thread::sleep(Duration::from_millis(50));
    }
    job.wait().expect("its end").code()
}

#[test]
fn a_signal_to_the_shell_alone_reaches_the_task() {
    let stubs = Stubs::new(&plan(2));
    stubs.command("scontrol", "");
    stubs.command("scancel", "");
    // Further signals arrive meanwhile.
    let undo = "trap \"\" TERM; sleep 0.3; : >undone; exit 5";
    let undone = stubs.folder.path().join("undone");
    for signals in [1, 3] {
        assert_eq!(end(waiting(&stubs, undo), signals), Some(5));
        assert!(undone.exists(), "the shell did not wait for the task");
        std::fs::remove_file(&undone).expect("a file");
        assert_eq!(stubs.failed(), ["task-1"]);
    }
    // Neither a retry, nor a scancel of its own.
    assert_eq!(stubs.calls(), "");
    // It had just finished.
    assert_eq!(end(waiting(&stubs, "exit 0"), 1), Some(0));
    assert_eq!(stubs.failed(), Vec::<OsString>::new());
}

#[test]
fn a_failed_task_is_requeued_up_to_the_retries() {
    let stubs = Stubs::new(&plan(4));
    stubs.command("scontrol", "");
    stubs.command("scancel", "");
    stubs.task("exit 5");
    assert_eq!(stubs.start(1, 0), Some(5));
    assert_eq!(stubs.calls(), "scontrol requeue 12_1\n");
    assert_eq!(stubs.failed(), Vec::<OsString>::new());
    assert_eq!(stubs.start(1, 1), Some(5));
    assert_eq!(stubs.failed(), ["task-2"]);
    // Slurm restarted it once more, as its host failed twice.
    stubs.task(": >ran");
    assert_eq!(stubs.start(1, 2), Some(1));
    assert!(!stubs.folder.path().join("ran").exists());
    assert_eq!(stubs.calls(), "scontrol requeue 12_1\n");
    // A user who requeues it by hand after a repair gets no stale failure.
    assert_eq!(stubs.start(1, 1), Some(0));
    assert_eq!(stubs.failed(), Vec::<OsString>::new());
}

#[test]
fn failed_tasks_stop_the_waiting_ones() {
    let stubs = Stubs::new(&plan(4));
    stubs.command("scontrol", "exit 1");
    stubs.command("scancel", "");
    stubs.task("exit 2");
    // Slurm refuses to requeue it.
    assert_eq!(stubs.start(0, 0), Some(2));
    assert_eq!(stubs.failed(), ["task-1"]);
    assert!(!stubs.calls().contains("scancel"), "{}", stubs.calls());
    assert_eq!(stubs.start(1, 1), Some(2));
    assert!(
        stubs.calls().ends_with("scancel --state=PENDING 12\n"),
        "{}",
        stubs.calls()
    );
    // A task that started meanwhile does not run.
    stubs.task(": >ran");
    assert_eq!(stubs.start(2, 0), Some(1));
    assert!(!stubs.folder.path().join("ran").exists());
}
