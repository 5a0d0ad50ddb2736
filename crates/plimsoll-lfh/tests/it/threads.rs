//! Many threads that free each other's blocks. `PLIMSOLL_HEAP_STRESS_SECONDS` makes it longer, and `fork` too.
#![allow(unsafe_code)]

use std::sync::Mutex;
use std::time::{Duration, Instant};

use plimsoll_lfh::{FrontEnd, Heap, HeapOptions};

use crate::numbers::Numbers;
use crate::seen_lock::{join, lock};

/// A block with a canary: its bytes hold its owner and length.
pub(crate) struct Block {
    start: *mut u8,
    size: usize,
    canary: u64,
}

// SAFETY: a block belongs to its holder, in any thread.
unsafe impl Send for Block {}

impl Numbers {
    /// Mostly small sizes, at times large ones.
    pub(crate) fn size(&mut self) -> usize {
        let most = match self.next() % 64 {
            0 => 300_000,
            1..8 => 20_000,
            8..24 => 2000,
            _ => 256,
        };
        self.next() as usize % most
    }
}

impl Block {
    pub(crate) fn new(heap: &Heap, numbers: &mut Numbers) -> Block {
        let size = numbers.size();
        let start = match numbers.next() % 8 {
            0 => heap.allocate_aligned(1 << (numbers.next() % 14), size),
            _ => heap.allocate(size),
        };
        Block::at(start, size, numbers.next())
    }

    pub(crate) fn of_size(heap: &Heap, size: usize) -> Block {
        Block::at(heap.allocate(size), size, size as u64)
    }

    fn at(start: *mut u8, size: usize, canary: u64) -> Block {
        assert!(!start.is_null());
        let mut block = Block {
            start,
            size,
            canary: 0,
        };
        block.write(canary);
        block
    }

    /// The places of the canary: of each page of a block the first word, and the last word.
    fn places(&self) -> impl Iterator<Item = usize> {
        let last = self.size.checked_sub(8).map(|last| last & !7);
        (0..self.size.saturating_sub(7)).step_by(4096).chain(last)
    }

    fn write(&mut self, canary: u64) {
        self.canary = canary;
        for at in self.places() {
            // SAFETY: the block is in use, and that long.
            unsafe {
                self.start
                    .add(at)
                    .cast::<u64>()
                    .write_unaligned(canary ^ at as u64)
            };
        }
    }

    fn check(&self) {
        for at in self.places() {
            // SAFETY: the block is in use, and that long.
            let found = unsafe { self.start.add(at).cast::<u64>().read_unaligned() };
            assert_eq!(
                found,
                self.canary ^ at as u64,
                "byte {at} of {} at {:?}",
                self.size,
                self.start
            );
        }
    }

    fn resize(mut self, heap: &Heap, numbers: &mut Numbers) -> Block {
        self.check();
        let size = numbers.size();
        // SAFETY: the block is in use, and was the caller's.
        let start = unsafe { heap.reallocate(self.start, size) };
        assert!(!start.is_null());
        let kept = Block {
            start,
            size: size.min(self.size),
            canary: self.canary,
        };
        if kept.size == self.size {
            kept.check();
        } else if kept.size >= 8 {
            // SAFETY: the block is in use, and that long.
            assert_eq!(unsafe { start.cast::<u64>().read_unaligned() }, self.canary);
        }
        self = Block {
            start,
            size,
            canary: 0,
        };
        self.write(numbers.next());
        self
    }

    pub(crate) fn free(self, heap: &Heap) {
        self.check();
        // SAFETY: the block is in use, and no other thread has it.
        unsafe { heap.free(self.start) };
    }
}

pub(crate) fn duration() -> Duration {
    let seconds = std::env::var("PLIMSOLL_HEAP_STRESS_SECONDS");
    Duration::from_secs(seconds.map_or(2, |text| text.parse().expect("a number of seconds")))
}

/// Lets threads allocate, resize, free and pass on blocks of `heap`.
pub(crate) fn work(heap: &Heap, threads: u64) {
    let passed: Vec<Mutex<Vec<Block>>> = (0..threads).map(|_| Mutex::new(Vec::new())).collect();
    let end = Instant::now() + duration();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let passed = &passed;
                scope.spawn(move || {
                    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15 ^ (thread + 1));
                    let mut own: Vec<Block> = Vec::new();
                    while Instant::now() < end {
                        for _ in 0..1000 {
                            step(heap, &mut numbers, &mut own, passed);
                        }
                        let received = std::mem::take(&mut *lock(&passed[thread as usize]));
                        received.into_iter().for_each(|block| block.free(heap));
                    }
                    own.into_iter().for_each(|block| block.free(heap));
                })
            })
            .collect();
        join(workers);
    });
    for blocks in passed {
        let blocks = blocks.into_inner().expect("no panic");
        blocks.into_iter().for_each(|block| block.free(heap));
    }
}

fn step(heap: &Heap, numbers: &mut Numbers, own: &mut Vec<Block>, passed: &[Mutex<Vec<Block>>]) {
    if own.len() < 500 && !numbers.next().is_multiple_of(3) {
        own.push(Block::new(heap, numbers));
        return;
    }
    let Some(at) = (numbers.next() as usize).checked_rem(own.len()) else {
        return;
    };
    let block = own.swap_remove(at);
    match numbers.next() % 8 {
        0 => own.push(block.resize(heap, numbers)),
        1 | 2 => {
            let to = numbers.next() as usize % passed.len();
            lock(&passed[to]).push(block);
        }
        _ => block.free(heap),
    }
}

#[test]
fn threads_free_each_others_blocks_of_the_process() {
    work(Heap::process(), 8);
}

#[test]
fn threads_free_each_others_blocks_of_a_standard_heap() {
    let heap = Heap::new(HeapOptions::default()).expect("there is memory");
    work(&heap, 4);
}

#[test]
fn threads_free_each_others_blocks_of_a_hardened_heap() {
    let options = HeapOptions {
        hardened: true,
        ..HeapOptions::default()
    };
    work(&Heap::new(options).expect("there is memory"), 4);
}

#[test]
fn the_front_end_may_change_while_threads_work() {
    let heap = Heap::new(HeapOptions::default()).expect("there is memory");
    std::thread::scope(|scope| {
        let changer = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            heap.set_front_end(FrontEnd::LowFragmentation)
                .expect("nothing forbids it");
        });
        work(&heap, 4);
        join([changer]);
    });
}

#[test]
fn heaps_come_and_go_while_others_work() {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|thread| {
                scope.spawn(move || {
                    let mut numbers = Numbers(thread + 77);
                    for round in 0..50 {
                        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
                        if round % 2 == 0 {
                            heap.set_front_end(FrontEnd::LowFragmentation)
                                .expect("nothing forbids it");
                        }
                        let blocks: Vec<Block> = (0..500).map(|_| Block::new(&heap, &mut numbers)).collect();
                        // Half of the blocks are in use when the heap ends.
                        blocks.into_iter().step_by(2).for_each(|block| block.free(&heap));
                    }
                })
            })
            .collect();
        join(workers);
    });
}
