//! The tests of `real` in every mode of the driver.

use std::os::unix::process::ExitStatusExt;

use plimsoll_testkit::{again, role, status_of_fork, this_program};

use crate::backing::Damaged;
use crate::backing::model::ModelStore;
use crate::driver::{Area, DriverOptions, FaultMode};
use crate::engine::{Engine, TrimTo};
use crate::fault::{Facts, FaultError, last_line};
use crate::page::{ChunkMode, PAGE_SIZE, PageIndex};

/// Variable with the mode of the driver: words of `thread` and `copies`, separated by commas.
const MODE: &str = "PLIMSOLL_TEST_DRIVER";

/// The mode of the driver in this process.
pub(super) fn of_this_process() -> DriverOptions {
    let mode = std::env::var(MODE).unwrap_or_default();
    let has = |word| mode.split(',').any(|other| other == word);
    DriverOptions {
        fault_mode: if has("thread") {
            FaultMode::Thread
        } else {
            FaultMode::Signal
        },
        without_move: has("copies"),
        arena: None,
    }
}

fn run_real_tests(mode: &str) {
    let mut command = this_program();
    let output = command
        .args(["tests::real::", "--test-threads=1"])
        .env(MODE, mode)
        .output()
        .expect("the test program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{mode}: {text}{errors}");
    assert!(!text.contains("running 0 tests"), "{mode}: {text}");
}

#[test]
fn the_real_tests_hold_without_moves() {
    run_real_tests("copies");
}

#[test]
fn the_real_tests_hold_with_a_thread_for_faults() {
    run_real_tests("thread");
}

#[test]
fn the_real_tests_hold_with_a_thread_and_without_moves() {
    run_real_tests("thread,copies");
}

/// Touches a page whose saved copy is damaged.
fn lose_a_page(fault_mode: FaultMode) {
    let options = DriverOptions {
        fault_mode,
        ..of_this_process()
    };
    let engine = Engine::new(1 << 18, 16 << 20, ModelStore::default(), options);
    let engine = engine.expect("userfaultfd is allowed");
    let pages = engine.map(PAGE_SIZE).expect("addresses are free");
    engine.manager().touch(pages);
    assert_eq!(engine.trim(pages, TrimTo::Store), 1);
    engine.manager().backing.damage(pages.first);
    engine.manager().touch(pages);
}

/// Its faulting thread waits, and there is no signal that its program could handle.
#[test]
fn a_damaged_page_ends_the_process_of_a_thread_for_faults() {
    let status = status_of_fork(|| lose_a_page(FaultMode::Thread));
    assert!(
        libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT,
        "{status:#x}"
    );
}

/// The hexadecimal number after the only occurrence of `name`.
fn number_after(name: &str, text: &str) -> u64 {
    let mut rest = text.split(name).skip(1);
    let (Some(found), None) = (rest.next(), rest.next()) else {
        panic!("{name}: {text}");
    };
    let end = found.find(|letter: char| !letter.is_ascii_hexdigit());
    u64::from_str_radix(&found[..end.unwrap_or(found.len())], 16).expect("a number")
}

/// On a busy machine, a process ended once because the kernel refused a page, and its last line had no fact about the page.
#[test]
fn the_last_line_of_a_process_has_the_facts_of_the_lost_page() {
    if let Some(role) = role() {
        return lose_a_page(match role.as_str() {
            "thread" => FaultMode::Thread,
            _ => FaultMode::Signal,
        });
    }
    let test = "tests::modes::the_last_line_of_a_process_has_the_facts_of_the_lost_page";
    for (mode, signal) in [("thread", libc::SIGABRT), ("signal", libc::SIGBUS)] {
        let output = again(test, mode).output().expect("the test program starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(signal), "{errors}");
        let facts = Facts::Page {
            area: Area::Arena,
            page: PageIndex::new(0),
            mode: ChunkMode::Managed,
            // It depends on the place in the store.
            word: number_after("word 0x", &errors),
            in_arena: Some(false),
            in_shadow: Some(false),
        };
        let line = last_line(FaultError::Damaged(Damaged::Checksum), facts);
        assert!(errors.contains(&line), "{line}{errors}");
    }
}
