//! The word of a page: its layout, its lock, and the transitions between states.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// The state of a page; the table in [`page`](crate::page) lists the facts that hold in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageState {
    /// Never touched, or discarded: reads as zero.
    Virgin = 0,
    /// In the working set.
    Active = 1,
    /// Trimmed; its frame is the only copy.
    Modified = 2,
    /// Trimmed and saved; its frame is still there and free to take.
    Standby = 3,
    /// In the compressed store alone.
    Compressed = 4,
    /// In the page file alone.
    PageFile = 5,
    /// Locked by a thread that changes its state.
    Busy = 6,
    /// The program's: its memory is a mapping that the pager leaves alone.
    Surrendered = 7,
}

impl PageState {
    /// All states, by their number in the word.
    pub const ALL: [PageState; 8] = [
        PageState::Virgin,
        PageState::Active,
        PageState::Modified,
        PageState::Standby,
        PageState::Compressed,
        PageState::PageFile,
        PageState::Busy,
        PageState::Surrendered,
    ];

    /// The states of pages that are the pager's, but for busy.
    const OWNED: [PageState; 6] = [
        PageState::Virgin,
        PageState::Active,
        PageState::Modified,
        PageState::Standby,
        PageState::Compressed,
        PageState::PageFile,
    ];

    /// Whether the shadow area holds a frame of the page.
    pub const fn has_frame(self) -> bool {
        matches!(self, PageState::Modified | PageState::Standby)
    }

    /// Whether the page has no frame, and a saved copy alone.
    pub const fn is_evicted(self) -> bool {
        matches!(self, PageState::Compressed | PageState::PageFile)
    }

    /// Whether a saved copy exists.
    pub const fn has_place(self) -> bool {
        matches!(
            self,
            PageState::Standby | PageState::Compressed | PageState::PageFile
        )
    }
}

/// The tier of a saved copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tier {
    /// The compressed store, in RAM.
    Memory,
    /// The page file.
    File,
}

/// The place of a saved copy: 41 bits whose meaning the store alone knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Place(u64);

/// A place has more than 41 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot keep the place {0:#x} in a page's word: it has more than 41 bits")]
pub struct PlaceTooLarge(
    /// The value.
    pub u64,
);

impl Place {
    /// The bits that a word has for a place.
    pub const BITS: u32 = 41;

    /// A place of those bits.
    ///
    /// # Errors
    /// More than [`Place::BITS`] bits.
    pub const fn new(bits: u64) -> Result<Place, PlaceTooLarge> {
        if bits >> Place::BITS == 0 {
            Ok(Place(bits))
        } else {
            Err(PlaceTooLarge(bits))
        }
    }

    /// The bits, as the store made them.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// The value of a page's word.
///
/// | bits | field |
/// |---|---|
/// | 0-2 | state |
/// | 3-43 | place of the saved copy |
/// | 44-46 | standby priority |
/// | 47-50 | backoff of a page that could not be moved: one more than the laps of the trimmer that still pass it; else 0 |
/// | 51 | 0 |
/// | 52-63 | the eviction clock when the page last lost its frame |
///
/// Invariant: the place is 0 unless the state has one ([`PageState::has_place`]), or is busy.
/// Checked by `places_are_kept_only_with_saved_copies`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word(u64);

const STATE: Field = Field::new(0, 3);
const PLACE: Field = Field::new(3, Place::BITS);
const PRIORITY: Field = Field::new(44, 3);
const BACKOFF: Field = Field::new(47, 4);
const CLOCK: Field = Field::new(52, 12);

struct Field {
    shift: u32,
    mask: u64,
}

impl Field {
    const fn new(shift: u32, bits: u32) -> Field {
        Field {
            shift,
            mask: (1 << bits) - 1,
        }
    }

    const fn of(&self, word: u64) -> u64 {
        word >> self.shift & self.mask
    }

    const fn set(&self, word: u64, value: u64) -> u64 {
        word & !(self.mask << self.shift) | (value & self.mask) << self.shift
    }
}

impl Word {
    /// The word of a page that was never touched.
    pub const VIRGIN: Word = Word(0);
    /// The word of a page that is the program's.
    pub const SURRENDERED: Word = Word(PageState::Surrendered as u64);
    /// The standby priority of pages of a region that has no other.
    pub const NORMAL_PRIORITY: u8 = 5;
    /// The standby priority of pages whose contents may be lost: their frames are taken first.
    pub const LOWEST_PRIORITY: u8 = 0;
    /// The standby priority of pages of suspended regions.
    pub const SUSPENDED_PRIORITY: u8 = 1;
    /// The standby priority of pages that are kept longest.
    pub const HIGHEST_PRIORITY: u8 = 7;
    /// The longest backoff.
    pub const MOST_BACKOFF: u8 = 15;
    /// The eviction clock in a word counts modulo this number.
    pub const CLOCK_PERIOD: u16 = 1 << 12;

    /// A word with these bits, which were copied from another process.
    pub(crate) const fn of_bits(bits: u64) -> Word {
        Word(bits)
    }

    /// Whether the functions of [`Locked`] can have written the word.
    pub(crate) const fn is_valid(self) -> bool {
        let has_place = PLACE.of(self.0) != 0;
        let is_surrendered = matches!(self.state(), PageState::Surrendered);
        self.0 & 1 << 51 == 0
            && (!has_place || self.state().has_place() || matches!(self.state(), PageState::Busy))
            && (!is_surrendered || self.0 == Word::SURRENDERED.0)
    }

    /// The state.
    pub const fn state(self) -> PageState {
        PageState::ALL[STATE.of(self.0) as usize]
    }

    /// The place of the saved copy, if the state has one.
    pub const fn place(self) -> Option<Place> {
        if self.state().has_place() {
            Some(Place(PLACE.of(self.0)))
        } else {
            None
        }
    }

    /// The standby priority, 0-7.
    pub const fn priority(self) -> u8 {
        PRIORITY.of(self.0) as u8
    }

    /// One more than the laps of the trimmer that still pass the page, as it could not be moved; 0 if it could.
    pub const fn backoff(self) -> u8 {
        BACKOFF.of(self.0) as u8
    }

    /// The eviction clock when the page last lost its frame, modulo [`Word::CLOCK_PERIOD`].
    pub const fn clock(self) -> u16 {
        CLOCK.of(self.0) as u16
    }

    const fn with_state(self, state: PageState) -> Word {
        let word = Word(STATE.set(self.0, state as u64));
        match state.has_place() {
            true => word,
            false => Word(PLACE.set(word.0, 0)),
        }
    }

    const fn with_place(self, place: Place) -> Word {
        Word(PLACE.set(self.0, place.0))
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The same with another standby priority, of which 3 bits count.
    #[must_use]
    pub const fn with_priority(self, priority: u8) -> Word {
        Word(PRIORITY.set(self.0, priority as u64))
    }

    #[must_use]
    const fn with_backoff(self, laps: u8) -> Word {
        Word(BACKOFF.set(self.0, laps as u64))
    }

    const fn busy(self) -> Word {
        Word(STATE.set(self.0, PageState::Busy as u64))
    }
}

/// The atomic word of a page.
#[derive(Debug)]
pub struct PageWord(AtomicU64);

#[cfg(not(loom))]
const _: () = assert!(size_of::<PageWord>() == 8);

impl PageWord {
    /// The word of a page that was never touched.
    #[cfg(any(test, loom))]
    pub(crate) fn virgin() -> PageWord {
        PageWord(AtomicU64::new(0))
    }

    /// The value. Its writer's earlier stores are visible.
    pub fn load(&self) -> Word {
        Word(self.0.load(Ordering::Acquire))
    }

    /// Overwrites the word, as a stray write of the program does.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn damage(&self, bits: u64) {
        self.0.store(bits, Ordering::SeqCst);
    }

    /// Locks the page if its word is still `seen` and that is not busy.
    pub fn try_lock(&self, seen: Word) -> Option<Locked<'_>> {
        if seen.state() == PageState::Busy {
            return None;
        }
        let taken = self
            .0
            .compare_exchange(seen.0, seen.busy().0, Ordering::AcqRel, Ordering::Relaxed);
        // No value without the lock: its drop would unlock the page for the thread that has it.
        taken.is_ok().then(|| Locked {
            word: self,
            before: seen,
        })
    }

    /// Locks the page if it is in `state` now.
    pub fn try_lock_in(&self, state: PageState) -> Option<Locked<'_>> {
        let seen = self.load();
        if seen.state() == state {
            self.try_lock(seen)
        } else {
            None
        }
    }
}

/// A page that this thread holds busy. Each function named after a transition releases it in another state; dropping it
/// is [`Locked::keep`].
#[derive(Debug)]
#[must_use = "dropping it unlocks the page"]
pub struct Locked<'w> {
    word: &'w PageWord,
    before: Word,
}

impl Locked<'_> {
    /// The word before it was locked.
    pub fn before(&self) -> Word {
        self.before
    }

    /// The place of the saved copy before it was locked.
    pub fn place(&self) -> Option<Place> {
        self.before.place()
    }

    /// Virgin to active: the page was filled with zeros.
    pub fn fill_zero(self) {
        self.end(&[PageState::Virgin], |word| {
            word.with_state(PageState::Active)
                .with_priority(Word::NORMAL_PRIORITY)
        });
    }

    /// Virgin to active: the page was found present when its chunk was registered.
    pub fn adopt(self) {
        self.fill_zero();
    }

    /// Modified or standby to active: the frame was moved back.
    pub fn soft_fault(self) {
        self.end(&[PageState::Modified, PageState::Standby], Word::activated);
    }

    /// Compressed or page-file to active: the saved copy was restored.
    pub fn hard_fault(self) {
        self.end(&[PageState::Compressed, PageState::PageFile], Word::activated);
    }

    /// Active to modified, with that standby priority: the page was moved into its frame slot.
    pub fn trim(self, priority: u8) {
        self.end(&[PageState::Active], |word| {
            word.with_state(PageState::Modified)
                .with_backoff(0)
                .with_priority(priority)
        });
    }

    /// Modified to standby: a copy was saved at `place`.
    pub fn save(self, place: Place) {
        self.end(&[PageState::Modified], |word| {
            word.with_state(PageState::Standby).with_place(place)
        });
    }

    /// Modified or standby to standby, of the lowest priority: the contents may be lost, and the copy at `place` is zeros.
    pub fn reset(self, place: Place) {
        self.end(&[PageState::Modified, PageState::Standby], |word| {
            word.with_state(PageState::Standby)
                .with_place(place)
                .with_priority(Word::LOWEST_PRIORITY)
        });
    }

    /// Standby to compressed or page-file: the frame was taken for another page, or released, at `clock` of evictions.
    pub fn take_frame(self, tier: Tier, clock: u16) {
        self.end(&[PageState::Standby], |word| {
            Word(CLOCK.set(word.with_state(saved_state(tier)).0, u64::from(clock)))
        });
    }

    /// The saved copy was moved to `place`.
    pub fn relocate(self, place: Place, tier: Tier) {
        let states = [PageState::Standby, PageState::Compressed, PageState::PageFile];
        self.end(&states, |word| {
            let state = match word.state() {
                PageState::Standby => PageState::Standby,
                _ => saved_state(tier),
            };
            word.with_state(state).with_place(place)
        });
    }

    /// Any state to virgin: the contents are gone. A surrendered page is not the pager's.
    pub fn discard(self) {
        self.end(&PageState::OWNED, |_| Word::VIRGIN);
    }

    /// Any state to surrendered: the contents are gone, and the pager leaves the page alone.
    pub fn surrender(self) {
        self.end(&PageState::OWNED, |_| Word::SURRENDERED);
    }

    /// Surrendered to virgin: the memory of the page is the pager's again.
    pub fn reclaim(self) {
        self.end(&[PageState::Surrendered], |_| Word::VIRGIN);
    }

    /// Unlocks the page as it was.
    pub fn keep(self) {
        drop(self);
    }

    /// Unlocks the page as it was, with another standby priority.
    pub fn keep_with_priority(self, priority: u8) {
        self.end(&PageState::OWNED, |word| word.with_priority(priority));
    }

    /// Unlocks the page as it was, with that backoff.
    pub fn keep_with_backoff(self, backoff: u8) {
        self.end(&PageState::OWNED, |word| {
            word.with_backoff(backoff.min(Word::MOST_BACKOFF))
        });
    }

    fn end(self, from: &[PageState], change: impl FnOnce(Word) -> Word) {
        if !from.contains(&self.before.state()) {
            // A manager that lost the state of a page would lose its contents next.
            plimsoll_os::write_error(b"plimsoll-pager: invalid transition of a page\n");
            plimsoll_os::abort();
        }
        let after = change(self.before);
        let word = self.word;
        std::mem::forget(self);
        word.0.store(after.0, Ordering::Release);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.word.0.store(self.before.0, Ordering::Release);
    }
}

impl Word {
    fn activated(self) -> Word {
        self.with_state(PageState::Active)
    }
}

/// The state of a page without a frame whose saved copy is in `tier`.
pub(crate) const fn saved_state(tier: Tier) -> PageState {
    match tier {
        Tier::Memory => PageState::Compressed,
        Tier::File => PageState::PageFile,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{PageState, PageWord, Place, Tier, Word};

    fn lock(word: &PageWord) -> super::Locked<'_> {
        word.try_lock(word.load()).expect("not busy")
    }

    #[test]
    fn a_page_goes_through_every_state() {
        let word = PageWord::virgin();
        let place = Place::new((1 << 41) - 1).expect("41 bits");
        lock(&word).fill_zero();
        assert_eq!(word.load().state(), PageState::Active);
        lock(&word).trim(Word::NORMAL_PRIORITY);
        assert_eq!(word.load().state(), PageState::Modified);
        lock(&word).save(place);
        assert_eq!(
            (word.load().state(), word.load().place()),
            (PageState::Standby, Some(place))
        );
        assert_eq!(word.load().priority(), Word::NORMAL_PRIORITY);
        lock(&word).take_frame(Tier::Memory, 77);
        assert_eq!(
            (word.load().state(), word.load().clock()),
            (PageState::Compressed, 77)
        );
        let other = Place::new(3).expect("41 bits");
        lock(&word).relocate(other, Tier::File);
        assert_eq!(
            (word.load().state(), word.load().place()),
            (PageState::PageFile, Some(other))
        );
        lock(&word).hard_fault();
        assert_eq!(
            (word.load().state(), word.load().place()),
            (PageState::Active, None)
        );
        lock(&word).discard();
        assert_eq!(word.load(), Word::VIRGIN);
    }

    #[test]
    fn places_are_kept_only_with_saved_copies() {
        assert!(Place::new(1 << 41).is_err());
        let word = PageWord::virgin();
        lock(&word).fill_zero();
        lock(&word).trim(Word::NORMAL_PRIORITY);
        lock(&word).save(Place::new(99).expect("41 bits"));
        lock(&word).soft_fault();
        assert_eq!(super::PLACE.of(word.load().0), 0);
        assert_eq!(word.load().place(), None);
    }

    #[test]
    fn a_busy_page_cannot_be_locked_and_a_dropped_lock_restores_it() {
        let word = PageWord::virgin();
        let before = word.load();
        let locked = lock(&word);
        assert_eq!(word.load().state(), PageState::Busy);
        assert!(word.try_lock(word.load()).is_none() && word.try_lock(before).is_none());
        drop(locked);
        assert_eq!(word.load(), before);
    }

    /// A thread that lost the race for a page once unlocked it for the winner, as it built a lock and dropped it: two
    /// threads then held the page, and the counters of states fell below zero.
    #[test]
    fn a_thread_that_loses_the_race_leaves_the_page_to_the_winner() {
        let word = PageWord::virgin();
        let seen = word.load();
        let winner = word.try_lock(seen).expect("not busy");
        assert!(word.try_lock(seen).is_none());
        assert_eq!(word.load().state(), PageState::Busy);
        winner.fill_zero();
        assert!(word.try_lock(seen).is_none());
        assert_eq!(word.load().state(), PageState::Active);
    }

    #[test]
    fn a_surrendered_page_keeps_nothing() {
        let word = PageWord::virgin();
        lock(&word).fill_zero();
        lock(&word).trim(3);
        lock(&word).save(Place::new(99).expect("41 bits"));
        lock(&word).surrender();
        assert_eq!(word.load(), Word::SURRENDERED);
        assert!(word.load().is_valid() && !Word(word.load().0 | 1 << 44).is_valid());
        lock(&word).reclaim();
        assert_eq!(word.load(), Word::VIRGIN);
    }

    #[test]
    fn marks_end_with_the_state_that_they_are_about() {
        let word = PageWord::virgin();
        lock(&word).fill_zero();
        lock(&word).keep_with_backoff(200);
        assert_eq!(word.load().backoff(), Word::MOST_BACKOFF);
        lock(&word).trim(Word::NORMAL_PRIORITY);
        assert_eq!(word.load().backoff(), 0);
        lock(&word).soft_fault();
        lock(&word).keep_with_priority(0);
        assert_eq!(word.load().priority(), 0);
    }
}

#[cfg(all(test, loom))]
mod models;
