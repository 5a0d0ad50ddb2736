//! The manifests of plans, against those in `tests/kubernetes/`, which `.ci/kubernetes` checks against the schemas of Kubernetes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::manifests::Manifests;
use super::*;
use crate::plan::{Binary, Engine, PlannedScenario, Task};

fn plan(engine: Engine, tasks: Vec<Task>) -> Plan {
    Plan {
        version: 1,
        run: "compression-20261130".parse().unwrap(),
        created: "2026-11-30T12:00:00Z".to_owned(),
        scenario: PlannedScenario {
            name: "compression".to_owned(),
            sha256: "0".repeat(64),
        },
        changes: vec!["size=64M".to_owned()],
        quick: true,
        binary: Binary {
            sha256: "1".repeat(64),
            bytes: 1,
            version: "0.1.0".to_owned(),
        },
        engine,
        at_most: 3,
        stop_after: None,
        retries: 2,
        privileges: Vec::new(),
        tasks,
    }
}

fn engine(nodes: &[&str], tolerations: &[&str]) -> Engine {
    let owned = |words: &[&str]| -> Vec<String> { words.iter().map(|&word| word.to_owned()).collect() };
    Engine::Kubernetes {
        namespace: "lab".to_owned(),
        image: "registry.example/debian-kmod:1".to_owned(),
        nodes: owned(nodes),
        memory_limit: "4Gi".to_owned(),
        tolerations: owned(tolerations),
    }
}

fn task(id: &str, host: Option<&str>, repeat: u32) -> Task {
    Task {
        id: id.parse().unwrap(),
        host: host.map(str::to_owned),
        repeat,
    }
}

fn of_any_nodes() -> Plan {
    let tasks = (1..=4)
        .map(|number| task(&format!("t{number}"), None, 1))
        .collect();
    Plan {
        stop_after: Some(2),
        ..plan(engine(&[], &[]), tasks)
    }
}

fn of_a_node_list() -> Plan {
    let tasks = [("a", 1), ("b.example", 1), ("a", 2), ("b.example", 2)];
    let tasks = tasks.map(|(node, repeat)| task(&format!("{node}-{repeat}"), Some(node), repeat));
    plan(
        engine(&["a", "b.example"], &["lab", "example.com/reserved"]),
        tasks.to_vec(),
    )
}

fn written(plan: &Plan) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(plan, folder.path()).unwrap();
    folder
}

fn jobs(plan: &Plan) -> String {
    fs::read_to_string(written(plan).path().join("job.yaml")).unwrap()
}

fn refused(plan: &Plan) -> bool {
    matches!(Manifests::of(plan), Err(FleetError::Refused { .. }))
}

fn reason(plan: &Plan) -> String {
    Manifests::of(plan).unwrap_err().to_string()
}

#[test]
fn manifests_are_those_that_ci_validates() {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/kubernetes");
    for (plan, prefix) in [(of_any_nodes(), "any"), (of_a_node_list(), "list")] {
        let folder = written(&plan);
        for name in ["job.yaml", "claim.yaml", "files.yaml"] {
            let text = fs::read_to_string(folder.path().join(name)).unwrap();
            let path = golden.join(format!("{prefix}-{name}"));
            if std::env::var_os("PLIMSOLL_BLESS").is_some_and(|value| value == "1") {
                fs::create_dir_all(&golden).unwrap();
                fs::write(&path, &text).unwrap();
            }
            let known = fs::read_to_string(&path).unwrap_or_default();
            assert!(
                known == text,
                "{} changed: write it anew with PLIMSOLL_BLESS=1",
                path.display()
            );
            assert!(!text.contains('@'), "{name} has a value that nothing replaced");
        }
    }
}

#[test]
fn each_index_has_its_line() {
    let folder = written(&of_a_node_list());
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("tasks.tsv"), "a-1\na-2\nb.example-1\nb.example-2\n");
    let jobs = read("job.yaml");
    let lines: Vec<&str> = jobs
        .lines()
        .filter(|line| line.contains("value: "))
        .map(str::trim)
        .collect();
    assert_eq!(lines, ["value: \"1\"", "value: \"3\""]);
    // The script takes the line that job and index name.
    fs::write(folder.path().join("task.sh"), "echo \"$1\"").unwrap();
    let run = |first: &str, index: &str| {
        let mut command = plimsoll_testkit::command("sh");
        command.arg(folder.path().join("pod-task.sh"));
        command
            .env("FIRST_LINE", first)
            .env("JOB_COMPLETION_INDEX", index);
        script::output(&mut command).unwrap()
    };
    assert_eq!(run("3", "1"), "b.example-2\n");
}

#[test]
fn limits_that_jobs_cannot_keep_are_refused() {
    let two = of_a_node_list();
    assert!(!refused(&two));
    assert!(refused(&Plan {
        at_most: 1,
        ..two.clone()
    }));
    assert!(refused(&Plan {
        stop_after: Some(1),
        ..two
    }));
    let many = (0..100_001)
        .map(|number| task(&format!("t{number}"), None, 1))
        .collect();
    assert!(refused(&plan(engine(&[], &[]), many)));
}

/// With `--stop-after` above the number of tasks, the API server refused the Job when claim and files were in place already.
#[test]
fn a_job_has_limits_that_the_api_server_accepts() {
    for (failures, expected) in [(1, Some(0)), (4, Some(3)), (5, None), (u32::MAX, None)] {
        let text = jobs(&Plan {
            stop_after: Some(failures),
            ..of_any_nodes()
        });
        let found = text
            .lines()
            .find_map(|line| line.strip_prefix("  maxFailedIndexes: "));
        let most = found.map(|most| most.parse::<u32>().unwrap());
        assert_eq!(most, expected, "{failures}");
    }
    let retried = |retries| Plan {
        retries,
        ..of_any_nodes()
    };
    assert!(!refused(&retried(2_147_483_647)));
    assert!(refused(&retried(2_147_483_648)));
}

/// With the action Ignore for the condition DisruptionTarget, an eviction by memory pressure repeated for ever.
#[test]
fn a_disruption_uses_up_a_retry() {
    let text = jobs(&of_a_node_list());
    assert_eq!(text.matches("- action: ").count(), 2, "{text}");
    assert_eq!(text.matches("- action: FailIndex").count(), 2, "{text}");
}

/// A toleration of all taints put tasks on drained, cordoned and control-plane nodes.
#[test]
fn only_named_taints_are_tolerated() {
    let fields = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        lines
            .filter(|line| line.contains("operator: Exists") || line.contains("tolerations:"))
            .map(str::to_owned)
            .collect()
    };
    let without = jobs(&of_any_nodes());
    assert!(fields(&without).is_empty(), "{without}");
    assert!(without.contains("# tolerations:"), "an example: {without}");
    let of_a_job = [
        "tolerations:",
        "- {key: \"lab\", operator: Exists, effect: NoSchedule}",
        "- {key: \"example.com/reserved\", operator: Exists, effect: NoSchedule}",
    ];
    let with = jobs(&of_a_node_list());
    assert_eq!(fields(&with), [of_a_job, of_a_job].concat(), "{with}");
    assert!(with.contains("# The taint lab "), "line by line: {with}");
}

/// Without a selector of namespaces, fleets of two namespaces shared a node.
#[test]
fn tasks_of_all_namespaces_keep_apart() {
    let text = jobs(&of_a_node_list());
    assert_eq!(text.matches("namespaceSelector: {}").count(), 2, "{text}");
}

#[test]
fn refusals_name_the_plan_the_value_and_a_remedy() {
    let two = of_a_node_list();
    let of_one = Plan {
        at_most: 1,
        ..two.clone()
    };
    let reasons = [
        (
            of_one,
            "cannot plan for Kubernetes: 2 nodes exceed --at-most 1, and all node Jobs start at once; raise --at-most",
        ),
        (
            Plan {
                stop_after: Some(1),
                ..two
            },
            "cannot plan for Kubernetes: --stop-after is the limit of one Job, and 2 nodes have a Job each; leave out",
        ),
        (
            Plan {
                engine: engine(&[], &["-"]),
                ..of_any_nodes()
            },
            "cannot plan for Kubernetes: toleration `-` is not the key of a taint; see",
        ),
    ];
    for (plan, expected) in reasons {
        let found = reason(&plan);
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn names_that_kubernetes_refuses_are_refused() {
    let with = |change: fn(&mut String, &mut Vec<String>, &mut String)| {
        let mut plan = of_any_nodes();
        if let Engine::Kubernetes {
            namespace,
            nodes,
            memory_limit,
            ..
        } = &mut plan.engine
        {
            change(namespace, nodes, memory_limit);
        }
        refused(&plan)
    };
    assert!(!with(|_, _, _| ()));
    assert!(with(|namespace, _, _| namespace.push('-')));
    assert!(with(|namespace, _, _| *namespace = "A".to_owned()));
    assert!(with(|_, nodes, _| nodes.push("a..b".to_owned())));
    assert!(with(|_, nodes, _| nodes.push("a\"b".to_owned())));
    for limit in ["", "0", "4GiB", "-1", "4 Gi", "1e3"] {
        let mut plan = of_any_nodes();
        if let Engine::Kubernetes { memory_limit, .. } = &mut plan.engine {
            limit.clone_into(memory_limit);
        }
        assert!(refused(&plan), "{limit}");
    }
    let tolerating = |key: &str| Plan {
        engine: engine(&[], &[key]),
        ..of_any_nodes()
    };
    for key in ["lab", "a.b_c-D", "node-role.kubernetes.io/control-plane"] {
        assert!(!refused(&tolerating(key)), "{key}");
    }
    for key in [
        "", "/", "a/", "/a", "a/b/c", "A/b", "-a", "a.", "a\"", "a b", "a=b",
    ] {
        assert!(refused(&tolerating(key)), "{key}");
    }
}

#[test]
fn pods_have_short_names_that_runs_do_not_share() {
    let mut names = std::collections::BTreeSet::new();
    let long = "x".repeat(63);
    for run in ["a.b", "a_b", "a-b", long.as_str(), &long[1..], "a-", "9"] {
        let plan = Plan {
            run: run.parse().unwrap(),
            ..of_any_nodes()
        };
        let manifests = Manifests::of(&plan).unwrap();
        let selector = manifests.selector();
        let (_, instance) = selector.split_once('=').unwrap();
        // `-` and four digits of a node, `-` and five of an index.
        assert!(instance.len() + 11 <= 63, "{instance}");
        assert!(
            !instance.contains(['.', '_']) && !instance.ends_with('-'),
            "{instance}"
        );
        names.insert(instance.to_owned());
    }
    assert_eq!(names.len(), 7);
}

/// A `kubectl` that logs its arguments, consumes its input, and fails for the arguments that a file names.
fn cluster(folder: &Path) -> Cluster {
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    let program = bin.join("kubectl");
    let log = folder.join("log");
    let text = format!(
        "#!/bin/sh\necho \"$*\" >>{log}\n[ ! -e {log}.fail ] || {{ echo refused >&2; exit 1; }}\n\
         case $1 in exec) cat | tar -tf - >>{log} ;; delete) echo job.batch/plimsoll-x ;; esac\n",
        log = log.display()
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = vec![bin];
    paths.extend(std::env::split_paths(&path));
    Cluster {
        path: Some(std::env::join_paths(paths).unwrap()),
    }
}

#[test]
fn a_submission_copies_the_folder_and_starts_the_jobs() {
    let plan = of_any_nodes();
    let folder = written(&plan);
    for name in ["plan.json", "scenario.toml", "plimsoll"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    let tools = tempfile::tempdir().unwrap();
    let cluster = cluster(tools.path());
    let submitted = cluster.submit(folder.path()).unwrap();
    assert_eq!(submitted.job, "plimsoll-compression-20261130");
    let log = fs::read_to_string(tools.path().join("log")).unwrap();
    for copied in [
        "plan.json",
        "scenario.toml",
        "plimsoll",
        "task.sh",
        "pod-task.sh",
        "tasks.tsv",
    ] {
        assert!(log.lines().any(|line| line == copied), "{copied}: {log}");
    }
    let last: Vec<&str> = log.lines().rev().take(2).collect();
    assert!(
        last[1].contains("job.yaml") && last[0].starts_with("delete --filename files.yaml"),
        "{log}"
    );
    let cancelled = cluster.cancel(&Manifests::of(&plan).unwrap()).unwrap();
    assert_eq!(cancelled.stopped, ["job.batch/plimsoll-x"]);
    fs::write(tools.path().join("log.fail"), "").unwrap();
    let failed = cluster.submit(folder.path());
    assert!(
        matches!(failed, Err(FleetError::Engine { code: Some(1), .. })),
        "{failed:?}"
    );
}

/// A pod on a dead node stays Terminating, and `kubectl delete --wait` without a time-out waited for it in silence for a week.
#[test]
fn a_cancel_names_the_pods_that_do_not_end() {
    let plan = of_any_nodes();
    let manifests = Manifests::of(&plan).unwrap();
    let tools = tempfile::tempdir().unwrap();
    let cluster = cluster(tools.path());
    let log = tools.path().join("log");
    let with_pods = |pods: &str| {
        let text = format!(
            "#!/bin/sh\necho \"$*\" >>{}\ncase $1 in\n\
             delete) echo job.batch/x; echo 'error: timed out waiting for the condition on jobs/x' >&2; exit 1 ;;\n\
             get) {pods} ;;\nesac\n",
            log.display()
        );
        plimsoll_testkit::write_script(tools.path().join("bin/kubectl"), &text);
        cluster.cancel(&manifests)
    };
    let cancelled = with_pods("printf 'x-0-abcde   node7\\nx-1-fghij   node8\\n'").unwrap();
    assert!(cancelled.stopped.is_empty(), "{cancelled:?}");
    let [first, second] = cancelled.left.as_slice() else {
        panic!("{cancelled:?}")
    };
    assert!(
        first.contains("x-0-abcde on node node7") && first.contains("kubectl delete node node7"),
        "{first}"
    );
    assert!(second.contains("x-1-fghij on node node8"), "{second}");
    let calls = fs::read_to_string(&log).unwrap();
    let (delete, get) = calls.split_once('\n').unwrap();
    assert!(delete.contains("--timeout=180s"), "{delete}");
    // The pod of files.yaml is none of the tasks'.
    let selector =
        "app.kubernetes.io/name=plimsoll-fleet,app.kubernetes.io/instance=plimsoll-compression-20261130";
    assert!(
        get.starts_with("get pods ") && get.trim().ends_with(selector),
        "{get}"
    );
    // The last pod has ended meanwhile, or may not be listed: the Jobs may still be there.
    for pods in [":", "exit 1"] {
        let failed = with_pods(pods);
        assert!(
            matches!(failed, Err(FleetError::Engine { code: Some(1), .. })),
            "{failed:?}"
        );
    }
}

#[test]
fn a_cancel_without_jobs_has_ended_none() {
    assert!(stopped("No resources found\n").stopped.is_empty());
    assert_eq!(stopped("job.batch/a\n").stopped, ["job.batch/a"]);
}

/// Runs `fetch.sh` with a `kubectl` that sends a tar of `entries`, made in an empty folder by `make`.
fn fetched(make: &str) -> (bool, tempfile::TempDir) {
    let folder = written(&of_any_nodes());
    let tools = tempfile::tempdir().unwrap();
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = exec ] || exit 0\ncd {} && {make} && exec tar -cf - tasks\n",
        tools.path().display()
    );
    let cluster = cluster(tools.path());
    fs::write(tools.path().join("bin/kubectl"), text).unwrap();
    let fetched = script::output(cluster.command("sh").arg(folder.path().join("fetch.sh")));
    (fetched.is_ok(), folder)
}

#[test]
fn results_are_fetched_and_other_entries_are_not() {
    let (is_fetched, folder) =
        fetched("mkdir -p tasks/t1 && echo 1 >tasks/t1/result.json && chmod 4777 tasks/t1/result.json");
    assert!(is_fetched);
    let result = fs::metadata(folder.path().join("tasks/t1/result.json")).unwrap();
    assert_eq!(result.permissions().mode() & 0o7022, 0);
    assert_eq!(fs::read_dir(folder.path().join("logs")).unwrap().count(), 0);
    for hostile in [
        "mkdir tasks && ln -s /etc tasks/t1",
        "mkdir tasks && mkfifo tasks/t1",
    ] {
        let (is_fetched, folder) = fetched(hostile);
        assert!(!is_fetched, "{hostile}");
        assert!(!folder.path().join("tasks/t1").exists(), "{hostile}");
    }
}
