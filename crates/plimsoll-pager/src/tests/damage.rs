//! Broken invariants of a manager, found from inside.

use super::simulated::{PAGES, Sim, access, contents, sim};
use crate::page::{CHUNK_PAGES, PageIndex, PageRange, PageState, Violation};

/// A manager with active, modified, standby and compressed pages, of which the last chunk belongs to no region any more.
fn mixed() -> Sim {
    let manager = sim(4000, 0, 1);
    for page in PageRange::new(PageIndex::new(0), PAGES).pages() {
        access(&manager, page, |bytes| *bytes = contents(3));
    }
    for (first, step) in [(0, 1), (64, 2), (128, 3)] {
        let range = PageRange::new(PageIndex::new(first), 64);
        manager.trim_range(range);
        if step >= 2 {
            manager.save_range(range);
        }
        if step >= 3 {
            manager.release_range(range);
        }
    }
    let last = PageRange::new(PageIndex::new(2 * CHUNK_PAGES), PAGES - 2 * CHUNK_PAGES);
    manager.trim_range(last);
    manager.close(last).expect("no page is locked");
    assert_eq!(manager.validate(), []);
    manager
}

#[test]
fn each_damage_is_found_from_inside() {
    let manager = mixed();
    let word = |page: u32| manager.table.word(PageIndex::new(page));
    let has = |wanted: &dyn Fn(&Violation) -> bool| manager.validate().iter().any(wanted);

    // A word that no transition writes.
    let compressed = word(128);
    assert_eq!(compressed.load().state(), PageState::Compressed);
    let before = compressed.load().bits();
    compressed.damage(before | 1 << 51);
    assert!(has(&|one| matches!(one, Violation::Word { .. })));
    compressed.damage(before);

    // A page of no region with a state.
    let unowned = word(2 * CHUNK_PAGES + 3);
    unowned.damage(1);
    assert!(has(
        &|one| matches!(one, Violation::Unowned { page, .. } if page.number() == 2 * CHUNK_PAGES + 3)
    ));
    unowned.damage(0);

    // A standby page of another priority than it is counted as.
    let standby = word(64);
    assert_eq!(standby.load().state(), PageState::Standby);
    let before = standby.load();
    standby.damage(before.with_priority(7).bits());
    let wrong = manager.validate();
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(
        wrong.iter().all(
            |one| matches!(one, Violation::Counter { what, .. } if *what == "standby pages by priority")
        )
    );
    standby.damage(before.bits());

    // A pinned range that leaves the regions.
    let beyond = PageRange::new(PageIndex::new(2 * CHUNK_PAGES - 1), 2);
    let pin = manager
        .pins
        .publish(beyond, crate::manager::Purpose::Guard)
        .expect("a free slot");
    assert_eq!(
        manager.validate(),
        [Violation::Pin {
            page: beyond.first,
            count: 2
        }]
    );
    manager.pins.remove(pin);
    assert_eq!(manager.validate(), []);
}
