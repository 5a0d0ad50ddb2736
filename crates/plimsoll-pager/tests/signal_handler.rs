//! The store in a signal handler: no allocation, a bounded stack.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use plimsoll_pager::store::{
    BLOCK, Blocks, FirstCodec, Idle, NoFile, PAGE, Page, PageIndex, Place, SEGMENT, Store, StoreOptions,
};

/// The system's allocator, which counts the calls of a thread that counts.
struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_COUNTING: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if IS_COUNTING.with(Cell::get) {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's premise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's premise.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Shared {
    store: Store,
    /// Pages with their places, and a segment as a page file has it.
    pages: Vec<(PageIndex, Place, Page)>,
    file: Box<[u8; SEGMENT]>,
    spilled: Vec<(PageIndex, Place)>,
}

impl Blocks for Shared {
    type Error = ();

    fn seal(&self, _: u32, _: usize) -> u64 {
        // Each is read.
        0
    }

    fn read(&self, _: u32, block: usize, bytes: &mut [u8; BLOCK]) -> Result<(), ()> {
        bytes.copy_from_slice(&self.file[block * BLOCK..(block + 1) * BLOCK]);
        Ok(())
    }
}

static SHARED: OnceLock<Shared> = OnceLock::new();
static READ: AtomicU64 = AtomicU64::new(0);
static DEEPEST: AtomicUsize = AtomicUsize::new(usize::MAX);

fn content(number: u32) -> Page {
    let mut page = [0; PAGE];
    for (at, word) in page.chunks_exact_mut(8).enumerate() {
        let value = match number % 3 {
            // LZ4 does well, Zstandard better; and random.
            0 => (at as u64 / 3) % 50,
            1 => 0x7f00_0000_0000 + (at as u64 * 7919 + u64::from(number)) % 4096,
            _ => (at as u64 + 1 + u64::from(number) * 512)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(31),
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
    page
}

fn fill() -> Shared {
    let store = Store::new(&StoreOptions {
        most: 64 << 20,
        limit: 32 << 20,
        first: FirstCodec::Lz4,
    })
    .expect("there is address space");
    let mut places: Vec<Place> = Vec::new();
    let put = |places: &mut Vec<Place>, count: u32| {
        for number in places.len() as u32..places.len() as u32 + count {
            places.push(
                store
                    .put(PageIndex::new(number), &content(number))
                    .expect("there is room"),
            );
        }
        store.close_segments();
    };
    put(&mut places, 300);
    let mut bytes = Box::new([0; SEGMENT]);
    let mut spilled = Vec::new();
    let spill = store
        .take_segment_for_spill(&mut bytes)
        .expect("segments are closed");
    let _ = spill.finish(5, |page, _, new| {
        spilled.push((page, new));
        true
    });
    for quads in [0, u32::MAX] {
        let idle = Idle { pages: 0, quads };
        let relocate = |page: PageIndex, _, new| {
            places[page.number() as usize] = new;
            true
        };
        store
            .recompress(idle, u64::MAX, relocate)
            .expect("a writer is free");
        put(&mut places, 300);
    }
    let is_spilled = |page: PageIndex| spilled.iter().any(|(other, _)| *other == page);
    let pages = (0..)
        .zip(&places)
        .map(|(number, place)| (PageIndex::new(number), *place, content(number)));
    let pages = pages.filter(|(page, ..)| !is_spilled(*page)).collect();
    Shared {
        store,
        pages,
        file: bytes,
        spilled,
    }
}

/// Reads every page, from RAM and from the file, and puts and frees a page.
extern "C" fn handler(_: i32) {
    let Some(shared) = SHARED.get() else {
        return;
    };
    let mut target = [0; PAGE];
    let mut read = 0;
    for (page, place, content) in &shared.pages {
        read += u64::from(shared.store.get(*page, *place, &mut target).is_ok() && target == *content);
    }
    for (page, place) in &shared.spilled {
        read += u64::from(shared.store.run().get(*page, *place, shared, &mut target).is_ok());
    }
    let extra = PageIndex::new(100_000);
    let put = shared.store.put(extra, &target);
    read += u64::from(put.is_ok_and(|place| shared.store.free(extra, place).is_ok()));
    READ.store(read, Ordering::Relaxed);
}

/// The pages in RAM in one run of reads, which keeps decompressed neighbours.
extern "C" fn handler_of_runs(_: i32) {
    let Some(shared) = SHARED.get() else {
        return;
    };
    let mut target = [0; PAGE];
    let mut read = 0;
    let mut run = shared.store.run();
    for (page, place, content) in &shared.pages {
        let copy = run.get(*page, *place, &NoFile, &mut target);
        read += u64::from(copy.is_ok() && target == *content);
    }
    READ.store(read, Ordering::Relaxed);
}

const STACK: usize = 256 << 10;

/// Runs `handler` for a signal on a stack of its own, and returns the bytes of the stack that it used.
fn raise(handler: extern "C" fn(i32)) -> usize {
    let mut stack = vec![0xa5u8; STACK];
    // SAFETY: zeros are a value of the structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_ONSTACK;
    let own = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: STACK,
    };
    // SAFETY: as above.
    let mut before: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: the stack outlives its use; the handler calls nothing but the store.
    unsafe {
        assert_eq!(libc::sigaltstack(&own, &mut before), 0);
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
        IS_COUNTING.with(|counting| counting.set(true));
        assert_eq!(libc::raise(libc::SIGUSR1), 0);
        IS_COUNTING.with(|counting| counting.set(false));
        assert_eq!(libc::sigaltstack(&before, std::ptr::null_mut()), 0);
    }
    let unused = stack.iter().take_while(|byte| **byte == 0xa5).count();
    DEEPEST.fetch_min(unused, Ordering::Relaxed);
    STACK - unused
}

#[test]
fn reads_in_a_signal_handler_allocate_nothing_and_need_a_small_stack() {
    let shared = SHARED.get_or_init(fill);
    let all = (shared.pages.len() + shared.spilled.len()) as u64;
    let stats = shared.store.stats();
    assert!(
        stats.live_fresh > 0 && stats.live_packed > 0 && stats.live_quads > 0,
        "{stats:?}"
    );
    CALLS.store(0, Ordering::Relaxed);
    let used = raise(handler);
    assert_eq!(
        (READ.load(Ordering::Relaxed), CALLS.load(Ordering::Relaxed)),
        (all + 1, 0)
    );
    let used_by_quads = raise(handler_of_runs);
    assert_eq!(
        (READ.load(Ordering::Relaxed), CALLS.load(Ordering::Relaxed)),
        (shared.pages.len() as u64, 0)
    );
    let deepest = used.max(used_by_quads);
    // The page that the handler reads into, the frame of the signal with its vector registers, and the codec.
    assert!(deepest < 28 << 10, "{deepest} bytes of stack");
}
