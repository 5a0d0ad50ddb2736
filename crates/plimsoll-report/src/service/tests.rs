//! Sizes of made-up services.

use plimsoll_model::recording::size::SizedSystem;

use super::*;

const MIB: u64 = 1 << 20;

fn set(p50: u64, max: u64) -> WorkingSet {
    WorkingSet {
        p50_bytes: p50 * MIB,
        p90_bytes: max * MIB,
        p99_bytes: max * MIB,
        max_bytes: max * MIB,
    }
}

#[test]
fn percentiles_are_values_that_were_seen() {
    assert_eq!(percentiles(Vec::new()), None);
    let hundred = percentiles((1..=100).rev().collect()).unwrap();
    let found = [
        hundred.p50_bytes,
        hundred.p90_bytes,
        hundred.p99_bytes,
        hundred.max_bytes,
    ];
    assert_eq!(found, [50, 90, 99, 100]);
    let one = percentiles(vec![7]).unwrap();
    assert_eq!([one.p50_bytes, one.p99_bytes, one.max_bytes], [7, 7, 7]);
}

/// The hard limit of a steady service is a quarter above its working set; that of a varying one has room for the variation.
#[test]
fn the_headroom_is_a_quarter_or_the_spread() {
    let hard = |set: &WorkingSet| {
        advice(set, None)
            .iter()
            .map(|one| one.hard_bytes / MIB)
            .collect::<Vec<_>>()
    };
    assert_eq!(hard(&set(100, 100)), [125, 125]);
    assert_eq!(hard(&set(60, 100)), [140, 140]);
}

/// A pod without swap cannot leave the cold half of the heap in swap, as this machine does.
#[test]
fn without_swap_all_anonymous_memory_counts() {
    let advised = advice(&set(100, 100), Some(300 * MIB));
    let soft = |system| {
        let one = advised.iter().find(|one| one.system == system).unwrap();
        (one.soft_bytes / MIB, one.lines.join(" "))
    };
    let (container, lines) = soft(SizedSystem::Kubernetes);
    assert_eq!(container, 300);
    assert!(
        lines.contains("memory: 300Mi") && lines.contains("memory: 375Mi"),
        "{lines}"
    );
    let (unit, lines) = soft(SizedSystem::Systemd);
    assert_eq!(unit, 100);
    assert!(
        lines.contains("MemoryHigh=100M") && lines.contains("MemoryMax=125M"),
        "{lines}"
    );
}
