//! The verdict at the end of an examination.

use plimsoll::doctor::{Examination, Readiness, examine_machine, render};

use super::{Machine, STATUS_USER, all_work, as_nobody, modern_host, paging_out, plain_container, refused};

fn ids(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

/// The parts of the verdict: state, reasons, active confounders.
fn parts(examination: &Examination) -> (Readiness, Vec<&str>, Vec<&str>) {
    let verdict = &examination.verdict;
    (verdict.state, ids(&verdict.because), ids(&verdict.confounders))
}

#[test]
fn a_current_host_is_ready_as_root() {
    let examination = modern_host().examine();
    assert_eq!(parts(&examination), (Readiness::Ready, vec![], vec![]));
}

#[test]
fn a_missing_destination_limits_and_no_destination_blocks() {
    let without_zram = || {
        modern_host()
            .without("sys/class/zram-control")
            .without("sys/block/zram0")
    };
    assert_eq!(
        parts(&without_zram().examine()),
        (Readiness::Limited, vec!["zram"], vec![])
    );
    let mut no_disk = all_work();
    no_disk.disk = None;
    let machine = without_zram().without("sys/module/zswap");
    let examination = examine_machine(&machine.tree(), &no_disk);
    assert_eq!(
        parts(&examination),
        (Readiness::Blocked, vec!["disk", "zram", "zswap"], vec![])
    );
}

#[test]
fn users_and_containers_are_blocked_by_name() {
    let user = modern_host().with("proc/self/status", STATUS_USER);
    let examination = as_nobody(|| user.examine());
    assert_eq!(examination.verdict.state, Readiness::Blocked);
    assert_eq!(
        ids(&examination.verdict.because),
        ["privileges", "cgroup", "swap"]
    );
    let container = plain_container();
    let examination = as_nobody(|| examine_machine(&container.tree(), &all_work()));
    assert_eq!(examination.verdict.state, Readiness::Blocked);
    let mut no_page_out = all_work();
    no_page_out.page_out = refused();
    let machine = modern_host();
    let examination = examine_machine(&machine.tree(), &no_page_out);
    assert_eq!(
        parts(&examination),
        (Readiness::Blocked, vec!["page-out"], vec![])
    );
    // Nothing is known, and nothing is promised.
    let nothing = Machine::empty();
    assert_eq!(nothing.examine().verdict.state, Readiness::Blocked);
}

#[test]
fn active_confounders_are_named_and_the_verdict_is_the_last_line() {
    let examination = paging_out().examine();
    assert_eq!(parts(&examination), (Readiness::Ready, vec![], vec!["damon"]));
    let text = render(&examination, 120, false);
    let last = text.lines().last().expect("lines");
    assert_eq!(last, format!("Verdict: {}.", examination.verdict.text));
    let json = serde_json::to_value(&examination).expect("JSON");
    assert_eq!(json["verdict"]["state"], "ready");
    assert_eq!(json["verdict"]["confounders"][0], "damon");
}
