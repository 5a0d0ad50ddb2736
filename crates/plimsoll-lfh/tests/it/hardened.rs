//! The hardened profile: a heap that works as others do, and notices mistakes at once.
#![allow(unsafe_code)]

use plimsoll_lfh::{FrontEnd, Heap, HeapOptions};

use crate::child::in_child;
use crate::seen_lock::join;

fn heap() -> Heap {
    let options = HeapOptions {
        hardened: true,
        ..HeapOptions::default()
    };
    let heap = Heap::new(options).expect("a heap");
    assert_eq!(heap.front_end(), FrontEnd::LowFragmentation);
    heap
}

#[test]
fn blocks_of_all_sizes_keep_what_is_written_to_them() {
    let heap = heap();
    let mut blocks = Vec::new();
    for size in (0..3000).chain((3000..40_000).step_by(501)) {
        let block = heap.allocate(size);
        assert!(!block.is_null());
        // SAFETY: the block is this test's, and so long.
        unsafe {
            assert_eq!(heap.usable_size(block), size, "the exact size is known");
            block.write_bytes(size as u8, size);
        }
        blocks.push((block, size));
    }
    for (block, size) in &blocks {
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(*block, *size) };
        assert!(bytes.iter().all(|byte| *byte == *size as u8));
    }
    for round in 0..5 {
        for (block, size) in &mut blocks {
            // SAFETY: as above.
            unsafe {
                if round % 2 == 0 {
                    heap.free(*block);
                    *block = heap.allocate(*size);
                } else {
                    *block = heap.reallocate(*block, *size + round);
                    *size += round;
                }
                block.write_bytes(1, *size);
            }
        }
    }
    for (block, _) in blocks {
        // SAFETY: as above.
        unsafe { heap.free(block) };
    }
}

/// Blocks were split from memory of former blocks, whose links were left behind their end; when they were allocated
/// again, the links counted as writes after free.
#[test]
fn memory_that_served_other_sizes_is_no_damage() {
    let heap = heap();
    // Short blocks leave many links, and the next block is short for its bucket.
    for size in [48, 1030, 64, 2060, 80, 4100, 48, 9300]
        .repeat(2)
        .into_iter()
        .flat_map(|size| [size; 3])
    {
        let blocks: Vec<*mut u8> = (0..3_000_000 / size).map(|_| heap.allocate(size)).collect();
        for block in blocks {
            // SAFETY: the block is this test's.
            unsafe {
                block.write_bytes(0xFF, size);
                heap.free(block);
            }
        }
    }
}

/// The next heap allocated inaccessible pages.
#[test]
fn guard_pages_of_an_ended_heap_serve_other_heaps() {
    for _ in 0..3 {
        let hardened = heap();
        let sizes = [17_000, 40_000, 100_000, 3_000_000];
        let blocks: Vec<*mut u8> = (0..80).map(|at| hardened.allocate(sizes[at % 4])).collect();
        for block in blocks.iter().step_by(3) {
            // SAFETY: the block is this test's.
            unsafe { hardened.free(*block) };
        }
        drop(hardened);
        let plain = Heap::new(HeapOptions::default()).expect("a heap");
        let blocks: Vec<*mut u8> = (0..80).map(|_| plain.allocate_zeroed(1 << 20)).collect();
        for block in &blocks {
            // SAFETY: the block is this test's, and so long.
            unsafe {
                let bytes = std::slice::from_raw_parts(*block, 1 << 20);
                assert!(bytes.iter().all(|byte| *byte == 0), "it is zero");
                block.write_bytes(0xFF, 1 << 20);
            }
        }
    }
}

#[test]
fn alignments_are_kept() {
    let heap = heap();
    for shift in 0..=16 {
        for size in [0, 1, 17, 1000, 20_000] {
            let block = heap.allocate_aligned(1 << shift, size);
            assert!(
                (block as usize).is_multiple_of(1 << shift),
                "{size} at {}",
                1 << shift
            );
            // SAFETY: the block is this test's.
            unsafe {
                block.write_bytes(7, size);
                heap.free(block);
            }
        }
    }
}

#[test]
fn threads_free_each_others_blocks() {
    in_child("hardened::threads_free_each_others_blocks", &[], || {
        let heap = heap();
        let (send, receive) = std::sync::mpsc::channel::<usize>();
        std::thread::scope(|scope| {
            let heap = &heap;
            let mut workers: Vec<_> = (0..3_usize)
                .map(|thread| {
                    let send = send.clone();
                    scope.spawn(move || {
                        for at in 0..20_000 {
                            let block = heap.allocate((at * 7 + thread) % 2000);
                            if at % 2 == 0 {
                                send.send(block as usize).expect("it is received");
                            } else {
                                // SAFETY: the block is this thread's.
                                unsafe { heap.free(block) };
                            }
                        }
                    })
                })
                .collect();
            drop(send);
            workers.push(scope.spawn(move || {
                for block in receive {
                    // SAFETY: the block was sent to be freed.
                    unsafe { heap.free(block as *mut u8) };
                }
            }));
            join(workers);
        });
        let busy = || -> u64 {
            let (_, counts) = heap.statistics().expect("the heap was used");
            counts.buckets.iter().map(|bucket| bucket.busy()).sum()
        };
        // While the helper flushes a slot, its blocks count as busy.
        let settled = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            busy() == 0
        });
        assert!(settled, "{} blocks in use", busy());
    });
}
