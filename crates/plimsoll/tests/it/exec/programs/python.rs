//! Python: containers, threads, subprocesses and fork pools, and its own tests.

use super::{Case, PATH, as_without_a_limit, installed, within};

#[test]
fn python_with_containers_threads_and_fork_pools() {
    if !installed(&["python3"]) {
        return;
    }
    let case = Case {
        name: "python3",
        arguments: &["python3", "everything.py"],
        variables: &[("PYTHONHASHSEED", "0")],
        sources: &["everything.py"],
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [96, 48]);
    assert!(output.ends_with("True\n"), "{output}");
}

/// Runs a module of Python's own tests with each of two budgets. Its output has times and addresses.
fn passes(module: &str, budgets: [u64; 2], ignored: &[&str]) {
    if !installed(&["python3"]) {
        return;
    }
    let found = plimsoll_testkit::command("python3")
        .args(["-c", &format!("import test.{module}")])
        .env("PATH", PATH)
        .output();
    let found = found.is_ok_and(|output| output.status.success());
    if !plimsoll_testkit::capability("python-tests", found, "Python's package `test` is not installed") {
        return;
    }
    let mut arguments = vec!["python3", "-m", "test", "--timeout", "240", "-q", "-W", module];
    arguments.extend(ignored.iter().flat_map(|name| ["-i", name]));
    let case = Case {
        name: module,
        arguments: &arguments,
        ..Case::default()
    };
    for mib in budgets {
        let output = within(&case, mib);
        assert!(output.contains("Tests result: SUCCESS"), "{output}");
    }
}

/// Python itself touches 9 MiB.
#[test]
fn python_passes_its_tests_of_mmap() {
    passes("test_mmap", [12, 6], &[]);
}

#[test]
fn python_passes_its_tests_of_fork() {
    passes("test_fork1", [12, 6], &[]);
}

/// One test demands that its child has no descriptors but those that it got. The pager of the child has three.
#[test]
fn python_passes_its_tests_of_subprocesses() {
    passes("test_subprocess", [36, 24], &["test_pass_fds_redirected"]);
}

#[test]
fn python_passes_its_tests_of_files() {
    passes("test_io", [24, 16], &[]);
}
