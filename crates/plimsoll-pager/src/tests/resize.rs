//! Changes of the budget, and the use of memory that a pager reports to its pool, over the simulated driver.

use std::time::Duration;

use super::simulated::{PAGES, Sim, access, contents, sim};
use crate::backing::model::ModelStore;
use crate::driver::simulated::{Injection, Simulated};
use crate::driver::{Area, Driver};
use crate::manager::Manager;
use crate::page::{CHUNK_PAGES, PAGE_SIZE, PageIndex, PageRange, PageState};

const PAGE: u64 = PAGE_SIZE as u64;

fn write_all(manager: &Sim, pages: u32) {
    for page in 0..pages {
        access(manager, PageIndex::new(page), |bytes| {
            *bytes = contents(page as u8)
        });
    }
}

#[track_caller]
fn check_all(manager: &Sim, pages: u32) {
    for page in 0..pages {
        let page = PageIndex::new(page);
        let bytes = access(manager, page, |bytes| *bytes);
        let mut expected = contents(page.number() as u8);
        // A thread of the program that wrote at the moment of a move.
        if let Some(word) = manager.driver.raced(page) {
            expected[PAGE_SIZE - 8..].copy_from_slice(&word.to_ne_bytes());
        }
        assert!(bytes == expected, "{page:?}");
    }
}

/// Shrinks until the budget is there, as the balance-set manager does by its ticks.
fn shrink(manager: &Sim) {
    let calls = (0..1000).take_while(|_| !manager.shrink()).count();
    assert!(calls < 1000, "the budget never came to its target");
}

fn resident(manager: &Sim) -> u64 {
    manager.driver.resident() * PAGE + manager.overhead_bytes()
}

#[test]
fn a_budget_shrinks_to_its_target_and_grows_at_once() {
    for per_mille in [0, 100] {
        let manager = sim(2000, 0, 1);
        write_all(&manager, PAGES);
        manager.driver.inject(per_mille);
        // Half of the contents do not compress.
        for ram in [900 * PAGE, 800 * PAGE, 1500 * PAGE, 850 * PAGE] {
            manager.set_ram(ram);
            shrink(&manager);
            assert_eq!((manager.budget.ram(), manager.budget.target()), (ram, ram));
            assert!(
                resident(&manager) <= ram,
                "{} of {ram}: {:?}",
                resident(&manager),
                manager.stats()
            );
            check_all(&manager, PAGES);
            assert!(resident(&manager) <= ram, "{} of {ram}", resident(&manager));
        }
        assert_eq!(manager.budget.forced(), 0);
        manager.driver.inject(0);
        assert_eq!(manager.validate(), []);

        manager.set_ram(2000 * PAGE);
        check_all(&manager, PAGES);
        let before = manager.stats();
        check_all(&manager, PAGES);
        let after = manager.stats();
        assert_eq!(
            (after.hard_faults, after.trimmed_pages),
            (before.hard_faults, before.trimmed_pages),
            "all of it fits"
        );
    }
}

#[test]
fn shared_frames_leave_the_budget_when_they_are_released_taken_copied_or_dropped() {
    let manager = sim(2000, 0, 1);
    // Contents that compress well.
    for page in 0..200 {
        access(&manager, PageIndex::new(page), |bytes| bytes.fill(page as u8));
    }
    let pages = PageRange::new(PageIndex::new(0), 100);
    assert_eq!(manager.trim_range(pages), 100);
    while manager.save_modified(100).pages > 0 {}
    pages
        .pages()
        .for_each(|page| manager.driver.set_frame_shared(page));
    // The other chunks reserve pages while they are native.
    let native = PageRange::new(PageIndex::new(CHUNK_PAGES), PAGES - CHUNK_PAGES);
    manager.trim_range(native);
    let grant = 104 * PAGE + manager.overhead_bytes();
    manager.set_ram_beside(grant, 100 * PAGE, 0);
    manager.shrink();
    let left = || (manager.budget.target() - grant) / PAGE;
    assert_eq!(left(), 100);

    let released = u64::from(manager.release_standby(10));
    assert!(released >= 10);
    assert_eq!(left(), 100 - released);

    let before = left();
    let standby = |page: &PageIndex| manager.table.word(*page).load().state() == PageState::Standby;
    let copied = pages.pages().find(standby).expect("some are left");
    access(&manager, copied, |bytes| {
        assert_eq!(bytes[0], copied.number() as u8)
    });
    assert_eq!((left(), manager.stats().copied_frames), (before - 1, 1));

    let before = left();
    let dropped = pages.pages().find(standby).expect("some are left");
    manager
        .discard(PageRange::new(dropped, 1))
        .expect("nothing pins it");
    assert_eq!(left(), before - 1);

    let (before, taken) = (left(), manager.stats().taken_frames);
    for page in 200..230 {
        access(&manager, PageIndex::new(page), |bytes| bytes.fill(page as u8));
    }
    let taken = manager.stats().taken_frames - taken;
    assert!(taken > 0, "{:?}", manager.stats());
    assert!(left() <= before - taken, "{} of {before}, {taken} taken", left());
    assert_eq!(manager.validate(), []);
}

/// The stock of spare frames was a part of the budget with the pages of the parent: the balance-set manager of a child tried to trim
/// each of them, for nothing.
#[test]
fn pages_of_the_parent_need_no_stock_of_spare_frames() {
    const COUNT: u32 = 12 * CHUNK_PAGES;
    let driver = Simulated::new(COUNT, Injection::default());
    let manager = Manager::new(driver, ModelStore::default(), COUNT, 20_000 * PAGE).expect("memory");
    let all = PageRange::new(PageIndex::new(0), COUNT);
    manager.open(all).expect("a small region");
    write_all(&manager, COUNT);
    // Managed, as those of a child are.
    manager.shrink();
    all.pages().for_each(|page| {
        manager.manage(page);
        manager.driver.set_shared(page);
    });
    let grant = 130 * PAGE + manager.overhead_bytes();
    manager.set_ram_beside(grant, u64::from(COUNT) * PAGE, 0);
    shrink(&manager);
    let spare = manager.spare_frames();
    assert!(
        (64..manager.budget.ram() / PAGE / 64).contains(&spare),
        "enough for {grant} bytes and not for all pages: {spare}"
    );
    let before = manager.stats();
    manager.balance();
    let after = manager.stats();
    assert_eq!(after.unmovable_pages, before.unmovable_pages);
    assert_eq!(after.trimmed_pages, before.trimmed_pages);
}

#[test]
fn memory_above_a_size_is_released_in_steps() {
    let manager = sim(2000, 0, 1);
    write_all(&manager, 1000);
    let mut steps = 0;
    while manager.release_above(500 * PAGE) {
        steps += 1;
    }
    assert!(steps > 1, "{steps}");
    let end = manager.resident_bytes();
    assert!((450 * PAGE..=500 * PAGE).contains(&end), "{end}");
    check_all(&manager, 1000);
    assert_eq!((manager.validate(), manager.budget.ram()), (vec![], 2000 * PAGE));
}

#[test]
fn native_pages_that_were_never_touched_are_given_up_first() {
    let manager = sim(2000, 0, 1);
    write_all(&manager, 10);
    assert_eq!(manager.budget.native(), u64::from(PAGES));
    manager.set_ram(100 * PAGE);
    shrink(&manager);
    assert_eq!((manager.budget.native(), manager.budget.frames()), (0, 10));
    check_all(&manager, 10);
    assert_eq!(manager.validate(), []);
}

/// Faults took the frames of copies that a trim had made of shared pages, while the budget still had room for the parent's: the process
/// exceeded its grant until the next look at the shared pages.
#[test]
fn copies_of_pages_that_the_parent_pays_for_are_within_the_grant() {
    let manager = sim(2000, 0, 1);
    // Contents that compress well.
    let fill = |page: u32| access(&manager, PageIndex::new(page), |bytes| bytes.fill(page as u8));
    (0..500).for_each(fill);
    for page in 0..300 {
        manager.driver.set_shared(PageIndex::new(page));
    }
    let (grant, inherited) = (300 * PAGE, 300 * PAGE);
    manager.set_ram_beside(grant, inherited, 0);
    shrink(&manager);
    assert_eq!(manager.budget.ram(), grant + inherited);
    let all = PageRange::new(PageIndex::new(0), PAGES);
    let shared = || manager.driver.shared(Area::Arena, all) * PAGE;
    let own = || resident(&manager) - shared();
    // The trimmer passes shared pages at first.
    for page in (500..PAGES).cycle().take(8 * PAGES as usize) {
        fill(page);
        assert!(own() <= grant, "{} pages: {:?}", own() / PAGE, manager.stats());
    }
    let left = shared();
    assert!(left < inherited, "no shared page was trimmed");
    assert_eq!(manager.budget.target(), grant + left);
    // A look that began before the copies were made.
    manager.set_ram_beside(grant, inherited, 0);
    assert_eq!(manager.budget.target(), grant + left);
    for page in 0..PAGES {
        let first = access(&manager, PageIndex::new(page), |bytes| bytes[0]);
        assert_eq!(first, page as u8);
    }
    assert_eq!((manager.validate(), manager.budget.forced()), (vec![], 0));
}

#[test]
fn a_target_that_cannot_be_met_keeps_the_contents_and_ends() {
    let driver = Simulated::new(CHUNK_PAGES, Injection::default());
    let store = ModelStore::with_capacity(1000);
    let manager = Manager::new(driver, store, CHUNK_PAGES, 600 * PAGE).expect("memory");
    manager
        .open(PageRange::new(PageIndex::new(0), 300))
        .expect("a small region");
    write_all(&manager, 300);
    // Pages whose only copy is their frame: a store of 64 pages holds some of them.
    manager.set_ram(64 * PAGE);
    shrink(&manager);
    assert_eq!(manager.budget.ram(), 64 * PAGE);
    assert!(resident(&manager) > 64 * PAGE);
    check_all(&manager, 300);
    manager.set_ram(600 * PAGE);
    check_all(&manager, 300);
    assert_eq!(manager.validate(), []);
}

#[test]
fn the_reported_use_covers_evicted_pages_and_counts_each_refault() {
    let manager = sim(500, 0, 1);
    // Contents that compress well.
    for page in 0..800 {
        access(&manager, PageIndex::new(page), |bytes| bytes.fill(page as u8));
    }
    let before = manager.stats();
    assert_eq!(before.refaults, before.hard_faults);
    for page in (0..800).step_by(3) {
        access(&manager, PageIndex::new(page), |bytes| {
            assert_eq!(bytes[9], page as u8);
        });
    }
    let stats = manager.stats();
    assert!(stats.hard_faults > before.hard_faults);
    let hard = stats.hard_faults - before.hard_faults;
    // Pages of a stream are refaults too, without a fault of their own.
    assert!((hard..=hard + stats.stream_pages).contains(&(stats.refaults - before.refaults)));
    assert!(stats.stall_us > 0);
    let usage = manager.usage();
    assert!(usage.stall > Duration::ZERO);
    assert!(usage.resident <= 500 * PAGE && usage.resident > 400 * PAGE);
    assert!(usage.wanted >= 800 * PAGE && usage.wanted < 1000 * PAGE);
}

/// A loop over more pages than frames, trimmed in its order, refaults each page once a lap: as many evictions lie between as
/// pages are missing.
#[test]
fn the_distances_of_a_loop_are_those_of_its_missing_pages() {
    let manager = sim(300, 0, 1);
    for _ in 0..5 {
        for page in 0..600 {
            access(&manager, PageIndex::new(page), |bytes| bytes.fill(1));
        }
    }
    let counts = manager.refaults.distances().counts();
    let refaults: u64 = counts.iter().sum();
    assert!(refaults > 2000, "{counts:?}");
    // Above 256, up to 512 evictions.
    assert!(counts[9] > refaults * 9 / 10, "{counts:?}");
}
