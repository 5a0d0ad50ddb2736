//! The `Memory` of this program, set before the program starts: an arena with room for the window and for other memory.
#![allow(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plimsoll_lfh::{Access, FrontEnd, Heap, HeapOptions, LEAST_WINDOW, Memory, RECORD, SEGMENT, set_memory};
use plimsoll_os::{Errno, page_size};

use crate::blocks::{fill, filled, free_all, is_zero};
use crate::child::in_child;
use crate::seen_lock::lock;
use crate::this_process::resident;
use crate::{filter, taken_away};
use plimsoll_testkit::status_of_fork;

const BYTES: usize = 256 << 30;
const WINDOW: usize = 128 << 30;
const MIB: usize = 1 << 20;

/// The sixth argument of the arena's own system calls, which the kernel does not read: that of others is 0.
pub(crate) const OWN: usize = 0x504C_1000;

/// Refused calls.
const RESERVE: usize = 1;
const SET_ACCESS: usize = 2;
const DISCARD: usize = 4;

#[derive(Debug)]
pub(crate) struct Arena {
    start: AtomicUsize,
    /// Bytes that are reserved from the start on, or were.
    used: AtomicUsize,
    /// Start and length of ranges that were returned. Heaps hold locks meanwhile that a fork takes first.
    returned: Mutex<Vec<(usize, usize)>>,
    window: AtomicUsize,
    refused: AtomicUsize,
    reservations: AtomicUsize,
    releases: AtomicUsize,
    discarded: AtomicUsize,
    kept: AtomicUsize,
}

pub(crate) static ARENA: Arena = Arena {
    start: AtomicUsize::new(0),
    used: AtomicUsize::new(0),
    returned: Mutex::new(Vec::new()),
    window: AtomicUsize::new(WINDOW),
    refused: AtomicUsize::new(0),
    reservations: AtomicUsize::new(0),
    releases: AtomicUsize::new(0),
    discarded: AtomicUsize::new(0),
    kept: AtomicUsize::new(0),
};

#[used]
#[unsafe(link_section = ".init_array")]
static SET: extern "C" fn() = set;

extern "C" fn set() {
    // Where the kernel places nothing by itself: programs that a test starts inherit the filter, with these addresses.
    const PLACE: usize = 0x1000_0000_0000;
    let placed = map(PLACE, libc::MAP_FIXED_NOREPLACE);
    let start = placed
        .or_else(|| map(0, 0))
        .expect("there are 256 GiB of addresses");
    ARENA.start.store(start, Ordering::Relaxed);
    taken_away::prepare(start, BYTES);
    if placed == Some(PLACE) {
        filter::install(start, BYTES);
    }
    // SAFETY: the program has not begun, so that no thread uses a heap; the functions of the arena use none.
    unsafe { set_memory(&ARENA) };
}

/// Maps the arena, inaccessible.
fn map(place: usize, more: i32) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | more;
    // SAFETY: maps where nothing is.
    let start = unsafe {
        libc::mmap(
            place as *mut _,
            BYTES,
            libc::PROT_NONE,
            flags,
            -1,
            OWN as libc::off_t,
        )
    };
    (start != libc::MAP_FAILED).then_some(start as usize)
}

/// A system call of the arena's own. Whether it succeeded.
///
/// # Safety
/// The range is of the arena, and no thread uses it in a way that the call forbids.
pub(crate) unsafe fn own_call(
    number: libc::c_long,
    start: usize,
    length: usize,
    last: i32,
) -> Result<(), Errno> {
    // SAFETY: the caller's premise.
    match unsafe { libc::syscall(number, start, length, last as usize, 0_usize, 0_usize, OWN) } {
        0 => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

pub(crate) fn protection(access: Access) -> i32 {
    match access {
        Access::None => libc::PROT_NONE,
        Access::Read => libc::PROT_READ,
        Access::Write => libc::PROT_READ | libc::PROT_WRITE,
    }
}

impl Arena {
    pub(crate) fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.start.load(Ordering::Relaxed)) < BYTES
    }

    fn refuses(&self, call: usize) -> bool {
        self.refused.load(Ordering::Relaxed) & call != 0
    }

    /// A range of that length: one that was returned, or a new one.
    fn range(&self, length: usize) -> Option<usize> {
        let mut returned = lock(&self.returned);
        if let Some(at) = returned.iter().position(|range| range.1 == length) {
            return Some(returned.swap_remove(at).0);
        }
        let more = |used: usize| used.checked_add(length).filter(|used| *used <= BYTES);
        let used = &self.used;
        let offset = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        Some(self.start.load(Ordering::Relaxed) + offset.ok()?)
    }
}

/// # Safety
/// As for [`Memory::set_access`].
unsafe fn change_access(start: usize, length: usize, access: Access) -> Result<(), Errno> {
    taken_away::note_access(start, length, access, || {
        // SAFETY: the caller's premise.
        unsafe { own_call(libc::SYS_mprotect, start, length, protection(access)) }
    })
}

impl Memory for Arena {
    fn window_bytes(&self, most: usize) -> usize {
        self.window.load(Ordering::Relaxed).min(most)
    }

    fn reserve(&self, length: usize) -> Option<usize> {
        assert!(length.is_multiple_of(4096));
        if self.refuses(RESERVE) {
            return None;
        }
        let start = self.range(length)?;
        self.reservations.fetch_add(1, Ordering::Relaxed);
        Some(start)
    }

    unsafe fn release(&self, start: usize, length: usize) {
        self.releases.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's premise.
        unsafe {
            change_access(start, length, Access::None).expect("there are mappings");
            own_call(libc::SYS_madvise, start, length, libc::MADV_DONTNEED).expect("it is mapped");
        }
        lock(&self.returned).push((start, length));
    }

    unsafe fn set_access(&self, start: usize, length: usize, access: Access) -> Result<(), Errno> {
        assert!(self.contains(start) && self.contains(start + length - 1));
        if self.refuses(SET_ACCESS) {
            return Err(Errno::NOMEM);
        }
        // SAFETY: the caller's premise.
        unsafe { change_access(start, length, access) }
    }

    unsafe fn discard(&self, start: usize, length: usize) -> Result<(), Errno> {
        assert!(self.contains(start) && self.contains(start + length - 1));
        if self.refuses(DISCARD) {
            return Err(Errno::NOMEM);
        }
        self.discarded.fetch_add(length, Ordering::Relaxed);
        // SAFETY: the caller's premise.
        unsafe { own_call(libc::SYS_madvise, start, length, libc::MADV_DONTNEED) }
    }

    fn keep(&self, start: usize, length: usize) {
        assert!(self.contains(start) && self.contains(start + length - 1));
        self.kept.fetch_add(length, Ordering::Relaxed);
    }
}

#[test]
fn all_memory_of_heaps_is_of_the_arena() {
    in_child("arena::all_memory_of_heaps_is_of_the_arena", &[], || {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        assert_eq!(ARENA.reservations.load(Ordering::Relaxed), 2, "window and slots");
        heap.set_front_end(FrontEnd::LowFragmentation)
            .expect("nothing forbids it");
        assert_eq!(ARENA.reservations.load(Ordering::Relaxed), 3);
        let kept = ARENA.kept.load(Ordering::Relaxed);
        assert_eq!(kept, page_size() + 2 * RECORD, "the directory, two records");
        let sizes = [16, 300, 16_000, 100_000, 3 << 20, 70 << 20];
        for (size, heap) in sizes
            .iter()
            .flat_map(|size| [(*size, &heap), (*size, Heap::process())])
        {
            let block = heap.allocate_zeroed(size);
            assert!(ARENA.contains(block as usize), "{size} bytes at {block:?}");
            // SAFETY: the block is in use, and that long.
            unsafe {
                assert!(is_zero(block, size));
                block.write_bytes(1, size);
                heap.free(block);
            }
        }
        drop(heap);
        assert_eq!(ARENA.releases.load(Ordering::Relaxed), 1, "the slots");
        assert!(ARENA.discarded.load(Ordering::Relaxed) > 70 << 20);
    });
}

/// Memory of other code lies behind the window, whose addresses a window of the usual length would take.
#[test]
fn the_window_ends_where_its_memory_does() {
    in_child("arena::the_window_ends_where_its_memory_does", &[], || {
        const UNITS: usize = 32 * MIB;
        ARENA.window.store(LEAST_WINDOW + UNITS, Ordering::Relaxed);
        let heap = Heap::process();
        let mut blocks = Vec::new();
        for _ in 0..2 {
            let block = || Some(heap.allocate(MIB)).filter(|block| !block.is_null());
            blocks.extend(std::iter::from_fn(block));
            let found = blocks.len();
            assert!(
                (UNITS / MIB..=(UNITS + SEGMENT) / MIB).contains(&found),
                "{found}"
            );
            assert!(heap.allocate(SEGMENT).is_null());
            free_all(heap, blocks.drain(..));
        }
        let end = ARENA.start.load(Ordering::Relaxed) + LEAST_WINDOW + UNITS + 2 * SEGMENT;
        for foreign in [end, end + WINDOW] {
            // SAFETY: the mistake of this test.
            let status = status_of_fork(|| unsafe { heap.free(foreign as *mut u8) });
            assert_eq!(libc::WTERMSIG(status), libc::SIGABRT, "{foreign:#x}: {status:#x}");
        }
    });
}

#[test]
fn without_its_memory_a_call_returns_null_and_a_later_one_a_block() {
    let name = "arena::without_its_memory_a_call_returns_null_and_a_later_one_a_block";
    in_child(name, &[], || {
        let heap = Heap::process();
        for refused in [RESERVE, SET_ACCESS] {
            ARENA.refused.store(refused, Ordering::Relaxed);
            assert!(heap.allocate(100).is_null());
            assert!(Heap::new(HeapOptions::default()).is_err());
        }
        ARENA.refused.store(0, Ordering::Relaxed);
        let reserved = ARENA.reservations.load(Ordering::Relaxed);
        assert_eq!(ARENA.releases.load(Ordering::Relaxed), reserved);
        ARENA.window.store(LEAST_WINDOW - 1, Ordering::Relaxed);
        assert!(heap.allocate(100).is_null());
        ARENA.window.store(LEAST_WINDOW + 64 * MIB, Ordering::Relaxed);
        assert!(!heap.allocate(100).is_null());
        ARENA.refused.store(SET_ACCESS, Ordering::Relaxed);
        assert!(heap.allocate(48 * MIB).is_null());
        ARENA.refused.store(0, Ordering::Relaxed);
        assert!(!heap.allocate(48 * MIB).is_null());
    });
}

/// Pages may be locked.
#[test]
fn pages_that_cannot_be_discarded_are_cleared() {
    in_child("arena::pages_that_cannot_be_discarded_are_cleared", &[], || {
        ARENA.refused.store(DISCARD, Ordering::Relaxed);
        let heap = Heap::process();
        let blocks = filled(heap, 64 * MIB, || 4 * MIB);
        free_all(heap, blocks);
        heap.trim();
        let mut blocks: Vec<*mut u8> = (0..16).map(|_| heap.allocate_zeroed(4 * MIB)).collect();
        for block in &mut blocks {
            // SAFETY: the blocks are in use, and that long.
            unsafe {
                assert!(is_zero(*block, 4 * MIB));
                block.write_bytes(7, 4 * MIB);
                *block = heap.reallocate(*block, 9 * MIB);
                assert!((0..4 * MIB).step_by(997).all(|at| block.add(at).read() == 7));
            }
        }
        free_all(heap, blocks);
        let again = heap.allocate_zeroed(140 * MIB);
        // SAFETY: the block is in use, and that long.
        assert!(unsafe { is_zero(again, 140 * MIB) });
    });
}

/// A resized block took twice its memory until the end of the copy.
#[test]
fn long_blocks_are_resized_in_pieces() {
    in_child("arena::long_blocks_are_resized_in_pieces", &[], || {
        const LENGTH: usize = 128 * MIB;
        let heap = Heap::process();
        let block = heap.allocate(LENGTH);
        // Behind it, so that the block cannot grow in its place.
        let wall = heap.allocate(MIB);
        // SAFETY: the blocks are in use, and that long.
        unsafe {
            (0..LENGTH)
                .step_by(4096)
                .for_each(|at| block.add(at).cast::<usize>().write(at));
            let (before, discarded) = (resident(), ARENA.discarded.load(Ordering::Relaxed));
            let length = heap.usable_size(block);
            let moved = heap.reallocate(block, 2 * LENGTH);
            assert_ne!(moved, block);
            assert!(
                (0..LENGTH)
                    .step_by(4096)
                    .all(|at| moved.add(at).cast::<usize>().read() == at)
            );
            assert_eq!(ARENA.discarded.load(Ordering::Relaxed) - discarded, length);
            assert!(resident() < before + 8 * MIB, "{} after {before}", resident());
            heap.free(moved);
            heap.free(wall);
        }
    });
}

/// A helper has no thread-local storage, which a handler of faults may use.
#[test]
fn a_thread_of_the_program_takes_the_place_of_the_helper() {
    let name = "arena::a_thread_of_the_program_takes_the_place_of_the_helper";
    in_child(name, &[], || {
        let heap = Heap::process();
        Heap::end_purge_period();
        let mut blocks = Vec::with_capacity(16 << 10);
        fill(heap, &mut blocks, 200 * MIB, || 100_000);
        let full = resident();
        let threads = || {
            std::fs::read_dir("/proc/self/task")
                .expect("there is /proc")
                .count()
        };
        let before = threads();
        free_all(heap, blocks);
        let start = Instant::now();
        while resident() + 190 * MIB > full {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{} of {full}",
                resident()
            );
            Heap::end_purge_period();
            assert_eq!(threads(), before);
            std::thread::sleep(Duration::from_millis(20));
        }
        println!("measured: returned after {:?}", start.elapsed());
    });
}

#[test]
fn a_thread_of_the_program_ends_periods_beside_others() {
    static ENDED: AtomicBool = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ENDED.load(Ordering::Relaxed) {
                Heap::end_purge_period();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        crate::threads::work(Heap::process(), 4);
        ENDED.store(true, Ordering::Relaxed);
    });
}
