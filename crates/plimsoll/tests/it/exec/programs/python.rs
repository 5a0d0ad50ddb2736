//! Python: containers, threads, subprocesses and fork pools, its own tests, and NumPy.

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

/// Whether Python in [`PATH`] has a module.
fn has_module(capability: &str, module: &str) -> bool {
    if !installed(&["python3"]) {
        return false;
    }
    let found = plimsoll_testkit::command("python3")
        .args(["-c", &format!("import {module}")])
        .env("PATH", PATH)
        .output();
    let found = found.is_ok_and(|output| output.status.success());
    plimsoll_testkit::capability(
        capability,
        found,
        &format!("Python's module `{module}` is not installed"),
    )
}

/// Runs a module of Python's own tests with each of two budgets. Its output has times and addresses.
fn passes(module: &str, budgets: [u64; 2], ignored: &[&str]) {
    if !has_module("python-tests", &format!("test.{module}")) {
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

/// One test demands that its child has no descriptors but those that it got. The pager of the child has six or more.
#[test]
fn python_passes_its_tests_of_subprocesses() {
    passes("test_subprocess", [36, 24], &["test_pass_fds_redirected"]);
}

#[test]
fn python_passes_its_tests_of_files() {
    passes("test_io", [24, 16], &[]);
}

#[test]
fn numpy_sorts_and_transforms_the_same() {
    if !has_module("numpy", "numpy") {
        return;
    }
    let case = Case {
        name: "numpy",
        arguments: &["python3", "arrays.py"],
        sources: &["arrays.py"],
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [40, 24]);
    assert!(output.contains("\nend "), "{output}");
}

/// The children share the parent's arrays until the parent writes or evicts them. A read of `Bad address` ended the threads of the
/// pool for want of a pin, and the program waited for ever.
#[test]
fn numpy_in_a_fork_pool_returns_the_same() {
    if !has_module("numpy", "numpy") {
        return;
    }
    let case = Case {
        name: "numpy pool",
        arguments: &["python3", "array_pool.py"],
        sources: &["array_pool.py"],
        exceeds_briefly: true,
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [64, 48]);
    assert!(output.contains("\nend "), "{output}");
}
