//! Any sequence of calls, against a map of the blocks that are in use.
#![allow(unsafe_code)]

use std::collections::BTreeMap;

use plimsoll_lfh::inspect::BucketStatistics;
use plimsoll_lfh::{FrontEnd, Heap, HeapOptions};
use proptest::prelude::*;

use crate::cases::cases;
use crate::child::in_child;

/// A call, on the block of some number among those in use.
#[derive(Debug, Clone)]
enum Call {
    Allocate { size: usize, zeroed: bool, align: usize },
    Free { which: usize },
    Reallocate { which: usize, size: usize },
    UseLowFragmentation,
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0..200usize,
        4 => 0..5000usize,
        2 => 10_000..40_000usize,
        2 => 0..400_000usize,
        1 => 1_000_000..9_000_000usize,
    ]
}

/// Calls that leave a heap small, so that it can be walked over after each.
fn few_calls() -> impl Strategy<Value = Vec<Call>> {
    calls().prop_map(|mut calls| {
        calls.truncate(120);
        for call in &mut calls {
            if let Call::Allocate { size, .. } | Call::Reallocate { size, .. } = call {
                *size %= 400_000;
            }
        }
        calls
    })
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let align = prop_oneof![8 => Just(0u32), 2 => 0..16u32, 1 => 16..22u32];
    let call = prop_oneof![
        6 => (sizes(), any::<bool>(), align)
            .prop_map(|(size, zeroed, align)| Call::Allocate { size, zeroed, align: 1 << align }),
        5 => any::<usize>().prop_map(|which| Call::Free { which }),
        3 => (any::<usize>(), sizes()).prop_map(|(which, size)| Call::Reallocate { which, size }),
    ];
    // A change of the front end is rare, and has an effect but once.
    let call = prop_oneof![200 => call, 1 => Just(Call::UseLowFragmentation)];
    prop::collection::vec(call, 1..400)
}

/// A block in use, with its contents.
struct Block {
    size: usize,
    seed: u8,
}

impl Block {
    fn byte(&self, at: usize) -> u8 {
        self.seed.wrapping_add((at / 8) as u8)
    }

    /// Bytes of a block that are looked at: all of a small one, and of a large one some of each page.
    fn looked_at(size: usize) -> impl Iterator<Item = usize> {
        let step = match size {
            ..=256 => 1,
            257..=8192 => 61,
            _ => 1021,
        };
        (0..size).step_by(step).chain(size.checked_sub(1))
    }

    fn fill(&self, address: usize) {
        for at in Block::looked_at(self.size) {
            // SAFETY: the block is in use and that long.
            unsafe { (address as *mut u8).add(at).write(self.byte(at)) };
        }
    }

    /// Checks the bytes up to `length`.
    fn check(&self, address: usize, length: usize) {
        for at in Block::looked_at(self.size).filter(|at| *at < length) {
            // SAFETY: the block is in use and that long.
            let byte = unsafe { (address as *const u8).add(at).read() };
            assert_eq!(byte, self.byte(at), "byte {at} of {} at {address:#x}", self.size);
        }
    }
}

/// The blocks in use, by address.
struct Model<'h> {
    heap: &'h Heap,
    blocks: BTreeMap<usize, Block>,
    seed: u8,
}

impl Model<'_> {
    fn some(&self, which: usize) -> Option<usize> {
        let at = which.checked_rem(self.blocks.len())?;
        self.blocks.keys().nth(at).copied()
    }

    /// Records a new block, which must not overlap another.
    fn note(&mut self, address: usize, size: usize) {
        // SAFETY: the block was just made.
        let usable = unsafe { self.heap.usable_size(address as *const u8) };
        assert!(usable >= size);
        assert_eq!(address % 16, 0);
        if let Some((other, block)) = self.blocks.range(..address + usable).next_back() {
            assert!(
                other + block.size.max(1) <= address,
                "{address:#x} lies over {other:#x}"
            );
        }
        self.seed = self.seed.wrapping_add(37);
        let block = Block {
            size,
            seed: self.seed,
        };
        block.fill(address);
        self.blocks.insert(address, block);
    }

    fn apply(&mut self, call: &Call) {
        match *call {
            Call::Allocate { size, zeroed, align } => {
                let block = match zeroed {
                    true => self.heap.allocate_zeroed_aligned(align, size),
                    false => self.heap.allocate_aligned(align, size),
                };
                assert!(!block.is_null() && (block as usize).is_multiple_of(align));
                if zeroed {
                    // SAFETY: the block is in use and that long.
                    let (before, words, after) =
                        unsafe { std::slice::from_raw_parts(block, size).align_to::<u128>() };
                    assert!(words.iter().all(|word| *word == 0));
                    assert!(before.iter().chain(after).all(|byte| *byte == 0));
                }
                self.note(block as usize, size);
            }
            Call::Free { which } => {
                let Some(address) = self.some(which) else { return };
                let block = self.blocks.remove(&address).expect("it is in use");
                block.check(address, block.size);
                // SAFETY: the block is in use, and forgotten above.
                unsafe { self.heap.free(address as *mut u8) };
            }
            Call::Reallocate { which, size } => {
                let Some(address) = self.some(which) else { return };
                let block = self.blocks.remove(&address).expect("it is in use");
                // SAFETY: the block is in use, and forgotten above.
                let new = unsafe { self.heap.reallocate(address as *mut u8, size) };
                assert!(!new.is_null());
                block.check(new as usize, size);
                self.note(new as usize, size);
            }
            Call::UseLowFragmentation => {
                self.heap
                    .set_front_end(FrontEnd::LowFragmentation)
                    .expect("nothing forbids it");
                assert_eq!(self.heap.front_end(), FrontEnd::LowFragmentation);
            }
        }
    }
}

/// The checks after each call.
type After = fn(&Heap, &BTreeMap<usize, Block>);

/// Every description of the heap is sound, and it counts the blocks that are in use: as many of each bucket, and no less
/// memory than they take.
fn is_sound(heap: &Heap, blocks: &BTreeMap<usize, Block>) {
    let mut damages = 0;
    let mut first = None;
    let seen = Heap::validate_all(&mut |damage| {
        first.get_or_insert(damage);
        damages += 1;
    });
    let seen = seen.expect("the heaps can be read");
    assert!(seen.is_some() || blocks.is_empty());
    assert_eq!((damages, first), (0, None));
    let Some((record, counts)) = heap.statistics() else {
        return;
    };
    assert_eq!(counts.committed + counts.uncommitted, counts.reserved);
    assert!(counts.committed <= counts.virtual_bytes && counts.virtual_bytes <= counts.reserved);
    assert!(counts.free <= counts.committed);
    assert_eq!((counts.moved, record.front.subsegments), (0, counts.subsegments));
    let in_buckets: u64 = counts.buckets.iter().map(BucketStatistics::busy).sum();
    let in_back: u64 = counts.back.busy.iter().sum();
    let used = in_buckets + in_back;
    assert_eq!(used, blocks.len() as u64, "{in_buckets} and {in_back}");
    if let (true, Some(seen)) = (record.hardened, seen) {
        assert!(seen.guarded_blocks >= used, "{seen:?}");
    }
    let bytes: usize = blocks.values().map(|block| block.size).sum();
    assert!(counts.committed >= bytes as u64);
}

fn run(heap: &Heap, calls: &[Call], after: After) {
    let mut model = Model {
        heap,
        blocks: BTreeMap::new(),
        seed: 0,
    };
    for call in calls {
        model.apply(call);
        after(heap, &model.blocks);
    }
    for (address, block) in &model.blocks {
        block.check(*address, block.size);
        // SAFETY: the block is in use, and this is the last look at it.
        unsafe { heap.free(*address as *mut u8) };
    }
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn the_heap_of_the_process_keeps_what_is_in_use(calls in calls()) {
        run(Heap::process(), &calls, |_, _| ());
    }

    #[test]
    fn a_new_heap_keeps_what_is_in_use(calls in calls()) {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        run(&heap, &calls, |_, _| ());
    }

    #[test]
    fn a_hardened_heap_keeps_what_is_in_use(calls in calls()) {
        let options = HeapOptions { hardened: true, ..HeapOptions::default() };
        let heap = Heap::new(options).expect("there is memory");
        run(&heap, &calls, |_, _| ());
    }
}

/// In a process of its own, as each call walks over all units that the process has.
#[test]
fn a_heap_for_one_thread_that_checks_itself_keeps_what_is_in_use() {
    let name = "model::a_heap_for_one_thread_that_checks_itself_keeps_what_is_in_use";
    in_child(name, &[], || {
        proptest!(cases(32), |(calls in calls())| {
            let options = HeapOptions { debug: true, ..HeapOptions::default() };
            // SAFETY: this thread alone uses it.
            let heap = unsafe { Heap::new_no_serialize(options) }.expect("there is memory");
            let allowed = |call: &Call| !matches!(call, Call::UseLowFragmentation);
            let calls: Vec<Call> = calls.into_iter().filter(allowed).collect();
            run(&heap, &calls, |_, _| ());
        });
    });
}

/// Heaps that are checked as a whole after each call.
fn every_call_leaves_a_sound_heap(options: HeapOptions, front_end: FrontEnd) {
    proptest!(cases(12), |(calls in few_calls())| {
        let heap = Heap::new(options).expect("there is memory");
        if front_end != heap.front_end() {
            heap.set_front_end(front_end).expect("nothing forbids it");
        }
        let calls: Vec<Call> =
            calls.into_iter().filter(|call| !(options.debug && matches!(call, Call::UseLowFragmentation))).collect();
        run(&heap, &calls, is_sound);
    });
}

/// In a process of its own, without other heaps and without other threads that return memory meanwhile.
#[test]
fn every_call_leaves_sound_heaps() {
    in_child(
        "model::every_call_leaves_sound_heaps",
        &[("PLIMSOLL_HEAP_PURGE", "inline")],
        || {
            let plain = HeapOptions::default();
            let hardened = HeapOptions {
                hardened: true,
                ..plain
            };
            let debug = HeapOptions { debug: true, ..plain };
            every_call_leaves_a_sound_heap(plain, FrontEnd::Standard);
            every_call_leaves_a_sound_heap(plain, FrontEnd::LowFragmentation);
            every_call_leaves_a_sound_heap(hardened, FrontEnd::LowFragmentation);
            every_call_leaves_a_sound_heap(debug, FrontEnd::Standard);
        },
    );
}
