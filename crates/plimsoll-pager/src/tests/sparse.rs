//! Sparse regions: chunks that are native while all that is committed fits.

use plimsoll_os::Errno;

use super::simulated::{Sim, access, contents, sim};
use crate::backing::model::ModelStore;
use crate::driver::simulated::{Injection, Simulated};
use crate::manager::{Manager, Purpose};
use crate::page::{CHUNK_PAGES, ChunkMode, PAGE_SIZE, PageIndex, PageRange, PageState};

/// A page of each chunk that is committed or not, by number of the chunk: whether the kernel resolves its fault.
fn is_native(manager: &Sim, chunk: u32) -> bool {
    manager.chunks.mode(chunk) == ChunkMode::Native
}

#[test]
fn a_sparse_region_is_native_while_all_that_is_committed_fits() {
    let manager = sim(900, 0, 1);
    let chunk = |number: u32| PageRange::new(PageIndex::new(number * CHUNK_PAGES), CHUNK_PAGES);
    manager.commit(PageRange::new(PageIndex::new(5), 1));
    assert!(is_native(&manager, 0) && manager.budget.native() == u64::from(CHUNK_PAGES));
    for page in 0..100 {
        let written = manager
            .driver
            .access(PageIndex::new(page), |bytes| *bytes = contents(3));
        assert!(written.is_some(), "the fault of page {page} comes to the pager");
    }
    assert_eq!(manager.validate(), []);
    // Both together do not fit: the pages in use are counted from here on, and then the second one does.
    manager.commit(chunk(1));
    assert!(!is_native(&manager, 0) && is_native(&manager, 1));
    assert_eq!(
        (manager.budget.native(), manager.budget.frames()),
        (u64::from(CHUNK_PAGES), 100)
    );
    assert_eq!(manager.validate(), []);
    // Untouched pages of it are given up before a page is trimmed.
    for page in 100..CHUNK_PAGES {
        access(&manager, PageIndex::new(page), |bytes| *bytes = contents(3));
    }
    assert!(!is_native(&manager, 1) && !manager.chunks.has_record(1));
    assert!(manager.stats().active_pages > 400, "{:?}", manager.stats());
    // It may be committed again when there is room.
    manager.discard(chunk(0)).expect("nothing is locked");
    manager.commit(chunk(1));
    assert!(is_native(&manager, 1));
    access(&manager, PageIndex::new(CHUNK_PAGES), |bytes| {
        *bytes = contents(5)
    });
    manager.decommit(chunk(1)).expect("nothing is locked");
    assert_eq!((manager.budget.native(), manager.budget.frames()), (0, 0));
    access(&manager, PageIndex::new(CHUNK_PAGES), |bytes| {
        assert_eq!(bytes[0], 0)
    });
    assert_eq!(manager.validate(), []);
}

/// A system call uses pinned pages, and may fail where their faults come to the pager.
#[test]
fn pinned_pages_of_a_native_chunk_are_present_before_it_is_managed() {
    let manager = sim(900, 0, 1);
    manager.commit(PageRange::new(PageIndex::new(0), CHUNK_PAGES));
    let pinned = PageRange::new(PageIndex::new(CHUNK_PAGES - 5), 10);
    let pin = manager.pins.publish(pinned, Purpose::Guard).expect("a free slot");
    let is_active = |page: PageIndex| manager.table.word(page).load().state() == PageState::Active;
    // The program has no right to them: a page that was used is present, the others are not.
    manager.driver.access(pinned.first, |bytes| *bytes = contents(3));
    manager.driver.set_read_only(true);
    assert!(!manager.manage(PageIndex::new(0)) && is_native(&manager, 0));
    assert_eq!(manager.trim_active(100), 0);
    assert!(is_native(&manager, 0) && manager.validate().is_empty());
    manager.driver.set_read_only(false);
    assert!(manager.manage(PageIndex::new(0)) && !is_native(&manager, 0));
    assert!(pinned.pages().take(5).all(is_active));
    assert_eq!((manager.trim_active(100), manager.budget.frames()), (0, 5));
    manager.pins.remove(pin);
    assert_eq!(manager.trim_active(100), 5);
    access(&manager, pinned.first, |bytes| assert!(*bytes == contents(3)));
    assert_eq!(manager.validate(), []);
}

/// The chunk of a pinned page that stays absent is managed when the pin has ended.
#[test]
fn a_chunk_with_an_absent_pinned_page_is_managed_later() {
    let manager = sim(900, 0, 1);
    let chunk = PageRange::new(PageIndex::new(0), CHUNK_PAGES);
    manager.commit(chunk);
    manager.driver.set_read_only(true);
    let pin = manager
        .pins
        .publish(PageRange::new(PageIndex::new(7), 1), Purpose::Guard)
        .expect("a free slot");
    assert_eq!(
        manager.surrender(PageRange::new(PageIndex::new(8), 1)),
        Err(Errno::NOMEM)
    );
    manager.give_up_committed(u32::MAX);
    assert!(is_native(&manager, 0) && manager.chunks.committed() == 1);
    manager.pins.remove(pin);
    manager.give_up_committed(u32::MAX);
    assert!(!is_native(&manager, 0) && manager.chunks.committed() == 0);
    assert_eq!(manager.validate(), []);
}

/// A page that the program has locked in RAM does not go: its chunk keeps it, and its charge.
#[test]
fn a_committed_chunk_with_a_locked_page_keeps_it() {
    let manager = sim(900, 0, 1);
    let chunk = PageRange::new(PageIndex::new(0), CHUNK_PAGES);
    manager.commit(chunk);
    let page = PageIndex::new(7);
    access(&manager, page, |bytes| *bytes = contents(5));
    manager.driver.set_locked(Some(page));
    assert_eq!(manager.decommit(chunk), Err(Errno::INVAL));
    assert_eq!((manager.budget.native(), manager.budget.frames()), (0, 1));
    assert_eq!(manager.validate(), []);
    manager.driver.set_locked(None);
    access(&manager, page, |bytes| assert!(*bytes == contents(5)));
}

/// A region of 256 GiB of which two chunks are in use.
#[test]
fn the_work_of_a_sparse_region_is_for_the_chunks_in_use() {
    const CHUNKS: u32 = 1 << 17;
    let driver = Simulated::new(CHUNK_PAGES, Injection::default());
    let ram = 300 * PAGE_SIZE as u64;
    let pages = CHUNKS * CHUNK_PAGES;
    let manager = Manager::new(driver, ModelStore::default(), pages, ram).expect("addresses");
    let before = manager.metadata_bytes();
    manager
        .chunks
        .open_sparse(PageRange::new(PageIndex::new(0), pages));
    let page = PageIndex::new(7);
    access(&manager, page, |bytes| *bytes = contents(3));
    assert_eq!(manager.fault(page), Ok(()));
    assert_eq!(manager.chunks.with_records().count(), 1);
    assert!(manager.metadata_bytes() - before <= 3 * PAGE_SIZE as u64);
}
