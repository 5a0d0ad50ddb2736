//! Pagers of this process, read as those of another one.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_os::{Memory, MemoryError, OtherProcess};
use proptest::prelude::*;

use super::reader::PublishedPager;
use super::{LAYOUT, LOOK_BYTES, LOOK_READS, MAGIC, MOST_VIOLATIONS, OpenError, Pagemap, RECORD_BYTES};
use crate::manager::AgeingState;
use crate::page::{CHUNK_PAGES, PAGE_SIZE, PageState, Violation};
use crate::stats::Stats;
use crate::{Pager, Region, TrimTo};

const MIB: usize = 1 << 20;

fn own() -> OtherProcess {
    OtherProcess::new(std::process::id())
}

fn pagemap() -> Pagemap {
    Pagemap::own().expect("a process reads its own pagemap")
}

/// The addresses of the records in this process, which runs other tests with pagers meanwhile.
fn records() -> Vec<usize> {
    let maps = fs::read_to_string("/proc/self/maps").expect("a process reads its mappings");
    let starts = maps.lines().filter_map(|line| {
        let (start, rest) = line.split_once('-')?;
        let end = rest.split(' ').next()?;
        let of = |text| usize::from_str_radix(text, 16).ok();
        let (start, end) = (of(start)?, of(end)?);
        (end - start == RECORD_BYTES && line.contains(" rw-p ")).then_some(start)
    });
    let is_record = |start: &usize| {
        let mut bytes = [0; MAGIC.len()];
        own().read(*start, &mut bytes).is_ok() && bytes == MAGIC
    };
    starts.filter(is_record).collect()
}

/// The pager of a region, from outside.
fn published<'m, M: Memory>(memory: &'m M, region: &Region) -> PublishedPager<'m, M> {
    let address = region.as_ptr() as u64;
    let opened = records()
        .into_iter()
        .filter_map(|at| PublishedPager::open(memory, at).ok());
    let mut own = opened.filter(|pager| {
        let bytes = pager.address_space_pages() * PAGE_SIZE as u64;
        (pager.arena()..pager.arena() + bytes).contains(&address)
    });
    own.next().expect("the pager has a record")
}

fn write(region: &mut Region, seed: u64) {
    let (words, _) = region.bytes_mut().as_chunks_mut::<8>();
    for (number, word) in (0_u64..).zip(words) {
        // A part of each page is noise, and a few pages are zero.
        let value = match (number / 512 % 16, number % 512) {
            (3, _) | (_, 300..) => 0,
            _ => (number + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        };
        *word = value.to_ne_bytes();
    }
}

/// A pager with pages in several states.
fn mixed() -> (Pager, Region, Region) {
    let builder = Pager::builder().ram(8 * MIB as u64).address_space(256 << 20);
    let pager = builder.build().expect("userfaultfd");
    let mut region = pager.map(12 * MIB + 5 * PAGE_SIZE).expect("addresses");
    write(&mut region, 1);
    region
        .trim(..2 * MIB, TrimTo::Store)
        .expect("the range is inside");
    region
        .trim(2 * MIB..3 * MIB, TrimTo::Standby)
        .expect("the range is inside");
    region
        .trim(3 * MIB..4 * MIB, TrimTo::Modified)
        .expect("the range is inside");
    region.prefetch(..MIB).expect("the budget has room");
    // Two pages: a reader looks for records in each mapping of one page, and that makes a native page present.
    let small = pager.map(2 * PAGE_SIZE).expect("addresses");
    (pager, region, small)
}

/// Waits until the balance-set manager does nothing.
fn rest(pager: &Pager) {
    let mut last = pager.stats();
    for _ in 0..2000 {
        std::thread::sleep(Duration::from_millis(20));
        let now = pager.stats();
        if now == last {
            return;
        }
        last = now;
    }
    panic!("the pager never rests");
}

#[test]
fn the_statistics_are_those_of_the_embedder() {
    let (pager, region, _small) = mixed();
    let _pin = region.pin(..3 * PAGE_SIZE).expect("a part of the budget");
    rest(&pager);
    let memory = own();
    let outside = published(&memory, &region);
    let inside = pager.stats();
    // The balance-set manager publishes the counters that no single atomic holds, once a second at the latest. Those that
    // change at rest, with its ageing and thrash control, are compared below.
    let at_once = |stats: Stats| Stats {
        store_bytes: 0,
        metadata_bytes: 0,
        refaults: 0,
        stall_us: 0,
        ageing: AgeingState::Off,
        ageing_windows: 0,
        ageing_us: 0,
        heat_chunks: [0; 8],
        thrash_us: [0; 5],
        ..stats
    };
    assert_eq!(at_once(outside.stats().expect("memory")), at_once(inside));
    assert!(inside.pinned_pages == 3 && inside.compressed_pages > 0 && inside.hard_faults > 0);
    let mapped = outside.mapped().expect("memory");
    assert_eq!(mapped.pages, (12 * MIB / PAGE_SIZE + 5 + 2) as u64);
    assert_eq!(mapped.native_pages, inside.native_pages);
    let virgin = pager.snapshot().pages_in(PageState::Virgin);
    assert_eq!(mapped.virgin_pages + mapped.native_pages, virgin);
    let is_renewed = (0..3000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        outside.stats().expect("memory") == pager.stats()
    });
    assert!(is_renewed, "{:?} {:?}", outside.stats(), pager.stats());
}

#[test]
fn a_pager_at_rest_passes_whole() {
    let (pager, region, _small) = mixed();
    rest(&pager);
    let memory = own();
    let found = published(&memory, &region)
        .validate(Some(&pagemap()))
        .expect("memory");
    assert_eq!(found.violations, []);
    assert_eq!(
        (found.chunks, found.all_chunks, found.unsettled_chunks),
        (8, 8, 0)
    );
    assert_eq!(found.pages, (12 * MIB / PAGE_SIZE + 5 + 2) as u64);
    assert!(found.presence_checked && !found.partial);
}

#[test]
fn a_pager_at_work_is_no_damage() {
    let pager = Pager::builder().ram(8 * MIB as u64).build().expect("userfaultfd");
    let mut regions: Vec<Region> = (0..3).map(|_| pager.map(4 * MIB).expect("addresses")).collect();
    let first = regions[0].as_ptr() as u64;
    let (stop, memory) = (AtomicBool::new(false), own());
    let mut settled = 0;
    std::thread::scope(|scope| {
        for (number, region) in regions.iter_mut().enumerate() {
            let stop = &stop;
            scope.spawn(move || {
                let mut seed = number as u64;
                while !stop.load(Ordering::Relaxed) {
                    write(region, seed);
                    region.trim(..MIB, TrimTo::Store).expect("the range is inside");
                    region.discard(2 * MIB..3 * MIB).expect("nothing is locked");
                    seed += 1;
                }
            });
        }
        let mut records = records()
            .into_iter()
            .filter_map(|at| PublishedPager::open(&memory, at).ok());
        let own = records.find(|pager| pager.arena() <= first && first - pager.arena() < 64 << 30);
        let own = own.expect("the pager has a record");
        for round in 0..30 {
            let found = own.validate(Some(&pagemap())).expect("memory");
            if !found.violations.is_empty() {
                stop.store(true, Ordering::Relaxed);
            }
            assert_eq!(found.violations, [], "round {round}");
            settled += found.chunks;
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(settled > 0);
}

/// This process's memory with other bytes at some addresses.
struct Altered {
    bytes: BTreeMap<usize, u8>,
}

impl Altered {
    fn new() -> Altered {
        Altered {
            bytes: BTreeMap::new(),
        }
    }

    fn set(&mut self, address: usize, bytes: &[u8]) {
        self.bytes.extend((address..).zip(bytes.iter().copied()));
    }
}

impl Memory for Altered {
    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        own().read(address, into)?;
        for (at, byte) in self.bytes.range(address..address + into.len()) {
            into[at - address] = *byte;
        }
        Ok(())
    }
}

/// The violations that a check finds after a change of the memory.
fn found_after(
    region: &Region,
    change: impl FnOnce(&PublishedPager<'_, OtherProcess>, &mut Altered),
) -> Vec<Violation> {
    let memory = own();
    let mut altered = Altered::new();
    change(&published(&memory, region), &mut altered);
    // A chunk with a page under way has no verdict.
    let mut tries = (0..100).map(|_| {
        published(&altered, region)
            .validate(Some(&pagemap()))
            .expect("memory")
    });
    let found = tries.find(|found| found.unsettled_chunks == 0);
    found.expect("the pager is at rest").violations
}

#[test]
fn each_damage_is_found_and_nothing_besides() {
    let (pager, region, _small) = mixed();
    rest(&pager);
    let memory = own();
    let snapshot = pager.snapshot();
    let first_in = |state| {
        let run = snapshot.runs().iter().find(|run| run.state == state);
        run.expect("a page is in the state").pages.first
    };
    let word_of = |outside: &PublishedPager<'_, OtherProcess>, page: u32| {
        let address = outside.words_address(page / CHUNK_PAGES) + (page % CHUNK_PAGES) as usize * 8;
        let mut bytes = [0; 8];
        memory.read(address, &mut bytes).expect("a word");
        (address, u64::from_ne_bytes(bytes))
    };
    let compressed = first_in(PageState::Compressed).number();

    // A word that no transition writes: state 7, and the bit that is always 0.
    for bits in [7, 1 << 51] {
        let found = found_after(&region, |outside, altered| {
            let (at, word) = word_of(outside, compressed);
            altered.set(at, &(word | bits).to_ne_bytes());
        });
        assert!(matches!(found[..], [Violation::Word { .. }, ..]), "{found:?}");
    }
    // A compressed page that is said to be active: the page is absent, and the counters count one less.
    let found = found_after(&region, |outside, altered| {
        altered.set(word_of(outside, compressed).0, &1_u64.to_ne_bytes());
    });
    let has = |wanted: fn(&Violation) -> bool| found.iter().any(wanted);
    assert!(
        has(|one| matches!(one, Violation::Arena { present: false, .. })),
        "{found:?}"
    );
    assert!(
        has(|one| matches!(
            one,
            Violation::Counter {
                what: "pages of a chunk",
                ..
            }
        )),
        "{found:?}"
    );
    assert_eq!(found.len(), 2, "{found:?}");
    // Two pages of different quads with the same saved copy.
    let found = found_after(&region, |outside, altered| {
        let copies = (compressed..compressed + 512).map(|page| word_of(outside, page));
        let copies: Vec<(usize, u64)> = copies
            .filter(|(_, word)| word & 7 == 4 && word >> 42 & 1 == 0)
            .collect();
        altered.set(copies[100].0, &copies[0].1.to_ne_bytes());
    });
    assert!(matches!(found[..], [Violation::SharedPlace { .. }]), "{found:?}");
    // A counter of the pager, the budget, a pin beyond the regions.
    let mut counters = Vec::new();
    type Address = fn(&PublishedPager<'_, OtherProcess>) -> usize;
    let words: [(Address, u64, &str); 5] = [
        (|outside| outside.root.counters as usize + 8, 100, "active pages"),
        (
            |outside| outside.root.counters as usize + 7 * 8,
            100,
            "surrendered pages",
        ),
        (
            |outside| outside.root.counters as usize + 8 * 8,
            100,
            "standby pages by priority",
        ),
        (|outside| outside.root.budget as usize + 16, 100, "frames"),
        (
            |outside| outside.root.budget as usize + 16,
            100 << 32,
            "native pages",
        ),
    ];
    for (address, more, name) in words {
        let found = found_after(&region, |outside, altered| {
            let mut bytes = [0; 8];
            memory.read(address(outside), &mut bytes).expect("a counter");
            let changed = u64::from_ne_bytes(bytes) + more;
            altered.set(address(outside), &changed.to_ne_bytes());
        });
        counters.push((name, found));
    }
    for (name, found) in counters {
        assert!(
            matches!(found[..], [Violation::Counter { what, .. }] if what == name),
            "{name}: {found:?}"
        );
    }
    let found = found_after(&region, |outside, altered| {
        altered.set(outside.root.pins as usize, &(60_000_u64 << 32 | 3).to_ne_bytes());
    });
    assert!(
        matches!(found[..], [Violation::Pin { count: 3, .. }]),
        "{found:?}"
    );
    // A page behind the end of a region.
    let found = found_after(&region, |outside, altered| {
        let end = (12 * MIB / PAGE_SIZE + 5) as u32;
        // Compressed, of one value: the place of a copy may be that of another page.
        altered.set(word_of(outside, end).0, &(4 | 1_u64 << 42).to_ne_bytes());
    });
    assert!(matches!(found[..], [Violation::Unowned { .. }]), "{found:?}");
}

#[test]
fn other_layouts_and_damaged_records_are_told_apart() {
    let (_pager, region, _small) = mixed();
    let memory = own();
    let at = published(&memory, &region).address();
    let opened = |offset: usize, bytes: &[u8]| {
        let mut altered = Altered::new();
        altered.set(at + offset, bytes);
        PublishedPager::open(&altered, at).map(|_| ())
    };
    assert_eq!(opened(3, b"?"), Err(OpenError::NotAPager));
    let next = (LAYOUT + 1).to_ne_bytes();
    assert_eq!(
        opened(16, &next),
        Err(OpenError::OtherLayout { found: LAYOUT + 1 })
    );
    // The size of a structure.
    assert_eq!(opened(24, &next), Err(OpenError::OtherLayout { found: LAYOUT }));
    let huge = [0xFF; 8];
    for (offset, name) in [(40, "arena"), (56, "pages"), (64, "table"), (88, "counters")] {
        let damaged = opened(offset, &huge);
        assert!(
            matches!(damaged, Err(OpenError::Damaged { field, .. }) if field == name),
            "{name}: {damaged:?}"
        );
    }
    let gone = PublishedPager::open(&memory, 16);
    assert!(matches!(
        gone,
        Err(OpenError::Memory(MemoryError::Unreadable { .. }))
    ));
}

#[test]
fn a_record_ends_with_its_pager() {
    let (pager, region, small) = mixed();
    let memory = own();
    let record = published(&memory, &region);
    let (at, arena) = (record.address(), record.arena());
    drop((pager, region, small));
    // Another test may have mapped the record of another pager there.
    let left = PublishedPager::open(&memory, at);
    assert!(left.is_err() || left.is_ok_and(|other| other.arena() != arena));
}

/// Memory with a record, and any bytes elsewhere.
struct Anything {
    record: Vec<u8>,
    seed: u64,
    /// Of how many words one is arbitrary.
    sparse: u64,
}

/// The address of the record in [`Anything`].
const AT: usize = 0x7000_0000_0000;

impl Memory for Anything {
    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        for (offset, byte) in into.iter_mut().enumerate() {
            let at = address.wrapping_add(offset);
            *byte = match self.record.get(at.wrapping_sub(AT)) {
                Some(byte) => *byte,
                None => {
                    let word = ((at as u64 / 8) ^ self.seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    let word = word ^ word >> 29;
                    let is_arbitrary = (word >> 7).is_multiple_of(self.sparse);
                    let word = if is_arbitrary { word } else { word >> 32 & 5 };
                    (word >> (8 * (at % 8))) as u8
                }
            };
        }
        Ok(())
    }
}

/// Counts the reads of another memory, and their bytes.
struct Counted<M> {
    memory: M,
    reads: Cell<usize>,
    bytes: Cell<usize>,
}

impl<M: Memory> Memory for Counted<M> {
    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        self.reads.set(self.reads.get() + 1);
        self.bytes.set(self.bytes.get() + into.len());
        self.memory.read(address, into)
    }
}

/// Reads and bytes of a look, and whether it found counters.
fn look(memory: impl Memory) -> (usize, usize, bool) {
    let memory = Counted {
        memory,
        reads: Cell::new(0),
        bytes: Cell::new(0),
    };
    let stats = PublishedPager::open(&memory, AT).map(|pager| pager.stats().is_ok());
    (memory.reads.get(), memory.bytes.get(), stats == Ok(true))
}

/// Tables of 2^60 entries, the most pages that a record can claim, and a record that refers to itself.
#[test]
fn a_look_costs_the_same_for_any_size_of_the_tables() {
    let image = |pages, address: fn(usize) -> u64| Anything {
        record: super::root::record_bytes(pages, address),
        seed: 1,
        sparse: 1,
    };
    let most = u64::from(u32::MAX / CHUNK_PAGES) * u64::from(CHUNK_PAGES);
    let apart: fn(usize) -> u64 = |number| (number as u64 + 1) << 13;
    let circular: fn(usize) -> u64 = |_| AT as u64;
    for (pages, address) in [(u64::from(CHUNK_PAGES), apart), (most, apart), (most, circular)] {
        assert_eq!(
            look(image(pages, address)),
            (LOOK_READS, LOOK_BYTES, true),
            "{pages}"
        );
    }
    for pages in [1 << 60, u64::MAX, 0] {
        let (reads, bytes, has_stats) = look(image(pages, apart));
        assert!(!has_stats && reads == 2 && bytes < LOOK_BYTES, "{pages}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_look_is_bounded_for_any_contents(
        seed: u64,
        changes in proptest::collection::vec((0..160_usize, any::<u8>()), 0..4),
        pages: u64,
        fields in proptest::collection::vec(any::<u64>(), 10),
    ) {
        let mut record = super::root::record_bytes(pages, |number| fields[number] >> 17 & !0xFFF | 0x1000);
        for (at, byte) in changes {
            if let Some(place) = record.get_mut(at) {
                *place = byte;
            }
        }
        let (reads, bytes, _) = look(Anything { record, seed, sparse: 1 });
        prop_assert!(reads <= LOOK_READS && bytes <= LOOK_BYTES);
    }

    #[test]
    fn any_bytes_of_a_record_end_in_an_error_or_in_bounded_work(
        seed: u64,
        sparse in prop_oneof![1..4_u64, 500..5000_u64],
        changes in proptest::collection::vec((0..160_usize, any::<u8>()), 0..4),
        chunks in 1..3_u64,
        fields in proptest::collection::vec(any::<u64>(), 10),
    ) {
        let mut record = super::root::record_bytes(chunks * u64::from(CHUNK_PAGES), |number| {
            // Aligned addresses in the lower half, so that most records are followed.
            fields[number] >> 17 & !0xFFF | 0x1000
        });
        for (at, byte) in changes {
            if let Some(place) = record.get_mut(at) {
                *place = byte;
            }
        }
        let memory = Anything { record, seed, sparse };
        let Ok(pager) = PublishedPager::open(&memory, AT) else { return Ok(()) };
        // A changed number of pages is more than a test has time for.
        prop_assume!(pager.address_space_pages() <= 2 * u64::from(CHUNK_PAGES));
        pager.stats().expect("all can be read").resident_bytes();
        let mapped = pager.mapped().expect("all can be read");
        prop_assert!(mapped.native_pages <= mapped.pages);
        let found = pager.validate(None).expect("all can be read");
        prop_assert!(found.violations.len() <= MOST_VIOLATIONS);
        prop_assert!(found.chunks + found.unsettled_chunks <= found.all_chunks && found.all_chunks <= 2);
        for violation in &found.violations {
            prop_assert!(!violation.to_string().is_empty());
        }
    }
}
