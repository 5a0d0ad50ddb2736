//! `plimsoll fleet plan`: the folder that it writes, and requests that it refuses.

use std::fs;
use std::path::Path;
use std::process::Output;

use plimsoll_fleet::plan::{Engine, Plan};
use tempfile::TempDir;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

/// Runs `fleet plan` in a folder with a small file in place of the program.
fn plan(folder: &Path, arguments: &[&str]) -> Output {
    fs::write(folder.join("program"), "a program").expect("written");
    let mut command = plimsoll_testkit::command(PLIMSOLL);
    command.args(["fleet", "plan"]).args(arguments);
    command.args(["--folder", "fleet", "--binary", "program"]);
    command.current_dir(folder).output().expect("plimsoll starts")
}

fn planned(arguments: &[&str]) -> (TempDir, Plan) {
    let work = tempfile::tempdir().expect("a folder");
    let output = plan(work.path(), arguments);
    assert!(output.status.success(), "{output:?}");
    let plan = Plan::read(&work.path().join("fleet")).expect("a plan");
    (work, plan)
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.tasks.iter().map(|task| task.id.as_str()).collect()
}

#[test]
fn a_plan_for_slurm_has_its_limits_and_changes() {
    let (work, plan) = planned(&[
        "compression",
        "size=64M",
        "--quick",
        "--slurm",
        "batch",
        "--tasks",
        "2",
        "--repeat",
        "2",
        "--time-limit",
        "90m",
        "--at-most",
        "1",
        "--stop-after",
        "3",
        "--retries",
        "4",
        "--run",
        "november",
    ]);
    assert_eq!(ids(&plan), ["t1.r1", "t2.r1", "t1.r2", "t2.r2"]);
    assert_eq!(plan.run.as_str(), "november");
    assert_eq!(
        (plan.changes.as_slice(), plan.quick),
        (&["size=64M".to_owned()][..], true)
    );
    assert_eq!((plan.at_most, plan.stop_after, plan.retries), (1, Some(3), 4));
    let Engine::Slurm {
        partition,
        time_limit_minutes,
    } = &plan.engine
    else {
        panic!("{:?}", plan.engine)
    };
    assert_eq!((partition.as_str(), *time_limit_minutes), ("batch", 90));
    let job = fs::read_to_string(work.path().join("fleet/job.sbatch")).expect("the job");
    assert!(job.contains("--array=0-3%1"), "{job}");
}

#[test]
fn a_plan_for_ssh_has_a_task_for_each_host_of_the_file() {
    let work = tempfile::tempdir().expect("a folder");
    fs::write(
        work.path().join("hosts"),
        "root@a.example:2222 class=small\nb # spare\n",
    )
    .expect("written");
    let output = plan(work.path(), &["tour", "--hosts", "hosts"]);
    assert!(output.status.success(), "{output:?}");
    let plan = Plan::read(&work.path().join("fleet")).expect("a plan");
    assert_eq!(ids(&plan), ["a.example-2222", "b"]);
    // Everything that runs as root is in the plan and on the terminal.
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(plan.privileges.len() > 3);
    for privilege in &plan.privileges {
        assert!(shown.contains(&privilege.action), "{shown}");
    }
}

#[test]
fn a_plan_copies_this_program_by_default() {
    let work = tempfile::tempdir().expect("a folder");
    let mut command = plimsoll_testkit::command(PLIMSOLL);
    command.args([
        "fleet", "plan", "tour", "--slurm", "batch", "--tasks", "1", "--folder",
    ]);
    let output = command.arg(work.path()).output().expect("plimsoll starts");
    assert!(output.status.success(), "{output:?}");
    let copied = fs::read(work.path().join("plimsoll")).expect("the program");
    assert!(copied == fs::read(PLIMSOLL).expect("the program"));
    let version = plimsoll_testkit::command(work.path().join("plimsoll"))
        .arg("--version")
        .output();
    let version = String::from_utf8(version.expect("it starts").stdout).expect("text");
    let plan = Plan::read(work.path()).expect("a plan");
    assert_eq!(version.trim(), format!("plimsoll {}", plan.binary.version));
}

#[test]
fn wrong_requests_end_with_1_and_leave_nothing() {
    let slurm = ["--slurm", "batch", "--tasks", "2"];
    let kubernetes = ["--k8s", "--image", "debian"];
    let wrong: [(&str, Vec<&str>); 12] = [
        ("no engine", vec!["tour"]),
        (
            "two engines",
            [&["tour", "--k8s", "--image", "x"][..], &slurm].concat(),
        ),
        ("an unknown scenario", [&["no-such"][..], &slurm].concat()),
        (
            "an unknown key",
            [&["compression", "siez=1G"][..], &slurm].concat(),
        ),
        (
            "a wrong value",
            [&["compression", "size=red"][..], &slurm].concat(),
        ),
        ("no change", [&["compression", "size"][..], &slurm].concat()),
        ("no number of hosts", vec!["tour", "--slurm", "batch"]),
        (
            "a partition that needs quotes",
            vec!["tour", "--slurm", "a b", "--tasks", "1"],
        ),
        (
            "a name with a slash",
            [&["tour", "--run", "a/b"][..], &slurm].concat(),
        ),
        ("no nodes", [&["tour"][..], &kubernetes].concat()),
        ("no image", vec!["tour", "--k8s", "--tasks", "1"]),
        ("a missing hosts file", vec!["tour", "--hosts", "nowhere"]),
    ];
    for (defect, arguments) in wrong {
        let work = tempfile::tempdir().expect("a folder");
        let output = plan(work.path(), &arguments);
        let expected = if defect == "a missing hosts file" { 3 } else { 1 };
        assert_eq!(output.status.code(), Some(expected), "{defect}: {output:?}");
        assert!(!work.path().join("fleet").exists(), "{defect}");
    }
}

#[test]
fn a_folder_that_is_not_empty_is_refused() {
    let work = tempfile::tempdir().expect("a folder");
    fs::create_dir(work.path().join("fleet")).expect("a folder");
    fs::write(work.path().join("fleet/mine"), "").expect("written");
    let output = plan(work.path(), &["tour", "--slurm", "batch", "--tasks", "1"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(
        fs::read_dir(work.path().join("fleet")).expect("a folder").count(),
        1
    );
}
