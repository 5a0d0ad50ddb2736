//! Sequences of steps with injected errors, and threads that race.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_os::Errno;
use proptest::prelude::*;

use super::super::simulated::{cases, contents};
use super::{CAP, PAGES, Rig, manager, noise, store, try_access};
use crate::fault::FaultError;
use crate::page::{PAGE_SIZE, PageIndex, PageRange};
use crate::page_file::tests::faulty::{Fault, Injected};
use crate::saved::SavedCopies;

#[derive(Debug, Clone)]
enum Step {
    Write(u32, u32, u8),
    Read(u32, u32),
    Trim(u32, u32),
    Save(u32, u32),
    Release(u32, u32),
    Discard(u32, u32),
    Balance,
    Age,
    Spill,
    CloseSegments,
    Clean,
    /// Reads of the file fail, this number of them.
    FailReads(u64),
    /// A write is short, by so many KiB: its rest is written again, unless that fails.
    Torn(u16),
    /// The next write fails.
    FailWrite(Errno),
    /// No more disk space.
    FullDisk,
    /// A byte of the file changes.
    Corrupt(u32),
    /// Driver calls of 1000 that fail.
    Inject(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let page = || 0..PAGES;
    let count = || 1..400_u32;
    prop_oneof![
        12 => (page(), count(), any::<u8>()).prop_map(|(page, count, value)| Step::Write(page, count, value)),
        8 => (page(), count()).prop_map(|(page, count)| Step::Read(page, count)),
        4 => (page(), count()).prop_map(|(page, count)| Step::Trim(page, count)),
        4 => (page(), count()).prop_map(|(page, count)| Step::Save(page, count)),
        3 => (page(), count()).prop_map(|(page, count)| Step::Release(page, count)),
        1 => (page(), count()).prop_map(|(page, count)| Step::Discard(page, count)),
        2 => Just(Step::Balance),
        3 => Just(Step::Age),
        3 => Just(Step::Spill),
        1 => Just(Step::CloseSegments),
        1 => Just(Step::Clean),
        1 => (1..4_u64).prop_map(Step::FailReads),
        1 => any::<u16>().prop_map(Step::Torn),
        1 => any::<u32>().prop_map(Step::Corrupt),
        1 => (0..200_u32).prop_map(Step::Inject),
    ]
}

fn range(first: u32, count: u32) -> PageRange {
    PageRange::new(PageIndex::new(first), count.min(PAGES - first))
}

/// Faults that the manager met, by kind.
#[derive(Debug, Default)]
struct Met {
    driver: BTreeMap<&'static str, u64>,
    file: BTreeMap<Injected, u64>,
}

impl Met {
    fn count(&self) -> u64 {
        self.driver.values().chain(self.file.values()).sum()
    }

    /// Whether each kind was met often enough.
    fn has_enough(&self) -> bool {
        let of_driver = LEAST_OF_DRIVER
            .iter()
            .all(|(kind, least)| self.driver.get(kind) >= Some(least));
        of_driver
            && LEAST_OF_FILE
                .iter()
                .all(|(kind, least)| self.file.get(kind) >= Some(least))
    }

    fn add(&mut self, other: Met) {
        for (kind, count) in other.driver {
            *self.driver.entry(kind).or_default() += count;
        }
        for (kind, count) in other.file {
            *self.file.entry(kind).or_default() += count;
        }
    }
}

/// Runs the steps. The model has the value of each page, or none for a page that was reported as damaged. Returns the faults
/// that were met: an ordered one that no read or write came to is none.
fn run(rig: &Rig, steps: &[Step]) -> Met {
    let manager = &rig.manager;
    let mut model = vec![Some(0_u8); PAGES as usize];
    for step in steps {
        match *step {
            Step::Write(first, count, value) => {
                for page in range(first, count).pages() {
                    let value = value.wrapping_add(page.number() as u8 / 3);
                    let written = rig.try_access(page.number(), |bytes| *bytes = contents(value));
                    match written {
                        Ok(()) => {
                            manager.driver.forget_race(page);
                            model[page.index()] = Some(value);
                        }
                        Err(FaultError::Damaged(_)) if rig.is_spoilt.get() => {}
                        Err(error) => panic!("{page:?}: {error}"),
                    }
                }
            }
            Step::Read(first, count) => {
                for page in range(first, count).pages() {
                    check(rig, &model, page);
                }
            }
            Step::Trim(first, count) => drop(manager.trim_range(range(first, count))),
            Step::Save(first, count) => drop(manager.save_range(range(first, count))),
            Step::Release(first, count) => drop(manager.release_range(range(first, count))),
            Step::Discard(first, count) => {
                let range = range(first, count);
                manager.discard(range).expect("no page is locked");
                for page in range.pages() {
                    manager.driver.forget_race(page);
                    model[page.index()] = Some(0);
                }
            }
            Step::Balance => manager.balance(),
            Step::Age => manager.age(),
            Step::Spill => drop(manager.make_room()),
            Step::CloseSegments => manager.backing.close_segments(),
            Step::Clean => drop(manager.clean_store(1 << 20)),
            Step::FailReads(count) => {
                rig.is_spoilt.set(true);
                let mut file = rig.file.state();
                let next = file.reads;
                let faults = (next..next + count).map(|read| (read, Errno::IO));
                file.read_faults.extend(faults);
            }
            Step::Torn(bytes) => {
                let mut file = rig.file.state();
                let next = file.writes;
                let length = usize::from(bytes) * 16 / 4096 * 4096;
                file.write_faults.insert(next, Fault::Short(length));
            }
            Step::FailWrite(errno) => {
                let mut file = rig.file.state();
                let next = file.writes;
                file.write_faults.insert(next, Fault::Refuse(errno));
            }
            Step::FullDisk => {
                let mut file = rig.file.state();
                let now = file.allocated_mebibytes();
                file.room = Some((now, Errno::NOSPC));
            }
            Step::Corrupt(at) => {
                rig.is_spoilt.set(true);
                let mut file = rig.file.state();
                let at = at as usize % file.bytes.len();
                file.bytes[at] ^= 1 << (at % 8);
            }
            Step::Inject(per_mille) => drop(manager.driver.inject(per_mille)),
        }
    }
    let driver = manager.driver.inject(0);
    rig.file.state().read_faults.clear();
    let mut lost = 0;
    for page in range(0, PAGES).pages() {
        if !check(rig, &model, page) {
            lost += 1;
            manager
                .discard(PageRange::new(page, 1))
                .expect("no page is locked");
        }
    }
    assert!(lost == 0 || rig.is_spoilt.get());
    rig.validate();
    let mut file = std::mem::take(&mut rig.file.state().injected);
    // Every other read that failed met changed bytes.
    let refused = file.get(&Injected::ReadError).copied().unwrap_or(0);
    let failures = manager.stats().page_file.expect("it has one").read_failures;
    let changed = failures
        .checked_sub(refused)
        .expect("each refused read is reported");
    file.insert(Injected::FlippedBit, changed);
    Met { driver, file }
}

fn check(rig: &Rig, model: &[Option<u8>], page: PageIndex) -> bool {
    match model[page.index()] {
        Some(value) => rig.reads(page.number(), value),
        None => true,
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn contents_hold_over_both_tiers_after_any_sequence(
        steps in prop::collection::vec(step(), 1..60),
        mebibytes in 2_u32..20,
        recompresses: bool,
        seed in 1_u64..,
    ) {
        run(&Rig::new(mebibytes, recompresses, seed), &steps);
    }

    #[test]
    fn contents_hold_after_the_end_of_writes(
        before in prop::collection::vec(step(), 1..30),
        end in prop_oneof![
            Just(Step::FailWrite(Errno::IO)),
            Just(Step::FailWrite(Errno::NOSPC)),
            Just(Step::FullDisk),
        ],
        after in prop::collection::vec(step(), 1..30),
        seed in 1_u64..,
    ) {
        let steps = [before, vec![end], after].concat();
        run(&Rig::new(16, true, seed), &steps);
    }
}

/// Faults of which a test has to meet so many at least.
const LEAST_OF_DRIVER: [(&str, u64); 7] = [
    ("ENOMEM of a move", 50),
    ("EBUSY of a move", 50),
    ("EAGAIN of a move", 50),
    ("EINVAL of a move", 50),
    ("move that is not counted", 50),
    ("ENOMEM of a copy", 50),
    ("EAGAIN of a copy", 50),
];
const LEAST_OF_FILE: [(Injected, u64); 7] = [
    (Injected::InputOutput, 5),
    (Injected::NoSpace, 5),
    (Injected::NoRoom, 5),
    (Injected::Short, 20),
    (Injected::Empty, 2),
    (Injected::ReadError, 50),
    (Injected::FlippedBit, 50),
];

#[test]
fn ten_thousand_errors_in_both_tiers_cost_no_byte() {
    let mut met = Met::default();
    let mut seed = 1_u64;
    while met.count() < 10_000 || !met.has_enough() {
        assert!(met.count() < 40_000, "{met:?}");
        seed += 1;
        let mut x = seed;
        let mut random = |below: u64| {
            x = x
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % below
        };
        let mut steps = vec![Step::Inject(20)];
        for number in 0..80 {
            let (page, count) = (random(u64::from(PAGES)) as u32, random(600) as u32 + 1);
            steps.push(match random(20) {
                0..=4 => Step::Write(page, count, random(256) as u8),
                5..=7 => Step::Read(page, count),
                8 => Step::Trim(page, count),
                9..=10 => Step::Save(page, count),
                11 => Step::Release(page, count),
                12 => Step::Age,
                13 => Step::Balance,
                14..=15 => Step::Spill,
                16 => Step::FailReads(2),
                17 => Step::Torn(random(1 << 12) as u16),
                _ if number < 60 => Step::Corrupt(random(1 << 32) as u32),
                _ => match seed % 3 {
                    0 => Step::FailWrite(Errno::IO),
                    1 => Step::FailWrite(Errno::NOSPC),
                    _ => Step::FullDisk,
                },
            });
        }
        let rig = match seed % 4 {
            // A file grows by more than this disk has.
            0 => Rig::on_small_disk(20, 3),
            _ => Rig::new(6, seed.is_multiple_of(2), seed),
        };
        met.add(run(&rig, &steps));
    }
}

/// Threads write their own pages and read them back, while others trim, spill, clean and recompress.
#[test]
fn writers_race_with_spills_and_lose_nothing() {
    const WRITERS: u32 = 4;
    let rig = Rig::new(12, true, 77);
    rig.manager.driver.inject(20);
    let manager = &rig.manager;
    let done = AtomicBool::new(false);
    let writes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let writes = &writes;
                scope.spawn(move || {
                    let mut last = vec![0_u8; PAGES as usize];
                    let mut x = u64::from(writer) + 1;
                    for round in 1..=3000_u32 {
                        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                        let page = (x >> 33) as u32 % (PAGES / WRITERS) * WRITERS + writer;
                        let now = &mut last[page as usize];
                        let next = if round % 3 == 0 {
                            noise(page, 1)
                        } else {
                            (x >> 50) as u8
                        };
                        let is_right = try_access(manager, page, |bytes| {
                            // Another writer races for the last word at moves.
                            let is_right = bytes[..PAGE_SIZE - 8] == contents(*now)[..PAGE_SIZE - 8];
                            *bytes = contents(next);
                            is_right
                        });
                        assert_eq!(is_right, Ok(true), "page {page}");
                        *now = next;
                        writes.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for worker in 0..2 {
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    match worker {
                        0 => {
                            manager.trim_active(64);
                            manager.save_modified(64);
                            manager.release_standby(64);
                        }
                        _ => {
                            manager.balance();
                            manager.age();
                            manager.make_room();
                        }
                    }
                }
            });
        }
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        results
            .into_iter()
            .for_each(|result| result.expect("no byte is lost"));
    });
    assert_eq!(writes.load(Ordering::Relaxed), u64::from(WRITERS) * 3000);
    let written = manager.stats().page_file.expect("it has one").written_bytes;
    assert!(written > 0);
    manager.driver.inject(0);
    rig.validate();
}

/// The store is full most of the time: threads clean it, and exceed the budget.
#[test]
fn a_full_store_loses_nothing_while_threads_clean_it() {
    let manager = &manager(SavedCopies::new(store(CAP), CAP), 1);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let balancer = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                manager.balance();
            }
        });
        for round in 0..20 {
            for page in 0..PAGES {
                try_access(manager, page, |bytes| *bytes = contents(noise(page, round)))
                    .expect("it is resolved");
            }
            for page in 0..PAGES {
                let expected = contents(noise(page, round));
                let is_right = try_access(manager, page, |bytes| *bytes == expected);
                assert_eq!(is_right, Ok(true), "page {page}");
            }
        }
        done.store(true, Ordering::Relaxed);
        balancer.join().expect("no panic");
    });
    assert_eq!(manager.validate(), []);
    manager.backing.validate();
}
