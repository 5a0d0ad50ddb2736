//! Folders of plans, and names of their tasks.

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::hosts;

fn request(engine: Engine, program: &Path) -> Request<'static> {
    Request {
        run: None,
        scenario_name: "tour",
        scenario_text: "[scenario]\nname = \"tour\"\n",
        changes: vec!["size=64M".to_owned()],
        quick: true,
        program: File::open(program).unwrap(),
        program_version: "0.1.0".to_owned(),
        engine,
        hosts: 3,
        repeat: 2,
        at_most: 10,
        stop_after: None,
        retries: 2,
    }
}

fn slurm() -> Engine {
    Engine::Slurm {
        partition: "batch".to_owned(),
        time_limit_minutes: 60,
    }
}

fn kubernetes(nodes: &[&str]) -> Engine {
    Engine::Kubernetes {
        namespace: "lab".to_owned(),
        image: "debian:stable-slim".to_owned(),
        nodes: nodes.iter().map(|&node| node.to_owned()).collect(),
        memory_limit: "4Gi".to_owned(),
        tolerations: Vec::new(),
    }
}

fn ids(tasks: &[plan::Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.as_str()).collect()
}

#[test]
fn a_folder_has_the_plan_and_everything_that_it_names() {
    let work = tempfile::tempdir().unwrap();
    let program = work.path().join("program");
    fs::write(&program, "a program").unwrap();
    let folder = work.path().join("fleet");
    let plan = write(request(slurm(), &program), &folder).unwrap();
    assert_eq!(Plan::read(&folder).unwrap(), plan);
    let text = fs::read(folder.join(plan::SCENARIO)).unwrap();
    assert_eq!(sha256::of_bytes(&text), plan.scenario.sha256);
    let copied = fs::read(folder.join(plan::PROGRAM)).unwrap();
    assert_eq!(
        (sha256::of_bytes(&copied), copied.len() as u64),
        (plan.binary.sha256.clone(), plan.binary.bytes)
    );
    assert_eq!(
        ids(&plan.tasks),
        ["t1.r1", "t2.r1", "t3.r1", "t1.r2", "t2.r2", "t3.r2"]
    );
    assert!(plan.run.as_str().starts_with("tour-2"), "{}", plan.run);
    assert!(!plan.privileges.is_empty());
    for name in ["job.sbatch", "submit.sh", "task.sh", "tasks"] {
        assert!(folder.join(name).exists(), "{name}");
    }
}

#[test]
fn a_folder_that_is_not_empty_stays_as_it_is() {
    let work = tempfile::tempdir().unwrap();
    let program = work.path().join("program");
    fs::write(&program, "a program").unwrap();
    let error = write(request(slurm(), &program), work.path()).unwrap_err();
    assert!(matches!(error, FleetError::Refused { .. }), "{error}");
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 1);
}

#[test]
fn a_plan_that_its_engine_refuses_leaves_nothing() {
    let work = tempfile::tempdir().unwrap();
    let program = work.path().join("program");
    fs::write(&program, "a program").unwrap();
    let refused = || Request {
        at_most: 1,
        ..request(kubernetes(&["a", "b"]), &program)
    };
    let folder = work.path().join("fleet");
    assert!(write(refused(), &folder).is_err());
    assert!(!folder.exists());
    fs::create_dir(&folder).unwrap();
    assert!(write(refused(), &folder).is_err());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn hosts_name_their_tasks() {
    let hosts = hosts::parse(
        "root@Node1\nlocalhost:2201\nlocalhost:2202 class=small\na.attempts\n_\n-\n".trim_end_matches("-\n"),
    );
    let engine = Engine::Ssh {
        hosts: hosts.unwrap(),
    };
    let tasks = tasks::of(&engine, 0, 1).unwrap();
    assert_eq!(
        ids(&tasks),
        ["node1", "localhost-2201", "localhost-2202", "a-attempts", "x"]
    );
    assert_eq!(tasks[0].host.as_deref(), Some("root@Node1"));
    assert_eq!(tasks[2].host.as_deref(), Some("localhost:2202"));
    let tasks = tasks::of(&kubernetes(&["a", "a-2", "A"]), 0, 1).unwrap();
    assert_eq!(ids(&tasks), ["a", "a-2", "a-3"]);
}

/// The actions and reasons of an engine, one a line.
fn actions(engine: &Engine) -> String {
    let lines = privileges::of(engine).into_iter();
    lines
        .map(|privilege| format!("{} ({})\n", privilege.action, privilege.reason))
        .collect()
}

/// The list named the container, but neither the folders of the node that it mounts nor the pod that copies the files.
#[test]
fn every_host_path_of_a_pod_is_in_the_plan() {
    let listed = actions(&kubernetes(&[]));
    let job = include_str!("../kubernetes/job.yaml");
    let paths: Vec<&str> = job
        .lines()
        .filter_map(|line| line.trim().strip_prefix("path: "))
        .collect();
    assert!(paths.len() > 4, "{paths:?}");
    for path in paths {
        assert!(listed.contains(path), "{path}: {listed}");
    }
    assert!(listed.contains("chmod go-w"), "{listed}");
}

#[test]
fn each_engine_lists_its_own_actions() {
    let ssh = Engine::Ssh {
        hosts: hosts::parse("a").unwrap(),
    };
    let own: [(&Engine, &[&str]); 3] = [
        (&slurm(), &["scontrol requeue", "scancel"]),
        (
            &ssh,
            &["temporary folder in /var/tmp", "SIGKILL", "plimsoll cleanup"],
        ),
        (&kubernetes(&[]), &["privileged container"]),
    ];
    for (engine, words) in own {
        let listed = actions(engine);
        let common = ["of other fleets as well", "/var/lib/plimsoll", "cgroups"];
        for word in words.iter().chain(&common) {
            assert!(listed.contains(word), "{word}: {listed}");
        }
    }
}

#[test]
fn too_many_tasks_are_refused() {
    assert!(tasks::of(&slurm(), u32::MAX, 1).is_err());
    assert!(tasks::of(&slurm(), 1000, u32::MAX).is_err());
}

proptest! {
    #[test]
    fn any_text_becomes_a_part_of_a_name(text in ".{0,80}", number in 1..99u32) {
        let part = tasks::plain(&text, 40);
        prop_assert!(part.parse::<plan::TaskId>().is_ok(), "{part:?}");
        let id = format!("{part}.r{number}");
        prop_assert!(id.parse::<plan::TaskId>().is_ok(), "{id:?}");
    }
}
