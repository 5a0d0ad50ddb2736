//! Fleets over ssh: the script `tests/fleet/ssh.sh` starts three hosts in network namespaces and checks the results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use plimsoll_fleet::Submitted;
use plimsoll_testkit::{capability, command, write_script};
use tempfile::TempDir;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
const HOSTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/ssh.sh");
/// Long enough to lose a host in its middle.
const SCENARIO: &str = "[scenario]\nname = \"small\"\n[global]\nworkload = \"compression\"\nsize = \"16M\"\nhold = 3\nrepeat = 1\n\
                        class = \"runs20\"\n[zram]\nsubject = \"zram\"\n";
/// Exit code for a command line, or a file it names, that is wrong.
const USAGE: Option<i32> = Some(1);

fn program(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/local/bin", "/usr/bin", "/usr/sbin", "/bin"];
    let mut paths = folders.iter().map(|folder| Path::new(folder).join(name));
    paths.find(|path| path.exists())
}

fn is_possible() -> bool {
    let has = |name: &str| program(name).is_some();
    capability(
        "root",
        rustix::process::geteuid().is_root(),
        "the test is not root",
    ) && capability("parallel", has("parallel"), "no GNU parallel")
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
        let work = tempfile::tempdir().expect("a folder");
        fs::create_dir(work.path().join("bin")).expect("a folder");
        fs::write(work.path().join("hosts"), "a\nb:2022\n").expect("written");
        fs::write(work.path().join("program"), "a program").expect("written");
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

    /// With the programs of `bin`, and of `others`.
    fn fleet(&self, arguments: &[&str], others: &str) -> Output {
        let mut command = command(PLIMSOLL);
        command.arg("fleet").args(arguments).current_dir(self.0.path());
        command.env(
            "PATH",
            format!("{}:{others}", self.0.path().join("bin").display()),
        );
        command.output().expect("plimsoll starts")
    }

    fn assert_refused(&self) {
        let output = self.fleet(&["submit", "fleet"], "/nonexistent");
        assert_eq!(output.status.code(), USAGE, "{output:?}");
        let folder = self.0.path().join("fleet");
        assert_eq!(Submitted::read(&folder).expect("no damage"), None);
        let tasks = folder.join("tasks");
        let started = fs::read_dir(&tasks).map_or(0, Iterator::count);
        assert_eq!(started, 0, "no task started");
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
    let output = planned.fleet(
        &["submit", "fleet"],
        &std::env::var("PATH").expect("tests have a PATH"),
    );
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let tasks = fs::read_to_string(planned.0.path().join("fleet/tasks.tsv")).expect("a list");
    let errors = String::from_utf8_lossy(&output.stderr);
    for line in tasks.lines() {
        let (task, _) = line.split_once('\t').expect("a task and its host");
        assert!(errors.contains(task), "{task}: {errors}");
    }
    let folder = planned.0.path().join("fleet");
    assert_eq!(
        Submitted::read(&folder).expect("no damage"),
        None,
        "it can be submitted again"
    );
    let log = fs::read_to_string(folder.join("logs/joblog.tsv")).expect("a job log");
    assert_eq!(log.lines().count(), 3, "{log}");
}
