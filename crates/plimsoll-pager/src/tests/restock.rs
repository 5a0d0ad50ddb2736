//! A thread that faults alone: it restocks spare frames and cleans the store by itself.

use crate::driver::simulated::{Injection, Simulated};
use crate::manager::Manager;
use crate::page::{CHUNK_PAGES, PAGE_SIZE, Page, PageIndex, PageRange};
use crate::saved::SavedCopies;
use crate::store::{FirstCodec, Store, StoreOptions};

/// Pages of the region, three for two that fit into the budget.
const PAGES: u32 = 12 * CHUNK_PAGES;
const RAM: u64 = 8 * CHUNK_PAGES as u64 * PAGE_SIZE as u64;

fn manager() -> Manager<Simulated, SavedCopies> {
    let options = StoreOptions {
        most: RAM,
        limit: RAM,
        first: FirstCodec::Lz4,
    };
    let store = Store::new(&options).expect("there is address space");
    let driver = Simulated::new(PAGES, Injection::new(0, 1));
    let manager = Manager::new(driver, SavedCopies::new(store, RAM), PAGES, RAM).expect("memory");
    let region = PageRange::new(PageIndex::new(0), PAGES);
    manager.open(region).expect("nothing is injected");
    manager
}

/// The next state of a linear congruential generator.
fn next(state: u64) -> u64 {
    state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}

/// A page that LZ4 compresses about 2.5:1.
fn contents(seed: u64) -> Page {
    let mut page = [0; PAGE_SIZE];
    let mut state = seed;
    for byte in &mut page[..1600] {
        state = next(state);
        *byte = (state >> 56) as u8;
    }
    page
}

/// Writes pages in a scattered order, as the only thread; nothing runs the balance-set manager.
fn write_scattered(manager: &Manager<Simulated, SavedCopies>, writes: u64) {
    let mut state = writes;
    for _ in 0..writes {
        state = next(state);
        let page = PageIndex::new((state >> 33) as u32 % PAGES);
        while manager
            .driver
            .access(page, |bytes| *bytes = contents(state))
            .is_none()
        {
            manager.fault(page).expect("nothing is injected");
        }
    }
}

#[test]
fn a_thread_that_faults_alone_always_finds_a_spare_frame() {
    let manager = manager();
    write_scattered(&manager, 4 * u64::from(PAGES));
    let before = manager.stats();
    write_scattered(&manager, 2 * u64::from(PAGES) + 1);
    let after = manager.stats();
    assert!(after.hard_faults > before.hard_faults + 1000, "{after:?}");
    // Without a stock, a fault in 16 trims a batch for itself.
    let reclaims = after.direct_reclaims - before.direct_reclaims;
    assert!(
        reclaims < (after.hard_faults - before.hard_faults) / 160,
        "{reclaims} of {after:?}"
    );
    assert_eq!(after.forced_frames, 0);
    assert_eq!(manager.validate(), []);
}

#[test]
fn the_store_of_a_thread_that_faults_alone_is_mostly_in_use() {
    let manager = manager();
    write_scattered(&manager, 8 * u64::from(PAGES));
    manager.backing.close_segments();
    let store = manager.backing.store_stats();
    let share = store.live as f64 / (store.live + store.dead) as f64;
    assert!(share > 0.78, "{share:.2} of {store:?}");
    manager.backing.validate();
}
