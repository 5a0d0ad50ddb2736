//! Identities and descendants of processes.

use plimsoll_monitor::processes::{Depth, descendants, list};
use plimsoll_proc::ProcessId;

use super::{Kept, wait_until};

#[test]
fn a_process_that_ended_is_not_alive_and_neither_is_another_of_its_number() {
    let mut child = Kept(plimsoll_testkit::command("sleep").arg("60").spawn().unwrap());
    let identity = ProcessId::of(child.pid()).unwrap();
    assert!(identity.is_alive());
    let earlier = ProcessId {
        start_ticks: identity.start_ticks - 1,
        ..identity
    };
    assert!(!earlier.is_alive(), "the number was reused");
    child.0.kill().unwrap();
    wait_until("the process to end", || !identity.is_alive());
    let kind = |found: std::io::Result<ProcessId>| found.unwrap_err().kind();
    assert_eq!(kind(ProcessId::of(child.pid())), std::io::ErrorKind::NotFound);
    assert_eq!(ProcessId::of_any(child.pid()).unwrap(), identity, "a zombie");
    child.0.wait().unwrap();
    assert_eq!(kind(ProcessId::of_any(child.pid())), std::io::ErrorKind::NotFound);
}

#[test]
fn the_list_has_processes_but_no_kernel_threads() {
    let child = Kept(plimsoll_testkit::command("sleep").arg("60").spawn().unwrap());
    let found = list(Depth::Detail).unwrap();
    let pids: Vec<u32> = found
        .processes
        .iter()
        .map(|process| process.identity.pid)
        .collect();
    assert!(pids.is_sorted());
    assert!(pids.contains(&child.pid()) && pids.contains(&std::process::id()));
    assert!(!pids.contains(&2), "kthreadd");
    assert!(found.processes.iter().all(|process| !process.kernel_thread));
}

#[test]
fn the_descendants_of_one_that_ended_are_itself() {
    let mut child = plimsoll_testkit::command("true").spawn().unwrap();
    child.wait().unwrap();
    assert_eq!(descendants(child.id()), [child.id()]);
}
