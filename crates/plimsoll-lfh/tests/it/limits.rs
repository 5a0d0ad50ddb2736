//! A process that has no memory left.
#![allow(unsafe_code)]

use plimsoll_lfh::{Heap, HeapOptions};

use crate::child::in_child;
use crate::this_process::{set_limit, stay_on_one_processor, virtual_bytes};

fn limit_address_space(bytes: usize) {
    set_limit(libc::RLIMIT_AS, bytes as u64);
}

/// Allocates until no memory is left, twice, and then continues with freed memory.
fn exhaust(heap: &Heap, size: usize) {
    let mut counts = [0; 2];
    for count in &mut counts {
        let mut blocks = Vec::with_capacity(1 << 16);
        loop {
            let block = heap.allocate(size);
            if block.is_null() {
                break;
            }
            // SAFETY: the block was just made.
            unsafe { block.write_bytes(3, size) };
            blocks.push(block);
            assert!(blocks.len() < blocks.capacity(), "the limit has no effect");
        }
        *count = blocks.len();
        assert!(heap.allocate_zeroed(size * 1000).is_null());
        for block in blocks {
            // SAFETY: the block is in use, and that long.
            unsafe {
                assert_eq!((block.read(), block.add(size - 1).read()), (3, 3));
                heap.free(block);
            }
        }
        let block = heap.allocate(size);
        assert!(!block.is_null());
        // SAFETY: the block is in use.
        unsafe { heap.free(block) };
    }
    println!("measured: {size}: {counts:?} blocks");
    assert!(counts[1] * 10 >= counts[0] * 9 && counts[0] > 100, "{counts:?}");
}

/// Takes all that there is, in blocks of `size` bytes, each with `size` in its first word.
fn take_all(size: usize) -> Vec<*mut u8> {
    let mut blocks = Vec::with_capacity(1 << 22);
    loop {
        let block = Heap::process().allocate(size);
        if block.is_null() {
            return blocks;
        }
        // SAFETY: the block was just made.
        unsafe { block.cast::<usize>().write(size) };
        blocks.push(block);
        assert!(blocks.len() < blocks.capacity(), "the limit has no effect");
    }
}

#[test]
fn a_block_shrinks_where_no_memory_is_left() {
    in_child("limits::a_block_shrinks_where_no_memory_is_left", &[], || {
        // Another processor's slot may have blocks left when this one's has none.
        stay_on_one_processor();
        let heap = Heap::process();
        let room = Vec::<*mut u8>::with_capacity(1 << 23);
        limit_address_space(virtual_bytes() + (100 << 20));
        drop(room);
        let (large, small) = (heap.allocate(100_000), heap.allocate(8000));
        let mut taken = take_all(16_000);
        taken.extend(take_all(48));
        for (block, to) in [(large, 48), (small, 48), (large, 16_000)] {
            // SAFETY: the blocks are in use, and stay where they are.
            unsafe {
                block.write_bytes(7, 8000);
                assert!(heap.allocate(to).is_null());
                assert!(heap.reallocate(block, 200_000).is_null());
                assert_eq!(heap.reallocate(block, to), block);
                assert!((0..8000).all(|at| block.add(at).read() == 7));
            }
        }
        for block in taken.into_iter().chain([large, small]) {
            // SAFETY: the blocks are in use.
            unsafe { heap.free(block) };
        }
    });
}

#[test]
fn a_limited_process_gets_null_and_goes_on() {
    in_child("limits::a_limited_process_gets_null_and_goes_on", &[], || {
        limit_address_space(virtual_bytes() + (200 << 20));
        // After its end, other heaps may have its memory.
        let other = Heap::new(HeapOptions::default()).expect("there is memory");
        exhaust(&other, 5000);
        drop(other);
        exhaust(Heap::process(), 10_000);
        Heap::process().trim();
        exhaust(Heap::process(), 200_000);
    });
}

/// Its table of blocks took so much address space that it could not start.
#[test]
fn a_limited_process_has_a_hardened_heap() {
    in_child(
        "limits::a_limited_process_has_a_hardened_heap",
        &[("PLIMSOLL_HEAP_PROFILE", "hardened")],
        || {
            limit_address_space(virtual_bytes() + (200 << 20));
            let heap = Heap::process();
            exhaust(heap, 10_000);
            heap.trim();
            exhaust(heap, 200_000);
            let block = heap.allocate(100);
            // SAFETY: the block is in use, whose exact size a hardened heap knows.
            unsafe {
                assert_eq!(heap.usable_size(block), 100);
                heap.free(block);
            }
        },
    );
}

#[test]
fn a_process_that_is_limited_later_gets_null_and_goes_on() {
    in_child(
        "limits::a_process_that_is_limited_later_gets_null_and_goes_on",
        &[],
        || {
            let heap = Heap::process();
            let early = heap.allocate(100_000);
            assert!(!early.is_null());
            let before = virtual_bytes();
            assert!(before > 100 << 30, "the window is reserved");
            // The reservation counts, so a limit without room for it makes the heap unmap it.
            limit_address_space(300 << 20);
            let first = heap.allocate(10 << 20);
            assert!(!first.is_null());
            assert!(virtual_bytes() < 10 << 30);
            exhaust(heap, 200_000);
            // SAFETY: the blocks are in use.
            unsafe {
                heap.free(early);
                heap.free(first);
            }
        },
    );
}
