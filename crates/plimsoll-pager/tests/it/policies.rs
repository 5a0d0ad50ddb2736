//! Policies of regions, as an embedder uses them.

use plimsoll_pager::{Pager, Region, TrimTo};

const MIB: u64 = 1 << 20;
const PAGE: usize = 4096;

fn pager(ram: u64) -> Pager {
    Pager::builder().ram(ram).build().expect("userfaultfd is allowed")
}

/// A region whose pages have their number + 1 in each byte.
fn filled(pager: &Pager, pages: usize) -> Region {
    let mut region = pager.map(pages * PAGE).expect("addresses are free");
    for (page, bytes) in region.bytes_mut().chunks_mut(PAGE).enumerate() {
        bytes.fill(page as u8 | 1);
    }
    region
}

fn kept(region: &Region) -> usize {
    let pages = region.bytes().chunks(PAGE).enumerate().rev();
    pages
        .filter(|(page, bytes)| {
            let byte = bytes[0];
            assert!(bytes.iter().all(|other| *other == byte));
            assert!(byte == 0 || byte == *page as u8 | 1);
            byte != 0
        })
        .count()
}

#[test]
fn contents_that_are_given_up_cost_no_save_and_may_come_back() {
    let pager = pager(64 * MIB);
    let mut region = filled(&pager, 1000);
    assert_eq!(region.reset(1..region.len()).expect("in the region"), 999);
    let stats = pager.stats();
    assert_eq!((stats.standby_pages[0], stats.saved_pages), (999, 0));
    assert_eq!(kept(&region), 1000, "nobody needed the frames");
    assert_eq!(region.reset(..).expect("in the region"), 1000);
    region.trim(.., TrimTo::Store).expect("in the region");
    assert_eq!(kept(&region), 0);
    region.bytes_mut()[5] = 9;
    region.trim(.., TrimTo::Store).expect("in the region");
    assert_eq!(region.bytes()[5], 9, "what is written later stays");
    assert!(region.reset(..region.len() + 1).is_err());
    assert_eq!(pager.validate(), []);
}

/// Two regions that do not fit together: the frames of the one with the lower priority go.
#[test]
fn a_region_of_high_priority_returns_by_soft_faults() {
    let pager = pager(16 * MIB);
    let important = filled(&pager, 1000);
    important.set_priority(7);
    let other = filled(&pager, 1000);
    other.set_priority(2);
    for region in [&important, &other] {
        region.trim(.., TrimTo::Standby).expect("in the region");
    }
    // Frames for a third region.
    let third = filled(&pager, 3000);
    let stats = pager.stats();
    assert!(stats.standby_pages[7] > 900, "{stats:?}");
    assert!(stats.standby_pages[2] < 300, "{stats:?}");
    assert_eq!([&important, &other, &third].map(kept), [1000, 1000, 3000]);
    assert_eq!(pager.stats().forced_frames, 0);
    assert_eq!(pager.validate(), []);
}

#[test]
fn a_suspended_region_leaves_the_working_set_and_returns() {
    let pager = pager(64 * MIB);
    let region = filled(&pager, 1000);
    let running = filled(&pager, 500);
    region.suspend();
    region.suspend();
    // The new priority is for the time after.
    region.set_priority(6);
    let stats = pager.stats();
    assert_eq!((stats.suspended_pages, stats.standby_pages[1]), (1000, 1000));
    assert_eq!(kept(&region), 1000, "an access is allowed");
    region.resume();
    assert_eq!(pager.stats().suspended_pages, 0);
    region.trim(.., TrimTo::Standby).expect("in the region");
    assert_eq!(pager.stats().standby_pages[6], 1000);
    running.suspend();
    drop(running);
    assert_eq!(pager.stats().suspended_pages, 0);
    assert_eq!(pager.validate(), []);
}

/// The kernel's own view: a region with a maximum has no more pages present than that.
#[test]
fn a_region_has_no_more_pages_in_use_than_its_maximum() {
    let pager = pager(64 * MIB);
    let limited = filled(&pager, 3000);
    let free = filled(&pager, 1000);
    assert!(limited.set_working_set(0, MIB / 8).is_err());
    limited.set_working_set(MIB, 2 * MIB).expect("a small one");
    for _ in 0..2 {
        assert_eq!(kept(&limited), 3000);
        assert!(pager.stats().active_pages <= 512, "{:?}", pager.stats());
    }
    let stats = pager.stats();
    assert_eq!(stats.hard_faults, 0, "the budget has room for the frames");
    assert!(stats.soft_faults > 0);
    limited.end_working_set();
    assert_eq!([&limited, &free].map(kept), [3000, 1000]);
    drop(limited);
    assert_eq!(pager.validate(), []);
}
