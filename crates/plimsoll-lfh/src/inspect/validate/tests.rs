//! Each fault, found where a field of a sound heap reads as something else, and nothing besides it.
#![allow(unsafe_code)]

mod rows;

use core::cell::Cell;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::Ordering;
use std::collections::BTreeSet;
use std::string::String;
use std::vec;
use std::vec::Vec;

use self::rows::{Row, rows_of_hardened, rows_of_lists, rows_of_others, rows_of_runs};
use super::*;
use crate::affinity::{QUARANTINE, STEP, begin, most_pointers};
use crate::arena::{self, Directory, Segment};
use crate::backend::{Backend, Extents};
use crate::bucket::Bucket;
use crate::front_end::{BucketLock, LowFragmentation};
use crate::inspect::{SpaceError, ThisProcess};
use crate::integrity::tag_by;
use crate::lock::Lock;
use crate::record::{self, Record};
use crate::subsegment::{Subsegment, capacity};
use crate::unit::{Unit, UnitIndex, UnitKind};
use crate::{FrontEnd, Heap, HeapOptions};
use plimsoll_testkit::this_program;

/// Runs a test in a process without other heaps, where no page returns to the kernel unless the test requests it.
fn alone(name: &str, body: fn()) {
    if std::env::var_os("PLIMSOLL_LFH_ALONE").is_some() {
        return body();
    }
    let output = this_program()
        .args([&std::format!("inspect::validate::tests::{name}"), "--exact"])
        .env("PLIMSOLL_LFH_ALONE", "1")
        .env("PLIMSOLL_HEAP_PURGE", "never")
        .output()
        .expect("the test program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Bytes that read as others.
type Patch = (usize, Vec<u8>);

/// This process's memory, but for some bytes.
struct Patched(Vec<Patch>);

impl Memory for Patched {
    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        ThisProcess.read(address, into)?;
        for (start, bytes) in &self.0 {
            for (at, byte) in (*start..).zip(bytes) {
                if let Some(read) = into.get_mut(at.wrapping_sub(address)) {
                    *read = *byte;
                }
            }
        }
        Ok(())
    }
}

/// The findings of a walk in a memory with these patches, without the pauses.
fn walked(patches: Vec<Patch>) -> (Vec<Damage>, Validation) {
    let memory = Patched(patches);
    let space = Space::open(&memory, arena::window()).expect("the control block is whole");
    let mut found = Vec::new();
    let mut tell = |damage| found.push(damage);
    let mut walk = Walk::new(&space, &mut tell, |_| ());
    walk.validate().expect("it can be read");
    let seen = walk.seen;
    (found, seen)
}

/// Small blocks' size, and their bucket's number.
const SMALL: usize = 48;

/// Heaps with something of everything that is walked over.
struct Heaps {
    plain: Heap,
    /// Blocks of `plain` in use, whose neighbours are free.
    small: Vec<usize>,
    /// A block of a subsegment of two units.
    wide: usize,
    /// Two free extents, with large blocks in use around them.
    extents: [UnitIndex; 2],
    large: UnitIndex,
    /// In use, of a front end by Standard.
    standard: Vec<usize>,
    _of_standard: Heap,
    hardened: Heap,
    /// In use, of 100 bytes each.
    guarded: Vec<usize>,
    guarded_large: usize,
}

fn unit_at(block: usize) -> UnitIndex {
    arena::unit_within(block)
}

/// # Panics
/// If no memory is left.
fn blocks(heap: &Heap, count: usize, size: usize) -> Vec<usize> {
    let mut blocks: Vec<usize> = (0..count).map(|_| heap.allocate(size) as usize).collect();
    assert!(!blocks.contains(&0));
    blocks.sort_unstable();
    blocks
}

/// Frees every other block, from the second. Returns those in use.
fn thin_out(heap: &Heap, blocks: &[usize]) -> Vec<usize> {
    for block in blocks.iter().skip(1).step_by(2) {
        // SAFETY: the block is the caller's, which does not use it again.
        unsafe { heap.free(*block as *mut u8) };
    }
    blocks.iter().step_by(2).copied().collect()
}

impl Heaps {
    fn new() -> Heaps {
        let plain = Heap::of(FrontEnd::LowFragmentation);
        let small = thin_out(&plain, &blocks(&plain, 2000, SMALL));
        let wide = plain.allocate(2000) as usize;
        let runs = blocks(&plain, 5, 1 << 20);
        let used = thin_out(&plain, &runs);
        plain.trim();
        // The contents of a slot.
        plain.allocate(80);
        let of_standard = Heap::new(HeapOptions::default()).expect("there is memory");
        let standard = blocks(&of_standard, 10, 40);
        let hardened = Heap::new(HeapOptions {
            hardened: true,
            ..HeapOptions::default()
        })
        .expect("there is memory");
        let guarded = thin_out(&hardened, &blocks(&hardened, 1000, 100));
        let guarded_large = hardened.allocate(100_000) as usize;
        hardened.trim();
        Heaps {
            small,
            wide,
            extents: [unit_at(runs[1]), unit_at(runs[3])],
            large: unit_at(used[2]),
            standard,
            _of_standard: of_standard,
            plain,
            hardened,
            guarded,
            guarded_large,
        }
    }

    /// The first block of a list of the subsegment of a block of the bucket.
    fn listed(&self, in_use: usize, bucket: Bucket) -> (Subsegment, u16) {
        let subsegment = Subsegment::containing(in_use, bucket);
        let free = subsegment.unit().remote.load();
        let head = match free.chained {
            0 => subsegment.unit().local.load(Ordering::Relaxed),
            _ => free.head,
        };
        assert!(head != 0, "some blocks are free");
        (subsegment, head)
    }

    /// A slot of a heap, at its place in memory, in which `is_it` finds its value.
    fn slot(heap: &Heap, is_it: impl Fn([u16; 3]) -> bool, index: usize) -> usize {
        let slots = &record::of(heap.number())
            .expect("it lives")
            .low_fragmentation()
            .slots;
        let start = slots.slots.load(Ordering::Relaxed);
        (0..slots.count())
            .map(|slot| start + slot * crate::affinity::SLOT)
            .find(|slot| {
                let mut bytes = [0; 6];
                ThisProcess
                    .read(slot + index * 8, &mut bytes)
                    .expect("it is a slot");
                let step = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
                is_it([step(0), step(2), step(4)])
            })
            .expect("a slot has some")
    }
}

fn of_unit(unit: UnitIndex, field: usize, bytes: &[u8]) -> Patch {
    (ptr::from_ref(arena::unit(unit)).addr() + field, bytes.to_vec())
}

fn first_of_unit(unit: UnitIndex, first: u32) -> Patch {
    of_unit(unit, offset_of!(Unit, first), &first.to_ne_bytes())
}

fn length_of_unit(unit: UnitIndex, length: u32) -> Patch {
    of_unit(unit, offset_of!(Unit, length), &length.to_ne_bytes())
}

/// The number of a fault, so that none is forgotten here.
fn number(fault: &Fault) -> usize {
    match fault {
        Fault::Description { .. } => 0,
        Fault::Owner { .. } => 1,
        Fault::Inner { .. } => 2,
        Fault::Tail { .. } => 3,
        Fault::Apart { .. } => 4,
        Fault::Hole { .. } => 5,
        Fault::List { .. } => 6,
        Fault::NoBucket { .. } => 7,
        Fault::Count { .. } => 8,
        Fault::Link { .. } => 9,
        Fault::Length { .. } => 10,
        Fault::Twice { .. } => 11,
        Fault::Mark { .. } => 12,
        Fault::Slot { .. } => 13,
        Fault::Header { .. } => 14,
        Fault::Standard { .. } => 15,
        Fault::Canary { .. } => 16,
        Fault::State { .. } => 17,
        Fault::Slack { .. } => 18,
        Fault::Resting { .. } => 19,
        Fault::Quarantine { .. } => 20,
    }
}
const FAULTS: usize = 21;

fn all_rows(heaps: &Heaps) -> impl Iterator<Item = Row> {
    let rows = [
        rows_of_runs(heaps),
        rows_of_lists(heaps),
        rows_of_others(heaps),
        rows_of_hardened(heaps),
    ];
    rows.into_iter().flatten()
}

#[test]
fn the_book_has_the_code_of_each_fault() {
    alone("the_book_has_the_code_of_each_fault", || {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/heap-stat.md");
        let book = std::fs::read_to_string(path).expect("the book has the chapter");
        let heaps = Heaps::new();
        let mut faults = BTreeSet::new();
        for damage in all_rows(&heaps).flat_map(|row| walked(row.patches).0) {
            let code = damage.fault.code();
            let row = std::format!("\n| `{code}` | ");
            assert_eq!(book.matches(&row).count(), 1, "{code}");
            faults.insert(number(&damage.fault));
        }
        assert_eq!(faults, (0..FAULTS).collect());
    });
}

#[test]
fn each_fault_is_found_and_nothing_besides() {
    alone("each_fault_is_found_and_nothing_besides", || {
        let heaps = Heaps::new();
        let (found, seen) = walked(Vec::new());
        assert_eq!((found, seen.moved), (Vec::new(), 0));
        // And the large one.
        assert_eq!(seen.guarded_blocks, heaps.guarded.len() as u64 + 1);
        assert!(seen.quarantined_blocks >= 33, "{seen:?}");
        let mut faults = BTreeSet::new();
        for (at, row) in all_rows(&heaps).enumerate() {
            let (found, seen) = walked(row.patches);
            assert_eq!(seen.moved, 0, "row {at}");
            assert!(!found.is_empty(), "row {at} goes unnoticed");
            for damage in found {
                assert!((row.is_it)(&damage.fault), "row {at}: {damage}");
                assert!([0, damage.address].contains(&row.address), "row {at}: {damage}");
                faults.insert(number(&damage.fault));
            }
        }
        assert_eq!(faults, (0..FAULTS).collect());
    });
}

/// The locks under which a heap changes in more than one step: the holder of one may be preempted for long.
#[test]
fn data_under_a_held_lock_are_not_judged() {
    alone("data_under_a_held_lock_are_not_judged", || {
        let heaps = Heaps::new();
        let bucket = Bucket::for_size(SMALL).expect("it has a bucket");
        let first = Subsegment::containing(heaps.small[0], bucket).first;
        let start = arena::record_address(heaps.plain.number());
        let front = start + offset_of!(Record, low_fragmentation);
        let buckets = front + offset_of!(LowFragmentation, buckets);
        let lock_of_bucket = |bucket: Bucket| {
            buckets + bucket.index() * size_of::<BucketLock>() + offset_of!(BucketLock, lock)
        };
        let flushing = front + offset_of!(LowFragmentation, upkeep.flushing);
        let back = start + offset_of!(Record, backend) + offset_of!(Backend, extents);
        let held = |lock: usize| (lock + offset_of!(Lock<Extents>, state), vec![1]);
        let too_many = (capacity(bucket) + 1).to_ne_bytes();
        let of_bucket = || of_unit(first, offset_of!(Unit, split), &too_many);
        let of_back = || length_of_unit(heaps.extents[0], u32::MAX / 2);
        for (patch, lock, judged) in [
            (of_bucket(), lock_of_bucket(bucket), false),
            (of_bucket(), flushing, false),
            (
                of_bucket(),
                lock_of_bucket(Bucket::new(9).expect("it is one")),
                true,
            ),
            (of_bucket(), back, true),
            (of_back(), back, false),
            (of_back(), flushing, true),
        ] {
            let (found, seen) = walked(vec![patch, held(lock)]);
            assert_eq!((found.len(), seen.moved), if judged { (1, 0) } else { (0, 1) });
        }
    });
}

/// A heap that ends clears its memory after its runs are gone and before its segments are: that takes as long as it is
/// large.
#[test]
fn a_heap_that_ends_is_no_damage() {
    alone("a_heap_that_ends_is_no_damage", || {
        let heaps = Heaps::new();
        let record = arena::record_address(heaps.plain.number()) + offset_of!(Record, number);
        let gone = of_unit(heaps.large, offset_of!(Unit, kind), &[0]);
        assert_eq!(walked(vec![gone.clone()]).0.len(), 1);
        assert_eq!(walked(vec![gone, (record, vec![0; 4])]).0, []);
    });
}

/// Wrong addresses are not followed.
#[test]
fn each_field_of_the_control_block_is_checked() {
    alone("each_field_of_the_control_block_is_checked", || {
        let _heaps = Heaps::new();
        for (field, offset, bytes) in [
            ("unit", offset_of!(Directory, unit), 4),
            ("window", offset_of!(Directory, window), 8),
            ("window_bytes", offset_of!(Directory, window_bytes), 8),
            ("units", offset_of!(Directory, units), 8),
            ("segments", offset_of!(Directory, segments), 8),
            ("records", offset_of!(Directory, records), 8),
            ("end", offset_of!(Directory, end), 4),
            ("heaps", offset_of!(Directory, heaps), 4),
        ] {
            let memory = Patched(vec![(arena::window() + offset, vec![0x41; bytes])]);
            let found = Space::open(&memory, arena::window()).map(|_| ()).unwrap_err();
            let is_it = matches!(found, SpaceError::Damaged { field: named, .. } if named == field);
            assert!(is_it, "{field}: {found}");
            assert!(std::format!("{found}").contains("0x4141"), "{found}");
        }
        let layout = (arena::window() + offset_of!(Directory, layout), vec![0x41; 4]);
        assert_eq!(
            Space::open(&Patched(vec![layout]), arena::window()).map(|_| ()),
            Err(SpaceError::OtherLayout { found: 0x4141_4141 })
        );
    });
}

#[test]
fn a_walk_ends_when_it_found_much() {
    let _block = Heap::process().allocate(1);
    let space = Space::open(&ThisProcess, arena::window()).expect("there is a heap");
    let mut told = 0;
    let mut tell = |_| told += 1;
    let mut walk = Walk::new(&space, &mut tell, |_| ());
    let damage = Damage {
        heap: 0,
        address: 0,
        fault: Fault::Hole { unit: 1 },
    };
    walk.suspects.add(damage);
    walk.judges = true;
    let mut looks = 0;
    for found in 1..1000 {
        let judged = walk.judge(|_| {
            looks += 1;
            Ok(Some((damage, 0)))
        });
        assert_eq!(judged, Ok(found > MOST_DAMAGES));
        assert_eq!(walk.seen.stopped, found >= MOST_DAMAGES);
    }
    assert_eq!(walk.seen.damaged, MOST_DAMAGES);
    assert!(walk.waited_ms < MOST_WAITED_MS + PAUSES_MS.iter().sum::<u64>());
    assert!(looks >= MOST_DAMAGES * u64::from(1 + LOOKS_AT_ONCE));
    assert_eq!(told, MOST_DAMAGES);
}

/// Memory of units that change between any two looks at them.
struct Busy {
    /// The fields of descriptions that change.
    fields: Vec<usize>,
    reads: Cell<u16>,
}

impl Memory for Busy {
    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        ThisProcess.read(address, into)?;
        for field in &self.fields {
            let at = field.wrapping_sub(address);
            if let Some(bytes) = into.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
                self.reads.set(self.reads.get() % 1000 + 1);
                // More blocks than there are.
                *bytes = (u16::MAX - self.reads.get()).to_ne_bytes();
            }
        }
        Ok(())
    }
}

/// Each suspected fault was waited for by itself: a validation of a busy heap took 13 s.
#[test]
fn a_busy_heap_is_not_waited_for() {
    alone("a_busy_heap_is_not_waited_for", || {
        let heap = Heap::of(FrontEnd::LowFragmentation);
        let bucket = Bucket::for_size(SMALL).expect("it has a bucket");
        let blocks = blocks(&heap, 20_000, SMALL);
        let mut fields: Vec<usize> = blocks
            .iter()
            .map(|block| Subsegment::containing(*block, bucket).unit())
            .map(|unit| ptr::from_ref(unit).addr() + offset_of!(Unit, split))
            .collect();
        fields.dedup();
        let subsegments = fields.len() as u64;
        assert!(subsegments > 50);
        let memory = Busy {
            fields,
            reads: Cell::new(0),
        };
        let space = Space::open(&memory, arena::window()).expect("the control block is whole");
        static PAUSES: AtomicU32 = AtomicU32::new(0);
        let mut tell = |damage| panic!("{damage}");
        let mut walk = Walk::new(&space, &mut tell, |_| _ = PAUSES.fetch_add(1, Ordering::Relaxed));
        walk.validate().expect("it can be read");
        assert_eq!(walk.seen.moved, subsegments);
        assert_eq!((PAUSES.load(Ordering::Relaxed), walk.waited_ms), (0, 0));
    });
}

/// Each subsegment that changed at every look was looked at nine times: however many they were, a validation had no end but
/// theirs.
#[test]
fn a_heap_that_always_changes_is_checked_in_part() {
    alone("a_heap_that_always_changes_is_checked_in_part", || {
        let heap = Heap::of(FrontEnd::LowFragmentation);
        let bucket = Bucket::for_size(SMALL).expect("it has a bucket");
        let blocks = blocks(&heap, 20_000, SMALL);
        let mut fields: Vec<usize> = blocks
            .iter()
            .map(|block| Subsegment::containing(*block, bucket).unit())
            .map(|unit| ptr::from_ref(unit).addr() + offset_of!(Unit, split))
            .collect();
        fields.dedup();
        let memory = Busy {
            fields,
            reads: Cell::new(0),
        };
        let space = Space::open(&memory, arena::window()).expect("the control block is whole");
        let allowed = again_allowed(space.units());
        // As if a larger heap had used up all but a few looks.
        (0..allowed - 100).for_each(|_| space.refresh());
        let mut tell = |damage| panic!("{damage}");
        let mut walk = Walk::new(&space, &mut tell, |_| {});
        walk.validate().expect("it can be read");
        let seen = walk.seen;
        assert!(seen.cut_short && !seen.stopped, "{seen:?}");
        assert!(seen.units < seen.all_units, "{seen:?}");
        assert_eq!(seen.all_units, space.units());
        assert!(seen.moved <= 100 / u64::from(LOOKS_AT_ONCE), "{seen:?}");
        // No thing repeats its last looks without an end.
        let most = allowed + u64::from(LOOKS_AT_UNREADABLE);
        assert!(space.looks_again() <= most, "{}", space.looks_again());
    });
}

/// A guard page may be where a run was a moment ago.
#[test]
fn unreadable_memory_is_read_again() {
    let mut looks = 0;
    let mut until = |last: u32| {
        looks = 0;
        while_it_is_there(
            || {},
            || {
                looks += 1;
                if looks < last {
                    return Err(MemoryError::Unreadable { address: 1 });
                }
                Ok(looks)
            },
        )
    };
    assert_eq!(until(1), Ok(1));
    assert_eq!(until(LOOKS_AT_UNREADABLE), Ok(LOOKS_AT_UNREADABLE));
    assert_eq!(
        until(LOOKS_AT_UNREADABLE + 1),
        Err(MemoryError::Unreadable { address: 1 })
    );
}
