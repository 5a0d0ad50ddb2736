//! Requests at the edges: impossible ones, and unusual but common ones.
#![allow(unsafe_code)]

use std::collections::BTreeSet;

use plimsoll_lfh::{FrontEnd, FrontEndError, Heap, HeapOptions};

#[test]
fn zero_bytes_are_a_block() {
    let heap = Heap::process();
    let blocks: BTreeSet<usize> = (0..100).map(|_| heap.allocate(0) as usize).collect();
    assert_eq!(blocks.len(), 100);
    assert!(!blocks.contains(&0));
    for block in blocks {
        // SAFETY: each is a block in use.
        unsafe { heap.free(block as *mut u8) };
    }
}

#[test]
fn impossible_sizes_are_refused() {
    let heap = Heap::process();
    let most = isize::MAX as usize;
    for size in [most, most + 1, usize::MAX, usize::MAX - 15, 1 << 47, 256 << 30] {
        assert!(heap.allocate(size).is_null(), "{size:#x}");
        assert!(heap.allocate_zeroed(size).is_null(), "{size:#x}");
        assert!(heap.allocate_aligned(64, size).is_null(), "{size:#x}");
        let block = heap.allocate(100);
        // SAFETY: the block is in use, also after a call that was refused.
        unsafe {
            block.write_bytes(7, 100);
            assert!(heap.reallocate(block, size).is_null(), "{size:#x}");
            assert_eq!(block.add(99).read(), 7);
            heap.free(block);
        }
    }
}

#[test]
fn alignments_are_kept_or_refused() {
    let heap = Heap::process();
    for shift in 0..=40 {
        for size in [0, 1, 100, 5000, 100_000] {
            let block = heap.allocate_aligned(1 << shift, size);
            assert!((block as usize).is_multiple_of(1 << shift));
            assert!(!block.is_null() || shift > 30, "2^{shift}");
            // SAFETY: null, or a block in use.
            unsafe { heap.free(block) };
        }
    }
    for align in [0, 3, 24, usize::MAX] {
        assert!(heap.allocate_aligned(align, 100).is_null(), "{align}");
    }
}

#[test]
fn a_block_resized_to_zero_bytes_has_the_smallest_size() {
    let heap = Heap::process();
    for size in [1, 1000, 100_000] {
        let block = heap.allocate(size);
        // SAFETY: the block is in use until it is freed.
        unsafe {
            let block = heap.reallocate(block, 0);
            assert!(!block.is_null() && heap.usable_size(block) <= 32);
            heap.free(block);
        }
    }
}

#[test]
fn a_block_that_shrinks_little_stays_in_place() {
    let heap = Heap::process();
    let block = heap.allocate(16);
    for size in [7, 1, 0, 16] {
        // SAFETY: the block is in use until it is freed.
        assert_eq!(unsafe { heap.reallocate(block, size) }, block, "{size}");
    }
    // SAFETY: the block is in use.
    unsafe { heap.free(block) };
}

#[test]
fn a_front_end_is_set_where_the_options_allow() {
    let of = |no_serialize, debug| {
        let options = HeapOptions {
            debug,
            hardened: false,
        };
        let heap = match no_serialize {
            // SAFETY: no other thread of this test uses it.
            true => unsafe { Heap::new_no_serialize(options) },
            false => Heap::new(options),
        };
        heap.expect("there is memory")
    };
    let low = FrontEnd::LowFragmentation;
    assert_eq!(
        of(true, false).set_front_end(low),
        Err(FrontEndError::NoSerialize)
    );
    assert_eq!(of(false, true).set_front_end(low), Err(FrontEndError::Debug));
    let heap = of(false, false);
    assert_eq!(heap.front_end(), FrontEnd::Standard);
    assert_eq!(heap.set_front_end(FrontEnd::Standard), Ok(()));
    assert_eq!(heap.set_front_end(low), Ok(()));
    assert_eq!(heap.set_front_end(low), Ok(()));
    assert_eq!(heap.set_front_end(FrontEnd::Standard), Err(FrontEndError::InUse));
}
