//! The heap's helper thread, beside programs that do not expect it. `tests/heap/helper.c` tells each story.

use super::programs::finished;
use super::{compiled, has, heap_run};

/// Runs a story of `helper.c` on the heap. `needs` names the capability without which the machine cannot tell it.
fn tell(story: &str, needs: Option<&str>) {
    if !has("gcc") {
        return;
    }
    let program = compiled("gcc", "helper.c", "c", &[]);
    let mut command = heap_run();
    command.arg("--").arg(program).arg(story);
    let output = finished(&mut command, 300);
    let said = String::from_utf8_lossy(&output.stderr);
    match (output.status.code(), needs) {
        (Some(77), Some(needs)) => _ = plimsoll_testkit::capability(needs, false, said.trim()),
        (code, _) => assert_eq!(code, Some(0), "{story}: {said}"),
    }
}

/// The kernel refused it, as the helper shared root and working directory with the program's only thread.
#[test]
fn a_program_of_one_thread_joins_a_mount_namespace_beside_the_helper() {
    tell("namespace", Some("root"));
}

/// A file system could not be unmounted, as the helper stayed in a folder of it that the program had left.
#[test]
fn the_helper_stays_in_no_folder_of_the_program() {
    tell("folder", None);
}

/// Python 3.12 and later warn of a fork beside threads; they count those of the kernel, in the parent after the fork.
#[test]
fn a_program_of_one_thread_has_one_thread_after_a_fork() {
    tell("fork", None);
}

/// After a fork a program of one thread has no helper.
#[test]
fn forks_alone_return_free_memory() {
    tell("forks", None);
}

/// The helper had the nice value and the processors of the thread that freed memory first.
#[test]
fn the_helper_runs_as_the_first_thread_does_beside_one_of_low_priority() {
    tell("nice", Some("root"));
}

/// The helper was a real-time thread, bound to one processor, if the thread that freed memory first was.
#[test]
fn the_helper_is_not_real_time() {
    tell("real-time", Some("real-time"));
}

/// The helper of a server that started as root was root's for as long as the server was active.
#[test]
fn the_helper_keeps_no_user_that_the_program_dropped() {
    tell("user", Some("root"));
}

#[test]
fn the_helper_keeps_no_capability_that_the_program_dropped() {
    tell("capabilities", None);
}

#[test]
fn a_program_that_dropped_its_user_and_sleeps_returns_memory() {
    tell("sleep", Some("root"));
}

/// All signals are blocked in the helper: libpsx, which sends one to each thread for capabilities and Landlock of
/// programs in Go that use C, waited for as long as there was work for the helper.
#[test]
fn the_helper_ends_for_a_signal_to_each_thread() {
    tell("signal", None);
}
