//! Kernels that cannot move pages, and pages that a kernel does not move.

use proptest::prelude::*;

use super::simulated::{Sim, access, cases, contents, inject, race, run, sim, sim_of_kernel, step};
use crate::page::{PageIndex, PageRange, PageState};

/// A manager on a kernel without `UFFDIO_MOVE`.
fn old(ram_pages: u64, per_mille: u32, seed: u64) -> Sim {
    sim_of_kernel(ram_pages, per_mille, seed, false)
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn contents_hold_without_moves(
        steps in prop::collection::vec(step(), 1..150),
        seed in 1_u64..,
        per_mille in 0_u32..300,
    ) {
        drop(run(&old(300, per_mille, seed), &steps));
    }
}

/// Among the errors are writes of a thread of the program between the copy of a page and its end in the arena.
#[test]
fn ten_thousand_injected_errors_cost_no_byte_without_moves() {
    const KINDS: usize = 14;
    inject(10_000, KINDS, |ram, seed| old(ram, 200, seed));
}

/// A writer comes between the steps of a copy: it waits, or its write is copied.
#[test]
fn writers_race_with_copies_and_lose_nothing() {
    race(&old(300, 100, 77));
}

#[test]
fn a_copy_has_two_frames_of_few_pages_at_a_time() {
    let manager = old(4000, 0, 1);
    let pages = PageRange::new(PageIndex::new(0), 200);
    for page in pages.pages() {
        access(&manager, page, |bytes| *bytes = contents(3));
    }
    assert_eq!(manager.trim_range(pages), pages.count);
    let (resident, most) = manager.driver.resident_and_most();
    assert_eq!(resident, u64::from(pages.count));
    assert!(most <= resident + 4, "{most}");
}

#[test]
fn a_page_that_a_fork_shares_is_trimmed_at_the_second_try() {
    let manager = sim(4000, 0, 1);
    let page = PageIndex::new(7);
    access(&manager, page, |bytes| *bytes = contents(3));
    manager.driver.set_shared(page);
    let trimmed: u32 = (0..4).map(|_| manager.trim_active(1)).sum();
    assert_eq!((trimmed, manager.stats().unmovable_pages), (0, 1));
    assert_eq!(manager.trim_active(1), 1);
    assert_eq!(manager.stats().unshared_pages, 1);

    // A caller that names the page waits for no lap.
    access(&manager, page, |bytes| assert!(*bytes == contents(3)));
    manager.driver.set_shared(page);
    assert_eq!(manager.trim_range(PageRange::new(page, 1)), 1);
    access(&manager, page, |bytes| assert!(*bytes == contents(3)));
    assert_eq!(manager.validate(), []);
}

#[test]
fn a_page_that_a_device_pinned_stays_and_is_tried_less_and_less() {
    let manager = sim(4000, 0, 1);
    let page = PageIndex::new(7);
    access(&manager, page, |bytes| *bytes = contents(3));
    manager.driver.set_unmovable(page, true);
    let tries = |laps: u32| {
        let before = manager.stats().unmovable_pages;
        (0..laps).for_each(|_| assert_eq!(manager.trim_active(1), 0));
        manager.stats().unmovable_pages - before
    };
    assert_eq!(tries(4), 1);
    assert_eq!(tries(15), 1);
    assert_eq!(tries(15), 1);
    assert_eq!(manager.table.word(page).load().state(), PageState::Active);
    manager.driver.set_unmovable(page, false);
    assert_eq!(manager.trim_range(PageRange::new(page, 1)), 1);
    assert_eq!(manager.validate(), []);
}
