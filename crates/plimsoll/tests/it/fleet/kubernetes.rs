//! `plimsoll fleet` on Kubernetes, with a `kubectl` that records its calls: the tests run no cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use plimsoll_fleet::Submitted;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

struct Cluster {
    work: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Cluster {
        let work = tempfile::tempdir().expect("a folder");
        let bin = work.path().join("bin");
        fs::create_dir(&bin).expect("a folder");
        fs::write(work.path().join("program"), "a program").expect("written");
        let cluster = Cluster { work };
        cluster.answer_delete_with("echo job.batch/x");
        cluster
    }

    /// Writes a `kubectl` that answers `delete` with these commands, and `get` with a pod.
    fn answer_delete_with(&self, delete: &str) {
        let text = format!(
            "#!/bin/sh\necho \"$*\" >>{}\ncase $1 in\nexec) cat >/dev/null ;;\ndelete) {delete} ;;\n\
             get) echo 'x-0-abcde   node7' ;;\nesac\n",
            self.work.path().join("calls").display()
        );
        plimsoll_testkit::write_script(self.work.path().join("bin/kubectl"), &text);
    }

    fn folder(&self) -> PathBuf {
        self.work.path().join("fleet")
    }

    fn plimsoll(&self, arguments: &[&str]) -> Output {
        let path = std::env::var("PATH").expect("tests have a PATH");
        let bin = self.work.path().join("bin");
        let mut command = plimsoll_testkit::command(PLIMSOLL);
        command.arg("fleet").args(arguments).current_dir(self.work.path());
        command.env("PATH", format!("{}:{path}", bin.display()));
        command.output().expect("plimsoll starts")
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.work.path().join("calls")).unwrap_or_default()
    }
}

fn exists(folder: &Path, names: &[&str]) -> bool {
    names.iter().all(|name| folder.join(name).exists())
}

#[test]
fn a_fleet_is_planned_submitted_and_cancelled() {
    let cluster = Cluster::new();
    let planned = cluster.plimsoll(&[
        "plan",
        "tour",
        "--quick",
        "--k8s",
        "--image",
        "debian:stable-slim",
        "--nodes",
        "a,b",
        "--folder",
        "fleet",
        "--binary",
        "program",
    ]);
    assert!(planned.status.success(), "{planned:?}");
    assert!(exists(
        &cluster.folder(),
        &["job.yaml", "claim.yaml", "files.yaml", "submit.sh", "fetch.sh"]
    ));
    let jobs = fs::read_to_string(cluster.folder().join("job.yaml")).expect("the Jobs");
    assert_eq!(jobs.matches("\nkind: Job\n").count(), 2, "{jobs}");
    assert_eq!(jobs.matches("completionMode: Indexed").count(), 2);

    let submitted = cluster.plimsoll(&["submit", "fleet"]);
    assert!(submitted.status.success(), "{submitted:?}");
    assert!(
        cluster.calls().contains("apply --filename job.yaml"),
        "{}",
        cluster.calls()
    );
    let job = Submitted::read(&cluster.folder())
        .expect("a file")
        .expect("it is submitted");
    assert_eq!(job.engine, "kubernetes");

    let cancelled = cluster.plimsoll(&["cancel", "fleet"]);
    assert!(cancelled.status.success(), "{cancelled:?}");
    let last = cluster.calls();
    let last = last.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("delete jobs") && last.ends_with(&job.job),
        "{last}"
    );
    assert_eq!(Submitted::read(&cluster.folder()).expect("no file"), None);
}

/// A pod on a dead node never ends. The fleet stays submitted, so that a second cancel can end it.
#[test]
fn a_cancel_with_a_dead_node_ends_and_names_it() {
    let cluster = Cluster::new();
    let planned = cluster.plimsoll(&[
        "plan",
        "tour",
        "--k8s",
        "--image",
        "debian-kmod",
        "--tasks",
        "2",
        "--tolerate",
        "lab",
        "--tolerate",
        "example.com/reserved",
        "--folder",
        "fleet",
        "--binary",
        "program",
    ]);
    assert!(planned.status.success(), "{planned:?}");
    let shown = String::from_utf8_lossy(&planned.stdout).into_owned();
    assert!(
        shown.contains("Possible actions as root on each host:"),
        "{shown}"
    );
    let job = fs::read_to_string(cluster.folder().join("job.yaml")).expect("the Job");
    for key in ["lab", "example.com/reserved"] {
        let line = format!("- {{key: \"{key}\", operator: Exists, effect: NoSchedule}}");
        assert!(job.contains(&line), "{job}");
    }
    let submitted = cluster.plimsoll(&["submit", "fleet"]);
    assert!(submitted.status.success(), "{submitted:?}");

    cluster.answer_delete_with("echo 'error: timed out waiting for the condition on jobs/x' >&2; exit 1");
    let cancelled = cluster.plimsoll(&["cancel", "fleet"]);
    assert_eq!(cancelled.status.code(), Some(3), "{cancelled:?}");
    let errors = String::from_utf8_lossy(&cancelled.stderr).into_owned();
    assert!(
        errors.contains("x-0-abcde") && errors.contains("kubectl delete node node7"),
        "{errors}"
    );
    assert!(Submitted::read(&cluster.folder()).expect("a file").is_some());

    cluster.answer_delete_with("echo job.batch/x");
    let cancelled = cluster.plimsoll(&["cancel", "fleet"]);
    assert!(cancelled.status.success(), "{cancelled:?}");
}

#[test]
fn taints_are_of_kubernetes() {
    let cluster = Cluster::new();
    let planned = cluster.plimsoll(&[
        "plan",
        "tour",
        "--slurm",
        "batch",
        "--tasks",
        "1",
        "--tolerate",
        "lab",
        "--folder",
        "fleet",
        "--binary",
        "program",
    ]);
    assert_eq!(planned.status.code(), Some(1), "{planned:?}");
    assert!(!cluster.folder().exists());
}

#[test]
fn more_nodes_than_at_most_are_refused() {
    let cluster = Cluster::new();
    let planned = cluster.plimsoll(&[
        "plan",
        "tour",
        "--k8s",
        "--image",
        "debian",
        "--nodes",
        "a,b",
        "--at-most",
        "1",
        "--folder",
        "fleet",
        "--binary",
        "program",
    ]);
    assert_eq!(planned.status.code(), Some(1), "{planned:?}");
    assert!(!cluster.folder().exists());
}
