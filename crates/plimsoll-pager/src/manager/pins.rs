//! Pinned ranges: hazards that the trimmer respects.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::page::{PageIndex, PageRange};

/// Ranges that can be pinned at the same time.
const MOST_PINS: usize = if cfg!(loom) { 2 } else { 256 };

/// The pinned ranges, each one atomic: the first page in the upper half, the number of pages in the lower.
///
/// A thread that pins publishes its range, fences, and then makes the pages present. A trimmer locks pages, fences, and
/// then looks at the ranges. Of two that meet, at least one sees the other: either the trimmer unlocks the page as it was,
/// or the pinning thread finds it busy or absent and restores it.
/// Checked by the models below.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Pins {
    ranges: [AtomicU64; MOST_PINS],
    /// Slots below which all pins are.
    used: AtomicU64,
}

/// The slot of a pinned range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pin(usize);

impl Pins {
    pub(crate) fn new() -> Pins {
        Pins {
            ranges: std::array::from_fn(|_| AtomicU64::new(0)),
            used: AtomicU64::new(0),
        }
    }

    /// The ranges in these bytes, which were copied from a value in another process.
    pub(crate) fn ranges_of(bytes: &[u8; size_of::<Pins>()]) -> impl Iterator<Item = (PageIndex, u32)> {
        let (words, _) = bytes.as_chunks::<8>();
        let values = words[..MOST_PINS].iter().map(|word| u64::from_ne_bytes(*word));
        let ranges = values.map(|value| (PageIndex::new((value >> 32) as u32), value as u32));
        ranges.filter(|(_, count)| *count > 0)
    }

    /// Publishes a range; none if all slots are in use. From here on no trimmer takes an active page of it.
    pub(crate) fn publish(&self, pages: PageRange) -> Option<Pin> {
        let value = value_of(pages);
        let free = self.ranges.iter().position(|range| {
            range
                .compare_exchange(0, value, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        })?;
        self.used.fetch_max(free as u64 + 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Some(Pin(free))
    }

    /// Ends the pin of the last pages of a range: `pages` are the first ones.
    pub(crate) fn shorten(&self, pin: Pin, pages: PageRange) {
        self.ranges[pin.0].store(value_of(pages), Ordering::Release);
    }

    /// Ends a pin.
    pub(crate) fn remove(&self, pin: Pin) {
        self.ranges[pin.0].store(0, Ordering::Release);
    }

    /// Orders the locking of pages before the look at the ranges. Called once a batch.
    pub(crate) fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    /// Whether a page is pinned.
    pub(crate) fn holds(&self, page: PageIndex) -> bool {
        self.any(PageRange::new(page, 1))
    }

    /// Whether a page of `pages` is pinned.
    pub(crate) fn any(&self, pages: PageRange) -> bool {
        let used = self.used.load(Ordering::SeqCst) as usize;
        self.ranges[..used].iter().any(|range| {
            let value = range.load(Ordering::SeqCst);
            let first = (value >> 32) as u32;
            let count = value as u32;
            count > 0 && first < pages.end() && pages.first.number() < first + count
        })
    }

    /// The pinned ranges.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = PageRange> {
        let values = self.ranges.iter().map(|range| range.load(Ordering::Relaxed));
        let ranges = values.map(|value| PageRange::new(PageIndex::new((value >> 32) as u32), value as u32));
        ranges.filter(|range| range.count > 0)
    }

    /// Pages of all pinned ranges.
    pub(crate) fn pages(&self) -> u64 {
        let ranges = self.ranges.iter();
        ranges
            .map(|range| u64::from(range.load(Ordering::Relaxed) as u32))
            .sum()
    }
}

/// The value of a slot.
fn value_of(pages: PageRange) -> u64 {
    u64::from(pages.first.number()) << 32 | u64::from(pages.count)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{MOST_PINS, Pins};
    use crate::page::{PageIndex, PageRange};

    #[test]
    fn pins_hold_their_pages_until_they_are_removed() {
        let pins = Pins::new();
        let range = |first, count| PageRange::new(PageIndex::new(first), count);
        let first = pins.publish(range(10, 5)).expect("a free slot");
        let second = pins.publish(range(14, 1)).expect("a free slot");
        assert!(!pins.holds(PageIndex::new(9)) && !pins.holds(PageIndex::new(15)));
        assert!(pins.any(range(0, 11)) && pins.any(range(14, 100)) && !pins.any(range(15, 100)));
        pins.remove(first);
        assert!(!pins.holds(PageIndex::new(10)) && pins.holds(PageIndex::new(14)));
        pins.remove(second);
        assert_eq!(pins.pages(), 0);
    }

    #[test]
    fn more_pins_than_slots_are_refused() {
        let pins = Pins::new();
        let range = PageRange::new(PageIndex::new(1), 1);
        let taken = (0..).take_while(|_| pins.publish(range).is_some()).count();
        assert_eq!(taken, MOST_PINS);
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::page::{PageState, PageWord};

    const PAGE: PageRange = PageRange::new(PageIndex::new(7), 1);

    /// A page in the working set, and the pins.
    fn page_and_pins() -> Arc<(PageWord, Pins)> {
        let shared = (PageWord::virgin(), Pins::new());
        if let Some(locked) = shared.0.try_lock_in(PageState::Virgin) {
            locked.fill_zero();
        }
        Arc::new(shared)
    }

    /// The part of a trim that decides by the pins.
    fn trim((word, pins): &(PageWord, Pins)) {
        if let Some(locked) = word.try_lock_in(PageState::Active) {
            pins.fence();
            match pins.any(PAGE) {
                true => locked.keep(),
                false => locked.trim(5),
            }
        }
    }

    /// In every order of the steps, a page that the pinning thread saw active is not trimmed.
    #[test]
    fn a_pin_is_seen_by_the_trimmer_or_sees_it() {
        loom::model(|| {
            let shared = page_and_pins();
            let trimmer = {
                let shared = shared.clone();
                thread::spawn(move || trim(&shared))
            };
            assert!(shared.1.publish(PAGE).is_some());
            let is_active = shared.0.load().state() == PageState::Active;
            trimmer.join().unwrap();
            if is_active {
                assert_eq!(shared.0.load().state(), PageState::Active);
            }
        });
    }

    /// The end of one pin does not hide another one of the same page, in any of the slots.
    #[test]
    fn a_second_pin_outlives_the_first() {
        loom::model(|| {
            let shared = page_and_pins();
            let other = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let pin = shared.1.publish(PAGE).expect("two slots");
                    shared.1.remove(pin);
                    trim(&shared);
                })
            };
            let pin = shared.1.publish(PAGE).expect("two slots");
            let is_active = shared.0.load().state() == PageState::Active;
            other.join().unwrap();
            assert!(shared.1.holds(PAGE.first));
            if is_active {
                assert_eq!(shared.0.load().state(), PageState::Active);
            }
            shared.1.remove(pin);
            assert_eq!(shared.1.pages(), 0);
        });
    }
}
