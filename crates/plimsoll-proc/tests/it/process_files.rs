//! The files of a process, and pressure, against names that mean harm and lines in any order.

use plimsoll_proc::{PidStat, PidStatus, psi};
use procfs::FromRead;
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
        let stat = PidStat::parse(&text).expect("a stat text");
        let oracle = procfs::process::Stat::from_read(&text[..]);
        prop_assert_eq!(stat.name, &name[..]);
        prop_assert_eq!(stat.name_text(), String::from_utf8_lossy(&name));
        prop_assert_eq!((stat.state, u64::from(stat.parent)), ('S', numbers[0]));
        prop_assert_eq!(stat.kernel_thread, numbers[1] & 0x0020_0000 != 0);
        prop_assert_eq!(stat.exiting, numbers[1] & 0x4 != 0);
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
    fn a_truncated_stat_is_rejected(cut in 0..60usize) {
        let text = stat_text(b"x) S 1 (y", &[1; 12]);
        prop_assert_eq!(PidStat::parse(&text[..cut]), None);
    }
}

#[test]
fn a_name_cannot_make_a_line_of_status() {
    // The kernel writes a line feed in a name as `\n`.
    let status = PidStatus::parse(b"Name:\ta\\nVmSwap: 1 kB\nUid:\t1\t2\t3\t4\nVmSwap:\t       8 kB\n");
    assert_eq!((status.uid, status.swap), (Some(2), Some(8192)));
}

#[test]
fn memory_and_thread_group_of_a_status_file() {
    let text = b"Name:\tx\nTgid:\t7\nPid:\t9\nUid:\t1000\t0\t0\t0\nVmHWM:\t 12 kB\nRssAnon:\t 3 kB\nRssFile:\t 2 kB\n\
                 RssShmem:\t 1 kB\nVmSwap:\t 5 kB\nHugetlbPages:\t 2048 kB\nThreads:\t1\n";
    let status = PidStatus::parse(text);
    assert_eq!((status.process, status.uid), (Some(7), Some(0)));
    assert_eq!(
        (status.peak_resident, status.huge),
        (Some(12 << 10), Some(2 << 20))
    );
    assert_eq!((status.wss(), status.swap), (Some(6 << 10), Some(5 << 10)));
    assert_eq!(plimsoll_proc::swapped(text), Some(5 << 10));
}

proptest! {
    #[test]
    fn pressure_totals_are_found_wherever_they_stand(
        some in 0..i64::MAX, full in prop::option::of(0..i64::MAX), swapped: bool, extra: bool,
    ) {
        let line = |kind: &str, total: i64| {
            let extra = if extra { "avg900=0.01 " } else { "" };
            format!("{kind} avg10=0.00 avg60=1.50 {extra}avg300=12.03 total={total}\n")
        };
        let mut lines = vec![line("some", some)];
        lines.extend(full.map(|total| line("full", total)));
        if swapped {
            lines.reverse();
        }
        let text = lines.concat();
        let found = psi::parse(text.as_bytes());
        prop_assert_eq!((found.some.total_us, found.full.total_us), (Some(some), full));
        prop_assert_eq!(found.some.last_10_s, Some("0.00"));
    }
}
