//! Threads that put, read, free, clean, recompress and spill at a time, over pages that each locks by its word.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::content::{CLASSES, Numbers, page_of};
use super::*;

const PAGES: u64 = 1024;

/// The word of a page: 0, or its place from bit 1 on and the version of its contents from bit 42 on. Bit 0 is the lock.
struct Words(Vec<AtomicU64>);

const LOCKED: u64 = 1;
const VERSION: u32 = 42;

impl Words {
    fn try_lock(&self, number: u32) -> Option<u64> {
        let word = &self.0[number as usize];
        let seen = word.load(Ordering::Relaxed);
        let locked = seen & LOCKED == 0
            && word
                .compare_exchange(seen, seen | LOCKED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        locked.then_some(seen)
    }

    fn unlock(&self, number: u32, word: u64) {
        self.0[number as usize].store(word, Ordering::Release);
    }

    fn relocate(&self, page: PageIndex, old: Place, new: Place) -> bool {
        let Some(seen) = self.try_lock(page.number()) else {
            return false;
        };
        let is_there = place(seen) == Some(old);
        let word = if is_there {
            word_of(new, version(seen))
        } else {
            seen
        };
        self.unlock(page.number(), word);
        is_there
    }
}

fn word_of(place: Place, version: u64) -> u64 {
    version << VERSION | place.bits() << 1
}

fn version(word: u64) -> u64 {
    word >> VERSION
}

fn place(word: u64) -> Option<Place> {
    // Version 0 has no copy.
    (version(word) != 0)
        .then(|| Place::of_bits(word >> 1 & ((1 << Place::BITS) - 1)))
        .flatten()
}

fn content(number: u32, version: u64) -> Page {
    let seed = u64::from(number) << 24 | version;
    page_of(CLASSES[(seed % 97) as usize % CLASSES.len()], seed)
}

/// One thread's share of the work.
fn work(store: &Store, words: &Words, seed: u64, calls: u64) -> u64 {
    let mut numbers = Numbers(seed);
    let mut verified = 0;
    let mut next = 1;
    for _ in 0..calls {
        let number = numbers.below(PAGES) as u32;
        let Some(seen) = words.try_lock(number) else {
            continue;
        };
        let word = match place(seen) {
            Some(place) => {
                let expected = content(number, version(seen));
                let mut target = [0; PAGE];
                store
                    .get(page(number), place, &mut target)
                    .expect("it has a copy");
                assert!(target == expected, "page {number}: a wrong page");
                verified += 1;
                if numbers.below(2) == 0 {
                    store.free(page(number), place).expect("it has a copy");
                    0
                } else {
                    seen
                }
            }
            None => {
                next = next % 4000 + 1;
                match store.put(page(number), &content(number, next)) {
                    Ok(place) => word_of(place, next),
                    Err(_) => 0,
                }
            }
        };
        words.unlock(number, word);
    }
    verified
}

/// Cleans, recompresses and gives up spills, until the others are done.
fn maintain(store: &Store, words: &Words, is_done: &AtomicBool) {
    let mut bytes = Box::new([0; SEGMENT]);
    while !is_done.load(Ordering::Relaxed) {
        let relocate = |page, old, new| words.relocate(page, old, new);
        let _ = store.clean(1 << 20, relocate);
        store.advance_epoch();
        let _ = store.recompress(Idle { pages: 1, quads: 3 }, 1 << 20, relocate);
        drop(store.take_segment_for_spill(&mut bytes));
        store.close_segments();
        store.return_free();
    }
}

fn stress(workers: u64, calls: u64, limit: u64) {
    let store = limited(limit);
    let words = Words((0..PAGES).map(|_| AtomicU64::new(0)).collect());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let maintainers = [0, 1].map(|_| scope.spawn(|| maintain(&store, &words, &is_done)));
        let workers: Vec<_> = (0..workers)
            .map(|seed| {
                scope.spawn({
                    let (store, words) = (&store, &words);
                    move || work(store, words, seed, calls)
                })
            })
            .collect();
        let verified: u64 = workers
            .into_iter()
            .map(|worker| worker.join().expect("no wrong page"))
            .sum();
        is_done.store(true, Ordering::Relaxed);
        for maintainer in maintainers {
            maintainer.join().expect("it ends");
        }
        assert!(verified > calls / 4, "{verified} pages were read");
    });
    for (number, word) in words.0.iter().enumerate() {
        let word = word.load(Ordering::Relaxed);
        let number = number as u32;
        if let Some(place) = place(word) {
            assert!(
                read(&store, number, place) == Ok(content(number, version(word))),
                "page {number}"
            );
        }
    }
    store.validate().expect("every invariant holds");
}

#[test]
fn threads_never_read_a_wrong_page() {
    stress(4, 15_000, 16 << 20);
}

#[test]
fn threads_never_read_a_wrong_page_at_the_limit() {
    stress(4, 10_000, 2 << 20);
}

/// Ten minutes by hand: `cargo test --release -p plimsoll-pager --lib store::tests::threads -- --ignored`.
#[test]
#[ignore = "long: for a person"]
fn many_threads_never_read_a_wrong_page() {
    stress(16, 4_000_000, 2 << 20);
}

/// Readers of one page, whose entry moves all the time.
#[test]
fn readers_meet_a_cleaner_that_moves_their_entry() {
    let store = store();
    let words = Words((0..PAGES).map(|_| AtomicU64::new(0)).collect());
    for number in 0..PAGES as u32 {
        let place = store
            .put(page(number), &content(number, 1))
            .expect("there is room");
        words.unlock(number, word_of(place, 1));
    }
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let maintainer = scope.spawn(|| maintain(&store, &words, &is_done));
        let readers: Vec<_> = (0..3)
            .map(|seed| {
                let (store, words) = (&store, &words);
                scope.spawn(move || {
                    let mut numbers = Numbers(seed);
                    let mut bytes = [0; PAGE];
                    for _ in 0..10_000 {
                        let number = numbers.below(PAGES) as u32;
                        if let Some(seen) = words.try_lock(number) {
                            let place = place(seen).expect("it has a copy");
                            store.get(page(number), place, &mut bytes).expect("it has a copy");
                            assert!(bytes == content(number, 1));
                            words.unlock(number, seen);
                        }
                    }
                })
            })
            .collect();
        readers
            .into_iter()
            .for_each(|reader| reader.join().expect("no wrong page"));
        is_done.store(true, Ordering::Relaxed);
        maintainer.join().expect("it ends");
    });
    store.validate().expect("every invariant holds");
}
