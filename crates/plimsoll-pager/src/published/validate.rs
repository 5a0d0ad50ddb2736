//! The check of a pager of another process: every word, against the counters and the presence of pages.
//!
//! The pager runs meanwhile. A chunk is judged by two looks that see the same: its counters before and after its words,
//! its words, and the presence of its pages. A chunk that changes whenever it is read has no verdict. The counters of the
//! pager may differ from the words by the transitions that they count meanwhile, and by those under way; two rounds must
//! find them wrong.

use std::thread;
use std::time::{Duration, Instant};

use plimsoll_os::{Memory, MemoryError};

use super::reader::PublishedPager;
use crate::driver::Pagemap;
use crate::manager::{BLOCK, Event};
use crate::page::{
    CHUNK_PAGES, Chunk, ChunkMode, PAGE_SIZE, PageIndex, PageRange, PageState, PageWord, Violation, Word,
    check_page,
};
use crate::store;

/// Violations with which a check ends.
pub const MOST_VIOLATIONS: usize = 1000;
/// Saved copies that are compared with each other; further ones have no verdict.
const MOST_PLACES: usize = 1 << 25;
/// Looks at a chunk until it has no verdict.
const LOOKS: u32 = 8;
/// Time that one round waits for chunks to settle; after it, the pauses between looks are the shortest.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest time of one round. A pager of 64 GiB takes a few seconds; a hostile record claims 16 TiB.
const LONGEST: Duration = Duration::from_secs(60);
/// The shortest pause between two looks; it doubles from look to look.
const PAUSE: Duration = Duration::from_micros(100);
/// Rounds over all chunks until the counters of the pager have no verdict.
const ROUNDS: u32 = 3;
/// Pages by which the counters of the pager may lag behind words while it works: threads count a batch at its end.
const LAG: u64 = 16 * BLOCK as u64;

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Validation {
    /// Chunks (2 MiB) of regions. Those of a region larger than the budget are counted if one of their pages was touched.
    pub all_chunks: u64,
    /// Those with a verdict.
    pub chunks: u64,
    /// Those that changed whenever they were read: they have none.
    pub unsettled_chunks: u64,
    /// Pages in the chunks with a verdict.
    pub pages: u64,
    /// Whether the presence of pages was compared with their states: the kernel lets this user read the pagemap.
    pub presence_checked: bool,
    /// Whether the check ended early, at [`MOST_VIOLATIONS`] or after a minute, or left out saved copies.
    pub partial: bool,
    /// Differences that the check found, at most [`MOST_VIOLATIONS`].
    pub violations: Vec<Violation>,
}

impl<M: Memory> PublishedPager<'_, M> {
    /// Checks every invariant that can be checked from outside. `pagemap` is that of the process, if it can be read.
    ///
    /// # Errors
    /// [`MemoryError`] if the process has ended or the memory is gone.
    pub fn validate(&self, pagemap: Option<&Pagemap>) -> Result<Validation, MemoryError> {
        let mut before: Option<Vec<Violation>> = None;
        for round in 1.. {
            let found = self.round(pagemap)?;
            let suspects = found.suspects;
            let mut validation = found.validation;
            let before_it = before.unwrap_or_default();
            let again = suspects.iter().filter(|one| is_among(one, &before_it)).copied();
            if suspects.is_empty() || round == ROUNDS || !validation.violations.is_empty() {
                validation.violations.extend(again);
                validation.violations.truncate(MOST_VIOLATIONS);
                return Ok(validation);
            }
            before = Some(suspects);
            thread::sleep(PAUSE * 16);
        }
        unreachable!("a round returns")
    }

    fn round(&self, pagemap: Option<&Pagemap>) -> Result<Round, MemoryError> {
        self.memory.refresh();
        let mut round = Round::default();
        round.validation.presence_checked = pagemap.is_some();
        let begun = Instant::now();
        let before = Counted::of(self)?;
        let mut numbers = Vec::new();
        self.each_chunk(|number, chunk| {
            if chunk.mode() != ChunkMode::Unused {
                numbers.push(number);
            }
        })?;
        round.validation.all_chunks = numbers.len() as u64;
        for number in &numbers {
            if round.validation.violations.len() >= MOST_VIOLATIONS || begun.elapsed() > LONGEST {
                round.validation.partial = true;
                break;
            }
            self.check_chunk(*number, pagemap, &mut round)?;
        }
        self.memory.refresh();
        round.check_places(self)?;
        round.check_pins(&self.pinned()?, &numbers);
        let after = Counted::of(self)?;
        if !round.validation.partial {
            round.check_counters(&before, &after);
        }
        Ok(round)
    }

    /// Whether two pages have the same saved copy at the same time: the first one's word is the same before and after
    /// that of the second one is read.
    fn share_a_copy(&self, first: PageIndex, second: PageIndex) -> Result<bool, MemoryError> {
        let word_of = |page: PageIndex| {
            self.memory.refresh();
            let chunk = self.words_address(page.number() / CHUNK_PAGES);
            let mut bytes = [0; size_of::<PageWord>()];
            let offset = (page.number() % CHUNK_PAGES) as usize * bytes.len();
            self.memory.read(chunk + offset, &mut bytes)?;
            Ok(Word::of_bits(u64::from_ne_bytes(bytes)))
        };
        let words = [word_of(first)?, word_of(second)?, word_of(first)?];
        let [before, between, after] = words;
        Ok(before == after && before.place().is_some() && before.place() == between.place())
    }

    fn check_chunk(
        &self,
        number: u32,
        pagemap: Option<&Pagemap>,
        round: &mut Round,
    ) -> Result<(), MemoryError> {
        let mut last: Option<Look> = None;
        for times in 1..=LOOKS {
            let look = Look::at(self, number, pagemap)?;
            if look.is_settled() {
                let mut found = Vec::new();
                look.check(number, &mut found);
                if found.is_empty() || last.as_ref() == Some(&look) {
                    round.validation.violations.extend(found);
                    round.validation.chunks += 1;
                    round.validation.pages += u64::from(look.chunk().pages());
                    round.count(number, &look);
                    return Ok(());
                }
            }
            last = Some(look);
            // A thread that holds a page busy may wait for a processor.
            let pause = match round.waited < PATIENCE {
                true => PAUSE * (1 << times),
                false => PAUSE,
            };
            round.waited += pause;
            thread::sleep(pause);
            self.memory.refresh();
        }
        round.validation.unsettled_chunks += 1;
        if let Some(look) = last {
            round.count(number, &look);
        }
        Ok(())
    }
}

/// Whether a violation is among others. The numbers of a counter differ from round to round.
fn is_among(one: &Violation, others: &[Violation]) -> bool {
    others.iter().any(|other| match (one, other) {
        (Violation::Counter { what, .. }, Violation::Counter { what: other, .. }) => what == other,
        _ => one == other,
    })
}

/// A chunk as one look sees it.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    chunk: [u8; size_of::<Chunk>()],
    /// The same, read after the words.
    after: [u8; size_of::<Chunk>()],
    words: Vec<Word>,
    /// The words, read again after the presence.
    words_after: Vec<Word>,
    /// Presence in the arena and in the shadow; none if it cannot be read.
    present: Option<[Vec<bool>; 2]>,
}

impl Look {
    fn at<M: Memory>(
        pager: &PublishedPager<'_, M>,
        number: u32,
        pagemap: Option<&Pagemap>,
    ) -> Result<Look, MemoryError> {
        let read_chunk = || {
            let mut bytes = [0; size_of::<Chunk>()];
            pager.memory.read(pager.chunk_address(number), &mut bytes)?;
            Ok::<_, MemoryError>(bytes)
        };
        let read_words = |is_touched: bool| {
            let mut bytes = vec![0; CHUNK_PAGES as usize * size_of::<PageWord>()];
            if is_touched {
                pager.memory.read(pager.words_address(number), &mut bytes)?;
            }
            let (words, _) = bytes.as_chunks();
            Ok::<_, MemoryError>(
                words
                    .iter()
                    .map(|word| Word::of_bits(u64::from_ne_bytes(*word)))
                    .collect(),
            )
        };
        let chunk = read_chunk()?;
        // Reading words that were never written would give them memory.
        let is_touched = Chunk::of_bytes(&chunk).is_touched();
        let words: Vec<Word> = read_words(is_touched)?;
        let offset = number as usize * CHUNK_PAGES as usize * PAGE_SIZE;
        let present = pagemap.and_then(|pagemap| {
            let of = |area: u64| {
                let mut present = vec![false; CHUNK_PAGES as usize];
                let read = pagemap.present(area as usize + offset, &mut present);
                read.ok().map(|()| present)
            };
            Some([of(pager.root.arena)?, of(pager.root.shadow)?])
        });
        pager.memory.refresh();
        let words_after = match present {
            Some(_) => read_words(is_touched)?,
            None => words.clone(),
        };
        Ok(Look {
            chunk,
            after: read_chunk()?,
            words,
            words_after,
            present,
        })
    }

    fn chunk(&self) -> Chunk {
        Chunk::of_bytes(&self.chunk)
    }

    /// Whether nothing changed during the look, and no thread works on a page of the chunk.
    fn is_settled(&self) -> bool {
        let is_busy = self
            .words
            .iter()
            .any(|word| word.is_valid() && word.state() == PageState::Busy);
        let is_converting = matches!(self.chunk().mode(), ChunkMode::Converting | ChunkMode::Changing);
        self.chunk == self.after && self.words == self.words_after && !is_busy && !is_converting
    }

    fn check(&self, number: u32, found: &mut Vec<Violation>) {
        let chunk = self.chunk();
        let first = PageIndex::new(number * CHUNK_PAGES);
        let is_managed = chunk.mode() == ChunkMode::Managed;
        let mut states = [0_u64; PageState::ALL.len()];
        for (index, (page, word)) in PageRange::new(first, CHUNK_PAGES)
            .pages()
            .zip(&self.words)
            .enumerate()
        {
            if found.len() >= MOST_VIOLATIONS {
                return;
            }
            if !word.is_valid() {
                let word = word.bits();
                found.push(Violation::Word { page, word });
                continue;
            }
            let state = word.state();
            states[state as usize] += 1;
            let is_owned = is_managed && (index as u32) < chunk.pages();
            if !is_owned && state != PageState::Virgin {
                found.push(Violation::Unowned { page, state });
            }
            if is_owned && let Some([arena, shadow]) = &self.present {
                found.extend(check_page(page, state, arena[index], shadow[index]));
            }
        }
        for state in [PageState::Active, PageState::Modified, PageState::Standby] {
            let (counted, words) = (u64::from(chunk.pages_in(state)), states[state as usize]);
            if counted != words {
                let what = "pages of a chunk";
                let found_words = Violation::Counter {
                    what,
                    counted,
                    found: words,
                };
                found.push(found_words);
            }
        }
    }
}

/// The counters of a pager at one time.
struct Counted {
    states: [u64; PageState::ALL.len()],
    standby: [u64; 8],
    frames: u64,
    native: u64,
    /// Transitions so far.
    transitions: u64,
}

impl Counted {
    fn of<M: Memory>(pager: &PublishedPager<'_, M>) -> Result<Counted, MemoryError> {
        let counters = pager.counters()?;
        let budget = pager.budget()?;
        let events = Event::TRANSITIONS.into_iter().map(|event| counters.of(event));
        // A page that becomes virgin is no event, but is counted as a state that it never leaves.
        let discarded = counters.pages_in(PageState::Virgin);
        Ok(Counted {
            states: PageState::ALL.map(|state| counters.pages_in(state)),
            standby: std::array::from_fn(|priority| counters.standby(priority as u8)),
            frames: budget.frames(),
            native: budget.native(),
            transitions: events.fold(discarded, u64::wrapping_add),
        })
    }
}

/// A walk over all chunks.
#[derive(Default)]
struct Round {
    validation: Validation,
    /// Pages in each state, standby ones by priority, pages of native chunks.
    states: [u64; PageState::ALL.len()],
    standby: [u64; 8],
    native: u64,
    /// Saved copies of one page each, with the page, of settled chunks.
    places: Vec<(u64, PageIndex)>,
    /// Counters and pins that seem wrong.
    suspects: Vec<Violation>,
    /// Time waited for chunks to settle.
    waited: Duration,
}

impl Round {
    fn count(&mut self, number: u32, look: &Look) {
        let chunk = look.chunk();
        if chunk.mode() == ChunkMode::Native {
            self.native += u64::from(chunk.pages());
        }
        let first = PageIndex::new(number * CHUNK_PAGES);
        for (page, word) in PageRange::new(first, CHUNK_PAGES).pages().zip(&look.words) {
            self.states[word.state() as usize] += 1;
            if word.state() == PageState::Standby {
                self.standby[usize::from(word.priority())] += 1;
            }
            let Some(place) = word.place() else { continue };
            let is_exclusive =
                store::Place::of_bits(place.bits()).is_some_and(|place| !place.is_same_filled());
            if is_exclusive && look.is_settled() {
                if self.places.len() < MOST_PLACES {
                    self.places.push((place.bits(), page));
                } else {
                    self.validation.partial = true;
                }
            }
        }
    }

    /// Two pages may not have the same saved copy, unless the store keeps them together: the four of a quad.
    fn check_places<M: Memory>(&mut self, pager: &PublishedPager<'_, M>) -> Result<(), MemoryError> {
        self.places
            .sort_unstable_by_key(|(place, page)| (*place, page.number()));
        let quad = |page: PageIndex| page.number() >> 2;
        let pairs = self.places.windows(2);
        let shared = pairs.filter(|pair| pair[0].0 == pair[1].0 && quad(pair[0].1) != quad(pair[1].1));
        for (number, pair) in shared.enumerate() {
            if number == MOST_VIOLATIONS {
                self.validation.partial = true;
                break;
            }
            if pager.share_a_copy(pair[0].1, pair[1].1)? {
                self.validation
                    .violations
                    .push(Violation::SharedPlace { page: pair[1].1 });
            }
        }
        Ok(())
    }

    /// Every pinned range is in chunks of regions.
    fn check_pins(&mut self, pins: &[(PageIndex, u32)], chunks: &[u32]) {
        for (page, count) in pins {
            let end = u64::from(page.number()) + u64::from(*count);
            let last = (end - 1) / u64::from(CHUNK_PAGES);
            let first = u64::from(page.number() / CHUNK_PAGES);
            let known = chunks.partition_point(|chunk| u64::from(*chunk) <= last)
                - chunks.partition_point(|chunk| u64::from(*chunk) < first);
            if known as u64 != last - first + 1 {
                self.suspects.push(Violation::Pin {
                    page: *page,
                    count: *count,
                });
            }
        }
    }

    fn check_counters(&mut self, before: &Counted, after: &Counted) {
        // Pages that go from the store to the page file are no event.
        let states = before.states.iter().zip(&after.states);
        let changed = states.fold(0, |sum: u64, (before, after)| {
            sum.saturating_add(before.abs_diff(*after))
        });
        let moved = after
            .transitions
            .wrapping_sub(before.transitions)
            .saturating_add(changed);
        let unsettled = self.validation.unsettled_chunks * u64::from(CHUNK_PAGES);
        let tolerance = match moved {
            0 => 0,
            moved => moved.saturating_add(LAG),
        };
        let tolerance = tolerance.saturating_add(unsettled);
        let mut compare = |what, counted: u64, found: u64, tolerance: u64| {
            if counted.abs_diff(found) > tolerance {
                self.suspects.push(Violation::Counter { what, counted, found });
            }
        };
        let names = [
            ("active pages", PageState::Active),
            ("modified pages", PageState::Modified),
            ("standby pages", PageState::Standby),
            ("compressed pages", PageState::Compressed),
            ("page-file pages", PageState::PageFile),
            ("surrendered pages", PageState::Surrendered),
        ];
        for (what, state) in names {
            compare(
                what,
                after.states[state as usize],
                self.states[state as usize],
                tolerance,
            );
        }
        for (counted, found) in after.standby.iter().zip(self.standby) {
            compare("standby pages by priority", *counted, found, tolerance);
        }
        let frames = [PageState::Active, PageState::Modified, PageState::Standby];
        let frames = frames.iter().map(|state| self.states[*state as usize]).sum();
        // A fault charges a frame before it locks the page.
        compare(
            "frames",
            after.frames,
            frames,
            tolerance.saturating_add(BLOCK.into()),
        );
        if before.native == after.native {
            compare("native pages", after.native, self.native, unsettled);
        }
    }
}
