//! The budget while pages fault: never exceeded but where nothing can be saved.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_os::Errno;

use super::simulated::{PAGES, Sim, access, contents, end_injection, sim};
use crate::backing::model::ModelStore;
use crate::driver::simulated::{Injection, Simulated};
use crate::fault::FaultError;
use crate::manager::{Manager, TrimMode};
use crate::page::{CHUNK_PAGES, PAGE_SIZE, PageIndex, PageRange, PageState};
use crate::stats::Stats;

#[test]
fn a_region_larger_than_the_budget_stays_within_it() {
    // 300 frames for 1124 pages that shrink to a few bytes each.
    let manager = sim(300, 0, 1);
    for round in 1..=3_u8 {
        for page in 0..PAGES {
            access(&manager, PageIndex::new(page), |bytes| bytes.fill(round));
            let resident = manager.driver.resident() * PAGE_SIZE as u64 + manager.overhead_bytes();
            assert!(
                resident <= 300 * PAGE_SIZE as u64,
                "{resident} bytes after page {page}"
            );
        }
    }
    assert_eq!(manager.budget.forced(), 0);
    assert_eq!(manager.validate(), []);
}

#[test]
fn sixteen_faulting_threads_never_have_more_frames_than_the_budget() {
    const THREADS: u32 = 16;
    let manager = sim(500, 50, 3);
    let most = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let used = manager.driver.resident() * PAGE_SIZE as u64 + manager.overhead_bytes();
                most.fetch_max(used, Ordering::Relaxed);
            }
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|worker| {
                let manager = &manager;
                scope.spawn(move || {
                    for round in 1..=6_u8 {
                        for page in (worker..PAGES).step_by(THREADS as usize) {
                            access(manager, PageIndex::new(page), |bytes| bytes.fill(round));
                        }
                    }
                })
            })
            .collect();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.expect("no panic"));
    });
    let (most, ram) = (most.load(Ordering::Relaxed), manager.budget.ram());
    assert!(most <= ram / 100 * 102, "{most} bytes of {ram}");
    assert_eq!(manager.budget.forced(), 0);
    end_injection(&manager);
    assert_eq!(manager.validate(), []);
}

/// A scan over twice the budget: in the per-fault mode each fault at the cap pays a trim, a save and a release of one
/// frame. Streams once restored pages ahead into the frames that the trims had freed, and the trims took a batch whenever
/// the store had grown by a page.
#[test]
fn the_per_fault_mode_trims_a_page_a_fault_and_keeps_no_stock() {
    const ROUNDS: u8 = 3;
    let scan = |mode, after_access: fn(&Sim, &Stats, u64)| {
        let manager = sim(600, 0, 1);
        manager.set_trim_mode(mode);
        for round in 1..=ROUNDS {
            for page in 0..PAGES {
                let (before, excess) = (manager.stats(), manager.budget.excess(manager.overhead_bytes()));
                access(&manager, PageIndex::new(page), |bytes| *bytes = contents(round));
                after_access(&manager, &before, excess);
            }
        }
        assert_eq!(manager.validate(), []);
        manager.stats()
    };
    let per_fault = scan(TrimMode::PerFault, |manager, before, excess| {
        let now = manager.stats();
        let trimmed = now.trimmed_pages - before.trimmed_pages;
        let overhead = |stats: &Stats| stats.store_bytes + stats.metadata_bytes;
        let displaced = overhead(&now).saturating_sub(overhead(before)) / PAGE_SIZE as u64 + 1;
        assert!(
            trimmed <= 1 + excess + displaced,
            "{trimmed} pages for a fault: {now:?}"
        );
        assert_eq!((now.modified_pages, now.standby_pages), (0, [0; 8]));
        assert!(
            trimmed == 0 || manager.spare_frames() <= 1,
            "a fault leaves no stock"
        );
    });
    let balanced = scan(TrimMode::BalanceSet, |_, _, _| ());
    // Every frame came by a fault and, but for the last ones, went by a trim.
    let faults = per_fault.zero_faults + per_fault.hard_faults;
    assert_eq!(faults, u64::from(PAGES) * u64::from(ROUNDS));
    assert_eq!(per_fault.trimmed_pages, faults - per_fault.active_pages);
    assert_eq!(per_fault.released_frames, per_fault.trimmed_pages);
    assert_eq!((per_fault.stream_pages, per_fault.taken_frames), (0, 0));
    assert!(
        balanced.released_frames < per_fault.released_frames / 4,
        "{balanced:?}"
    );
}

#[test]
fn a_full_store_exceeds_the_budget_and_says_so() {
    let driver = Simulated::new(CHUNK_PAGES, Injection::default());
    let store = ModelStore::with_capacity(1000);
    let ram = 64 * PAGE_SIZE as u64;
    let manager = Manager::new(driver, store, CHUNK_PAGES, ram).expect("memory");
    manager
        .open(PageRange::new(PageIndex::new(0), 300))
        .expect("a small region");
    for page in 0..300 {
        access(&manager, PageIndex::new(page), |bytes| {
            *bytes = contents(page as u8)
        });
    }
    assert!(manager.budget.forced() > 100);
    for page in 0..300 {
        access(&manager, PageIndex::new(page), |bytes| {
            assert!(*bytes == contents(page as u8))
        });
    }
    assert_eq!(manager.validate(), []);
}

/// A page that no try made present was "out of memory", whatever the kernel had said.
#[test]
fn after_all_tries_a_fault_has_the_reason_of_the_last_refusal() {
    let page = PageIndex::new(7);
    let refusals = [
        (Errno::NOMEM, FaultError::NoMemory),
        (Errno::FAULT, FaultError::Refused(Errno::FAULT)),
        (Errno::AGAIN, FaultError::Refused(Errno::AGAIN)),
        // No outcome of a page that is present.
        (Errno::EXIST, FaultError::Refused(Errno::EXIST)),
    ];
    for (errno, expected) in refusals {
        let manager = sim(300, 0, 1);
        manager.driver.refuse_copies(Some(errno));
        assert_eq!(manager.fault(page), Err(expected));
        assert_eq!(manager.table.word(page).load().state(), PageState::Virgin);
        assert_eq!((manager.budget.frames(), manager.validate()), (0, vec![]));
        manager.driver.refuse_copies(None);
        access(&manager, page, |bytes| *bytes = contents(3));
        assert_eq!(manager.validate(), []);
    }
}
