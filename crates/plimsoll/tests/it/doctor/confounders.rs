//! The checks of confounders.

use plimsoll::doctor::{Cause, Disk, Probes, State, examine_machine};
use rustix::process::geteuid;

use super::{Machine, SCHEME, all_work, as_nobody, check, modern_host, paging_out};

#[test]
fn a_damon_scheme_that_pages_out_is_a_confounder() {
    let found = paging_out().check("damon");
    assert_eq!((found.state, found.code), (State::Limited, Cause::Active));
    let pages_out = "kdamond 0: pageout of pages idle for 60.0 s, at most 128 MiB each 1000 ms";
    assert_eq!(found.found, pages_out);
    assert_eq!(
        found.enable,
        "echo off | sudo tee /sys/kernel/mm/damon/admin/kdamonds/0/state"
    );
    let filter = format!("{SCHEME}/ops_filters/0");
    let with_filter = || {
        paging_out()
            .with(&format!("{filter}/type"), "anon\n")
            .with(&format!("{filter}/matching"), "Y\n")
    };
    let excluded = |machine: Machine| {
        let found = machine.check("damon").found;
        let without = found.strip_prefix(pages_out);
        assert!(without.is_some(), "{found}");
        without == Some(", without anonymous memory")
    };
    assert!(excluded(with_filter().with(&format!("{filter}/allow"), "N\n")));
    assert!(
        excluded(with_filter()),
        "without `allow` a filter excludes the pages that it matches"
    );
    assert!(!excluded(with_filter().with(&format!("{filter}/allow"), "Y\n")));
    assert!(!excluded(
        with_filter().with(&format!("{filter}/matching"), "N\n")
    ));
}

#[test]
fn a_damon_monitor_that_takes_nothing_is_quiet() {
    let state = |machine: Machine| machine.check("damon").state;
    assert_eq!(
        state(paging_out().with("sys/kernel/mm/damon/admin/kdamonds/0/state", "off\n")),
        State::Available
    );
    assert_eq!(
        state(paging_out().with(&format!("{SCHEME}/action"), "stat\n")),
        State::Available
    );
    let module = modern_host().with("sys/module/damon_reclaim/parameters/enabled", "Y\n");
    assert_eq!(state(module), State::Limited);
    // Another user sees the thread, but not the scheme.
    let hidden = paging_out().mode("sys/kernel/mm/damon/admin/kdamonds/0/state", 0o600);
    assert_eq!(
        as_nobody(|| hidden.check("damon")).state,
        if geteuid().is_root() {
            State::Unknown
        } else {
            State::Limited
        }
    );
}

#[test]
fn confounders_are_seen() {
    let state = |machine: Machine, id| machine.check(id).state;
    let device = "sys/bus/virtio/devices/virtio3";
    let balloon = |features: &str| {
        modern_host()
            .with(&format!("{device}/device"), "0x0005\n")
            .with(&format!("{device}/features"), features)
    };
    assert_eq!(state(balloon("0000010000\n"), "page-reporting"), State::Limited);
    assert_eq!(state(balloon("0000000000\n"), "page-reporting"), State::Available);
    assert_eq!(
        state(modern_host().with("proc/loadavg", "3.00 1 1 1/1 1\n"), "load"),
        State::Limited
    );
    assert_eq!(
        state(
            modern_host().with("proc/stat", "cpu 100 0 100 700 0 0 0 100 0 0\n"),
            "load"
        ),
        State::Limited
    );
    let governor = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
    assert_eq!(
        state(modern_host().with(governor, "powersave\n"), "cpu-frequency"),
        State::Limited
    );
    let always = modern_host().with(
        "sys/kernel/mm/transparent_hugepage/enabled",
        "[always] madvise never\n",
    );
    assert_eq!(state(always, "thp"), State::Limited);
    assert_eq!(
        state(
            modern_host().with("proc/sys/vm/swappiness", "0\n"),
            "reclaim-settings"
        ),
        State::Limited
    );
}

#[test]
fn a_disk_without_swap_file_support_is_missing() {
    let on = |kind: &str, free: u64| {
        let mounts =
            format!("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 22 8:2 / /srv/swap rw - {kind} none rw\n");
        let machine = modern_host().with("proc/self/mountinfo", &mounts);
        let disk = Some(Disk {
            folder: "/srv/swap/deep".to_owned(),
            free,
            size: 1 << 40,
        });
        check(
            &examine_machine(&machine.tree(), &Probes { disk, ..all_work() }),
            "disk",
        )
        .state
    };
    assert_eq!(on("btrfs", 1 << 36), State::Available);
    assert_eq!(on("btrfs", 1 << 30), State::Limited);
    assert_eq!(on("tmpfs", 1 << 36), State::Missing);
    assert_eq!(on("overlay", 1 << 36), State::Missing);
}
