//! The work of one tick of the balance-set manager, over the simulated driver.

use std::time::Duration;

use super::simulated::{Sim, access, contents};
use crate::backing::model::ModelStore;
use crate::driver::simulated::{Injection, Simulated};
use crate::manager::{Manager, ThrashControl, ThrashStep};
use crate::page::{CHUNK_PAGES, PAGE_SIZE, PageIndex, PageRange};

/// Pages of the region: all but a few of them are in the working set.
const PAGES: u32 = 72 * CHUNK_PAGES;
const RAM: u64 = 70 * CHUNK_PAGES as u64 * PAGE_SIZE as u64;
/// Pages that one tick trims at most.
const MOST: u64 = 4096;

/// A manager at its budget, whose measure against thrashing asks for much more standby pages than it has.
fn manager() -> Sim {
    let driver = Simulated::new(PAGES, Injection::new(0, 1));
    let manager = Manager::new(driver, ModelStore::default(), PAGES, RAM).expect("memory");
    let region = PageRange::new(PageIndex::new(0), PAGES);
    manager.open(region).expect("nothing is injected");
    for page in region.pages() {
        access(&manager, page, |bytes| *bytes = contents(page.number() as u8 | 1));
    }
    manager
        .thrash
        .set_rule(ThrashControl::Fixed(ThrashStep::GrownStandby));
    manager.control_thrash(Duration::from_secs(1), Duration::ZERO);
    manager
}

#[test]
fn a_tick_trims_a_bounded_number_of_pages() {
    let manager = manager();
    let (low, high) = manager.watermarks();
    let wanted = high - manager.spare_frames();
    assert!(
        manager.spare_frames() < low && wanted > MOST * 3 / 2,
        "{wanted} pages are wanted"
    );
    let mut ticks = 0;
    while manager.spare_frames() < manager.watermarks().0 {
        let before = manager.stats();
        manager.balance();
        let after = manager.stats();
        let trimmed = after.trimmed_pages - before.trimmed_pages;
        let saved = after.saved_pages - before.saved_pages;
        assert!(
            trimmed <= MOST && saved <= MOST,
            "{trimmed} trimmed, {saved} saved"
        );
        assert!(saved > 0, "{after:?}");
        ticks += 1;
    }
    assert!(ticks >= 2, "{ticks}");
    let before = manager.stats();
    manager.balance();
    assert_eq!(manager.stats(), before, "nothing is to be done");
    assert_eq!(manager.validate(), []);
}
