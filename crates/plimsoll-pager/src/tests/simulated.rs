//! The manager over a model of memory with injected errors, against a model of its contents.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use crate::backing::Backing;
use crate::backing::model::ModelStore;
use crate::driver::Driver;
use crate::driver::simulated::{Injection, Simulated};
use crate::fault::FaultError;
use crate::manager::{Manager, Purpose};
use crate::page::{CHUNK_PAGES, PAGE_SIZE, Page, PageIndex, PageRange, PageState, Violation};

pub(super) type Sim = Manager<Simulated, ModelStore>;

/// Pages of the arena in these tests: three chunks, the last one partly used.
pub(super) const PAGES: u32 = 2 * CHUNK_PAGES + 100;

pub(super) fn sim(ram_pages: u64, per_mille: u32, seed: u64) -> Sim {
    sim_of_kernel(ram_pages, per_mille, seed, true)
}

/// As `sim`, on a kernel that moves pages or does not.
pub(super) fn sim_of_kernel(ram_pages: u64, per_mille: u32, seed: u64, moves: bool) -> Sim {
    let driver = Simulated::of_kernel(3 * CHUNK_PAGES, Injection::new(0, seed), moves);
    let ram = ram_pages * PAGE_SIZE as u64;
    let manager = Manager::new(driver, ModelStore::default(), 3 * CHUNK_PAGES, ram).expect("memory");
    manager
        .open(PageRange::new(PageIndex::new(0), PAGES))
        .expect("nothing is injected yet");
    if moves {
        manager.ageing.start(Duration::ZERO);
    }
    manager.driver.inject(per_mille);
    manager
        .backing
        .inject(Injection::new(per_mille, seed ^ 0xABCD_EF01));
    manager
}

/// A time that is an hour after the last one of this thread.
pub(super) fn an_hour_later() -> Duration {
    thread_local!(static HOURS: Cell<u64> = const { Cell::new(0) });
    HOURS.set(HOURS.get() + 1);
    Duration::from_secs(3600 * HOURS.get())
}

/// Ends the injected errors, and returns those so far, by kind.
pub(super) fn end_injection(manager: &Sim) -> BTreeMap<&'static str, u64> {
    let mut injected = manager.driver.inject(0);
    injected.extend(manager.backing.end_injection());
    injected
}

/// The program's access to a page: as often as it faults, the manager resolves the fault.
pub(super) fn access<T>(manager: &Sim, page: PageIndex, mut access: impl FnMut(&mut Page) -> T) -> T {
    for _ in 0..100_000 {
        if let Some(result) = manager.driver.access(page, &mut access) {
            return result;
        }
        match manager.fault(page) {
            // An injected one: the next try finds the copy intact.
            Ok(()) | Err(FaultError::Damaged(_)) => {}
            Err(error) => panic!("{page:?}: {error}"),
        }
    }
    panic!("{page:?} faults for ever");
}

/// The contents of a page that was written with `value`: zeros for 0; some values do not compress.
pub(super) fn contents(value: u8) -> Page {
    let mut page = [0; PAGE_SIZE];
    let mut x = u64::from(value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let noise = match value % 8 {
        _ if value == 0 => 0,
        7 => PAGE_SIZE,
        part => PAGE_SIZE / 16 * usize::from(part),
    };
    for byte in &mut page[..noise] {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        *byte = x as u8;
    }
    if value != 0 {
        page[noise..].fill(value);
    }
    page
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Write(u32, u8),
    Read(u32),
    Scan(u32, u32),
    Trim(u32),
    TrimRange(u32, u32),
    Save(u32),
    Release(u32),
    Reclaim,
    Discard(u32, u32),
    Drop(u32),
    Unmovable(u32, bool),
    Relocate(u32),
    Clean(u32),
    Balance,
    Surrender(u32, u32),
    TakeBack(u32, u32),
    Commit(u32, u32),
    Decommit(u32, u32),
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let page = 0..PAGES;
    let count = 1..200_u32;
    prop_oneof![
        6 => (page.clone(), any::<u8>()).prop_map(|(page, value)| Step::Write(page, value)),
        4 => page.clone().prop_map(Step::Read),
        2 => (page.clone(), count.clone()).prop_map(|(page, count)| Step::Scan(page, count)),
        3 => count.clone().prop_map(Step::Trim),
        2 => (page.clone(), count.clone()).prop_map(|(page, count)| Step::TrimRange(page, count)),
        3 => count.clone().prop_map(Step::Save),
        2 => count.clone().prop_map(Step::Release),
        1 => Just(Step::Reclaim),
        1 => (page.clone(), count.clone()).prop_map(|(page, count)| Step::Discard(page, count)),
        1 => (page.clone(), count.clone()).prop_map(|(page, count)| Step::Surrender(page, count)),
        1 => (page.clone(), count).prop_map(|(page, count)| Step::TakeBack(page, count)),
        1 => (page.clone(), 1..1000_u32).prop_map(|(page, count)| Step::Commit(page, count)),
        1 => (page.clone(), 1..1000_u32).prop_map(|(page, count)| Step::Decommit(page, count)),
        1 => page.clone().prop_map(Step::Drop),
        1 => (page, any::<bool>()).prop_map(|(page, unmovable)| Step::Unmovable(page, unmovable)),
        1 => (0..PAGES).prop_map(Step::Relocate),
        1 => (0..50_000_u32).prop_map(Step::Clean),
        1 => Just(Step::Balance),
    ]
}

/// Pages from `first` on that are in the region.
pub(super) fn range(first: u32, count: u32) -> PageRange {
    PageRange::new(PageIndex::new(first), count.min(PAGES - first))
}

/// Runs `steps` beside a model of the contents, and verifies both. Returns the injected errors, by kind.
pub(super) fn run(manager: &Sim, steps: &[Step]) -> BTreeMap<&'static str, u64> {
    let mut model = vec![0_u8; PAGES as usize];
    let is_foreign = |page: u32| manager.is_surrendered(PageIndex::new(page));
    for step in steps {
        match *step {
            // The program uses its own mappings without the pager.
            Step::Write(page, _) | Step::Read(page) | Step::Unmovable(page, _) if is_foreign(page) => {}
            Step::Write(page, value) => {
                access(manager, PageIndex::new(page), |bytes| *bytes = contents(value));
                model[page as usize] = value;
                manager.driver.forget_race(PageIndex::new(page));
            }
            Step::Read(page) => check(manager, page, &model),
            Step::Scan(first, count) => range(first, count)
                .pages()
                .filter(|page| !is_foreign(page.number()))
                .for_each(|page| check(manager, page.number(), &model)),
            Step::Trim(count) => drop(manager.trim_active(count)),
            Step::TrimRange(first, count) => drop(manager.trim_range(range(first, count))),
            Step::Save(count) => drop(manager.save_modified(count)),
            Step::Release(count) => drop(manager.release_standby(count)),
            Step::Reclaim => drop(manager.reclaim()),
            Step::Discard(first, count) => {
                let range = range(first, count);
                manager.discard(range).expect("no page is locked");
                for page in range.pages() {
                    model[page.index()] = 0;
                    manager.driver.forget_race(page);
                }
            }
            Step::Drop(page) => {
                let at = PageIndex::new(page);
                let state = manager.table.word(at).load().state();
                if matches!(state, PageState::Active | PageState::Virgin) {
                    manager.driver.drop_page(at);
                    model[page as usize] = 0;
                    manager.driver.forget_race(at);
                }
            }
            Step::Unmovable(page, unmovable) => manager.driver.set_unmovable(PageIndex::new(page), unmovable),
            Step::Relocate(page) => relocate(manager, PageIndex::new(page)),
            Step::Clean(bytes) => drop(manager.clean_store(bytes.into())),
            Step::Balance => {
                manager.balance();
                manager.age_chunks(an_hour_later());
            }
            Step::Commit(first, count) => {
                manager.commit(range(first, count));
                let used = manager.driver.resident() * PAGE_SIZE as u64 + manager.overhead_bytes();
                assert!(
                    used <= manager.budget.ram() || manager.driver.injects() || manager.budget.forced() > 0
                );
            }
            Step::Decommit(first, count) => {
                let range = range(first, count);
                manager.decommit(range).expect("no page is locked");
                for page in range.pages().filter(|page| !is_foreign(page.number())) {
                    model[page.index()] = 0;
                    manager.driver.forget_race(page);
                }
            }
            Step::Surrender(first, count) => surrender(manager, range(first, count), &mut model),
            Step::TakeBack(first, count) => reclaim(manager, range(first, count)),
        }
    }
    let injected = end_injection(manager);
    assert_eq!(violations_beside_dropped_pages(manager), []);
    reclaim(manager, range(0, PAGES));
    for page in 0..PAGES {
        check(manager, page, &model);
    }
    // A page that the program dropped is active and absent until a fault or the trimmer finds it: all were just read.
    assert_eq!(manager.validate(), []);
    injected
}

#[track_caller]
fn check(manager: &Sim, page: u32, model: &[u8]) {
    let page = PageIndex::new(page);
    let bytes = access(manager, page, |bytes| *bytes);
    let mut expected = contents(model[page.index()]);
    if let Some(word) = manager.driver.raced(page) {
        expected[PAGE_SIZE - 8..].copy_from_slice(&word.to_ne_bytes());
    }
    assert!(bytes == expected, "{page:?}: {:?}...", &bytes[..8]);
}

/// The invariants, but for pages that the program dropped: those are active and absent.
fn violations_beside_dropped_pages(manager: &Sim) -> Vec<Violation> {
    let mut found = manager.validate();
    found.retain(|one| {
        !matches!(
            one,
            Violation::Arena {
                state: PageState::Active,
                present: false,
                ..
            }
        )
    });
    found
}

/// The program maps something over pages.
pub(super) fn surrender(manager: &Sim, pages: PageRange, model: &mut [u8]) {
    let before: Vec<bool> = pages.pages().map(|page| manager.is_surrendered(page)).collect();
    // A chunk that cannot be registered ends it early.
    let surrendered = manager.surrender(pages);
    let mut count = 0;
    for (page, was_surrendered) in pages.pages().zip(before) {
        if !manager.is_surrendered(page) {
            continue;
        }
        count += 1;
        if !was_surrendered {
            manager.driver.set_foreign(PageRange::new(page, 1), true);
            model[page.index()] = 0;
        }
    }
    assert!(surrendered.is_err() || count == pages.count);
}

/// The program maps fresh memory over the surrendered ones of `pages`, in runs.
pub(super) fn reclaim(manager: &Sim, pages: PageRange) {
    for chunk in pages.pieces(CHUNK_PAGES) {
        let runs: Vec<PageRange> = manager
            .runs_of(chunk)
            .filter_map(|(run, is_surrendered)| is_surrendered.then_some(run))
            .collect();
        for run in runs {
            manager.driver.set_foreign(run, false);
            if manager.take_back(run).is_err() {
                // The kernel did not register it: the program's mapping stays.
                manager.driver.set_foreign(run, true);
            }
        }
    }
    let all = range(pages.first.number(), pages.count);
    assert!(manager.driver.injects() || !manager.has_surrendered(all));
}

/// The store moves the copy of a page, as its cleaning does.
fn relocate(manager: &Sim, page: PageIndex) {
    let Some(old) = manager.table.word(page).load().place() else {
        return;
    };
    let mut bytes = [0; PAGE_SIZE];
    if manager.backing.get(page, old, &mut bytes).is_err() {
        return;
    }
    let Ok(new) = manager.backing.put(page, &bytes) else {
        return;
    };
    let moved = manager.relocate(page, old, new);
    manager.backing.free(page, if moved { old } else { new });
}

/// Cases of the property tests; 10,000 injected errors are reached with the default.
pub(super) fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(cases.unwrap_or(default))
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn contents_and_states_hold_after_any_sequence(steps in prop::collection::vec(step(), 1..150)) {
        drop(run(&sim(4000, 0, 1), &steps));
        drop(run(&sim(400, 0, 1), &steps));
        // Sparse, with room for one committed chunk.
        drop(run(&sim(900, 0, 1), &steps));
    }

    #[test]
    fn committed_chunks_lose_no_byte_when_calls_fail(
        steps in prop::collection::vec(step(), 1..150),
        seed in 1_u64..,
        per_mille in 1_u32..300,
    ) {
        drop(run(&sim(900, per_mille, seed), &steps));
    }

    #[test]
    fn counters_agree_with_the_words_after_any_sequence(
        steps in prop::collection::vec(step(), 1..150),
        seed in 1_u64..,
        per_mille in 1_u32..300,
    ) {
        drop(run(&sim(300, per_mille, seed), &steps));
    }
}

/// Kinds of errors on a kernel that moves pages.
const KINDS: usize = 24;

/// Runs random steps on managers, by pages of the budget and seed, until `wanted` errors were injected, each of that many
/// kinds often, and no byte was wrong.
pub(super) fn inject(wanted: u64, kinds: usize, sim: impl Fn(u64, u64) -> Sim) {
    let mut injected = BTreeMap::new();
    // A chunk is registered, and looked at, a few times in the life of a manager; all else happens often.
    // Ageing ends with an error.
    let rare = ["registration", "unsharing", "separation", "MADV_COLD", "accesses"];
    // A kernel that moves pages copies those alone that it refuses to move.
    let rare_copies = ["protection", "by copy", "drop"];
    let has_moves = kinds == KINDS;
    let is_rare = |kind: &str| {
        rare.iter().any(|rare| kind.contains(rare))
            || (has_moves && rare_copies.iter().any(|rare| kind.contains(rare)))
    };
    let least = |kind: &str| match is_rare(kind) {
        true => 5,
        false => wanted / 500,
    };
    let is_enough = |injected: &BTreeMap<&'static str, u64>| {
        injected.values().sum::<u64>() >= wanted
            && injected.len() == kinds
            && injected.iter().all(|(kind, number)| *number >= least(kind))
    };
    let mut seed = 1;
    while !is_enough(&injected) {
        assert!(injected.values().sum::<u64>() < 4 * wanted, "{injected:?}");
        seed += 1;
        // Some managers begin with native chunks.
        let manager = sim(if seed % 2 == 0 { 2000 } else { 200 }, seed);
        let mut x = seed;
        let steps: Vec<Step> = (0..300)
            .map(|_| {
                x = x
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let page = (x >> 33) as u32 % PAGES;
                match x >> 59 {
                    0..=11 => Step::Write(page, (x >> 20) as u8),
                    12..=16 => Step::Read(page),
                    17..=18 => Step::Trim(64),
                    19..=20 => Step::Save(32),
                    21..=22 => Step::Release(16),
                    23..=24 => Step::TrimRange(page, 100),
                    25..=26 => Step::Scan(page, 50),
                    27 => Step::Discard(page, 5),
                    28 => Step::Relocate(page),
                    29 => Step::Clean(page * 8),
                    30 if x & 3 == 0 => Step::Surrender(page, 20),
                    30 if x & 3 == 1 => Step::TakeBack(page, 60),
                    30 => Step::Balance,
                    _ => Step::Unmovable(page, x & 1 == 1),
                }
            })
            .collect();
        for (kind, number) in run(&manager, &steps) {
            *injected.entry(kind).or_insert(0) += number;
        }
    }
}

#[test]
fn ten_thousand_injected_errors_cost_no_byte() {
    inject(10_000, KINDS, |ram, seed| sim(ram, 200, seed));
}

#[test]
#[ignore = "minutes: for a person"]
fn a_million_injected_errors_cost_no_byte() {
    inject(1_000_000, KINDS, |ram, seed| sim(ram, 200, seed));
}

/// A stream took such a page for a native one: the page was active and absent.
#[test]
fn a_page_that_copies_wrongly_find_present_is_filled_by_its_own_fault() {
    let manager = sim(300, 0, 1);
    manager.driver.set_ghost(PageIndex::new(20), 3);
    for page in 0..64 {
        access(&manager, PageIndex::new(page), |bytes| *bytes = contents(3));
        assert_eq!(manager.validate(), [], "after page {page}");
    }
    let stats = manager.stats();
    assert!(stats.stream_pages > 30, "{stats:?}");
    assert_eq!(stats.spurious_faults, 0);
}

/// The kernel can take a page for absent while its entry changes. Where pages are moved, no call woke the thread of that fault.
#[test]
fn a_fault_on_a_present_page_wakes_its_thread() {
    let manager = sim(300, 0, 1);
    let page = PageIndex::new(7);
    // Virgin and present, as if its chunk had been native a moment ago; then active.
    assert_eq!(manager.driver.copy(page, &contents(0)), Ok(()));
    for spurious_faults in [0, 1] {
        assert_eq!(manager.fault(page), Ok(()));
        assert_eq!(manager.driver.take_woken(), Some(page));
        assert_eq!(manager.stats().spurious_faults, spurious_faults);
        assert_eq!(manager.validate(), []);
    }
}

#[test]
fn a_damaged_copy_is_an_error_and_no_wrong_byte() {
    let manager = sim(300, 0, 1);
    let page = PageIndex::new(5);
    let one = PageRange::new(page, 1);
    access(&manager, page, |bytes| *bytes = contents(9));
    assert_eq!(manager.trim_range(one), 1);
    manager.save_range(one);
    manager.release_range(one);
    manager.backing.damage(page);
    let frames = manager.budget.frames();
    assert!(matches!(manager.fault(page), Err(FaultError::Damaged(_))));
    assert_eq!(manager.table.word(page).load().state(), PageState::Compressed);
    assert_eq!(manager.budget.frames(), frames);
    assert!(
        manager.driver.access(page, |_| ()).is_none(),
        "nothing was made present"
    );
}

#[test]
fn a_pinned_page_is_active_whatever_the_trimmer_does() {
    let manager = sim(300, 0, 1);
    let pages = PageRange::new(PageIndex::new(100), 20);
    for page in pages.pages() {
        access(&manager, page, |bytes| *bytes = contents(3));
    }
    let pin = manager.pins.publish(pages, Purpose::Guard).expect("a free slot");
    manager.trim_range(PageRange::new(PageIndex::new(0), PAGES));
    for page in pages.pages() {
        assert_eq!(manager.table.word(page).load().state(), PageState::Active);
    }
    manager.pins.remove(pin);
    assert_eq!(manager.trim_range(pages), 20);
}

#[test]
fn a_page_that_cannot_move_is_left_alone_for_some_laps() {
    let manager = sim(4000, 0, 1);
    let page = PageIndex::new(7);
    access(&manager, page, |bytes| *bytes = contents(3));
    manager.driver.set_unmovable(page, true);
    assert_eq!(manager.trim_active(1), 0);
    let calls = manager.stats().unmovable_pages;
    assert_eq!(calls, 1);
    for _ in 0..3 {
        manager.trim_active(1);
    }
    assert_eq!(
        manager.stats().unmovable_pages,
        calls,
        "it is passed for three laps"
    );
    manager.driver.set_unmovable(page, false);
    assert_eq!(manager.trim_active(1), 1);
    assert_eq!(manager.validate(), []);
}

/// Threads write their own pages and read them back, while others trim, save and release.
#[test]
fn writers_race_with_trimmers_and_lose_nothing() {
    race(&sim(300, 100, 77));
}

pub(super) fn race(manager: &Sim) {
    const WRITERS: u32 = 4;
    let done = AtomicBool::new(false);
    let writes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let writes = &writes;
                scope.spawn(move || {
                    let mut last = vec![0_u64; PAGES as usize];
                    let mut x = u64::from(writer) + 1;
                    for round in 1..=4000 {
                        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                        let number = (x >> 33) as u32 % (PAGES / WRITERS) * WRITERS + writer;
                        access(manager, PageIndex::new(number), |bytes| {
                            let at = 8 * (number as usize % 100);
                            let word = u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
                            assert_eq!(word, last[number as usize], "page {number}");
                            bytes[at..at + 8].copy_from_slice(&u64::to_ne_bytes(round));
                        });
                        last[number as usize] = round;
                        writes.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for trimmer in 0..2 {
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    match trimmer {
                        0 => drop(manager.trim_active(64)),
                        _ => drop((manager.save_modified(64), manager.release_standby(16))),
                    }
                }
            });
        }
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        for result in results {
            result.expect("no byte is lost");
        }
    });
    assert_eq!(writes.load(Ordering::Relaxed), u64::from(WRITERS) * 4000);
    end_injection(manager);
    assert_eq!(manager.validate(), []);
}
