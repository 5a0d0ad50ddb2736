//! Pinned ranges: hazards that the trimmer respects.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::page::{PageIndex, PageRange};

/// Ranges that can be pinned at the same time, for each purpose.
const MOST_PINS: usize = if cfg!(loom) { 2 } else { 256 };
const MOST_MOMENTS: usize = if cfg!(loom) { 0 } else { 32 };
const MOST_KEPT: usize = if cfg!(loom) { 0 } else { 512 };
/// The ranges of all purposes.
const SLOTS: usize = MOST_PINS + MOST_MOMENTS + MOST_KEPT;

/// The owners of pins that belong to no thread, beside the tokens of threads.
const GUARD: u64 = 0;
const PROCESS: u64 = u64::MAX;

/// The purpose of a pin. Each has slots of its own: calls that wait for hours do not use up those of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A pin for a guard that any thread may end.
    Guard,
    /// A pin for a system call of the thread with this token. It ends in a child of a fork that another thread makes.
    Call(usize),
    /// As `Call`, for code that waits for nothing before it ends the pin.
    Moment(usize),
    /// As `Call`, until [`Pins::keep`] has the pin last as long as the process, and in its children.
    Process(usize),
}

impl Purpose {
    /// The slots for the purpose.
    fn group(self) -> Group {
        match self {
            Purpose::Guard | Purpose::Call(_) => Group::Pins,
            Purpose::Moment(_) => Group::Moments,
            Purpose::Process(_) => Group::Kept,
        }
    }

    fn owner(self) -> u64 {
        match self {
            Purpose::Guard => GUARD,
            Purpose::Call(thread) | Purpose::Moment(thread) | Purpose::Process(thread) => thread as u64,
        }
    }
}

/// Slots side by side.
#[derive(Debug, Clone, Copy)]
enum Group {
    Pins,
    Moments,
    Kept,
}

impl Group {
    const ALL: [Group; 3] = [Group::Pins, Group::Moments, Group::Kept];

    const fn start(self) -> usize {
        match self {
            Group::Pins => 0,
            Group::Moments => MOST_PINS,
            Group::Kept => MOST_PINS + MOST_MOMENTS,
        }
    }

    const fn count(self) -> usize {
        match self {
            Group::Pins => MOST_PINS,
            Group::Moments => MOST_MOMENTS,
            Group::Kept => MOST_KEPT,
        }
    }
}

/// The pinned ranges, each one atomic: the first page in the upper half, the number of pages in the lower.
///
/// A thread that pins publishes its range, fences, and then makes the pages present. A trimmer locks pages, fences, and
/// then looks at the ranges. Of two that meet, at least one sees the other: either the trimmer unlocks the page as it was,
/// or the pinning thread finds it busy or absent and restores it.
/// Checked by the models below.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Pins {
    ranges: [AtomicU64; SLOTS],
    /// Slots of each group below which all of its pins are.
    used: [AtomicU64; Group::ALL.len()],
    /// The thread of each pin, which stays when the pin ends, but never [`PROCESS`]. Other processes do not read it.
    owners: Box<[AtomicU64; SLOTS]>,
    /// 1 while a thread joins pins of the process.
    joining: AtomicU64,
}

/// The slot of a pinned range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pin(usize);

impl Pins {
    pub(crate) fn new() -> Pins {
        Pins {
            ranges: std::array::from_fn(|_| AtomicU64::new(0)),
            used: std::array::from_fn(|_| AtomicU64::new(0)),
            owners: Box::new(std::array::from_fn(|_| AtomicU64::new(GUARD))),
            joining: AtomicU64::new(0),
        }
    }

    /// The ranges in these bytes, which were copied from a value in another process.
    pub(crate) fn ranges_of(bytes: &[u8; size_of::<Pins>()]) -> impl Iterator<Item = (PageIndex, u32)> {
        let (words, _) = bytes.as_chunks::<8>();
        let values = words[..SLOTS].iter().map(|word| u64::from_ne_bytes(*word));
        let ranges = values.map(|value| (PageIndex::new((value >> 32) as u32), value as u32));
        ranges.filter(|(_, count)| *count > 0)
    }

    /// Publishes a range; none if all slots for the purpose are in use. From here on no trimmer takes an active page of it.
    ///
    /// No thread forks before the call returns: a child would find a pin without its owner.
    pub(crate) fn publish(&self, pages: PageRange, purpose: Purpose) -> Option<Pin> {
        let (group, value) = (purpose.group(), value_of(pages));
        let slots = &self.ranges[group.start()..][..group.count()];
        let free = slots.iter().position(|range| {
            range
                .compare_exchange(0, value, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        })?;
        self.used[group as usize].fetch_max(free as u64 + 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let slot = group.start() + free;
        self.owners[slot].store(purpose.owner(), Ordering::Relaxed);
        Some(Pin(slot))
    }

    /// Ends the pins of all threads but the one with this token: in a child of a fork, which has no other.
    pub(crate) fn remove_those_of_others(&self, thread: usize) {
        for (range, owner) in self.ranges.iter().zip(self.owners.iter()) {
            let owner = owner.load(Ordering::Relaxed);
            if ![GUARD, PROCESS, thread as u64].contains(&owner) {
                range.store(0, Ordering::Release);
            }
        }
    }

    /// Has a pin of [`Purpose::Process`], all of whose pages are present, last as long as the process. It becomes one with those beside it
    /// in `region`: stacks of a program often lie side by side, and the slots are few.
    pub(crate) fn keep(&self, pin: Pin, region: PageRange) {
        // A thread that finds the pages kept does not look at them.
        self.owners[pin.0].store(PROCESS, Ordering::Release);
        // Another thread joins pins: maybe the one that this signal handler interrupts.
        if self.joining.swap(1, Ordering::Acquire) == 0 {
            self.join(pin.0, region);
            self.joining.store(0, Ordering::Release);
        }
    }

    /// Joins the pin in a slot with those that overlap it or lie beside it.
    fn join(&self, mut own: usize, region: PageRange) {
        for other in (0..SLOTS).filter(|other| self.owners[*other].load(Ordering::Acquire) == PROCESS) {
            let range = |slot: usize| range_of(self.ranges[slot].load(Ordering::Relaxed));
            let (mine, beside) = (range(own), range(other));
            let touches = mine.first.number() <= beside.end() && beside.first.number() <= mine.end();
            let is_inside = region.first <= beside.first && beside.end() <= region.end();
            if other == own || beside.count == 0 || !touches || !is_inside {
                continue;
            }
            let first = mine.first.min(beside.first);
            let whole = PageRange::new(first, mine.end().max(beside.end()) - first.number());
            // A thread that looks from the first slot to the last one sees the lower slot before the change, or the higher one after.
            let (lower, higher) = (own.min(other), own.max(other));
            self.ranges[higher].store(value_of(whole), Ordering::SeqCst);
            self.owners[lower].store(GUARD, Ordering::Relaxed);
            self.ranges[lower].store(0, Ordering::SeqCst);
            own = higher;
        }
    }

    /// The slots of pins of the process.
    fn kept(&self) -> impl Iterator<Item = (&AtomicU64, &AtomicU64)> {
        let slots = self.ranges.iter().zip(self.owners.iter());
        slots.filter(|(_, owner)| owner.load(Ordering::Acquire) == PROCESS)
    }

    /// Ends the pins of the process in `pages`, those of a region that ends.
    pub(crate) fn remove_kept(&self, pages: PageRange) {
        for (range, owner) in self.kept() {
            if range_of(range.load(Ordering::Relaxed)).common(pages).is_some() {
                owner.store(GUARD, Ordering::Relaxed);
                range.store(0, Ordering::Release);
            }
        }
    }

    /// Whether one pin of the process holds all of `pages`.
    pub(crate) fn is_kept(&self, pages: PageRange) -> bool {
        self.kept().any(|(range, _)| {
            let range = range_of(range.load(Ordering::Relaxed));
            range.first <= pages.first && pages.end() <= range.end()
        })
    }

    /// Pages of the pins of the process.
    pub(crate) fn kept_pages(&self) -> u64 {
        self.kept()
            .map(|(range, _)| u64::from(range.load(Ordering::Relaxed) as u32))
            .sum()
    }

    /// Ends the pin of the last pages of a range: `pages` are the first ones.
    pub(crate) fn shorten(&self, pin: Pin, pages: PageRange) {
        self.ranges[pin.0].store(value_of(pages), Ordering::Release);
    }

    pub(crate) fn remove(&self, pin: Pin) {
        self.ranges[pin.0].store(0, Ordering::Release);
    }

    /// Orders the locking of pages before the look at the ranges. Called once a batch.
    pub(crate) fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn holds(&self, page: PageIndex) -> bool {
        self.any(PageRange::new(page, 1))
    }

    /// Whether a page of `pages` is pinned.
    pub(crate) fn any(&self, pages: PageRange) -> bool {
        Group::ALL.into_iter().any(|group| {
            let used = self.used[group as usize].load(Ordering::SeqCst) as usize;
            self.ranges[group.start()..][..used].iter().any(|range| {
                let value = range.load(Ordering::SeqCst);
                let first = (value >> 32) as u32;
                let count = value as u32;
                count > 0 && first < pages.end() && pages.first.number() < first + count
            })
        })
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = PageRange> {
        let ranges = self
            .ranges
            .iter()
            // In their order: a pin that is joined moves to a later slot.
            .map(|range| range_of(range.load(Ordering::Acquire)));
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

/// The range of a slot with this value.
fn range_of(value: u64) -> PageRange {
    PageRange::new(PageIndex::new((value >> 32) as u32), value as u32)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{MOST_KEPT, MOST_MOMENTS, MOST_PINS, Pins, Purpose, SLOTS};
    use crate::page::{PageIndex, PageRange};

    #[test]
    fn pins_hold_their_pages_until_they_are_removed() {
        let pins = Pins::new();
        let range = |first, count| PageRange::new(PageIndex::new(first), count);
        let first = pins.publish(range(10, 5), Purpose::Guard).expect("a free slot");
        let second = pins.publish(range(14, 1), Purpose::Guard).expect("a free slot");
        assert!(!pins.holds(PageIndex::new(9)) && !pins.holds(PageIndex::new(15)));
        assert!(pins.any(range(0, 11)) && pins.any(range(14, 100)) && !pins.any(range(15, 100)));
        pins.remove(first);
        assert!(!pins.holds(PageIndex::new(10)) && pins.holds(PageIndex::new(14)));
        pins.remove(second);
        assert_eq!(pins.pages(), 0);
    }

    /// Calls that waited in 256 threads once left no slot to the call of another thread.
    #[test]
    fn pins_of_one_purpose_leave_the_slots_of_another_one_free() {
        let pins = Pins::new();
        let range = PageRange::new(PageIndex::new(1), 1);
        let take = |purpose| {
            let taken = std::iter::from_fn(|| pins.publish(range, purpose));
            taken.count()
        };
        assert_eq!(take(Purpose::Call(1)), MOST_PINS);
        assert_eq!(take(Purpose::Guard), 0);
        assert_eq!(take(Purpose::Moment(1)), MOST_MOMENTS);
        assert_eq!(take(Purpose::Process(1)), MOST_KEPT);
        assert_eq!(pins.pages(), SLOTS as u64);
    }

    /// Pins a range for the life of the process. Returns whether a slot was free.
    fn keep(pins: &Pins, range: PageRange) -> bool {
        let pin = pins.publish(range, Purpose::Process(1));
        pin.is_some_and(|pin| {
            pins.keep(pin, PageRange::new(PageIndex::new(0), 1 << 20));
            true
        })
    }

    /// Stacks of coroutines used up all slots after 288, and those of calls with them.
    #[test]
    fn pins_of_the_process_side_by_side_are_one() {
        let pins = Pins::new();
        let range = |first, count| PageRange::new(PageIndex::new(first), count);
        for stack in 0..2000 {
            // Some are beside none at first.
            let place = (stack & !3) + stack * 3 % 4;
            assert!(keep(&pins, range(10 + place * 16, 16)), "{stack}");
        }
        assert_eq!((pins.ranges().count(), pins.kept_pages()), (1, 32_000));
        assert!(pins.is_kept(range(10, 32_000)) && !pins.is_kept(range(9, 2)));
        // A pin in another region stays by itself.
        let pin = pins
            .publish(range(32_010, 5), Purpose::Process(1))
            .expect("a free slot");
        pins.keep(pin, range(32_010, 100));
        assert_eq!(pins.ranges().count(), 2);
        pins.remove_kept(range(0, 32_010));
        assert_eq!(pins.ranges().collect::<Vec<_>>(), [range(32_010, 5)]);
        let apart = (0..).take_while(|at| keep(&pins, range(40_000 + at * 2, 1)));
        assert_eq!(apart.count(), MOST_KEPT - 1);
    }

    #[test]
    fn pins_of_other_threads_end_and_the_rest_stays() {
        let pins = Pins::new();
        let purposes = [
            Purpose::Guard,
            Purpose::Call(8),
            Purpose::Call(16),
            Purpose::Moment(8),
            Purpose::Moment(16),
            // Pins of the process whose pages are not all present.
            Purpose::Process(8),
            Purpose::Process(16),
        ];
        // A slot that a thread used before is another one's now.
        let former = pins.publish(PageRange::new(PageIndex::new(90), 1), Purpose::Call(16));
        pins.remove(former.expect("a free slot"));
        for (page, purpose) in (0..).zip(purposes) {
            let range = PageRange::new(PageIndex::new(page), 1);
            assert!(pins.publish(range, purpose).is_some());
        }
        assert!(keep(&pins, PageRange::new(PageIndex::new(7), 1)));
        pins.remove_those_of_others(8);
        let held = (0..8).map(|page| pins.holds(PageIndex::new(page)));
        assert!(held.eq([true, true, false, true, false, true, false, true]));
    }

    #[test]
    fn a_kept_range_holds_its_parts() {
        let pins = Pins::new();
        let range = |first, count| PageRange::new(PageIndex::new(first), count);
        assert!(pins.publish(range(0, 9), Purpose::Guard).is_some());
        assert!(keep(&pins, range(5, 3)));
        assert!(pins.is_kept(range(5, 3)) && pins.is_kept(range(6, 1)));
        assert!(!pins.is_kept(range(4, 2)) && !pins.is_kept(range(7, 2)) && !pins.is_kept(range(0, 1)));
        assert_eq!(pins.kept_pages(), 3);
        pins.remove_kept(range(0, 5));
        assert_eq!(pins.kept_pages(), 3);
        pins.remove_kept(range(0, 6));
        assert_eq!((pins.kept_pages(), pins.pages()), (0, 9));
    }

    /// Another thread found the range kept, and its system call met absent pages. After a failure, the slot made a later range a
    /// kept one.
    #[test]
    fn a_range_is_kept_once_its_pages_are_present() {
        let pins = Pins::new();
        let range = PageRange::new(PageIndex::new(5), 3);
        let failed = pins.publish(range, Purpose::Process(8)).expect("a free slot");
        assert!(pins.holds(range.first) && !pins.is_kept(range));
        assert_eq!(pins.kept_pages(), 0);
        pins.remove(failed);
        let pin = pins.publish(range, Purpose::Process(8)).expect("a free slot");
        assert_eq!(pin, failed);
        assert!(!pins.is_kept(range));
        pins.keep(pin, range);
        assert!(pins.is_kept(range));
        assert_eq!(pins.kept_pages(), 3);
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
            assert!(shared.1.publish(PAGE, Purpose::Guard).is_some());
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
                    let pin = shared.1.publish(PAGE, Purpose::Guard).expect("two slots");
                    shared.1.remove(pin);
                    trim(&shared);
                })
            };
            let pin = shared.1.publish(PAGE, Purpose::Guard).expect("two slots");
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
