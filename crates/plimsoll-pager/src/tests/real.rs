//! The manager on real memory.

use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_os::Errno;

use crate::backing::Backing;
use crate::backing::model::ModelStore;
use crate::driver::{Area, Driver};
use crate::engine::{Engine, TrimTo};
use crate::fault::FaultError;
use crate::page::{CHUNK_PAGES, ChunkMode, PAGE_SIZE, PageIndex, PageRange, PageState};

const MIB: usize = 1 << 20;

/// A pager with 1 GiB of addresses.
fn engine(ram: usize) -> Engine<ModelStore> {
    engine_of(1 << 18, ram)
}

/// A pager with `pages` pages of addresses, in the mode of this process.
fn engine_of(pages: u32, ram: usize) -> Engine<ModelStore> {
    let options = super::modes::of_this_process();
    Engine::new(pages, ram as u64, ModelStore::default(), options).expect("userfaultfd is allowed")
}

/// The bytes of a mapped region. They are not the engine's: tests use each range of them on one thread at a time.
#[allow(unsafe_code, reason = "memory of regions that the tests read and write")]
#[allow(clippy::mut_from_ref)]
pub(super) fn bytes<B: Backing>(engine: &Engine<B>, pages: PageRange) -> &mut [u8] {
    // SAFETY: the region is mapped while the engine lives, and the tests use each range of it on one thread at a time.
    unsafe { std::slice::from_raw_parts_mut(engine.address(pages.first) as *mut u8, pages.bytes()) }
}

/// The words of a page: compressible, and different for each page and round.
fn pattern(page: usize, round: u64) -> impl Iterator<Item = u64> {
    let mut x = (page as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ round;
    (0..PAGE_SIZE / 8).map(move |word| {
        if word % 16 == 0 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        x
    })
}

pub(super) fn fill(bytes: &mut [u8], first: usize, round: u64) {
    for (number, page) in bytes.chunks_mut(PAGE_SIZE).enumerate() {
        for (word, value) in page.chunks_mut(8).zip(pattern(first + number, round)) {
            word.copy_from_slice(&value.to_ne_bytes());
        }
    }
}

#[track_caller]
pub(super) fn verify(bytes: &[u8], first: usize, round: u64) {
    for (number, page) in bytes.chunks(PAGE_SIZE).enumerate() {
        let words = page
            .chunks(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
        assert!(
            words.eq(pattern(first + number, round)),
            "page {}",
            first + number
        );
    }
}

/// Present pages of arena and shadow, as the kernel counts them, and the other bytes of the budget. The balance-set manager
/// rests: a page that it moves between the two counts would be in both.
fn resident(engine: &Engine<ModelStore>, pages: PageRange) -> (u64, u64) {
    let counted = engine.at_rest(|manager| {
        let mut present = vec![false; pages.count as usize];
        let mut count = |area| {
            let listed = manager.driver.present(area, pages, &mut present);
            listed.expect("the pagemap");
            present.iter().filter(|present| **present).count() as u64
        };
        (count(Area::Arena) + count(Area::Shadow), manager.overhead_bytes())
    });
    counted.expect("the process that built it")
}

/// Checks every invariant of a pager that no other thread of the test uses.
#[track_caller]
fn validate(engine: &Engine<ModelStore>) {
    assert_eq!(engine.at_rest(|manager| manager.validate()), Some(vec![]));
}

fn map(engine: &Engine<ModelStore>, bytes: usize) -> PageRange {
    engine.map(bytes).expect("addresses are free")
}

#[test]
fn four_times_the_budget_comes_back_byte_for_byte() {
    let engine = engine(16 * MIB);
    let pages = map(&engine, 64 * MIB);
    let memory = bytes(&engine, pages);
    for round in 1..=2 {
        fill(memory, 0, round);
        let (frames, overhead) = resident(&engine, pages);
        let used = frames * PAGE_SIZE as u64 + overhead;
        assert!(used <= 16 * MIB as u64, "{used} bytes");
        assert!(engine.trim(pages, TrimTo::Store) > 0);
        assert_eq!(resident(&engine, pages).0, 0);
        verify(memory, 0, round);
    }
    let stats = engine.manager().stats();
    assert_eq!(stats.forced_frames, 0);
    assert!(
        stats.hard_faults + stats.stream_pages >= 2 * u64::from(pages.count),
        "{stats:?}"
    );
    validate(&engine);
    engine.unmap(pages);
    assert_eq!(engine.manager().backing.copies(), 0);
}

/// The mappings of this process that are in `addresses` or overlap with them: the bytes there, and whether core dumps leave them out.
fn dumps(addresses: &Range<usize>) -> Vec<(usize, bool)> {
    let text = std::fs::read_to_string("/proc/self/smaps").expect("there is /proc");
    let mut found = Vec::new();
    let mut inside = 0;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if first == "VmFlags:" {
            if inside > 0 {
                found.push((inside, words.any(|flag| flag == "dd")));
            }
        } else if let Some((start, end)) = first.split_once('-') {
            let address = |text| usize::from_str_radix(text, 16).expect("an address");
            let (start, end) = (address(start), address(end));
            inside = end.min(addresses.end).saturating_sub(start.max(addresses.start));
        }
    }
    found
}

/// A core dump of a process with a pager of 256 GiB of addresses was a file of that size: the shadow area is one mapping, and a
/// dump has room for all of a mapping that has ever had a page.
#[test]
fn core_dumps_have_the_arena_and_leave_out_the_shadow() {
    let engine = engine(16 * MIB);
    let pages = map(&engine, 24 * MIB);
    fill(bytes(&engine, pages), 0, 1);
    engine.trim(pages, TrimTo::Modified);
    // The balance-set manager rests: it splits and joins mappings.
    let areas = engine.at_rest(|manager| {
        let (arena, start) = (manager.driver.arena(), manager.driver.shadow());
        let shadow = start..start + arena.len();
        [arena, shadow].map(|area| (area.len(), dumps(&area)))
    });
    let areas = areas.expect("the process that built it");
    for ((bytes, mappings), is_left_out) in areas.into_iter().zip([false, true]) {
        let found: usize = mappings.iter().map(|(bytes, _)| bytes).sum();
        assert_eq!(found, bytes, "{mappings:?}");
        assert!(
            mappings.iter().all(|(_, is_out)| *is_out == is_left_out),
            "{mappings:?}"
        );
    }
    verify(bytes(&engine, pages), 0, 1);
    validate(&engine);
}

#[test]
fn memory_within_the_budget_is_the_kernels_until_it_is_trimmed() {
    let engine = engine(16 * MIB);
    let pages = map(&engine, 8 * MIB);
    let memory = bytes(&engine, pages);
    fill(memory, 0, 1);
    let stats = engine.manager().stats();
    assert_eq!(
        (stats.native_pages, stats.zero_faults),
        (u64::from(pages.count), 0)
    );
    let third = PageRange::new(pages.first, pages.count / 3);
    assert_eq!(engine.trim(third, TrimTo::Standby), third.count);
    verify(memory, 0, 1);
    engine.rest();
    let stats = engine.manager().stats();
    assert_eq!(stats.soft_faults + stats.stream_pages, u64::from(third.count));
    assert!(
        stats.soft_faults < u64::from(third.count) / 4,
        "the stream is seen"
    );
    assert!(stats.native_pages >= u64::from(pages.count - third.count) - u64::from(CHUNK_PAGES));
    validate(&engine);
    engine.unmap(pages);
}

#[test]
fn a_second_region_makes_the_first_one_managed() {
    let engine = engine(16 * MIB);
    let first = map(&engine, 12 * MIB);
    fill(bytes(&engine, first), 0, 1);
    let second = map(&engine, 12 * MIB);
    fill(bytes(&engine, second), 7000, 1);
    verify(bytes(&engine, first), 0, 1);
    verify(bytes(&engine, second), 7000, 1);
    let stats = engine.manager().stats();
    assert_eq!(stats.forced_frames, 0);
    assert!(stats.resident_bytes() <= 16 * MIB as u64, "{stats:?}");
    validate(&engine);
    engine.unmap(first);
    fill(bytes(&engine, second), 7000, 2);
    verify(bytes(&engine, second), 7000, 2);
    engine.unmap(second);
    assert_eq!(engine.manager().budget.frames(), 0);
}

/// Writers and trims race, but ten rounds of a writer at most pass between two trims of the whole region.
#[test]
fn writers_race_with_trims_of_their_pages() {
    const WRITERS: usize = 4;
    let engine = engine(64 * MIB);
    let pages = map(&engine, 4 * MIB);
    let done = AtomicBool::new(false);
    let trims = AtomicU64::new(0);
    let memory = bytes(&engine, pages);
    std::thread::scope(|scope| {
        let writers: Vec<_> = memory
            .chunks_mut(pages.bytes() / WRITERS)
            .map(|part| {
                let trims = &trims;
                scope.spawn(move || {
                    for round in 0..200_u64 {
                        let seen = trims.load(Ordering::Relaxed);
                        while round % 10 == 9 && trims.load(Ordering::Relaxed) < seen + 2 {
                            std::thread::yield_now();
                        }
                        for word in part.chunks_mut(PAGE_SIZE).map(|page| &mut page[64..72]) {
                            let value = u64::from_ne_bytes((&*word).try_into().expect("8 bytes"));
                            assert_eq!(value, round);
                            word.copy_from_slice(&(round + 1).to_ne_bytes());
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for to in [TrimTo::Modified, TrimTo::Standby, TrimTo::Store] {
                    engine.trim(pages, to);
                }
                trims.fetch_add(1, Ordering::Relaxed);
            }
        });
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        for result in results {
            result.expect("every write is kept");
        }
    });
    assert!(engine.manager().stats().trimmed_pages > u64::from(pages.count));
    validate(&engine);
}

/// A page that the cleaner of the store held for longer than a trim waits kept its frame.
#[test]
fn a_trim_releases_a_page_that_another_thread_holds_for_a_while() {
    let engine = engine(64 * MIB);
    let pages = PageRange::new(map(&engine, MIB).first, 16);
    fill(bytes(&engine, pages), 0, 1);
    engine.trim(pages, TrimTo::Standby);
    let word = |page| engine.manager().table.word(page);
    let held = pages
        .pages()
        .find_map(|page| word(page).try_lock_in(PageState::Standby));
    let held = held.expect("a page on standby");
    let state = |page| word(page).load().state();
    let timed_wait = |_| {
        let start = Instant::now();
        engine.manager().wait_for_busy(pages);
        start.elapsed()
    };
    // The shortest of five waits: on a busy machine, one wait took longer than all waits of the trim together.
    let one_wait = (0..5).map(timed_wait).min().expect("five waits");
    thread::scope(|scope| {
        scope.spawn(|| {
            // Wait until the trim has released the other 15 pages, which it does in its first try.
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(60)
                && pages
                    .pages()
                    .filter(|page| state(*page) == PageState::Compressed)
                    .count()
                    < 15
            {
                thread::sleep(one_wait / 100);
            }
            thread::sleep(one_wait * 3);
            drop(held);
        });
        engine.trim(pages, TrimTo::Store);
    });
    for page in pages.pages() {
        assert_eq!(state(page), PageState::Compressed);
    }
    verify(bytes(&engine, pages), 0, 1);
}

#[test]
fn a_system_call_gets_efault_unless_the_pages_are_pinned() {
    let engine = engine(64 * MIB);
    let pages = map(&engine, 1 << 20);
    let memory = bytes(&engine, pages);
    fill(memory, 0, 1);
    engine.trim(pages, TrimTo::Store);
    let mut file = tempfile();
    if engine.manager().driver.serves_system_calls() {
        assert_eq!(file.write(memory).expect("a thread restores them"), memory.len());
        file.seek(SeekFrom::Start(0)).expect("a file");
        engine.trim(pages, TrimTo::Store);
    } else {
        let refused = file.write(memory).expect_err("an absent page");
        assert_eq!(refused.raw_os_error(), Some(libc::EFAULT));
    }

    let pin = engine.pin(pages).expect("a small range");
    assert_eq!(engine.trim(pages, TrimTo::Store), 0);
    assert_eq!(file.write(memory).expect("present pages"), memory.len());
    engine.unpin(pin);

    engine.trim(pages, TrimTo::Store);
    memory.fill(0);
    engine.trim(pages, TrimTo::Store);
    file.seek(SeekFrom::Start(0)).expect("a file");
    let pin = engine.pin(pages).expect("a small range");
    assert_eq!(file.read(memory).expect("present pages"), memory.len());
    engine.unpin(pin);
    verify(memory, 0, 1);
    validate(&engine);
}

/// A pin once took the state of a page for its presence: a page that the program had dropped stayed absent, and the system
/// call failed.
#[test]
#[allow(unsafe_code, reason = "calls of a program about its memory")]
fn a_pin_restores_pages_that_the_program_dropped() {
    let engine = engine(64 * MIB);
    let pages = map(&engine, 1 << 20);
    let memory = bytes(&engine, pages);
    fill(memory, 0, 1);
    for managed in [false, true] {
        if managed {
            engine.trim(pages, TrimTo::Store);
            verify(memory, 0, 1);
        }
        // SAFETY: the test alone has the pages, and reads them as zero from here on.
        let dropped = unsafe { libc::madvise(memory.as_mut_ptr().cast(), memory.len(), libc::MADV_DONTNEED) };
        assert_eq!(dropped, 0);
        let pin = engine.pin(pages).expect("a small range");
        assert_eq!(tempfile().write(memory).expect("present pages"), memory.len());
        engine.unpin(pin);
        assert!(memory.iter().all(|byte| *byte == 0));
        fill(memory, 0, 1);
    }
    validate(&engine);
}

/// A page that the program had locked in RAM once kept a whole region resident and charged after its end.
#[test]
#[allow(unsafe_code, reason = "calls of a program about its memory")]
fn a_region_with_a_locked_page_ends_whole() {
    let engine = engine(64 * MIB);
    for managed in [false, true] {
        let pages = map(&engine, 1 << 20);
        let memory = bytes(&engine, pages);
        fill(memory, 0, 1);
        if managed {
            engine.trim(pages, TrimTo::Store);
            verify(memory, 0, 1);
        }
        let page = &memory[8 * PAGE_SIZE..];
        // SAFETY: locks a page of the test in RAM.
        let locked = unsafe { libc::mlock(page.as_ptr().cast(), PAGE_SIZE) };
        assert_eq!(locked, 0);
        let before = engine.manager().budget.frames() + engine.manager().budget.native();
        assert!(before > 0);
        engine.unmap(pages);
        let manager = engine.manager();
        assert_eq!((manager.budget.frames(), manager.budget.native()), (0, 0));
        validate(&engine);
    }
}

/// A new file without a name.
fn tempfile() -> std::fs::File {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(std::env::temp_dir())
        .expect("the folder for temporary files takes one")
}

#[test]
fn dropped_and_discarded_pages_read_as_zero() {
    let engine = engine(16 * MIB);
    let pages = map(&engine, 24 * MIB);
    let memory = bytes(&engine, pages);
    fill(memory, 0, 1);
    engine.discard(pages).expect("no page is locked");
    assert_eq!(resident(&engine, pages).0, 0);
    assert_eq!(engine.manager().backing.copies(), 0);
    assert_eq!(engine.manager().budget.frames(), 0);
    fill(&mut memory[..MIB], 0, 2);
    // SAFETY: the range is the region's, and nothing refers to its contents.
    #[allow(unsafe_code, reason = "memory of regions that the tests read and write")]
    unsafe {
        plimsoll_os::address_space::discard(engine.address(pages.first), MIB / 2).expect("whole pages");
    }
    assert!(memory[..MIB / 2].iter().all(|byte| *byte == 0));
    verify(&memory[MIB / 2..MIB], MIB / 2 / PAGE_SIZE, 2);
    assert!(memory[MIB..2 * MIB].iter().all(|byte| *byte == 0));
    validate(&engine);
}

/// The numbers of the kernel for states that the pager never makes. It reports them, as the program would lose bytes.
#[test]
fn the_kernel_refuses_a_page_without_registration_and_a_second_page() {
    let engine = engine(16 * MIB);
    let pages = map(&engine, MIB);
    fill(bytes(&engine, pages), 0, 1);
    assert_eq!(engine.trim(pages, TrimTo::Standby), pages.count);
    // Ageing registers chunks.
    let refusals = engine.at_rest(|manager| {
        let one = PageRange::new(pages.first, 1);
        manager.driver.unregister(pages).expect("all are absent");
        let without_registration = manager.fault(pages.first);
        // The kernel fills it with zeros.
        manager.driver.populate(one);
        manager.driver.register(pages).expect("a part of the arena");
        let second_page = manager.fault(pages.first);
        let dropped = manager.driver.discard(Area::Arena, one);
        dropped.expect("the page is not locked");
        [without_registration, second_page]
    });
    let refused = |errno| Err(FaultError::Refused(errno));
    assert_eq!(refusals, Some([refused(Errno::NOENT), refused(Errno::EXIST)]));
    verify(bytes(&engine, pages), 0, 1);
    validate(&engine);
}

#[test]
fn a_thousand_regions_are_in_one_arena() {
    let engine = engine_of(1 << 20, 16 * MIB);
    let regions: Vec<PageRange> = (0..1000).map(|_| map(&engine, 3 * PAGE_SIZE)).collect();
    for (number, pages) in regions.iter().enumerate() {
        fill(bytes(&engine, *pages), number * 3, 1);
    }
    for pages in &regions {
        engine.trim(*pages, TrimTo::Standby);
    }
    for (number, pages) in regions.iter().enumerate() {
        verify(bytes(&engine, *pages), number * 3, 1);
    }
    regions.iter().for_each(|pages| engine.unmap(*pages));
    validate(&engine);
    let again = map(&engine, 64 * MIB);
    assert_eq!(again.first, PageIndex::new(0));
}

#[test]
fn addresses_cost_nothing_untouched() {
    let engine = engine_of(1 << 26, 16 * MIB);
    let pages = map(&engine, 64 << 30);
    assert_eq!(engine.manager().chunks.mode(0), ChunkMode::Managed);
    let memory = bytes(&engine, pages);
    memory[5] = 1;
    memory[pages.bytes() - 1] = 2;
    let last = PageIndex::new(pages.end() - 1);
    engine.rest();
    assert_eq!(
        engine.manager().table.word(last).load().state(),
        PageState::Active
    );
    assert_eq!(engine.manager().budget.frames(), 2);
    let metadata = engine.manager().metadata_bytes();
    assert!(metadata < MIB as u64, "{metadata} bytes for two pages");
    engine.unmap(pages);
}

/// The scans of faults, ticks and windows over an arena of 256 GiB with chunks in use at both ends. The bounds are for a busy
/// machine without optimisation; the printed values are for a person.
#[test]
fn scans_of_a_sparse_arena_are_short() {
    let engine = engine_of(1 << 26, 16 * MIB);
    let pages = map(&engine, 256 << 30);
    let memory = bytes(&engine, pages);
    fill(&mut memory[..MIB], 0, 1);
    let last = pages.bytes() - MIB;
    fill(&mut memory[last..], 9, 1);
    let took = engine.at_rest(|manager| {
        let time = |name: &'static str, work: &dyn Fn()| {
            let start = thread_cpu_time();
            (0..10).for_each(|_| work());
            (name, (thread_cpu_time() - start) / 10)
        };
        manager.trim_range(pages);
        manager.save_range(pages);
        manager.ageing.start(std::time::Duration::ZERO);
        [
            time("8 laps without active pages", &|| {
                assert_eq!(manager.trim_active(1), 0)
            }),
            time("a lap without modified pages", &|| {
                assert_eq!(manager.save_modified(1).pages, 0)
            }),
            time("a lap from end to end", &|| drop(manager.take_standby())),
            time("tick", &|| manager.balance()),
            time("window", &|| {
                manager.age_chunks(super::simulated::an_hour_later())
            }),
            time("stats", &|| assert!(manager.stats().ram > 0)),
            time("chunks with frames", &|| {
                assert!(manager.chunks_with_frames().count() > 0)
            }),
            time("trim of everything", &|| assert_eq!(manager.trim_range(pages), 0)),
            time("snapshot", &|| drop(manager.snapshot())),
            time("validate", &|| assert_eq!(manager.validate(), [])),
        ]
    });
    // Passing 131,072 chunks or 64 Mi pages one by one takes more.
    let most = std::time::Duration::from_millis(500);
    for (name, took) in took.expect("this process built it") {
        assert!(took < most, "{name}: {took:?}");
    }
    verify(&memory[..MIB], 0, 1);
    verify(&memory[last..], 9, 1);
    let start = thread_cpu_time();
    engine.discard(pages).expect("nothing is locked");
    assert!(thread_cpu_time() - start < most);
    validate(&engine);
}

fn thread_cpu_time() -> std::time::Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A search for heaps reads the start of each anonymous mapping. With faults inside system calls, the reader waited for an absent
/// page of the shadow, and the pager ended its program.
#[test]
fn another_process_may_read_every_mapping() {
    let engine = engine(16 * MIB);
    let pages = map(&engine, MIB);
    fill(bytes(&engine, pages), 0, 1);
    let mut read = [0; 16];
    let frame = engine.manager().driver.shadow() + pages.first.offset();
    assert_eq!(
        plimsoll_os::read_other(std::process::id(), frame, &mut read),
        Err(Errno::FAULT)
    );
    engine.trim(pages, TrimTo::Standby);
    assert_eq!(
        plimsoll_os::read_other(std::process::id(), frame, &mut read),
        Ok(read.len())
    );
    verify(bytes(&engine, pages), 0, 1);
    assert_eq!(engine.at_rest(|manager| manager.validate()), Some(vec![]));
}
