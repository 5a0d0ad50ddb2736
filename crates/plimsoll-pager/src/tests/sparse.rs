//! Sparse regions: chunks that are native while all that is committed fits, or while at most half of the pool is in use.

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

/// Chunks of a region, and of the budget.
const CHUNKS: u32 = 8;
const FITTING: u32 = 5;

/// A member with a grant of five chunks, which announces the use of all eight chunks of its region. Other members have the memory of
/// `others` chunks of the pool, of 16.
fn member(others: u32) -> Sim {
    let driver = Simulated::new(CHUNKS * CHUNK_PAGES, Injection::default());
    let ram = u64::from(FITTING * CHUNK_PAGES) * PAGE_SIZE as u64;
    let all = PageRange::new(PageIndex::new(0), CHUNKS * CHUNK_PAGES);
    let manager = Manager::new(driver, ModelStore::default(), all.count, ram).expect("memory");
    manager.open(all).expect("nothing is injected");
    let pages = |chunks: u32| u64::from(chunks * CHUNK_PAGES);
    manager.need.set_pool(pages(2 * CHUNKS), pages(others));
    manager
        .need
        .set_is_free(false, pages(2 * CHUNKS - FITTING - others));
    manager.commit(all);
    assert_eq!(manager.budget.native(), 0, "it does not fit");
    manager
}

/// Writes to a page as the program does. Returns whether that was a fault.
fn write(manager: &Sim, page: u32) -> bool {
    let page = PageIndex::new(page);
    let value = contents(page.number() as u8);
    let is_fault = manager.driver.access(page, |bytes| *bytes = value).is_none();
    if is_fault {
        manager.commit_touched(page);
        access(manager, page, |bytes| *bytes = value);
    }
    is_fault
}

#[track_caller]
fn assert_written(manager: &Sim, pages: impl Iterator<Item = u32>) {
    for page in pages {
        access(manager, PageIndex::new(page), |bytes| {
            assert!(*bytes == contents(page as u8), "page {page}")
        });
    }
    assert_eq!(manager.validate(), []);
}

/// The table of lines of sort(1) grows downwards: each of its pages was a fault.
#[test]
fn a_descending_fill_of_announced_memory_has_a_fault_for_each_chunk() {
    // With three of its chunks, and its metadata, more than half of the pool would be in use.
    let manager = member(CHUNKS - 3);
    let pages = || (0..CHUNKS * CHUNK_PAGES).rev();
    let faults = |chunks: u32| {
        let first = (CHUNKS - manager.chunks.committed() - chunks) * CHUNK_PAGES;
        let end = (CHUNKS - manager.chunks.committed()) * CHUNK_PAGES;
        (first..end).rev().filter(|page| write(&manager, *page)).count()
    };
    assert_eq!((faults(1), manager.chunks.committed()), (1, 1));
    assert!(!is_native(&manager, 0) && !manager.chunks.has_record(0));
    // All further pages are the pager's.
    assert_eq!(faults(1), 1);
    let native = manager.budget.native();
    assert_eq!(native, u64::from(2 * CHUNK_PAGES));
    assert_eq!(manager.validate(), []);
    let last = CHUNKS - manager.chunks.committed();
    assert!(write(&manager, last * CHUNK_PAGES - 1) && write(&manager, last * CHUNK_PAGES - 2));
    assert_eq!(manager.budget.native(), native);
    // More than the grant.
    pages().for_each(|page| _ = write(&manager, page));
    assert_written(&manager, pages());
    assert_eq!(manager.stats().forced_frames, 0);
}

/// Two threads find the same chunk untouched: one of them commits it, and the budget of the other one is free again.
#[test]
fn threads_that_fault_in_one_announced_chunk_reserve_it_once() {
    for _ in 0..20 {
        let manager = member(0);
        let start = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (manager, start) = (&manager, &start);
                scope.spawn(move || {
                    for chunk in 0..2 {
                        start.wait();
                        write(manager, chunk * CHUNK_PAGES + 7 * thread);
                    }
                });
            }
        });
        let native = u64::from(manager.chunks.committed() * CHUNK_PAGES);
        assert_eq!(manager.budget.native(), native);
        assert_written(
            &manager,
            (0..2).flat_map(|chunk| (0..3).map(move |at| chunk * CHUNK_PAGES + 7 * at)),
        );
    }
}

#[test]
fn a_fault_commits_no_chunk_that_is_not_announced_or_while_half_of_the_pool_is_in_use() {
    let chunk = |number: u32| PageRange::new(PageIndex::new(number * CHUNK_PAGES), CHUNK_PAGES);
    let half = member(CHUNKS);
    let manager = member(0);
    // A chunk is more than half of it.
    let small = member(0);
    small.need.set_pool(u64::from(2 * CHUNK_PAGES - 1), 0);
    let outside = member(0);
    outside.need.set_pool(0, 0);
    // As at the end of a mapping.
    manager.decommit(chunk(1)).expect("nothing is locked");
    for (manager, number, is_committed) in [
        (&half, 0, false),
        (&small, 0, false),
        (&outside, 0, false),
        (&manager, 1, false),
        (&manager, 2, true),
    ] {
        assert!(write(manager, number * CHUNK_PAGES));
        assert_eq!(is_native(manager, number), is_committed);
        assert_eq!(manager.validate(), []);
    }
}

/// A child of a fork shares the native chunks of its parent, which pays for the pages in them.
#[test]
fn pages_that_the_parent_pays_for_are_in_use_once() {
    // With two of its chunks, and its metadata, more than half of the pool would be in use.
    let manager = member(CHUNKS - 2);
    let written = |chunk: u32| write(&manager, chunk * CHUNK_PAGES) && is_native(&manager, chunk);
    assert!(written(0) && !written(1));
    let chunk = u64::from(CHUNK_PAGES) * PAGE_SIZE as u64;
    manager.set_ram_beside(u64::from(FITTING) * chunk, chunk, 0);
    assert!(written(2) && !written(3));
    assert_eq!(manager.validate(), []);
}

/// A member whose grant has no room for chunk `FITTING`. Does `work` while a thread waits for the pages of that chunk, before its first
/// use.
fn during_a_wait(work: impl FnOnce(&Sim)) -> Sim {
    let manager = member(0);
    (0..FITTING).for_each(|chunk| assert!(write(&manager, chunk * CHUNK_PAGES)));
    manager.need.set_can_be_met(true);
    manager.need.set_is_free(true, u64::from(CHUNKS * CHUNK_PAGES));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| manager.commit_touched(PageIndex::new(FITTING * CHUNK_PAGES)));
        while !manager.need.is_wished() && !waiting.is_finished() {
            std::thread::yield_now();
        }
        work(&manager);
    });
    manager
}

/// A thread waited in vain for as many pages again when another one had used a page of the chunk, or had committed it; and after a
/// vain wait, no thread waits for a second.
#[test]
fn a_wait_for_the_pages_of_a_chunk_ends_when_another_thread_was_first() {
    let is_right = |_: u32| {
        let manager = during_a_wait(|manager| {
            access(manager, PageIndex::new(FITTING * CHUNK_PAGES), |bytes| {
                bytes.fill(5)
            });
        });
        assert!(!is_native(&manager, FITTING) && manager.validate().is_empty());
        let wish = manager.need.wish(1, plimsoll_os::coarse_milliseconds());
        wish.is_some()
    };
    // The other thread may come too late on a busy machine.
    assert!((0..20).any(is_right));
}

/// Memory that the program unmaps meanwhile would stay native: nothing uses it, nor decommits it again.
#[test]
fn a_chunk_that_is_decommitted_during_the_wait_for_its_pages_stays_managed() {
    let manager = during_a_wait(|manager| {
        let chunk = PageRange::new(PageIndex::new(FITTING * CHUNK_PAGES), CHUNK_PAGES);
        manager.decommit(chunk).expect("nothing is locked");
        manager.set_ram(u64::from(CHUNKS * CHUNK_PAGES) * PAGE_SIZE as u64);
    });
    assert!(!is_native(&manager, FITTING));
    let native = u64::from((FITTING - 1) * CHUNK_PAGES);
    assert_eq!(manager.budget.native(), native);
    assert_eq!(manager.validate(), []);
}

/// A program that uses a page of each chunk would keep the pages of all others from the pool.
#[test]
fn chunks_that_are_mostly_unused_are_given_up_while_the_pool_is_scarce() {
    let manager = member(0);
    let first = |chunk: u32| chunk * CHUNK_PAGES;
    (0..CHUNKS).for_each(|chunk| assert!(write(&manager, first(chunk))));
    let committed = manager.chunks.committed();
    // The stock of spare frames is a part of the fifth.
    assert_eq!(committed, FITTING - 1);
    (first(0)..first(1)).for_each(|page| _ = write(&manager, page));
    // No page of the pool is free, as this member alone has a grant of all of them: the others can have those that it does not use.
    manager.need.set_is_free(false, 0);
    manager.age();
    assert_eq!(manager.chunks.committed(), committed, "the pool is not in use");
    manager.need.set_pool(
        u64::from(2 * CHUNKS * CHUNK_PAGES),
        u64::from((CHUNKS + 3) * CHUNK_PAGES),
    );
    manager.age();
    assert_eq!((manager.chunks.committed(), is_native(&manager, 0)), (1, true));
    let frames = u64::from(CHUNKS - 1);
    assert_eq!(
        (manager.budget.native(), manager.budget.frames()),
        (CHUNK_PAGES.into(), frames)
    );
    assert_written(&manager, (first(0)..first(1)).chain((1..CHUNKS).map(first)));
    // They have records now.
    manager.need.set_pool(u64::from(2 * CHUNKS * CHUNK_PAGES), 0);
    assert!(write(&manager, first(1) + 1) && !is_native(&manager, 1));
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
