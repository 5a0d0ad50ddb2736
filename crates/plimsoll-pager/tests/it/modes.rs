//! The modes of a pager, and the tests whose subject is the same in each of them.

use plimsoll_pager::{FaultMode, Pager, PagerBuilder};
use plimsoll_testkit::this_program;

/// Variable with the mode of the pagers: words of `thread` and `copies`, separated by commas.
const MODE: &str = "PLIMSOLL_TEST_DRIVER";

fn has(word: &str) -> bool {
    let mode = std::env::var(MODE).unwrap_or_default();
    mode.split(',').any(|other| other == word)
}

/// Whether the pagers of this process copy pages, as on a kernel without `UFFDIO_MOVE`.
pub(crate) fn copies() -> bool {
    has("copies")
}

/// Options of a pager in the mode of this process.
pub(crate) fn builder() -> PagerBuilder {
    let mut builder = Pager::builder();
    if has("thread") {
        builder = builder.fault_mode(FaultMode::Thread);
    }
    if copies() {
        builder = builder.without_move();
    }
    builder
}

/// Runs the tests of these modules in a mode.
fn run(mode: &str) {
    for module in [
        "address_space::",
        "cap::",
        "committed::",
        "deferred_file::",
        "forked_files::",
        "forked_pagers::",
        "forked_pool::",
        "forks::",
        "shared_pages::",
        "system_calls::",
    ] {
        let output = this_program()
            .args([module, "--test-threads=1"])
            .env(MODE, mode)
            .output()
            .expect("the test program starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{mode}: {text}{errors}");
        assert!(!text.contains("running 0 tests"), "{mode}: {module}");
    }
}

#[test]
fn the_cap_and_forks_hold_without_moves() {
    run("copies");
}

#[test]
fn the_cap_and_forks_hold_with_a_thread_for_faults() {
    run("thread");
}

#[test]
fn the_cap_and_forks_hold_with_a_thread_and_without_moves() {
    run("thread,copies");
}
