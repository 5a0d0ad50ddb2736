//! Sixteen threads that use, trim, prefetch, pin, discard, map and unmap regions, and verify every byte.
//!
//! `PLIMSOLL_PAGER_STRESS=30 cargo test -p plimsoll-pager --test it stress` does thirty times the work: at least ten minutes.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use plimsoll_pager::page_file::State;
use plimsoll_pager::{FaultMode, Pager, Region, Stats, ThrashControl, ThrashStep, TrimTo};
use plimsoll_testkit::{again, role};

use crate::children::Random;
use crate::forks::{call_everything_in_a_child, fork_and_use};
use crate::page_file::folder;
use crate::pages::{PAGE, contents};

const MIB: usize = 1 << 20;
const THREADS: usize = 16;
/// Regions of a thread.
const REGIONS: usize = 2;
/// The most pages of a region.
const MOST_PAGES: u64 = 512;
/// Operations of a thread, in the short form.
const OPERATIONS: u64 = 3000;
/// The least time of the test with forks, in the short form.
const LEAST: Duration = Duration::from_secs(20);

/// Bytes of the page file: a part of the compressed pages.
const FILE: u64 = 2 << 20;

/// The regions that all threads may trim and prefetch. Each is written and read by its owner alone.
type Shared = [RwLock<Option<Arc<Region>>>; THREADS * REGIONS];

/// A region of this thread, with the round in which each page was written last; 0 for zeros.
struct Mine {
    region: Arc<Region>,
    rounds: Vec<u64>,
    slot: usize,
}

impl Mine {
    fn map(pager: &Pager, shared: &Shared, slot: usize, random: &mut Random) -> Mine {
        let pages = 1 + random.below(MOST_PAGES) as usize;
        let region = Arc::new(pager.map(pages * PAGE).expect("addresses are free"));
        *shared[slot].write().expect("no panic") = Some(region.clone());
        Mine {
            region,
            rounds: vec![0; pages],
            slot,
        }
    }

    fn pages(&self, random: &mut Random, most: u64) -> Range<usize> {
        let first = random.below(self.rounds.len() as u64) as usize;
        let count = 1 + random.below(most) as usize;
        first..(first + count).min(self.rounds.len())
    }

    /// The bytes of some pages.
    fn bytes(&self, pages: Range<usize>) -> &[[u8; PAGE]] {
        let start = self.region.as_ptr() as *const [u8; PAGE];
        // SAFETY: the pages are in the region, which this thread alone reads and writes.
        unsafe { std::slice::from_raw_parts(start.add(pages.start), pages.len()) }
    }

    /// The bytes of some pages, to be written.
    fn bytes_mut(&mut self, pages: Range<usize>) -> &mut [[u8; PAGE]] {
        let start = self.region.as_ptr() as *mut [u8; PAGE];
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(start.add(pages.start), pages.len()) }
    }

    fn expected(&self, page: usize) -> [u8; PAGE] {
        match self.rounds[page] {
            0 => [0; PAGE],
            round => contents(page, self.slot, round),
        }
    }

    #[track_caller]
    fn verify(&self, pages: Range<usize>) {
        for (page, bytes) in pages.clone().zip(self.bytes(pages)) {
            assert!(
                *bytes == self.expected(page),
                "page {page} of region {}",
                self.slot
            );
        }
    }

    fn write(&mut self, pages: Range<usize>, round: u64) {
        for page in pages.clone() {
            self.rounds[page] = round;
        }
        let slot = self.slot;
        for (page, bytes) in pages.clone().zip(self.bytes_mut(pages)) {
            *bytes = contents(page, slot, round);
        }
    }

    /// Discards the pages, if no other thread holds the region.
    fn discard(&mut self, shared: &Shared, pages: Range<usize>) {
        let mut slot = shared[self.slot].write().expect("no panic");
        *slot = None;
        if let Some(region) = Arc::get_mut(&mut self.region) {
            region.discard(bytes(&pages)).expect("no page is locked");
            self.rounds[pages].fill(0);
        }
        *slot = Some(self.region.clone());
    }

    /// A system call reads the pages.
    fn send(&self, pages: Range<usize>, file: &mut File) {
        file.set_len(0).expect("the file is this test's");
        file.seek(SeekFrom::Start(0)).expect("as above");
        let range = pages.start * PAGE..pages.end * PAGE;
        let written = self.region.write_from(range.clone(), &*file);
        assert_eq!(written.expect("pinned pages"), range.len());
        file.seek(SeekFrom::Start(0)).expect("as above");
        for page in pages {
            let mut bytes = [0; PAGE];
            file.read_exact(&mut bytes).expect("the bytes that were written");
            assert!(bytes == self.expected(page), "page {page}: in the file");
        }
    }
}

fn bytes(pages: &Range<usize>) -> Range<usize> {
    pages.start * PAGE..pages.end * PAGE
}

/// The least work of each thread.
#[derive(Debug, Clone, Copy)]
struct Work {
    operations: u64,
    time: Duration,
}

impl Work {
    /// So many operations, however long they take.
    fn of(operations: u64) -> Work {
        Work {
            operations,
            time: Duration::ZERO,
        }
    }
}

/// The work of one thread.
fn work(pager: &Pager, shared: &Shared, number: usize, least: Work) {
    let since = Instant::now();
    let mut random = Random(0x5DEE_CE66 + number as u64);
    let mut file = tempfile::tempfile().expect("there is a folder for temporary files");
    let mut mine: Vec<Mine> = (0..REGIONS)
        .map(|region| Mine::map(pager, shared, number * REGIONS + region, &mut random))
        .collect();
    for round in 1.. {
        if round > least.operations && since.elapsed() >= least.time {
            break;
        }
        let at = random.below(REGIONS as u64) as usize;
        let region = &mut mine[at];
        match random.below(100) {
            0..35 => {
                let pages = region.pages(&mut random, 8);
                region.write(pages, round);
            }
            35..60 => region.verify(region.pages(&mut random, 4)),
            60..68 => region.verify(region.pages(&mut random, 200)),
            68..80 => {
                // Any thread's region, also one that its owner unmaps meanwhile.
                let slot = random.below(shared.len() as u64) as usize;
                let others = shared[slot].read().expect("no panic").clone();
                let Some(others) = others else { continue };
                let first = random.below((others.len() / PAGE) as u64) as usize * PAGE;
                match random.below(4) {
                    0 => drop(others.trim(first.., TrimTo::Modified).expect("in the region")),
                    1 => drop(others.trim(first.., TrimTo::Standby).expect("in the region")),
                    2 => drop(others.trim(first.., TrimTo::Store).expect("in the region")),
                    _ => {
                        let end = others.len().min(first + 32 * PAGE);
                        others.prefetch(first..end).expect("no copy is damaged");
                    }
                }
            }
            80..86 => {
                let pages = region.pages(&mut random, 16);
                let pin = region.region.pin(bytes(&pages)).expect("a small range");
                let _ = region.region.trim(.., TrimTo::Store).expect("in the region");
                region.verify(pages);
                drop(pin);
            }
            86..90 => region.send(region.pages(&mut random, 16), &mut file),
            90..96 => {
                // Whoever has the region alone may discard a part of it.
                let pages = region.pages(&mut random, 64);
                region.discard(shared, pages);
            }
            _ => {
                region.verify(0..region.rounds.len());
                let slot = region.slot;
                *shared[slot].write().expect("no panic") = None;
                mine[at] = Mine::map(pager, shared, slot, &mut random);
            }
        }
    }
    for region in &mine {
        region.verify(0..region.rounds.len());
    }
}

/// The work of the test, as a number of times that of the short form.
fn factor() -> u32 {
    let factor = std::env::var("PLIMSOLL_PAGER_STRESS").ok();
    factor.map_or(1, |factor| {
        factor.parse().expect("PLIMSOLL_PAGER_STRESS is a number")
    })
}

/// Runs `work` in a process of its own: other tests do not change its signals or children.
fn alone(test: &str, work: impl FnOnce(u64)) {
    if role().is_some() {
        return work(OPERATIONS * u64::from(factor()));
    }
    let mut program = again(test, "alone");
    program.env("PLIMSOLL_PAGER_STRESS", factor().to_string());
    let status = program.status().expect("the test program starts");
    assert!(status.success(), "{status}");
}

/// Runs the threads while `beside` is called again and again, and checks the pager and its counts.
/// Returns the statistics at the end of the work.
fn run(pager: &Pager, least: Work, mut beside: impl FnMut(&Shared)) -> Stats {
    let shared: Shared = [const { RwLock::new(None) }; THREADS * REGIONS];
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let shared = &shared;
                scope.spawn(move || work(pager, shared, number, least))
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            beside(&shared);
        }
    });
    assert_eq!(pager.validate(), []);
    let stats = pager.stats();
    let often = THREADS as u64 * least.operations / 10;
    let reads_ahead = stats.thrash_us[ThrashStep::NoReadAhead as usize..] == [0, 0];
    for events in [
        stats.zero_faults,
        stats.hard_faults,
        if reads_ahead { stats.stream_pages } else { u64::MAX },
        stats.trimmed_pages,
        stats.saved_pages,
        stats.released_frames,
    ] {
        assert!(events > often, "{stats:?}");
    }
    for events in [stats.soft_faults, stats.taken_frames, stats.adopted_pages] {
        assert!(events > 100, "{stats:?}");
    }
    assert_eq!(stats.pinned_pages, 0);
    drop(shared);
    let at_end = stats;
    let stats = pager.stats();
    let pages = stats.native_pages
        + stats.active_pages
        + stats.modified_pages
        + stats.compressed_pages
        + stats.page_file_pages;
    assert_eq!((pages, stats.standby_pages), (0, [0; 8]), "{stats:?}");
    assert_eq!(pager.validate(), []);
    at_end
}

#[test]
fn sixteen_threads_find_every_byte_as_they_wrote_it() {
    let test = "stress::sixteen_threads_find_every_byte_as_they_wrote_it";
    alone(test, |operations| {
        let pager = Pager::builder()
            .ram(12 * MIB as u64)
            .address_space(1 << 30)
            .build()
            .expect("userfaultfd is allowed");
        run(&pager, Work::of(operations), |_| {
            std::thread::sleep(Duration::from_millis(10))
        });
        assert_eq!(pager.stats().forced_frames, 0);
    });
}

/// Every step of thrash control, in force all the time, keeps every byte, in both fault modes.
#[test]
fn sixteen_threads_find_every_byte_in_each_step_of_thrash_control() {
    let test = "stress::sixteen_threads_find_every_byte_in_each_step_of_thrash_control";
    alone(test, |operations| {
        let steps = [
            (ThrashStep::GrownStandby, FaultMode::Signal),
            (ThrashStep::NoReadAhead, FaultMode::Signal),
            (ThrashStep::Throttle, FaultMode::Signal),
            (ThrashStep::Throttle, FaultMode::Thread),
        ];
        for (step, mode) in steps {
            let pager = Pager::builder()
                .ram(12 * MIB as u64)
                .address_space(1 << 30)
                .fault_mode(mode)
                .thrash_control(ThrashControl::Fixed(step))
                .build()
                .expect("userfaultfd is allowed");
            let before = run(&pager, Work::of(operations / 3), |_| {
                std::thread::sleep(Duration::from_millis(10))
            });
            assert_eq!(before.forced_frames, 0);
            assert!(before.thrash_us[step as usize] > 0, "{before:?}");
            assert_eq!(
                before.throttled_us > 0,
                step == ThrashStep::Throttle,
                "{before:?}"
            );
        }
    });
}

/// The compressed pages fit neither the store's cap nor the page file, and the process forks all the time.
#[test]
fn sixteen_threads_with_forks_and_a_full_page_file_find_every_byte() {
    let test = "stress::sixteen_threads_with_forks_and_a_full_page_file_find_every_byte";
    alone(test, |operations| {
        let folder = folder();
        let pager = Pager::builder()
            .ram(10 * MIB as u64)
            .address_space(1 << 30)
            .store_cap(MIB as u64)
            .page_file(folder.path(), FILE)
            .build()
            .expect("userfaultfd is allowed");
        let (mut forks, mut most_used) = (0, 0);
        let least = Work {
            operations,
            time: LEAST * factor(),
        };
        run(&pager, least, |shared| {
            // Children whose mappings the kernel copies beside moves of pages. None has the region of a thread at work.
            let region = shared[forks % shared.len()].read().expect("no panic").clone();
            if let Some(region) = region {
                let page = forks * 7 % (region.len() / PAGE);
                fork_and_use(&pager, &region, &region, forks, page);
                if forks.is_multiple_of(4) {
                    call_everything_in_a_child(&pager, &region);
                }
                forks += 1;
            }
            let file = pager.stats().page_file.expect("it has one");
            most_used = most_used.max(file.used_bytes);
            std::thread::sleep(Duration::from_millis(2));
        });
        let file = pager.stats().page_file.expect("it has one");
        assert!(
            most_used > FILE / 10 * 9,
            "{most_used} of {FILE} bytes used at most"
        );
        assert!(forks > 100 && file.read_bytes > FILE, "{forks} forks, {file:?}");
        assert_eq!(file.state, State::Writable);
    });
}
