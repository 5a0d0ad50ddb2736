//! Faults of a scan by the rule of trimming: counted, not timed.

use plimsoll_pager::{Pager, Stats, TrimMode};

const PAGE: usize = 4096;
const SCANNED: usize = 16 << 20;
const RAM: usize = SCANNED / 2;
const PAGES: u64 = (SCANNED / PAGE) as u64;
const SCANS: u64 = 4;

/// Pages that a fault restores at most: its own, and those ahead in a stream.
const MOST_PER_FAULT: u64 = 1 + 32;

/// Of the scanned data a third does not compress. So with all of it in memory, `frames + (SCANNED - frames) / 3` is at most the
/// budget, which also holds the metadata: a quarter of the pages at most has frames.
const MOST_FRAMES: u64 = PAGES / 4;

/// Faults and pages restored ahead in the scans, after one that fills the region.
fn scan(mode: TrimMode) -> (u64, u64) {
    let pager = Pager::builder().ram(RAM as u64).build().expect("userfaultfd");
    pager.set_trim_mode(mode);
    let mut region = pager.map(SCANNED).expect("addresses");
    for (page, bytes) in region.bytes_mut().chunks_exact_mut(PAGE).enumerate() {
        let mut x = (page as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for word in bytes[..PAGE.div_ceil(3).next_multiple_of(8)]
            .as_chunks_mut::<8>()
            .0
        {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            *word = x.to_ne_bytes();
        }
    }
    let faults = |stats: &Stats| stats.zero_faults + stats.soft_faults + stats.hard_faults;
    let before = pager.stats();
    for number in 1..=SCANS {
        for page in region.bytes_mut().chunks_exact_mut(PAGE) {
            page[PAGE - 1] = number as u8;
        }
    }
    let after = pager.stats();
    assert_eq!(after.forced_frames, 0, "the data fits into the budget");
    (
        faults(&after) - faults(&before),
        after.stream_pages - before.stream_pages,
    )
}

/// A scan over twice the budget meets each page after its frame was taken for another one. The per-fault mode restores
/// nothing ahead, so that almost each page costs a fault; streams restore up to 32 pages for one.
#[test]
fn the_per_fault_mode_faults_many_times_as_often_as_the_balanced_one() {
    let (per_fault, ahead) = scan(TrimMode::PerFault);
    let of_a_scan = |count: u64| count / SCANS;
    assert_eq!(ahead, 0);
    // No policy keeps more pages than there are frames, and a page faults once a scan.
    let absent = PAGES - MOST_FRAMES;
    assert!((absent..=PAGES).contains(&of_a_scan(per_fault)), "{per_fault}");

    let (balanced, ahead) = scan(TrimMode::BalanceSet);
    assert!(of_a_scan(balanced + ahead) >= absent, "{balanced} {ahead}");
    assert!(of_a_scan(balanced) >= absent / MOST_PER_FAULT, "{balanced}");
    // Streams begin with 4 pages: at half of their length on average, a fault restores 16.
    assert!(
        balanced * (MOST_PER_FAULT / 4) <= per_fault,
        "{balanced} {per_fault}"
    );
    println!(
        "faults a scan of {PAGES} pages: {} and {}",
        of_a_scan(per_fault),
        of_a_scan(balanced)
    );
}
