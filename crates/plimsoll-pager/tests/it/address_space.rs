//! A library that manages the address space of its program: fixed addresses, a region over a whole arena, changed rights,
//! other mappings, and pins.
#![allow(unsafe_code)]

mod pins;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plimsoll_pager::page::PageState;
use plimsoll_pager::{AgeingState, BuildError, Pager, RangeError, Region, TrimTo};
use plimsoll_testkit::{again, role, status_of_fork};

use crate::allocations;
use crate::children::wait;
use crate::forked_pagers::fork;
use crate::modes::{builder, copies};
use crate::pages::{PAGE, fill, is_as_filled};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
const CHUNK: usize = 2 * MIB;
/// An arena, and its address: below those that the kernel picks.
const ARENA: usize = 0x1000_0000_0000;
const ARENA_BYTES: usize = 256 * GIB;

const READ: i32 = libc::PROT_READ;
const WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const NONE: i32 = libc::PROT_NONE;

/// A pager of 16 MiB, and a region over an arena of 256 GiB.
fn whole_arena(address: usize) -> (Pager, Region) {
    let pager = builder()
        .ram(16 * MIB as u64)
        .arena_at(address)
        .address_space(ARENA_BYTES as u64)
        .build()
        .expect("userfaultfd is allowed");
    let region = pager.map(ARENA_BYTES).expect("the arena is free");
    (pager, region)
}

/// The bytes of a range, which no other code uses.
#[allow(clippy::mut_from_ref)]
fn part(region: &Region, start: usize, bytes: usize) -> &mut [u8] {
    assert!(start + bytes <= region.len());
    // SAFETY: inside of the region; each test uses a range by one slice at a time.
    unsafe { std::slice::from_raw_parts_mut(region.as_ptr().add(start), bytes) }
}

/// `mprotect(2)` of a range of a region.
fn protect(region: &Region, start: usize, bytes: usize, rights: i32) {
    // SAFETY: inside of the region; the test uses the range as the rights say.
    let changed = unsafe { libc::mprotect(region.as_ptr().add(start).cast(), bytes, rights) };
    assert_eq!(changed, 0, "{}", io::Error::last_os_error());
}

/// Maps over a range of a region: a file, or fresh memory.
fn map_over(region: &Region, start: usize, bytes: usize, file: Option<&File>) {
    let flags = libc::MAP_FIXED
        | match file {
            Some(_) => libc::MAP_SHARED,
            None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        };
    let file = file.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: the test has surrendered the range.
    let mapped = unsafe { libc::mmap(region.as_ptr().add(start).cast(), bytes, WRITE, flags, file, 0) };
    assert_ne!(mapped, libc::MAP_FAILED, "{}", io::Error::last_os_error());
}

#[track_caller]
fn timed<T>(what: &str, most: Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let took = start.elapsed();
    println!("{what}: {took:?}");
    assert!(took < most, "{what}: {took:?}");
    result
}

#[test]
fn an_arena_begins_at_its_address_unless_that_is_taken() {
    let address = ARENA + 2 * ARENA_BYTES;
    let builder = || builder().ram(8 << 20).address_space(GIB as u64).arena_at(address);
    let pager = builder().build().expect("the addresses are free");
    let region = pager.map(MIB).expect("addresses are free");
    assert_eq!(region.as_ptr() as usize, address);
    let taken = builder().address_space(1 << 20).build();
    let bytes = 1 << 20;
    assert_eq!(taken.err(), Some(BuildError::ArenaTaken { address, bytes }));
    drop((pager, region));
    let pager = builder().build().expect("the addresses are free again");
    assert_eq!(pager.map(PAGE).expect("addresses").as_ptr() as usize, address);
    let beyond = Pager::builder()
        .ram(8 << 20)
        .arena_at(usize::MAX / CHUNK * CHUNK)
        .build();
    assert!(
        matches!(beyond, Err(BuildError::AddressSpace { .. })),
        "{beyond:?}"
    );
}

/// The bounds are for a busy machine; the printed values are for a person.
#[test]
fn a_region_over_a_large_arena_costs_what_is_touched() {
    const PARTS: usize = 40;
    let second = Duration::from_secs(1);
    let (pager, region) = timed("build and map", second, || whole_arena(ARENA));
    assert_eq!(region.as_ptr() as usize, ARENA);
    let metadata = pager.stats().metadata_bytes;
    println!("metadata of an untouched arena: {metadata} bytes");
    assert!(metadata < 64 * KIB as u64, "{metadata}");
    // From end to end, 1 MiB each.
    let at = |number: usize| number * (ARENA_BYTES / PARTS) / PAGE * PAGE;
    timed("40 MiB of faults", 20 * second, || {
        for number in 0..PARTS {
            fill(part(&region, at(number), MIB), number, 1);
        }
    });
    let metadata = pager.stats().metadata_bytes - metadata;
    println!("metadata of 40 chunks: {metadata} bytes");
    // The page with the words of each chunk, that with its record, and buffers.
    assert!(metadata < (PARTS * 3 * PAGE + 512 * KIB) as u64, "{metadata}");
    timed("trim", 10 * second, || {
        region.trim(.., TrimTo::Store).expect("the whole region")
    });
    for number in 0..PARTS {
        assert!(
            is_as_filled(part(&region, at(number), MIB), number, 1),
            "{number}"
        );
    }
    let stats = timed("100 stats", second, || {
        (1..100).for_each(|_| assert!(pager.stats().ram > 0));
        pager.stats()
    });
    assert!(
        stats.resident_bytes() <= stats.ram && stats.forced_frames == 0,
        "{stats:?}"
    );
    let snapshot = timed("snapshot", second, || pager.snapshot());
    let pages: u64 = snapshot.runs().iter().map(|run| u64::from(run.pages.count)).sum();
    assert_eq!(pages, (ARENA_BYTES / PAGE) as u64);
    timed("validate", 5 * second, || assert_eq!(pager.validate(), []));
    timed("discard of an untouched 5 GiB", second / 10, || {
        // SAFETY: no reference to the range exists.
        unsafe { region.discard_unborrowed(at(1) + CHUNK..at(2)) }.expect("nothing is locked");
    });
    timed("discard of 256 GiB", 5 * second, || {
        // SAFETY: as above.
        unsafe { region.discard_unborrowed(..) }.expect("nothing is locked");
    });
    let stats = pager.stats();
    let copies = stats.compressed_pages + stats.modified_pages + stats.standby_pages.iter().sum::<u64>();
    assert_eq!((stats.active_pages, copies), (0, 0));
    for number in 0..PARTS {
        assert!(part(&region, at(number), MIB).iter().all(|byte| *byte == 0));
    }
    assert_eq!(pager.validate(), []);
    timed("unmap", 5 * second, || drop(region));
    assert_eq!(pager.validate(), []);
}

/// Native chunks and managed ones, and a pinned page.
#[test]
fn a_discarded_range_is_zero_unless_a_part_is_pinned() {
    let pager = builder().ram(32 << 20).build().expect("userfaultfd is allowed");
    let mut region = pager.map(8 * MIB).expect("addresses are free");
    for is_managed in [false, true] {
        fill(region.bytes_mut(), 1, 1);
        if is_managed {
            region
                .trim(..5 * MIB, TrimTo::Store)
                .expect("a part of the region");
            assert!(is_as_filled(&region.bytes()[..MIB], 1, 1));
        }
        let range = PAGE..6 * MIB;
        let bytes = range.len();
        let pin = region.pin(3 * MIB..3 * MIB + 1).expect("a small range");
        // SAFETY: no reference to the range exists.
        let refused = unsafe { region.discard_unborrowed(range.clone()) };
        assert_eq!(refused, Err(RangeError::Pinned { bytes }));
        // SAFETY: as above.
        let refused = unsafe { region.surrender(range.clone()) };
        assert_eq!(refused, Err(RangeError::Pinned { bytes }));
        drop(pin);
        assert!(is_as_filled(region.bytes(), 1, 1));
        region.discard(range).expect("nothing is locked");
        assert!(is_as_filled(&region.bytes()[..PAGE], 1, 1));
        assert!(region.bytes()[PAGE..6 * MIB].iter().all(|byte| *byte == 0));
        assert_eq!(pager.validate(), []);
    }
}

/// A fault on a page of a read-only mapping, a page that comes back while the program may not read it, and mappings whose
/// pages are compressed when the program may write them again.
#[test]
fn trimmed_pages_return_whatever_the_rights_of_the_program_are() {
    let (pager, region) = whole_arena(ARENA + 3 * ARENA_BYTES);
    let bytes = 6 * MIB;
    fill(part(&region, 0, bytes), 1, 1);
    for to in [TrimTo::Modified, TrimTo::Standby, TrimTo::Store] {
        region.trim(..bytes, to).expect("a part of the region");
        assert_eq!(pager.stats().active_pages, 0, "{to:?}");
        // Two borders in one block of pages.
        protect(&region, 0, MIB + 3 * PAGE, READ);
        protect(&region, MIB + 3 * PAGE, MIB + PAGE, NONE);
        assert!(
            is_as_filled(&part(&region, 0, bytes)[..MIB + 3 * PAGE], 1, 1),
            "{to:?}"
        );
        region.prefetch(..bytes).expect("the rights do not matter");
        let (pin, pinned) = region.pin_in_signal_handler(..2 * MIB).expect("a small range");
        assert_eq!(pinned, 2 * MIB);
        drop(pin);
        protect(&region, 0, 3 * MIB, READ);
        assert!(is_as_filled(part(&region, 0, bytes), 1, 1), "{to:?}");
        protect(&region, 0, 3 * MIB, WRITE);
        assert!(is_as_filled(part(&region, 0, bytes), 1, 1), "{to:?}");
        assert_eq!(pager.validate(), []);
    }
    // The pages are written again, and never in a read-only form.
    fill(part(&region, 0, bytes), 2, 2);
    region.trim(..bytes, TrimTo::Store).expect("a part of the region");
    assert_eq!(pager.stats().active_pages, 0);
    assert!(is_as_filled(part(&region, 0, bytes), 2, 2));
    // Virgin pages too: the first access is a read.
    protect(&region, 10 * MIB, MIB, READ);
    assert!(part(&region, 10 * MIB, MIB).iter().all(|byte| *byte == 0));
    assert_eq!(pager.validate(), []);
}

/// The kernel moves no page of a run that has several mappings: a page with other rights once kept its neighbours.
#[test]
fn pages_beside_read_only_ones_are_trimmed() {
    let (pager, region) = whole_arena(ARENA + 4 * ARENA_BYTES);
    // A page in the middle of each block of 64 but the last ones.
    let read_only = |page: usize| page % 64 == 37 && page < 448;
    for round in 1..=2 {
        fill(part(&region, 0, CHUNK), 1, round);
        for page in (0..512).filter(|page| read_only(*page)) {
            protect(
                &region,
                page * PAGE,
                PAGE,
                if page % 128 == 37 { READ } else { NONE },
            );
        }
        region.trim(..CHUNK, TrimTo::Store).expect("a part of the region");
        let stats = pager.stats();
        assert_eq!((stats.active_pages, stats.unmovable_pages), (0, 0), "{stats:?}");
        protect(&region, 0, CHUNK, WRITE);
        assert!(is_as_filled(part(&region, 0, CHUNK), 1, round));
        region.trim(..CHUNK, TrimTo::Store).expect("a part of the region");
        assert_eq!(pager.stats().active_pages, 0);
        assert!(is_as_filled(part(&region, 0, CHUNK), 1, round));
        assert_eq!(pager.validate(), []);
    }
}

/// A native chunk is registered at its first trim: with several mappings.
#[test]
fn a_chunk_with_changed_rights_is_registered_whole() {
    let pager = builder().ram(32 << 20).build().expect("userfaultfd is allowed");
    let mut region = pager.map(CHUNK).expect("addresses are free");
    fill(region.bytes_mut(), 1, 1);
    assert_eq!(pager.stats().native_pages, 512);
    protect(&region, MIB, 3 * PAGE, READ);
    protect(&region, MIB + 100 * PAGE, 3 * PAGE, NONE);
    region.trim(..MIB, TrimTo::Store).expect("a part of the region");
    let stats = pager.stats();
    assert_eq!((stats.native_pages, stats.compressed_pages), (0, 256));
    region.trim(MIB.., TrimTo::Store).expect("a part of the region");
    protect(&region, 0, CHUNK, WRITE);
    assert!(is_as_filled(region.bytes(), 1, 1));
    assert_eq!(pager.validate(), []);
}

/// Windows over mappings that the program has split, and over one that is not the pager's.
#[test]
fn ageing_looks_at_chunks_with_changed_rights_and_other_mappings() {
    let pager = builder()
        .ram(12 << 20)
        .ageing(Some(Duration::from_millis(100)))
        .build()
        .expect("userfaultfd is allowed");
    let mut region = pager.map(32 * MIB).expect("addresses are free");
    fill(region.bytes_mut(), 1, 1);
    let page = |number: usize| number * 10 * PAGE;
    (0..200).for_each(|number| protect(&region, page(number), PAGE, READ));
    let file = file_of(&[9; CHUNK]);
    let other = 20 * MIB + 8 * PAGE;
    // SAFETY: no reference to the range exists.
    unsafe { region.surrender(other..other + CHUNK) }.expect("nothing is pinned");
    map_over(&region, other, CHUNK, Some(&file));
    let start = Instant::now();
    while pager.stats().ageing == AgeingState::On && pager.stats().ageing_windows < 4 {
        assert!(start.elapsed() < Duration::from_secs(120), "{:?}", pager.stats());
        assert!(is_as_filled(part(&region, 0, 10 * MIB), 1, 1));
        region
            .trim(14 * MIB.., TrimTo::Standby)
            .expect("a part of the region");
        assert!(is_as_filled(part(&region, 0, 20 * MIB), 1, 1));
    }
    let stats = pager.stats();
    let is_told = stats.ageing == AgeingState::On;
    assert!(is_told || copies(), "{stats:?}");
    assert!(part(&region, other, CHUNK).iter().all(|byte| *byte == 9));
    assert_eq!(pager.validate(), []);
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("there is a folder for temporary files");
    file.write_all(bytes).expect("the file is this test's");
    file
}

/// A file in the middle of two chunks, with trims, faults and a fork around it, and then fresh memory in its place.
#[test]
fn a_surrendered_range_is_the_programs_until_it_is_reclaimed() {
    let address = ARENA + 5 * ARENA_BYTES;
    let (pager, region) = whole_arena(address);
    let (start, bytes) = (CHUNK - 60 * PAGE, 150 * PAGE);
    let file = file_of(&vec![9; bytes]);
    let around = |round: u64| {
        fill(part(&region, 0, start), 1, round);
        fill(part(&region, start + bytes, 4 * MIB), 2, round);
    };
    let is_around = |round: u64| {
        is_as_filled(part(&region, 0, start), 1, round)
            && is_as_filled(part(&region, start + bytes, 4 * MIB), 2, round)
    };
    let range = start..start + bytes;
    for round in 1..=3 {
        around(round);
        // Pages in every state.
        fill(part(&region, start, bytes), 3, round);
        for (part, to) in [(20, TrimTo::Store), (40, TrimTo::Standby), (60, TrimTo::Modified)] {
            let first = start + part * PAGE;
            region.trim(first..first + 20 * PAGE, to).expect("inside");
        }
        // SAFETY: no reference to the range exists.
        unsafe { region.surrender(range.clone()) }.expect("nothing is pinned");
        map_over(&region, start, bytes, Some(&file));
        assert_eq!(
            pager.snapshot().pages_in(PageState::Surrendered),
            (bytes / PAGE) as u64
        );
        part(&region, start, bytes)[..PAGE].fill(8);
        region.trim(..8 * MIB, TrimTo::Store).expect("inside");
        assert_eq!(pager.stats().active_pages, 0);
        region.prefetch(..8 * MIB).expect("the budget allows it");
        let (pin, pinned) = region
            .pin_in_signal_handler(start - PAGE..start + bytes)
            .expect("small");
        assert_eq!(pinned, bytes + PAGE);
        drop(pin);
        drop(region.pin(start - PAGE..start + bytes + PAGE).expect("small"));
        // SAFETY: as above.
        unsafe { region.discard_unborrowed(start - PAGE..start + bytes) }.expect("nothing is pinned");
        let seen = part(&region, start, bytes);
        assert!(seen[..PAGE].iter().all(|byte| *byte == 8));
        assert!(seen[PAGE..].iter().all(|byte| *byte == 9));
        assert!(part(&region, start - PAGE, PAGE).iter().all(|byte| *byte == 0));
        fill(part(&region, 0, start), 1, round);
        assert!(is_around(round));

        let child = fork(&pager, || {
            let seen = part(&region, start, bytes);
            let is_file = seen[0] == 8 && seen[bytes - 1] == 9;
            let is_whole = is_around(round) && is_file;
            around(round + 7);
            region.trim(..8 * MIB, TrimTo::Store).expect("inside");
            map_over(&region, start, bytes, None);
            // SAFETY: nothing has used the range since it was mapped.
            let reclaimed = unsafe { region.reclaim(range.clone()) };
            fill(part(&region, start, bytes), 3, round);
            region.trim(..8 * MIB, TrimTo::Store).expect("inside");
            let is_again = is_as_filled(part(&region, start, bytes), 3, round) && is_around(round + 7);
            i32::from(!(is_whole && is_again && reclaimed.is_ok() && pager.validate().is_empty()))
        });
        assert_eq!(wait(child), 0);

        // SAFETY: fails, as the range is that of the file.
        let refused = unsafe { region.reclaim(start - PAGE..start + bytes) };
        let bytes_asked = bytes + PAGE;
        assert_eq!(refused, Err(RangeError::NotSurrendered { bytes: bytes_asked }));
        assert_eq!(pager.validate(), []);
        // In two parts.
        for part in [start..start + 30 * PAGE, start + 30 * PAGE..start + bytes] {
            map_over(&region, part.start, part.len(), None);
            // SAFETY: nothing has used the range since it was mapped.
            unsafe { region.reclaim(part) }.expect("fresh memory");
        }
        assert!(part(&region, start, bytes).iter().all(|byte| *byte == 0));
        part(&region, start, PAGE).fill(8);
        assert_eq!(pager.snapshot().pages_in(PageState::Surrendered), 0);
        assert!(is_around(round));
        region.trim(..8 * MIB, TrimTo::Store).expect("inside");
        assert_eq!(pager.stats().active_pages, 0);
        assert!(part(&region, start, PAGE).iter().all(|byte| *byte == 8));
        assert!(is_around(round));
        assert_eq!(pager.validate(), []);
        let mut file = &file;
        io::Seek::seek(&mut file, io::SeekFrom::Start(0)).expect("a file");
        file.write_all(&vec![9; bytes]).expect("a file");
    }
    // The pager does not take the mapping of a file.
    // SAFETY: no reference to the range exists.
    unsafe { region.surrender(range.clone()) }.expect("nothing is pinned");
    let private = file_of(&vec![9; bytes]);
    let flags = libc::MAP_FIXED | libc::MAP_PRIVATE;
    // SAFETY: the range is surrendered.
    let mapped = unsafe {
        libc::mmap(
            region.as_ptr().add(start).cast(),
            bytes,
            WRITE,
            flags,
            private.as_raw_fd(),
            0,
        )
    };
    assert_ne!(mapped, libc::MAP_FAILED);
    // SAFETY: the kernel refuses it.
    let refused = unsafe { region.reclaim(range) };
    assert!(matches!(refused, Err(RangeError::System(_))), "{refused:?}");
    assert_eq!(pager.validate(), []);
    // Its addresses are not used again.
    drop(region);
    assert!(pager.map(GIB).is_err());
    assert_eq!(pager.validate(), []);
}

/// Pages of a native region are surrendered too: its chunks are registered first.
#[test]
fn a_native_region_has_surrendered_pages() {
    let pager = builder().ram(32 << 20).build().expect("userfaultfd is allowed");
    let region = pager.map(8 * MIB).expect("addresses are free");
    fill(part(&region, 0, 8 * MIB), 1, 1);
    let (start, bytes) = (3 * MIB, 2 * MIB);
    // SAFETY: no reference to the range exists.
    unsafe { region.surrender(start..start + bytes) }.expect("nothing is pinned");
    let stats = pager.stats();
    assert_eq!((stats.native_pages, stats.active_pages), (1024, 512));
    map_over(&region, start, bytes, Some(&file_of(&vec![9; bytes])));
    assert_eq!(pager.validate(), []);
    region.trim(.., TrimTo::Store).expect("the whole region");
    assert!(part(&region, start, bytes).iter().all(|byte| *byte == 9));
    map_over(&region, start, bytes, None);
    // SAFETY: nothing has used the range since it was mapped.
    unsafe { region.reclaim(start..start + bytes) }.expect("fresh memory");
    fill(part(&region, start, bytes), 2, 2);
    region.trim(.., TrimTo::Store).expect("the whole region");
    assert!(is_as_filled(part(&region, 0, start), 1, 1));
    assert!(is_as_filled(part(&region, start, bytes), 2, 2));
    assert_eq!(pager.validate(), []);
}

/// An access behind the end of a mapped file is none of the pager's: the process ends by the signal, not by the pager.
#[test]
fn a_signal_of_another_mapping_is_not_the_pagers() {
    let status = status_of_fork(|| {
        let pager = builder().ram(8 << 20).build().expect("userfaultfd is allowed");
        let region = pager.map(16 * MIB).expect("addresses are free");
        // SAFETY: no reference to the range exists.
        unsafe { region.surrender(..CHUNK) }.expect("nothing is pinned");
        map_over(&region, 0, CHUNK, Some(&file_of(&[1; PAGE])));
        assert_eq!(part(&region, 0, PAGE)[5], 1);
        // SAFETY: a page of the mapping; the access raises a signal.
        unsafe { region.as_ptr().add(8 * PAGE).read_volatile() };
    });
    assert!(libc::WIFSIGNALED(status), "{status:#x}");
    assert_eq!(libc::WTERMSIG(status), libc::SIGBUS);
}

static REGION: AtomicPtr<Region> = AtomicPtr::new(null_mut());
static FILE: AtomicI32 = AtomicI32::new(-1);
static WRITTEN: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// Pins 64 KiB in turn, and has the kernel read them, as a handler of trapped system calls does.
extern "C" fn on_sigsys(_: libc::c_int) {
    // SAFETY: the region outlives the signals.
    let Some(region) = (unsafe { REGION.load(Ordering::Relaxed).as_ref() }) else {
        return;
    };
    let before = WRITTEN.load(Ordering::Relaxed);
    let start = before * 7 % (region.len() - 64 * KIB);
    let (written, allocations) = allocations::count(|| {
        let Ok((pin, bytes)) = region.pin_in_signal_handler(start..start + 64 * KIB) else {
            return 0;
        };
        // SAFETY: the kernel reads pinned bytes of the region.
        let written = unsafe {
            let at = region.as_ptr().add(start).cast();
            libc::write(FILE.load(Ordering::Relaxed), at, bytes)
        };
        drop(pin);
        written
    });
    WRITTEN.fetch_add(written.max(0) as usize, Ordering::Relaxed);
    ALLOCATIONS.fetch_add(allocations as usize, Ordering::Relaxed);
}

/// Between other threads that fault and trim: each page is written whole.
#[test]
fn a_handler_of_system_calls_pins_what_the_kernel_reads() {
    const CALLS: usize = 2000;
    if role().is_none() {
        let test = "address_space::a_handler_of_system_calls_pins_what_the_kernel_reads";
        let output = again(test, "handler").output().expect("the test program starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        return;
    }
    let pager = builder().ram(8 << 20).build().expect("userfaultfd is allowed");
    let mut region = pager.map(16 * MIB).expect("addresses are free");
    region.bytes_mut().fill(7);
    let file = tempfile::tempfile().expect("there is a folder for temporary files");
    FILE.store(file.as_raw_fd(), Ordering::Relaxed);
    REGION.store(&raw mut region, Ordering::Relaxed);
    // SAFETY: a handler that pins, writes to a file, and counts.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigsys as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGSYS, &raw const action, null_mut()), 0);
    }
    let region = &region;
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                region.trim(.., TrimTo::Store).expect("the whole region");
            }
        });
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                assert!(part(region, 0, MIB).iter().all(|byte| *byte == 7));
            }
        });
        for _ in 0..CALLS {
            // SAFETY: sends a signal that is handled.
            unsafe { libc::raise(libc::SIGSYS) };
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(WRITTEN.load(Ordering::Relaxed), CALLS * 64 * KIB);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 0);
    assert_eq!(pager.stats().pinned_pages, 0);
    assert_eq!(pager.validate(), []);
}

/// A program that makes its pages writable again, and writes, while they are copied out: no write is lost.
#[test]
fn a_write_to_a_page_whose_rights_change_during_a_trim_is_kept() {
    const ROUNDS: u8 = 60;
    let (pager, region) = whole_arena(ARENA + 6 * ARENA_BYTES);
    part(&region, 0, MIB).fill(0);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (is_over, region) = (&is_over, &region);
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                region.trim(..MIB, TrimTo::Standby).expect("a part of the region");
            }
        });
        for round in 1..=ROUNDS {
            for page in (0..MIB).step_by(PAGE) {
                protect(region, page, PAGE, READ);
                assert_eq!(part(region, page, PAGE)[9], round - 1, "page {page}");
                protect(region, page, PAGE, WRITE);
                part(region, page, PAGE)[9] = round;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(part(&region, 0, MIB).chunks(PAGE).all(|page| page[9] == ROUNDS));
    assert_eq!(pager.validate(), []);
}
