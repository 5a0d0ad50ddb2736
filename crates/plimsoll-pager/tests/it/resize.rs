//! A budget that changes, as the kernel counts it.

use std::time::Duration;

use plimsoll_pager::{Pager, RamError, TrimTo};
use plimsoll_testkit::{again, role};

use crate::children::resident_of;

const MIB: u64 = 1 << 20;
const PAGE: usize = 4096;

/// A word of a page: different for each page, alike for neighbours.
fn value(page: usize, part: usize) -> u64 {
    ((page * 31 + part / 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn fill(bytes: &mut [u8]) {
    for (page, bytes) in bytes.chunks_mut(PAGE).enumerate() {
        for (part, bytes) in bytes.chunks_mut(8).enumerate() {
            bytes.copy_from_slice(&value(page, part).to_ne_bytes());
        }
    }
}

#[track_caller]
fn verify(bytes: &[u8]) {
    for (page, bytes) in bytes.chunks(PAGE).enumerate() {
        let mut parts = bytes.chunks(8).enumerate();
        let is_intact = parts.all(|(part, bytes)| bytes == value(page, part).to_ne_bytes());
        assert!(is_intact, "page {page}");
    }
}

/// Waits until the balance-set manager has brought the pager to its budget. The number of looks is bounded.
fn wait_for(pager: &Pager, ram: u64) {
    for _ in 0..30_000 {
        let stats = pager.stats();
        if stats.ram == ram && stats.resident_bytes() <= ram {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the pager does not come to {ram} bytes: {:?}", pager.stats());
}

#[test]
fn a_pager_follows_its_budget_down_and_up() {
    // In a process without other tests.
    if role().is_none() {
        let test = "resize::a_pager_follows_its_budget_down_and_up";
        let output = again(test, "alone").output().expect("the test program starts");
        assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&output.stdout)
        );
        return;
    }
    let this = std::process::id();
    let pager = Pager::builder()
        .ram(64 * MIB)
        .build()
        .expect("userfaultfd is allowed");
    let mut region = pager.map(48 << 20).expect("addresses are free");
    let before = resident_of(this) - pager.stats().metadata_bytes - pager.stats().store_bytes;
    fill(region.bytes_mut());
    assert_eq!(
        pager.stats().zero_faults,
        0,
        "all of it fits: the faults are the kernel's"
    );
    for ram in [16 * MIB, 40 * MIB, 12 * MIB] {
        pager.set_ram(ram).expect("it is no member of a pool");
        wait_for(&pager, ram);
        let most = before + ram / 100 * 102;
        assert!(resident_of(this) <= most, "{} of {most}", resident_of(this));
        verify(region.bytes());
        assert!(resident_of(this) <= most, "{} of {most}", resident_of(this));
    }
    pager.set_ram(64 * MIB).expect("it is no member of a pool");
    assert_eq!(pager.stats().ram, 64 * MIB);
    verify(region.bytes());
    let warm = pager.stats();
    verify(region.bytes());
    assert_eq!(
        pager.stats().hard_faults,
        warm.hard_faults,
        "all of it fits again"
    );
    assert_eq!(pager.stats().forced_frames, 0);
    region.trim(.., TrimTo::Store).expect("the whole region");
    assert_eq!(pager.validate(), []);
}

#[test]
fn a_budget_below_the_least_is_refused() {
    let pager = Pager::builder()
        .ram(16 * MIB)
        .build()
        .expect("userfaultfd is allowed");
    assert!(matches!(
        pager.set_ram(4 * MIB - 1),
        Err(RamError::TooLittle { .. })
    ));
    assert_eq!(pager.stats().ram, 16 * MIB);
    assert!(pager.membership().is_none());
}
