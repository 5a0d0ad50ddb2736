//! A process as it is read, against the `procfs` crate.

use plimsoll_monitor::processes::{Depth, Process};
use plimsoll_proc::resource_limits::Limit;
use procfs::process::{LimitValue, Process as Oracle};

#[test]
fn this_process_is_as_procfs_says() {
    let oracle = Oracle::myself().unwrap();
    let before = oracle.stat().unwrap();
    let found = Process::read(std::process::id(), Depth::Proportional).unwrap();
    let after = oracle.stat().unwrap();
    let detail = found.detail.as_ref().unwrap();
    assert_eq!(found.identity.start_ticks, after.starttime);
    assert_eq!(found.parent as i32, after.ppid);
    assert_eq!(found.name, after.comm);
    assert!((before.minflt..=after.minflt).contains(&found.minor_faults));
    assert!((before.majflt..=after.majflt).contains(&found.major_faults));
    assert!((before.utime * 10_000..=after.utime * 10_000).contains(&found.user_us));
    assert!((before.stime * 10_000..=after.stime * 10_000).contains(&found.system_us));
    assert_eq!(detail.status.uid, Some(oracle.status().unwrap().euid));
    assert_eq!(
        detail.command.as_deref(),
        Some(&*oracle.cmdline().unwrap().join(" "))
    );
    assert_eq!(
        detail.oom_score_adj,
        Some(i64::from(oracle.oom_score_adj().unwrap()))
    );
    let limits = oracle.limits().unwrap();
    let limit = |value: Option<Limit>| value.expect("the file says").bytes();
    let soft = |value: LimitValue| match value {
        LimitValue::Unlimited => None,
        LimitValue::Value(bytes) => Some(bytes),
    };
    assert_eq!(
        limit(detail.limits.locked),
        soft(limits.max_locked_memory.soft_limit)
    );
    assert_eq!(
        limit(detail.limits.address_space),
        soft(limits.max_address_space.soft_limit)
    );
    assert_eq!(limit(detail.limits.data), soft(limits.max_data_size.soft_limit));
    assert_eq!(
        limit(detail.limits.resident),
        soft(limits.max_resident_set.soft_limit)
    );
    // Memory moves while tests run: within a quarter, which no mistaken unit is.
    let close = |found: u64, kib: Option<u64>| {
        let expected = kib.unwrap() * 1024;
        assert!(
            found.abs_diff(expected) <= expected / 4 + (8 << 20),
            "{found} {expected}"
        );
    };
    let status = oracle.status().unwrap();
    close(found.wss(), status.vmrss);
    close(detail.status.anon.unwrap(), status.rssanon);
    close(detail.status.address_space.unwrap(), status.vmsize);
    assert_eq!(detail.status.swap, status.vmswap.map(|kib| kib * 1024));
    let pss = detail.pss.unwrap();
    assert!(pss.bytes > 0 && pss.bytes <= found.wss() + (8 << 20), "{pss:?}");
    assert!(detail.denied.is_empty());
}
