//! The files of a process, against the `procfs` crate and against names that mean harm.

use plimsoll_monitor::processes::parse::{Limits, Stat, Status, command_line, pss};
use plimsoll_monitor::processes::{Depth, Process};
use procfs::FromRead;
use procfs::process::{LimitValue, Process as Oracle};
use proptest::prelude::*;

/// Anything that the kernel takes for a name: 1 to 15 bytes but NUL.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let hostile = prop::sample::select(b"() \n\\:SR0123\x1b\xff".to_vec());
    prop::collection::vec(prop_oneof![hostile, 1..=255u8], 1..=15)
}

fn stat_text(name: &[u8], numbers: &[u64; 12]) -> Vec<u8> {
    let [
        parent,
        flags,
        minor,
        child_minor,
        major,
        child_major,
        user,
        system,
        start,
        vsize,
        rss,
        tail,
    ] = *numbers;
    let mut text = b"4242 (".to_vec();
    text.extend(name);
    text.extend(
        format!(
            ") S {parent} 7 7 0 -1 {flags} {minor} {child_minor} {major} {child_major} {user} {system} 5 6 20 0 1 0 \
             {start} {vsize} {rss} {tail} 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        )
        .into_bytes(),
    );
    text
}

proptest! {
    #[test]
    fn no_name_moves_a_field_of_stat(name in name(), numbers in prop::array::uniform12(0..u64::from(u32::MAX))) {
        let text = stat_text(&name, &numbers);
        let stat = Stat::parse(&text).expect("a stat text");
        let oracle = procfs::process::Stat::from_read(&text[..]);
        prop_assert_eq!(stat.name, String::from_utf8_lossy(&name));
        prop_assert_eq!((stat.state, u64::from(stat.parent)), ('S', numbers[0]));
        prop_assert_eq!(stat.kernel_thread, numbers[1] & 0x0020_0000 != 0);
        prop_assert_eq!((stat.minor_faults, stat.major_faults), (numbers[2], numbers[4]));
        prop_assert_eq!((stat.user_us, stat.system_us), (numbers[6] * 10_000, numbers[7] * 10_000));
        prop_assert_eq!((stat.start_ticks, stat.resident_pages), (numbers[8], numbers[10]));
        // The oracle takes no names that are not UTF-8.
        if let Ok(oracle) = oracle {
            prop_assert_eq!(stat.start_ticks, oracle.starttime);
            prop_assert_eq!((stat.minor_faults, stat.major_faults), (oracle.minflt, oracle.majflt));
        }
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = (Stat::parse(&text), Status::parse(&text), Limits::parse(&text), pss(&text), command_line(&text));
    }

    #[test]
    fn a_torn_stat_is_no_stat(cut in 0..60usize) {
        let text = stat_text(b"x) S 1 (y", &[1; 12]);
        prop_assert_eq!(Stat::parse(&text[..cut]), None);
    }
}

#[test]
fn a_name_cannot_make_a_line_of_status() {
    // The kernel writes a line feed in a name as `\n`.
    let status = Status::parse(b"Name:\ta\\nVmSwap: 1 kB\nUid:\t1\t2\t3\t4\nVmSwap:\t       8 kB\n");
    assert_eq!((status.uid, status.swap), (Some(2), Some(8192)));
}

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
    let soft = |value: LimitValue| match value {
        LimitValue::Unlimited => None,
        LimitValue::Value(bytes) => Some(bytes),
    };
    assert_eq!(detail.limits.locked, soft(limits.max_locked_memory.soft_limit));
    assert_eq!(
        detail.limits.address_space,
        soft(limits.max_address_space.soft_limit)
    );
    assert_eq!(detail.limits.data, soft(limits.max_data_size.soft_limit));
    assert_eq!(detail.limits.resident, soft(limits.max_resident_set.soft_limit));
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
