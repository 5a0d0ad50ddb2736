//! Pins while their pages are restored.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_os::Errno;

use super::real::{bytes, fill};
use crate::backing::model::ModelStore;
use crate::backing::{Backing, Damaged, PutError};
use crate::engine::{Engine, TrimTo};
use crate::error::{FaultError, RangeError};
use crate::page::{Page, PageIndex, PageRange, Place, Tier};

const MIB: usize = 1 << 20;

/// A store whose copies are read once the test allows it.
#[derive(Default)]
struct SlowStore {
    copies: ModelStore,
    is_slow: AtomicBool,
    /// Reads that wait.
    waiting: AtomicUsize,
}

impl Backing for SlowStore {
    fn put(&self, owner: PageIndex, page: &Page) -> Result<Place, PutError> {
        self.copies.put(owner, page)
    }

    fn get(&self, owner: PageIndex, place: Place, page: &mut Page) -> Result<(), Damaged> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while self.is_slow.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.copies.get(owner, place, page)
    }

    fn free(&self, owner: PageIndex, place: Place) {
        self.copies.free(owner, place);
    }

    fn tier(&self, place: Place) -> Tier {
        self.copies.tier(place)
    }

    fn clean(&self, bytes: u64, relocate: &mut dyn FnMut(PageIndex, Place, Place) -> bool) -> bool {
        self.copies.clean(bytes, relocate)
    }

    fn identity(&self, owner: PageIndex, place: Place) -> Option<u64> {
        self.copies.identity(owner, place)
    }

    fn used_bytes(&self) -> u64 {
        self.copies.used_bytes()
    }

    fn set_limit(&self, bytes: u64) {
        self.copies.set_limit(bytes);
    }
}

/// A pager, and pages of it that are in the store alone.
fn engine_and_pages() -> (Engine<SlowStore>, PageRange) {
    let options = super::modes::of_this_process();
    let engine = Engine::new(1 << 18, 16 << 20, SlowStore::default(), options);
    let engine = engine.expect("userfaultfd is allowed");
    // More than the budget: the kernel resolves no fault.
    let region = engine.map(64 * MIB).expect("addresses are free");
    let pages = PageRange::new(region.first, 16);
    fill(bytes(&engine, pages), 0, 1);
    assert_eq!(engine.trim(pages, TrimTo::Store), pages.count);
    (engine, pages)
}

/// The result of `work`, and that of `look` while `work` waits for the store.
fn during_a_read<T: Send, L>(
    engine: &Engine<SlowStore>,
    work: impl FnOnce() -> T + Send,
    look: impl FnOnce() -> L,
) -> (T, L) {
    let store = &engine.manager().backing;
    store.is_slow.store(true, Ordering::SeqCst);
    thread::scope(|scope| {
        let thread = scope.spawn(work);
        while store.waiting.load(Ordering::SeqCst) == 0 && !thread.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        let seen = look();
        store.is_slow.store(false, Ordering::SeqCst);
        (thread.join().expect("no panic"), seen)
    })
}

/// 32 threads whose faults took long had all pins for a moment: calls of other threads failed with `EFAULT` after five seconds.
#[test]
fn a_pin_for_a_moment_has_no_slot_while_its_page_is_restored() {
    let (engine, pages) = engine_and_pages();
    let pins = &engine.manager().pins;
    let pin = || engine.pin_for_a_moment(pages.first);
    let (pin, pinned) = during_a_read(&engine, pin, || pins.pages());
    assert_eq!(pinned, 0);
    let pin = pin.expect("32 slots are free");
    let page = PageRange::new(pages.first, 1);
    assert!(engine.is_pinned(page) && engine.is_active(page));
    engine.trim(page, TrimTo::Store);
    assert!(engine.is_active(page));
    engine.unpin(pin);
    assert_eq!(pins.pages(), 0);
    engine.trim(page, TrimTo::Store);
    assert!(!engine.is_active(page));
}

/// Another thread found the range kept while its pages were absent.
#[test]
fn a_range_is_kept_once_its_pages_are_present() {
    let (engine, pages) = engine_and_pages();
    let pins = &engine.manager().pins;
    let keep = || engine.pin_for_ever(pages, pages);
    let (kept, early) = during_a_read(&engine, keep, || pins.is_kept(pages));
    assert_eq!((kept, early), (Ok(()), false));
    assert!(pins.is_kept(pages) && engine.is_active(pages));
    assert_eq!(pins.kept_pages(), u64::from(pages.count));
}

#[test]
fn a_range_with_a_damaged_page_is_not_kept() {
    let (engine, pages) = engine_and_pages();
    let pins = &engine.manager().pins;
    engine
        .manager()
        .backing
        .copies
        .damage(PageIndex::new(pages.first.number() + 1));
    let kept = engine.pin_for_ever(pages, pages);
    assert!(matches!(kept, Err(RangeError::PinTooLarge { .. })), "{kept:?}");
    assert_eq!((pins.pages(), pins.kept_pages()), (0, 0));
    assert!(!pins.is_kept(PageRange::new(pages.first, 1)));
}

/// A system call that another thread unmaps its memory from.
#[test]
fn a_page_of_a_closed_region_is_not_pinned() {
    for size in [MIB, 64 * MIB] {
        let options = super::modes::of_this_process();
        let engine = Engine::new(1 << 18, 16 << 20, SlowStore::default(), options);
        let engine = engine.expect("userfaultfd is allowed");
        let region = engine.map(size).expect("addresses are free");
        engine.unmap(region);
        let no_page = RangeError::Fault(FaultError::Refused(Errno::NOENT));
        let pages = PageRange::new(region.first, 16);
        assert_eq!(engine.pin_first(pages).err(), Some(no_page));
        assert_eq!(engine.pin_for_a_moment(region.first).err(), Some(no_page));
        assert_eq!(engine.manager().pins.pages(), 0);
    }
}
