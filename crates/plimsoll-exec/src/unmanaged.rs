//! An allocator on memory that no pager manages: for this library itself, its pager among it, and for blocks of the C library
//! and the dynamic linker.
//!
//! glibc blocks all signals while it starts a thread or a program, and a thread with SIGBUS blocked that touches an absent page
//! ends the process: so its own blocks must always be present.
//!
//! The area is a reservation of addresses. Its pages belong to blocks of one size class each, or to runs of pages for one
//! block. Pages of a size class stay with it; runs return to the kernel.
//!
//! Invariants:
//! 1. Blocks in use do not overlap, and keep their contents. Checked by `blocks_keep_their_contents`.
//! 2. A page that is [`ZERO`] is free and reads as zero.
#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

use plimsoll_os::address_space::{self, Access};

use crate::lock::Lock;

/// Bytes of a page.
const PAGE: usize = 4096;
/// Bytes of the area, and the fewest if the address space is limited (`ulimit -v`).
const AREA_BYTES: usize = 16 << 30;
const LEAST_AREA_BYTES: usize = 32 << 20;
const PAGES: usize = AREA_BYTES / PAGE;
/// The area becomes accessible in steps of this many bytes.
const STEP: usize = 1 << 20;
/// The largest block of a size class; two fit in a page.
const LARGEST_SMALL: usize = 2048;
/// The alignment of each block, in bytes.
const ALIGNMENT: usize = 16;
/// A free run of at least this many pages returns to the kernel.
const RETURNED: usize = 8;

/// Size classes: multiples of 16 up to 128, and from there four for each doubling.
const CLASSES: usize = 24;

/// A free page that reads as zero.
const ZERO: u8 = 0;
/// A free page that may have contents other than zeros.
const DIRTY: u8 = 1;
/// The first page of a run.
const RUN: u8 = 2;
/// Another page of a run.
const INNER: u8 = 3;
/// A page of the first size class; others follow.
const FIRST_CLASS: u8 = 4;

/// The state of the allocator. It is made of words alone, as no allocation may precede it.
struct Unmanaged {
    /// The address of the area.
    start: AtomicUsize,
    /// Its bytes; 0 until the first call.
    bytes: AtomicUsize,
    /// Held by a thread that changes [`KINDS`], [`LENGTHS`] or the fields below.
    pages: Lock,
    /// Pages that are accessible.
    accessible: AtomicUsize,
    /// No page in front of it is free.
    lowest: AtomicUsize,
    /// Pages in front of which all pages in use are.
    end: AtomicUsize,
    lists: [List; CLASSES],
}

/// The kind of each page. All are [`ZERO`] at first, so the tables occupy no bytes in the file.
static KINDS: [AtomicU8; PAGES] = [const { AtomicU8::new(ZERO) }; PAGES];
/// The pages of the run that begins at each page, if one does.
static LENGTHS: [AtomicU32; PAGES] = [const { AtomicU32::new(0) }; PAGES];

/// The free blocks of a size class.
struct List {
    lock: Lock,
    /// The address of the first; each holds the address of the next in its first word.
    first: AtomicUsize,
}

static STATE: Unmanaged = Unmanaged {
    start: AtomicUsize::new(0),
    bytes: AtomicUsize::new(0),
    pages: Lock::new(),
    accessible: AtomicUsize::new(0),
    lowest: AtomicUsize::new(0),
    end: AtomicUsize::new(0),
    lists: [const {
        List {
            lock: Lock::new(),
            first: AtomicUsize::new(0),
        }
    }; CLASSES],
};

/// The size class for blocks of `size` bytes, at most [`LARGEST_SMALL`].
const fn class_of(size: usize) -> usize {
    if size <= 128 {
        return if size == 0 { 0 } else { (size - 1) / 16 };
    }
    // 128 < size: the doubling, and the quarter of it.
    let doubling = (size - 1).ilog2() as usize - 7;
    let quarter = (size - 1) >> (doubling + 5) & 3;
    8 + doubling * 4 + quarter
}

/// Bytes of the blocks of a size class.
const fn size_of_class(class: usize) -> usize {
    if class < 8 {
        return (class + 1) * 16;
    }
    let (doubling, quarter) = ((class - 8) / 4, (class - 8) % 4);
    (128 << doubling) + (32 << doubling) * (quarter + 1)
}

const _: () = assert!(size_of_class(CLASSES - 1) == LARGEST_SMALL);
const _: () = assert!(class_of(LARGEST_SMALL) == CLASSES - 1);

/// Whether a block at that address is of this allocator.
#[inline(always)]
pub(crate) fn contains(address: usize) -> bool {
    address.wrapping_sub(STATE.start.load(Ordering::Relaxed)) < STATE.bytes.load(Ordering::Relaxed)
}

/// A block of at least `size` bytes, aligned to 16; null if no memory is left.
pub(crate) fn allocate(size: usize) -> *mut u8 {
    match size {
        ..=LARGEST_SMALL => small(class_of(size)),
        _ => run(size.div_ceil(PAGE), 1, false),
    }
}

/// A block of at least `size` bytes at a multiple of `align`, a power of two.
pub(crate) fn allocate_aligned(align: usize, size: usize) -> *mut u8 {
    let whole = size.max(align);
    match align {
        ..=ALIGNMENT => allocate(size),
        // Blocks of a power of two are at multiples of it, as pages are.
        _ if whole <= LARGEST_SMALL => small(class_of(whole.next_power_of_two())),
        _ => run(size.div_ceil(PAGE).max(1), align.div_ceil(PAGE), false),
    }
}

/// A block of at least `size` bytes that are zero, at a multiple of `align`, a power of two.
pub(crate) fn allocate_zeroed(align: usize, size: usize) -> *mut u8 {
    if size.max(align) > LARGEST_SMALL {
        return run(size.div_ceil(PAGE).max(1), align.div_ceil(PAGE), true);
    }
    let block = allocate_aligned(align, size);
    if !block.is_null() {
        // SAFETY: the block is that long, and the caller's.
        unsafe { ptr::write_bytes(block, 0, size) };
    }
    block
}

/// Bytes of a block.
///
/// # Safety
/// A block of this allocator in use is there.
pub(crate) unsafe fn usable_size(block: *mut u8) -> usize {
    let page = page_of(block as usize);
    match KINDS[page].load(Ordering::Relaxed) {
        RUN => LENGTHS[page].load(Ordering::Relaxed) as usize * PAGE,
        kind => size_of_class(usize::from(kind.saturating_sub(FIRST_CLASS))),
    }
}

/// Frees a block.
///
/// # Safety
/// A block of this allocator in use is there; it is not used again.
pub(crate) unsafe fn free(block: *mut u8) {
    let page = page_of(block as usize);
    match KINDS[page].load(Ordering::Relaxed) {
        RUN => free_run(page),
        kind if usize::from(kind.wrapping_sub(FIRST_CLASS)) < CLASSES => {
            let list = &STATE.lists[usize::from(kind - FIRST_CLASS)];
            let _held = list.lock.hold();
            // SAFETY: the block is the caller's, and at least 16 bytes long.
            unsafe { list.push(block as usize) };
        }
        _ => {
            plimsoll_os::write_error(
                b"plimsoll-exec: the program freed a block twice, or one that is none\n",
            );
            plimsoll_os::abort();
        }
    }
}

/// Makes a block `size` bytes long; it may move. Null if no memory is left: the block stays as it was.
///
/// # Safety
/// A block of this allocator in use is there; it is not used again unless null is returned.
pub(crate) unsafe fn reallocate(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's premise.
    let usable = unsafe { usable_size(block) };
    if size <= usable && size >= usable / 2 {
        return block;
    }
    let new = allocate(size);
    if new.is_null() {
        return if size <= usable { block } else { new };
    }
    // SAFETY: both blocks are that long, and the caller's.
    unsafe {
        ptr::copy_nonoverlapping(block, new, size.min(usable));
        free(block);
    }
    new
}

/// Takes every lock, so that a child of a fork finds the allocator whole. The thread does not allocate until
/// [`release_after_fork`].
pub(crate) fn hold_for_fork() {
    STATE.lists.iter().for_each(|list| list.lock.acquire());
    STATE.pages.acquire();
}

/// Releases every lock after a fork, in the parent and in the child.
pub(crate) fn release_after_fork() {
    STATE.pages.release();
    STATE.lists.iter().for_each(|list| list.lock.release());
}

/// Bytes of pages that are in use.
pub(crate) fn bytes_in_use() -> u64 {
    let end = STATE.end.load(Ordering::Relaxed);
    let used = KINDS[..end].iter();
    let used = used.filter(|kind| kind.load(Ordering::Relaxed) >= RUN).count();
    (used * PAGE) as u64
}

fn page_of(address: usize) -> usize {
    (address - STATE.start.load(Ordering::Relaxed)) / PAGE
}

fn address_of(page: usize) -> usize {
    STATE.start.load(Ordering::Relaxed) + page * PAGE
}

impl List {
    /// # Safety
    /// The block is free, at least a word long, and no other thread has its address; the lock is held.
    unsafe fn push(&self, block: usize) {
        // SAFETY: the caller's premise.
        unsafe { (block as *mut usize).write(self.first.load(Ordering::Relaxed)) };
        self.first.store(block, Ordering::Relaxed);
    }

    /// Takes a block, 0 if there is none. The lock is held.
    fn pop(&self) -> usize {
        let block = self.first.load(Ordering::Relaxed);
        if block != 0 {
            // SAFETY: the block is free, and holds the address of the next.
            let next = unsafe { (block as *const usize).read() };
            self.first.store(next, Ordering::Relaxed);
        }
        block
    }
}

/// A block of a size class.
fn small(class: usize) -> *mut u8 {
    let list = &STATE.lists[class];
    let _held = list.lock.hold();
    let block = list.pop();
    if block != 0 {
        return block as *mut u8;
    }
    let size = size_of_class(class);
    let Some(page) = take_pages(1, 1, FIRST_CLASS + class as u8) else {
        return ptr::null_mut();
    };
    let start = address_of(page.first);
    for number in (1..PAGE / size).rev() {
        // SAFETY: the page was just taken.
        unsafe { list.push(start + number * size) };
    }
    start as *mut u8
}

/// Pages that were taken.
struct Taken {
    first: usize,
    /// Whether some of them may have contents other than zeros.
    is_dirty: bool,
}

/// A block of whole pages.
fn run(pages: usize, alignment: usize, is_zeroed: bool) -> *mut u8 {
    let Some(taken) = take_pages(pages, alignment.max(1), RUN) else {
        return ptr::null_mut();
    };
    let block = address_of(taken.first) as *mut u8;
    if is_zeroed && taken.is_dirty {
        // SAFETY: the pages were just taken.
        unsafe { ptr::write_bytes(block, 0, pages * PAGE) };
    }
    block
}

fn free_run(first: usize) {
    let pages = LENGTHS[first].load(Ordering::Relaxed) as usize;
    let is_returned = pages >= RETURNED
        // SAFETY: the caller of `free` uses the run no more.
        && unsafe { address_space::discard(address_of(first), pages * PAGE) }.is_ok();
    let kind = if is_returned { ZERO } else { DIRTY };
    let _held = STATE.pages.hold();
    LENGTHS[first].store(0, Ordering::Relaxed);
    for page in &KINDS[first..first + pages] {
        page.store(kind, Ordering::Relaxed);
    }
    STATE.lowest.fetch_min(first, Ordering::Relaxed);
}

/// Takes a run of pages whose first is at a multiple of `alignment` pages, of that kind.
fn take_pages(pages: usize, alignment: usize, kind: u8) -> Option<Taken> {
    let _held = STATE.pages.hold();
    open_area()?;
    let first = find(pages, alignment)?;
    open_pages(first + pages)?;
    let mut is_dirty = false;
    for (number, page) in KINDS[first..first + pages].iter().enumerate() {
        let inner = if kind == RUN && number > 0 { INNER } else { kind };
        is_dirty |= page.swap(inner, Ordering::Relaxed) == DIRTY;
    }
    LENGTHS[first].store(pages as u32, Ordering::Relaxed);
    STATE.end.fetch_max(first + pages, Ordering::Relaxed);
    if first == STATE.lowest.load(Ordering::Relaxed) {
        STATE.lowest.store(first + pages, Ordering::Relaxed);
    }
    Some(Taken { first, is_dirty })
}

/// Finds free pages. The lock is held.
fn find(pages: usize, alignment: usize) -> Option<usize> {
    let base = STATE.start.load(Ordering::Relaxed) / PAGE;
    let aligned = |page: usize| (base + page).next_multiple_of(alignment) - base;
    let is_free = |page: usize| KINDS[page].load(Ordering::Relaxed) < RUN;
    let mut first = aligned(STATE.lowest.load(Ordering::Relaxed));
    let all = STATE.bytes.load(Ordering::Relaxed) / PAGE;
    while first.checked_add(pages)? <= all {
        match (first..first + pages).rev().find(|page| !is_free(*page)) {
            None => return Some(first),
            Some(taken) => first = aligned(taken + 1),
        }
    }
    None
}

/// Reserves the area, if it is not. The lock is held.
fn open_area() -> Option<()> {
    if STATE.bytes.load(Ordering::Relaxed) != 0 {
        return Some(());
    }
    let mut bytes = AREA_BYTES;
    while bytes >= LEAST_AREA_BYTES {
        if let Ok(start) = address_space::reserve(bytes) {
            STATE.start.store(start, Ordering::Relaxed);
            STATE.bytes.store(bytes, Ordering::Release);
            return Some(());
        }
        bytes /= 2;
    }
    None
}

/// Makes the pages in front of `end` accessible. The lock is held.
fn open_pages(end: usize) -> Option<()> {
    let accessible = STATE.accessible.load(Ordering::Relaxed);
    if end > accessible {
        let end = end.next_multiple_of(STEP / PAGE);
        let (start, length) = (address_of(accessible), (end - accessible) * PAGE);
        // SAFETY: the range is of the area, and no thread has a block in it yet.
        unsafe { address_space::set_access(start, length, Access::Write) }.ok()?;
        STATE.accessible.store(end, Ordering::Relaxed);
    }
    Some(())
}

#[derive(Debug)]
pub(crate) struct LibraryAllocator;

// SAFETY: blocks are of the size and alignment asked for, and belong to their caller.
unsafe impl GlobalAlloc for LibraryAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocate_aligned(layout.align(), layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocate_zeroed(layout.align(), layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller's premise.
        unsafe { free(block) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            // SAFETY: the caller's premise.
            return unsafe { reallocate(block, size) };
        }
        let new = allocate_aligned(layout.align(), size);
        if !new.is_null() {
            // SAFETY: both blocks are that long; the old one is not used again.
            unsafe {
                ptr::copy_nonoverlapping(block, new, size.min(layout.size()));
                free(block);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn classes_cover_every_small_size() {
        for size in 0..=LARGEST_SMALL {
            let class = class_of(size);
            assert!(size_of_class(class) >= size);
            assert!(
                class == 0 || size_of_class(class - 1) < size,
                "{size} in class {class}"
            );
        }
        assert!((0..CLASSES).all(|class| size_of_class(class).is_multiple_of(ALIGNMENT)));
    }

    struct Block {
        start: usize,
        bytes: usize,
        fill: u8,
    }

    impl Block {
        fn check(&self) {
            // SAFETY: the block is in use, and the test's.
            let bytes = unsafe { slice::from_raw_parts(self.start as *const u8, self.bytes) };
            assert!(bytes.iter().all(|byte| *byte == self.fill));
        }

        fn new(start: *mut u8, bytes: usize, align: usize, fill: u8) -> Block {
            assert!(!start.is_null() && contains(start as usize));
            assert!((start as usize).is_multiple_of(align));
            // SAFETY: the block is in use, and the test's.
            unsafe {
                assert!(usable_size(start) >= bytes);
                start.write_bytes(fill, bytes);
            }
            let start = start as usize;
            Block { start, bytes, fill }
        }
    }

    /// The next step on a set of blocks.
    #[derive(Debug, Clone)]
    enum Step {
        Allocate(usize, u32),
        Zeroed(usize, u32),
        Free(prop::sample::Index),
        Resize(prop::sample::Index, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let size = || prop_oneof![0..300usize, 0..5000usize, 0..200_000usize];
        prop_oneof![
            (size(), 4..15u32).prop_map(|(size, align)| Step::Allocate(size, align)),
            (size(), 4..15u32).prop_map(|(size, align)| Step::Zeroed(size, align)),
            any::<prop::sample::Index>().prop_map(Step::Free),
            (any::<prop::sample::Index>(), size()).prop_map(|(index, size)| Step::Resize(index, size)),
        ]
    }

    fn take(blocks: &mut Vec<Block>, index: &prop::sample::Index) -> Option<Block> {
        let block = (!blocks.is_empty()).then(|| blocks.swap_remove(index.index(blocks.len())));
        block.inspect(Block::check)
    }

    proptest! {
        #[test]
        fn blocks_keep_their_contents(steps in prop::collection::vec(step(), 1..80)) {
            let mut blocks = Vec::new();
            for (number, step) in (1..).zip(steps) {
                match step {
                    Step::Allocate(size, align) => {
                        let block = allocate_aligned(1 << align, size);
                        blocks.push(Block::new(block, size, 1 << align, number));
                    }
                    Step::Zeroed(size, align) => {
                        let start = allocate_zeroed(1 << align, size);
                        Block { start: start as usize, bytes: size, fill: 0 }.check();
                        blocks.push(Block::new(start, size, 1 << align, number));
                    }
                    Step::Free(index) => {
                        if let Some(block) = take(&mut blocks, &index) {
                            // SAFETY: in use, and not used again.
                            unsafe { free(block.start as *mut u8) };
                        }
                    }
                    Step::Resize(index, size) => {
                        if let Some(block) = take(&mut blocks, &index) {
                            // SAFETY: in use, and not used again.
                            let start = unsafe { reallocate(block.start as *mut u8, size) };
                            let bytes = size.min(block.bytes);
                            Block { start: start as usize, bytes, fill: block.fill }.check();
                            blocks.push(Block::new(start, size, ALIGNMENT, number));
                        }
                    }
                }
            }
            for block in blocks {
                block.check();
                // SAFETY: in use, and not used again.
                unsafe { free(block.start as *mut u8) };
            }
        }
    }

    #[test]
    fn threads_share_it() {
        std::thread::scope(|scope| {
            for number in 0..4u8 {
                scope.spawn(move || {
                    for round in 0..2000usize {
                        let size = 1 + round * 37 % 6000;
                        let block = Block::new(allocate(size), size, ALIGNMENT, number);
                        block.check();
                        // SAFETY: in use, and not used again.
                        unsafe { free(block.start as *mut u8) };
                    }
                });
            }
        });
        assert!(bytes_in_use() > 0);
    }
}
