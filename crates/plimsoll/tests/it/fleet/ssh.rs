//! Fleets over ssh: the script `tests/fleet/ssh.sh` starts three hosts in network namespaces and checks the results. Other tests have
//! a host that is a folder of this machine.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plimsoll_fleet::Submitted;
use plimsoll_testkit::{capability, command, write_script};
use serde_json::json;
use tempfile::TempDir;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
const HOSTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/ssh.sh");
/// Long enough to lose a host in its middle.
const SCENARIO: &str = "[scenario]\nname = \"small\"\n[global]\nworkload = \"compression\"\nsize = \"16M\"\nhold = 3\nrepeat = 1\n\
                        class = \"runs20\"\n[zram]\nsubject = \"zram\"\n";
/// An `ssh` whose host is a folder, and a program that stands for Plimsoll there.
const FAKE_SSH: &str = include_str!("../../../../plimsoll-fleet/src/ssh/tests/ssh");
const FAKE_PROGRAM: &str = include_str!("../../../../plimsoll-fleet/src/ssh/tests/plimsoll");
/// Exit code for a command line, or a file it names, that is wrong.
const USAGE: Option<i32> = Some(1);

fn program(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/local/bin", "/usr/bin", "/usr/sbin", "/bin"];
    let mut paths = folders.iter().map(|folder| Path::new(folder).join(name));
    paths.find(|path| path.exists())
}

fn path() -> String {
    std::env::var("PATH").expect("tests have a PATH")
}

fn has_parallel() -> bool {
    capability("parallel", program("parallel").is_some(), "no GNU parallel")
}

fn is_possible() -> bool {
    let has = |name: &str| program(name).is_some();
    capability(
        "root",
        rustix::process::geteuid().is_root(),
        "the test is not root",
    ) && has_parallel()
        && capability(
            "sshd",
            has("sshd") && has("ssh") && has("ip"),
            "no OpenSSH or iproute2",
        )
}

#[test]
fn results_arrive_although_hosts_are_lost() {
    if !is_possible() {
        return;
    }
    let work = tempfile::tempdir().expect("a folder");
    let scenario = work.path().join("small.toml");
    fs::write(&scenario, SCENARIO).expect("written");
    let status = command(HOSTS).arg(PLIMSOLL).arg(scenario).status();
    // Of a test that failed in its middle.
    let cleaned = command(PLIMSOLL)
        .arg("cleanup")
        .output()
        .expect("plimsoll starts");
    assert!(status.expect("bash starts").success(), "{cleaned:?}");
}

/// A planned fleet, and a folder `bin` of programs.
struct Planned(TempDir);

impl Planned {
    fn new() -> Planned {
        Planned::with("a\nb:2022\n", "a program")
    }

    fn with(hosts: &str, program: &str) -> Planned {
        let work = tempfile::tempdir().expect("a folder");
        fs::create_dir(work.path().join("bin")).expect("a folder");
        fs::write(work.path().join("hosts"), hosts).expect("written");
        fs::write(work.path().join("program"), program).expect("written");
        let planned = Planned(work);
        let output = planned.fleet(
            &[
                "plan", "tour", "--hosts", "hosts", "--folder", "fleet", "--binary", "program",
            ],
            "/nonexistent",
        );
        assert!(output.status.success(), "{output:?}");
        planned
    }

    /// With one host, which is the folder `disk`.
    fn with_fake_host() -> Planned {
        let planned = Planned::with("host\n", FAKE_PROGRAM);
        fs::create_dir(planned.path("disk")).expect("a folder");
        write_script(planned.path("bin/ssh"), FAKE_SSH);
        planned
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// With the programs of `bin`, and of `others`.
    fn command(&self, arguments: &[&str], others: &str) -> Command {
        let mut command = command(PLIMSOLL);
        command.arg("fleet").args(arguments).current_dir(self.0.path());
        command.env("PATH", format!("{}:{others}", self.path("bin").display()));
        command.env("FAKE_ROOT", self.0.path());
        command
    }

    fn fleet(&self, arguments: &[&str], others: &str) -> Output {
        let output = self.command(arguments, others).output();
        output.expect("plimsoll starts")
    }

    /// Starts a submission in a process group of its own. Its task runs until the file `hang` is gone.
    fn start(&self) -> Child {
        fs::write(self.path("hang"), "").expect("written");
        let mut command = self.command(&["submit", "fleet"], &path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.process_group(0).spawn().expect("plimsoll starts");
        wait_until(|| self.path("started").exists());
        child
    }

    /// Whether processes of a submission live.
    fn is_submitting(&self) -> bool {
        let mut command = command("flock");
        command.arg("-n").arg(self.path("fleet/logs/submit.lock"));
        !command.arg("true").status().expect("flock starts").success()
    }

    fn submitted(&self) -> Option<Submitted> {
        Submitted::read(&self.path("fleet")).expect("no damage")
    }

    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        names.map(|name| name.into_string().expect("text")).collect()
    }

    fn assert_refused(&self) {
        let output = self.fleet(&["submit", "fleet"], "/nonexistent");
        assert_eq!(output.status.code(), USAGE, "{output:?}");
        assert_eq!(self.submitted(), None);
        let started = fs::read_dir(self.path("fleet/tasks")).map_or(0, Iterator::count);
        assert_eq!(started, 0, "no task started");
    }
}

fn wait_until(holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "not within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_submission_without_gnu_parallel_is_refused() {
    Planned::new().assert_refused();
    let other = Planned::new();
    write_script(
        other.0.path().join("bin/parallel"),
        "#!/bin/sh\necho parallel from moreutils\n",
    );
    other.assert_refused();
}

#[test]
fn a_submission_without_ssh_is_refused() {
    let planned = Planned::new();
    write_script(
        planned.0.path().join("bin/parallel"),
        "#!/bin/sh\necho GNU parallel 20221122\n",
    );
    planned.assert_refused();
}

#[test]
fn the_tasks_of_an_unreachable_host_are_reported() {
    if !is_possible() {
        return;
    }
    let planned = Planned::new();
    let bin = planned.0.path().join("bin");
    write_script(bin.join("ssh"), "#!/bin/sh\nexit 255\n");
    for submissions in 1..=2 {
        let output = planned.fleet(&["submit", "fleet"], &path());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let tasks = fs::read_to_string(planned.path("fleet/tasks.tsv")).expect("a list");
        let errors = String::from_utf8_lossy(&output.stderr);
        for line in tasks.lines() {
            let (task, _) = line.split_once('\t').expect("a task and its host");
            assert!(errors.contains(task), "{task}: {errors}");
        }
        assert_eq!(planned.submitted(), None, "it can be submitted again");
        // parallel has the last try of a task alone.
        let log = fs::read_to_string(planned.path("fleet/logs/joblog.tsv")).expect("a job log");
        assert_eq!(log.lines().count(), 1 + 2 * submissions, "{log}");
        let tries = fs::read_to_string(planned.path("fleet/logs/tries.tsv")).expect("the tries");
        assert_eq!(tries.lines().count(), 6 * submissions, "{tries}");
        assert!(tries.lines().all(|line| line.contains("\t75\t")), "{tries}");
    }
}

/// A second submission was refused, and the `fleet cancel` that the message recommended removed the results on the hosts.
#[test]
fn an_interrupted_submission_is_resumed() {
    if !has_parallel() {
        return;
    }
    let planned = Planned::with_fake_host();
    let mut first = planned.start();
    // The command is gone before it can remove anything, and parallel ends the connections.
    let group = rustix::process::Pid::from_child(&first);
    first.kill().expect("it lives");
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).expect("parallel lives");
    first.wait().expect("a child");
    assert!(planned.submitted().is_some());
    wait_until(|| !planned.is_submitting());
    assert_eq!(planned.names("disk").len(), 1, "the task runs on");
    fs::remove_file(planned.path("hang")).expect("removed");

    let second = planned.fleet(&["submit", "fleet"], &path());
    assert!(second.status.success(), "{second:?}");
    let tasks = fs::read_to_string(planned.path("fleet/tasks.tsv")).expect("a list");
    let (task, _) = tasks.split_once('\t').expect("a task and its host");
    let result = fs::read_to_string(planned.path(&format!("fleet/tasks/{task}/result.json")));
    let result = result.expect("a result");
    assert!(result.contains("\"attempt\":1,"), "it ran once: {result}");
    assert_eq!(planned.names(&format!("fleet/tasks/{task}.attempts")), ["1"]);
    assert_eq!(planned.names("disk"), [""; 0]);
}

/// The second submission replaced `submitted.json` and the messages of the first one, and then removed `submitted.json`, so that the
/// first one could not be cancelled.
#[test]
fn a_second_submission_leaves_the_first_one_alone() {
    if !has_parallel() {
        return;
    }
    let planned = Planned::with_fake_host();
    let mut first = planned.start();
    let files = || {
        let messages = fs::metadata(planned.path("fleet/logs/parallel.txt"));
        (planned.submitted(), messages.expect("a file").ino())
    };
    let before = files();
    assert!(before.0.is_some());
    let second = planned.fleet(&["submit", "fleet"], &path());
    assert_eq!(second.status.code(), USAGE, "{second:?}");
    let by_hand = command("sh").arg(planned.path("fleet/submit.sh")).output();
    assert_eq!(by_hand.expect("sh starts").status.code(), Some(111));
    assert_eq!(files(), before);

    let cancelled = planned.fleet(&["cancel", "fleet"], &path());
    assert!(cancelled.status.success(), "{cancelled:?}");
    let text = String::from_utf8_lossy(&cancelled.stdout);
    assert!(text.contains("host: 1 tasks ended, 1 folders removed"), "{text}");
    assert_eq!(first.wait().expect("a child").code(), Some(2));
    assert_eq!(planned.submitted(), None);
    assert_eq!(planned.names("disk"), [""; 0]);
}

/// The tasks are found by the name of the run.
#[test]
fn a_fleet_over_ssh_is_cancelled_without_a_known_submission() {
    let planned = Planned::with_fake_host();
    let output = planned.fleet(&["cancel", "fleet"], &path());
    assert!(output.status.success(), "{output:?}");
}

/// After a SIGKILL of its task, a cancel undid the dead runs of all users on the host.
#[test]
fn a_cleanup_of_tasks_leaves_other_dead_runs_alone() {
    let state = tempfile::tempdir().expect("a folder");
    let runs = state.path().join("runs");
    fs::DirBuilder::new().mode(0o700).create(&runs).expect("a folder");
    let journal = |name: &str| runs.join(format!("{name}.jsonl"));
    for (name, option) in [("task", "--task=a"), ("run", "--quick")] {
        let command = ["plimsoll", "run", "tour", option];
        let header =
            json!({"journal": 1, "run": name, "command": command, "pid": 1, "boot_id": "b", "started_ns": 5});
        let text = json!({ "header": header }).to_string() + "\n";
        fs::write(journal(name), text).expect("written");
        fs::set_permissions(journal(name), fs::Permissions::from_mode(0o600)).expect("a mode");
    }
    let cleanup = |options: &[&str]| {
        let mut command = command(PLIMSOLL);
        command.arg("cleanup").args(options);
        let output = command.env("PLIMSOLL_STATE_DIR", state.path()).output();
        let output = output.expect("plimsoll starts");
        assert!(output.status.success(), "{output:?}");
        (journal("task").exists(), journal("run").exists())
    };
    assert_eq!(cleanup(&["--tasks"]), (false, true));
    assert_eq!(cleanup(&[]), (false, false));
}
