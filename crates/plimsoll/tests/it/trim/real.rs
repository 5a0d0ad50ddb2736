//! Trimming for real: a process and a cgroup of the test's own, on a swap device of its own.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_monitor::trim::{Mechanism, Reason, Report, TrimError, What, trim};
use plimsoll_proc::ProcessId;

use super::{HELD, Holder, MIB, environment, no_swap_at_all, root_with_cgroup, root_with_zram};
use crate::machine::alone;

static NEVER: AtomicBool = AtomicBool::new(false);

/// At least this much of the memory has to leave.
const MOST: u64 = HELD / 10 * 9;

#[test]
fn a_trimmed_process_moves_to_zram_and_refaults() {
    if !root_with_zram() {
        return;
    }
    let mut session = alone();
    let environment = environment(&mut session, "zram");
    let mut holder = Holder::start(&environment, 0);
    let identity = ProcessId::of(holder.pid()).expect("it lives");

    let report = trim(&What::from(identity), None, &NEVER).expect("trimmed");
    assert_eq!(report.mechanism, Mechanism::ProcessMadvise);
    assert!(report.left >= MOST, "{report}");
    assert!(report.went.swapped >= MOST as i64, "{report}");
    assert!(report.went.swap_used >= MOST as i64, "{report}");
    // Half of each page does not compress, the other half is zeros.
    assert!(report.went.compressed >= HELD as i64 / 3, "{report}");
    assert!(report.returned.bytes < HELD / 10, "nobody touched it: {report}");
    assert!(report.returned.within_s >= 1.0 && !report.interrupted);

    holder.touch();
    holder.touched();
    // The trim watches for a second, and nothing outside shows when that begins: on a busy machine the holder may read
    // its memory before or after it.
    let mut reports = Vec::new();
    let seen = (0..5).any(|_| {
        let report = trimmed_and_read(&mut holder);
        let seen = report.returned.bytes >= HELD / 8 && report.returned.major_faults > 0;
        reports.push(report.to_string());
        seen
    });
    assert!(seen, "{}", reports.join("\n"));

    drop(holder);
    let _ = environment.tear_down(&mut session).expect("undone");
}

/// Trims the holder, which reads its memory as soon as the second of watching has probably begun.
fn trimmed_and_read(holder: &mut Holder) -> Report {
    let pid = holder.pid();
    let trimming = std::thread::spawn(move || trim(&What::pid(pid), None, &NEVER));
    let swapped = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:"));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or(0)
            * 1024
    };
    while swapped() < MOST && !trimming.is_finished() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    holder.touch();
    let report = trimming.join().expect("no panic").expect("trimmed");
    holder.touched();
    report
}

#[test]
fn a_limit_a_lock_and_a_stop_are_kept_to() {
    if !root_with_zram() {
        return;
    }
    let mut session = alone();
    let environment = environment(&mut session, "zram");
    let locked = 32 * MIB;
    let holder = Holder::start(&environment, locked);

    let report = trim(&What::pid(holder.pid()), None, &AtomicBool::new(true)).expect("a report");
    assert!(report.interrupted && report.left == 0, "{report}");

    let asked = 24 * MIB;
    let report = trim(&What::pid(holder.pid()), Some(asked), &NEVER).expect("trimmed");
    // A step beyond, and what the kernel's counters may be off by.
    assert!(
        report.left >= asked - 2 * MIB && report.left <= asked + 8 * MIB,
        "{report}"
    );
    assert!(
        report.kept.is_empty(),
        "what was not asked for did not stay: {report}"
    );

    let group = environment.cgroup().expect("a cgroup").path().to_owned();
    let report = trim(&What::Cgroup(group), None, &NEVER).expect("trimmed");
    assert!(report.kept_for(Reason::Locked), "{report}");
    let kept = report.kept.iter().find(|kept| kept.reason == Reason::Locked);
    let kept = kept.and_then(|kept| kept.bytes).expect("bytes");
    assert!(kept >= locked && kept <= locked + 8 * MIB, "{report}");

    drop(holder);
    let _ = environment.tear_down(&mut session).expect("undone");
}

#[test]
fn a_cgroup_leaves_for_zram_and_its_limit_stays() {
    if !root_with_zram() {
        return;
    }
    let mut session = alone();
    let environment = environment(&mut session, "zram");
    let holder = Holder::start(&environment, 0);
    let group = environment.cgroup().expect("a cgroup");
    let limit = group.limit().expect("a limit");

    let some = trim(&What::Cgroup(group.path().to_owned()), Some(32 * MIB), &NEVER).expect("trimmed");
    assert!(some.left >= 30 * MIB && some.left <= 40 * MIB, "{some}");

    let report = trim(&What::Cgroup(group.path().to_owned()), None, &NEVER).expect("trimmed");
    assert_ne!(report.mechanism, Mechanism::ProcessMadvise, "{report}");
    assert!(some.left + report.left >= MOST, "{some}\n{report}");
    assert!(
        some.went.swapped + report.went.swapped >= MOST as i64,
        "{some}\n{report}"
    );
    assert_eq!(group.limit().expect("a limit"), limit);

    drop(holder);
    let _ = environment.tear_down(&mut session).expect("undone");
}

#[test]
fn without_swap_anonymous_pages_stay_with_a_reason() {
    if !root_with_cgroup() {
        return;
    }
    let mut session = alone();
    if !no_swap_at_all() {
        return;
    }
    let environment = environment(&mut session, "none");
    let holder = Holder::start(&environment, 0);

    let report = trim(&What::pid(holder.pid()), None, &NEVER).expect("a report");
    assert!(report.left < 4 * MIB, "{report}");
    let kept = report.kept.iter().find(|kept| kept.reason == Reason::NoSwap);
    assert!(
        kept.and_then(|kept| kept.bytes)
            .is_some_and(|bytes| bytes >= MOST),
        "{report}"
    );

    drop(holder);
    let _ = environment.tear_down(&mut session).expect("undone");
}

#[test]
fn a_process_that_ended_or_was_not_meant_is_left_alone() {
    let mut child = plimsoll_testkit::command("sleep")
        .arg("60")
        .spawn()
        .expect("sleep");
    let identity = ProcessId::of(child.id()).expect("it lives");
    let later = What::Process {
        pid: identity.pid,
        start_ticks: Some(identity.start_ticks + 1),
    };
    let refused = trim(&later, None, &NEVER);
    assert!(matches!(refused, Err(TrimError::Reused { .. })), "{refused:?}");
    child.kill().expect("killed");
    // A process whose parent has not asked for it yet holds no memory.
    while identity.is_alive() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let refused = trim(&What::from(identity), None, &NEVER);
    assert!(matches!(refused, Err(TrimError::Ended { .. })), "{refused:?}");
    child.wait().expect("ended");
    let refused = trim(&What::from(identity), None, &NEVER);
    assert!(
        matches!(refused, Err(TrimError::NoSuchProcess { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_thread_is_not_a_process() {
    let (say, hear) = std::sync::mpsc::channel();
    let (stop, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        say.send(rustix::thread::gettid().as_raw_nonzero().get() as u32)
            .expect("somebody listens");
        let _ = wait.recv();
    });
    let tid = hear.recv().expect("a number");
    let refused = trim(&What::pid(tid), None, &NEVER);
    drop(stop);
    thread.join().expect("no panic");
    let own = std::process::id();
    assert!(
        matches!(refused, Err(TrimError::Thread { process, .. }) if process == own),
        "{refused:?}"
    );
}
