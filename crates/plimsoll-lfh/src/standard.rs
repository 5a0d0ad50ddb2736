//! The Standard front end: coalescing blocks with their size in front of them, under one lock.
//!
//! Its memory is runs of units. In a run, blocks follow each other without a gap:
//!
//! ```text
//! run   8 bytes | header, block ... | header, block ... | ... | header of size 0, in use
//! ```
//!
//! Sizes are steps of 16 bytes, with the header of 8: so a block's bytes start at a multiple of 16. Free blocks are
//! linked through their bytes, in a list for each of some ranges of sizes.
//!
//! Premises of the unsafe code: the runs belong to this heap alone; the heap wrote every header, as its check byte
//! shows; under the lock no other thread accesses free blocks, nor headers but to read their size.
#![allow(unsafe_code)]

mod check;

use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::arena;
use crate::backend::Backend;
use crate::integrity::{self, Damage};
use crate::unit::{UNIT, UnitIndex, UnitKind};

/// Bytes that sizes are counted in.
pub(crate) const STEP: usize = 16;
/// Bytes in front of each block.
pub(crate) const HEADER: usize = 8;
/// Steps of the smallest block: its header and two links.
pub(crate) const SMALLEST: u32 = 2;
/// Units of a run: 1 MiB.
const RUN: u32 = 64;
/// Steps of the blocks of a run.
pub(crate) const RUN_STEPS: u32 = (RUN as usize * UNIT / STEP) as u32 - 1;

/// Blocks of fewer steps than this have a list for each size.
const EXACT: u32 = 64;
/// Lists a doubling from there on, as a power of two.
const DIVISIONS: u32 = 3;
const LISTS: usize = (EXACT + (RUN_STEPS.ilog2() + 1 - EXACT.ilog2()) * (1 << DIVISIONS)) as usize;

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Steps of the block, with its header. 0 at the end of a run.
    pub(crate) size: u32,
    /// Steps of the block in front of it, 0 at the start of a run.
    pub(crate) previous: u32,
    pub(crate) in_use: bool,
}

impl Header {
    /// The word of the header: size, previous size, in use, and a byte that makes all bytes together a constant;
    /// encoded by `key`, so that no program writes one by mistake.
    pub(crate) const fn encode(self, key: u64) -> u64 {
        let word = self.size as u64 | (self.previous as u64) << 24 | (self.in_use as u64) << 48;
        (word | ((fold(word) ^ CHECK) as u64) << 56) ^ key
    }

    /// The header that a word is; none if it was damaged.
    pub(crate) const fn decode(word: u64, key: u64) -> Option<Header> {
        let word = word ^ key;
        if fold(word) != CHECK || (word >> 48) & 0xFF > 1 {
            return None;
        }
        Some(Header {
            size: (word & 0xFF_FFFF) as u32,
            previous: (word >> 24 & 0xFF_FFFF) as u32,
            in_use: word >> 48 & 1 == 1,
        })
    }
}

const CHECK: u8 = 0xA5;

/// All bytes of the word by exclusive or.
const fn fold(word: u64) -> u8 {
    let half = word ^ word >> 32;
    let quarter = half ^ half >> 16;
    (quarter ^ quarter >> 8) as u8
}

/// The Standard front end of a heap, under its lock. Zeroed memory is one without blocks.
///
/// Invariants, checked by [`Standard::check`]:
/// 1. From the start of a run, adding up sizes leads to its end, and each header names the size before it.
/// 2. No two neighbours are free.
/// 3. A free block is in the list of its size, and a list's bit is set exactly if it has a block.
/// 4. At most one run has no block in use.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Standard {
    /// Address of the first free block's header of each list, 0 for none.
    heads: [usize; LISTS],
    occupied: [u64; LISTS.div_ceil(64)],
    pub(crate) runs: u32,
    /// Runs without a block in use.
    empty_runs: u32,
    /// Blocks in use.
    pub(crate) blocks: u64,
    /// Steps of blocks in use, with their headers.
    pub(crate) steps: u64,
}

fn list_of(size: u32) -> usize {
    if size < EXACT {
        return size as usize;
    }
    let log = size.ilog2();
    let division = (size >> (log - DIVISIONS)) & ((1 << DIVISIONS) - 1);
    (EXACT + ((log - EXACT.ilog2()) << DIVISIONS) + division) as usize
}

/// Steps of a block of `bytes` bytes; none if no run has room.
fn steps_for(bytes: usize) -> Option<u32> {
    let steps = bytes.checked_add(HEADER)?.div_ceil(STEP);
    (steps <= RUN_STEPS as usize).then_some((steps as u32).max(SMALLEST))
}

fn key() -> u64 {
    arena::directory().key.load(Ordering::Relaxed)
}

fn word(header: usize) -> &'static AtomicU64 {
    // SAFETY: headers are words of accessible runs, which other threads read too, all of them by this function.
    unsafe { &*(header as *const AtomicU64) }
}

/// The header at an address. The process ends if it is damaged.
fn read(header: usize) -> Header {
    Header::decode(word(header).load(Ordering::Relaxed), key())
        .unwrap_or_else(|| integrity::report(Damage::Header, header, None))
}

fn write(header: usize, contents: Header) {
    word(header).store(contents.encode(key()), Ordering::Relaxed);
}

/// The link of a free block to the next one (0) or to the one before it (1) of its list.
fn link(header: usize, which: usize) -> &'static AtomicU64 {
    word(header + HEADER + which * 8)
}

fn follow(header: usize, which: usize) -> usize {
    (link(header, which).load(Ordering::Relaxed) ^ key()) as usize
}

/// The neighbour of a free block in its list, 0 for none; `None` if the link leads to an address that cannot be a block
/// of the same heap: it was overwritten, and must not be followed.
fn neighbour(header: usize, which: usize) -> Option<usize> {
    let to = follow(header, which);
    (to == 0 || may_be_block(to, arena::unit_within(header))).then_some(to)
}

/// Whether an address may hold a header of a block: in a run of the heap that the unit is of.
fn may_be_block(header: usize, of: UnitIndex) -> bool {
    let Some(index) = arena::unit_of(header).filter(|unit| (arena::FIRST_UNIT..arena::end()).contains(unit))
    else {
        return false;
    };
    let (unit, own) = (arena::unit(index), arena::unit(of));
    let start = arena::address_of(unit.first.load(Ordering::Relaxed)) + HEADER;
    let steps = header.wrapping_sub(start) / STEP;
    unit.kind() == UnitKind::Standard
        && unit.heap.load(Ordering::Relaxed) == own.heap.load(Ordering::Relaxed)
        && header.wrapping_sub(start).is_multiple_of(STEP)
        && steps + SMALLEST as usize <= RUN_STEPS as usize
}

fn set_link(header: usize, which: usize, to: usize) {
    link(header, which).store(to as u64 ^ key(), Ordering::Relaxed);
}

const NEXT: usize = 0;
const PREVIOUS: usize = 1;

/// The header of the block in use at an address. The process ends if there is none, with the damage `freed` if the block
/// is free.
fn in_use(block: usize, freed: Damage) -> (usize, Header) {
    if !block.is_multiple_of(STEP) {
        integrity::report(Damage::NotAStart, block, None);
    }
    let header = block - HEADER;
    let contents = Header::decode(word(header).load(Ordering::Relaxed), key());
    match contents {
        Some(contents) if contents.in_use && contents.size >= SMALLEST => (header, contents),
        Some(_) => integrity::report(freed, block, None),
        None => integrity::report(Damage::Header, block, None),
    }
}

/// Bytes of a block in use.
pub(crate) fn usable_size(block: usize) -> usize {
    in_use(block, Damage::UsedAfterFree).1.size as usize * STEP - HEADER
}

impl Standard {
    /// A block of at least `bytes` bytes at a multiple of `align`, a power of two of at most a unit. Null where no
    /// memory is left.
    pub(crate) fn allocate(&mut self, backend: &Backend, bytes: usize, align: usize) -> *mut u8 {
        let Some(steps) = steps_for(bytes) else {
            return ptr::null_mut();
        };
        let more = if align > STEP {
            (align / STEP) as u32 + SMALLEST
        } else {
            0
        };
        let Some(mut header) = self.find(steps + more).or_else(|| self.grow(backend)) else {
            return ptr::null_mut();
        };
        let mut free = read(header);
        self.unlink(header, free.size);
        if free.size == RUN_STEPS {
            self.empty_runs -= 1;
        }
        let skipped = skipped_for(header + HEADER, align);
        if skipped != 0 {
            self.put(
                header,
                Header {
                    size: skipped,
                    ..free
                },
            );
            header += skipped as usize * STEP;
            free = Header {
                size: free.size - skipped,
                previous: skipped,
                in_use: false,
            };
        }
        self.use_start(header, free, steps);
        self.blocks += 1;
        (header + HEADER) as *mut u8
    }

    /// Frees a block.
    ///
    /// # Safety
    /// It is a block of this heap in use; no thread uses it again.
    pub(crate) unsafe fn free(&mut self, backend: &Backend, block: *mut u8) {
        let (header, mut free) = in_use(block as usize, Damage::DoubleFree);
        self.blocks -= 1;
        self.steps -= u64::from(free.size);
        let mut at = header;
        if free.previous != 0 {
            let left = header - free.previous as usize * STEP;
            let contents = read(left);
            if !contents.in_use {
                self.unlink(left, contents.size);
                free.size += contents.size;
                free.previous = contents.previous;
                at = left;
            }
        }
        let right = at + free.size as usize * STEP;
        let contents = read(right);
        if !contents.in_use {
            self.unlink(right, contents.size);
            free.size += contents.size;
        }
        if free.size == RUN_STEPS {
            if self.empty_runs != 0 {
                self.runs -= 1;
                let first = arena::unit_of(at).expect("runs are in the window");
                backend.free(first);
                return;
            }
            self.empty_runs += 1;
        }
        self.put(
            at,
            Header {
                in_use: false,
                ..free
            },
        );
        self.update_right(at, free.size);
    }

    /// Makes a block at least `bytes` bytes long in place. Returns false if there is no room.
    ///
    /// # Safety
    /// It is a block of this heap in use, by the caller alone.
    pub(crate) unsafe fn resize(&mut self, block: *mut u8, bytes: usize) -> bool {
        let Some(steps) = steps_for(bytes) else {
            return false;
        };
        let (header, contents) = in_use(block as usize, Damage::UsedAfterFree);
        let right = header + contents.size as usize * STEP;
        let after = read(right);
        let room = contents.size + if after.in_use { 0 } else { after.size };
        if steps > room {
            return false;
        }
        if !after.in_use {
            self.unlink(right, after.size);
        }
        self.steps -= u64::from(contents.size);
        self.use_start(
            header,
            Header {
                size: room,
                ..contents
            },
            steps,
        );
        true
    }

    /// Uses the first `steps` steps of a stretch that is in no list and whose neighbours are not free; the rest becomes
    /// free if it is a block.
    fn use_start(&mut self, header: usize, stretch: Header, steps: u32) {
        let left = stretch.size - steps;
        let size = if left < SMALLEST { stretch.size } else { steps };
        self.put(
            header,
            Header {
                size,
                in_use: true,
                ..stretch
            },
        );
        self.steps += u64::from(size);
        if size == stretch.size {
            self.update_right(header, size);
            return;
        }
        let rest = header + size as usize * STEP;
        self.put(
            rest,
            Header {
                size: left,
                previous: size,
                in_use: false,
            },
        );
        self.update_right(rest, left);
    }

    /// Writes a header, and lists the block if it is free.
    fn put(&mut self, header: usize, contents: Header) {
        write(header, contents);
        if !contents.in_use {
            self.insert(header, contents.size);
        }
    }

    /// Writes the length of a block into the header of the block to its right.
    fn update_right(&self, header: usize, size: u32) {
        let right = header + size as usize * STEP;
        write(
            right,
            Header {
                previous: size,
                ..read(right)
            },
        );
    }

    /// A free block of at least `size` steps: the first of the smallest list that surely has one, or one that fits of
    /// the list of its size.
    fn find(&self, size: u32) -> Option<usize> {
        const LOOKS: usize = 8;
        let own = list_of(size);
        let mut at = *self.heads.get(own)?;
        for _ in 0..LOOKS {
            if at == 0 {
                break;
            }
            if read(at).size >= size {
                return Some(at);
            }
            at = neighbour(at, NEXT).unwrap_or_else(|| end_misled(at));
        }
        let list = own + 1;
        let mut index = list / 64;
        let mut bits = self.occupied.get(index)? & u64::MAX << (list % 64);
        while bits == 0 {
            index += 1;
            bits = *self.occupied.get(index)?;
        }
        Some(self.heads[index * 64 + bits.trailing_zeros() as usize])
    }

    fn insert(&mut self, header: usize, size: u32) {
        let list = list_of(size);
        let head = self.heads[list];
        set_link(header, NEXT, head);
        set_link(header, PREVIOUS, 0);
        if head != 0 {
            set_link(head, PREVIOUS, header);
        }
        self.heads[list] = header;
        self.occupied[list / 64] |= 1 << (list % 64);
    }

    fn unlink(&mut self, header: usize, size: u32) {
        let list = list_of(size);
        let linked = |to: usize, back: usize| to == 0 || follow(to, back) == header;
        let next = neighbour(header, NEXT).filter(|next| linked(*next, PREVIOUS));
        let previous = neighbour(header, PREVIOUS).filter(|previous| linked(*previous, NEXT));
        let (Some(next), Some(previous)) = (next, previous) else {
            end_misled(header);
        };
        if previous == 0 && self.heads[list] != header {
            end_misled(header);
        }
        match previous {
            0 => self.heads[list] = next,
            previous => set_link(previous, NEXT, next),
        }
        if next != 0 {
            set_link(next, PREVIOUS, previous);
        }
        if self.heads[list] == 0 {
            self.occupied[list / 64] &= !(1 << (list % 64));
        }
    }

    /// Takes a run, and returns its one free block.
    fn grow(&mut self, backend: &Backend) -> Option<usize> {
        let run = backend.take(RUN, 1, UnitKind::Standard)?;
        self.runs += 1;
        self.empty_runs += 1;
        let header = arena::address_of(run.first) + HEADER;
        let end = Header {
            size: 0,
            previous: RUN_STEPS,
            in_use: true,
        };
        write(header + RUN_STEPS as usize * STEP, end);
        let free = Header {
            size: RUN_STEPS,
            previous: 0,
            in_use: false,
        };
        self.put(header, free);
        Some(header)
    }
}

/// Ends the process if a link of a free block leads nowhere.
#[cold]
fn end_misled(header: usize) -> ! {
    integrity::report(Damage::WrittenAfterFree, header + HEADER, None)
}

/// Steps from the block at an address to one aligned to `align`: none, or those of a block at least.
fn skipped_for(block: usize, align: usize) -> u32 {
    let mut aligned = block.next_multiple_of(align.max(STEP));
    if aligned != block && aligned - block < SMALLEST as usize * STEP {
        aligned += align;
    }
    ((aligned - block) / STEP) as u32
}
