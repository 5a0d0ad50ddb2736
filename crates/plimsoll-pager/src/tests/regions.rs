//! Regions that are closed, and pages that they surrender.

use plimsoll_os::Errno;

use super::simulated::{PAGES, Sim, access, contents, range, reclaim, sim, surrender};
use crate::manager::TakeBackError;
use crate::page::{CHUNK_PAGES, PageIndex, PageRange, PageState};

/// Its pages once were present for a moment after their charge was returned, so that the pages of other threads exceeded
/// the budget. The simulated driver refuses that.
#[test]
fn a_closed_region_leaves_nothing() {
    for ram in [300, 4000] {
        close_a_region(&sim(ram, 0, 1));
    }
}

fn close_a_region(manager: &Sim) {
    let is_native = manager.budget.native() > 0;
    for page in 0..PAGES {
        access(manager, PageIndex::new(page), |bytes| {
            *bytes = contents(page as u8)
        });
    }
    assert!(is_native || manager.backing.copies() > 0);
    manager
        .close(PageRange::new(PageIndex::new(0), PAGES))
        .expect("no page is locked");
    assert_eq!(manager.backing.copies(), 0);
    assert_eq!((manager.budget.frames(), manager.budget.native()), (0, 0));
    assert_eq!(manager.driver.resident(), 0);
    assert_eq!(manager.validate(), []);
}

/// The thread for faults may read a fault, and resolve it after the end of the region. It charged a frame once, and left an
/// active page in no region.
#[test]
fn a_fault_in_no_region_leaves_nothing() {
    for ram in [300, 4000] {
        let manager = sim(ram, 0, 1);
        let page = PageIndex::new(PAGES - 1);
        manager
            .close(PageRange::new(PageIndex::new(0), PAGES))
            .expect("no page is locked");
        assert_eq!(manager.fault(page), Ok(()));
        assert_eq!(manager.table.word(page).load().state(), PageState::Virgin);
        assert_eq!((manager.budget.frames(), manager.driver.resident()), (0, 0));
        assert_eq!(manager.validate(), []);
    }
}

#[test]
fn a_region_whose_page_stays_locked_stays_charged() {
    let region = PageRange::new(PageIndex::new(0), PAGES);
    let manager = sim(4000, 0, 1);
    for page in region.pages() {
        access(&manager, page, |bytes| *bytes = contents(1));
    }
    let native = manager.budget.native();
    assert_eq!(native, u64::from(PAGES));
    manager.driver.set_locked(Some(PageIndex::new(3)));
    manager.driver.keep_lock(true);
    assert_eq!(manager.close(region), Err(Errno::INVAL));
    assert_eq!((manager.budget.native(), manager.validate()), (native, vec![]));
    manager.driver.keep_lock(false);
    manager.close(region).expect("the lock ends with the region");
    assert_eq!((manager.budget.native(), manager.driver.resident()), (0, 0));
}

#[test]
fn surrendered_pages_are_left_alone_until_they_are_reclaimed() {
    for ram in [300, 4000] {
        let manager = sim(ram, 0, 1);
        for page in 0..PAGES {
            access(&manager, PageIndex::new(page), |bytes| *bytes = contents(3));
        }
        let part = range(CHUNK_PAGES - 50, 100);
        let mut model = vec![3; PAGES as usize];
        surrender(&manager, part, &mut model);
        assert_eq!(manager.counters.pages_in(PageState::Surrendered), 100);
        assert!(manager.fault(part.first).is_err());
        let whole = range(0, PAGES);
        manager.trim_range(whole);
        manager.save_range(whole);
        manager.release_range(whole);
        manager.discard(whole).expect("no page is locked");
        assert_eq!(manager.reset(whole), 0);
        manager.balance();
        let parts: Vec<PageRange> = manager.own_parts(3 * CHUNK_PAGES).collect();
        let behind = PageIndex::new(part.end());
        assert_eq!(
            parts,
            [
                PageRange::new(PageIndex::new(0), part.first.number()),
                PageRange::new(behind, 3 * CHUNK_PAGES - part.end())
            ]
        );
        assert_eq!(manager.validate(), []);
        assert_eq!(
            manager.take_back(range(CHUNK_PAGES - 51, 100)),
            Err(TakeBackError::Owned)
        );
        let snapshot = manager.snapshot();
        assert_eq!(snapshot.pages_in(PageState::Surrendered), 100);

        let half = range(CHUNK_PAGES, 50);
        reclaim(&manager, half);
        for page in half.pages() {
            access(&manager, page, |bytes| {
                assert!(*bytes == contents(0));
                *bytes = contents(4);
            });
        }
        assert_eq!(manager.validate(), []);
        reclaim(&manager, part);
        assert_eq!(manager.counters.pages_in(PageState::Surrendered), 0);
        manager.close(whole).expect("no page is locked");
        assert_eq!((manager.driver.resident(), manager.validate()), (0, vec![]));
    }
}
