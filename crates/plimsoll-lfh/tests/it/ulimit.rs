//! Growth if limits leave little room, or other code uses the addresses.
#![allow(unsafe_code)]

use plimsoll_lfh::{Heap, SEGMENT};

use crate::child::in_child;
use crate::this_process::{set_limit, virtual_bytes};

/// Growth that comes to nothing took memory for its tables, again and again until nothing was left of the limit.
#[test]
fn growth_in_vain_takes_nothing() {
    in_child("ulimit::growth_in_vain_takes_nothing", &[], || {
        let heap = Heap::process();
        set_limit(libc::RLIMIT_AS, (virtual_bytes() + (64 << 20)) as u64);
        assert!(!heap.allocate(1000).is_null());
        set_limit(libc::RLIMIT_AS, (virtual_bytes() + (1 << 20)) as u64);
        let before = virtual_bytes();
        for _ in 0..100 {
            assert!(heap.allocate(64 << 20).is_null());
        }
        assert_eq!(virtual_bytes(), before);
    });
}

/// The heap skips mappings of other code, which stay as they are.
#[test]
fn the_window_skips_addresses_in_use() {
    in_child("ulimit::the_window_skips_addresses_in_use", &[], || {
        let heap = Heap::process();
        set_limit(libc::RLIMIT_AS, (virtual_bytes() + (512 << 20)) as u64);
        let first = heap.allocate(SEGMENT / 2) as usize;
        let past = (first / SEGMENT + 3) * SEGMENT;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: maps where nothing is.
        let foreign = unsafe {
            libc::mmap(
                past as *mut _,
                SEGMENT,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        assert_eq!(foreign as usize, past);
        // SAFETY: mapped above.
        unsafe { foreign.cast::<u8>().write_bytes(9, SEGMENT) };
        let mut beyond = 0;
        for _ in 0..20 {
            let block = heap.allocate(2 * SEGMENT);
            assert!(!block.is_null());
            // SAFETY: the block is in use, and that long.
            unsafe { block.write_bytes(1, 2 * SEGMENT) };
            beyond += usize::from(block as usize > past);
        }
        assert!(beyond >= 10, "{beyond}");
        // SAFETY: mapped above.
        let bytes = unsafe { core::slice::from_raw_parts(foreign.cast::<u8>(), SEGMENT) };
        assert!(bytes.iter().all(|byte| *byte == 9));
    });
}

/// 256 GiB of address space stayed reserved for a heap that could not be made, with each try.
#[test]
fn a_heap_that_cannot_be_made_leaves_nothing() {
    in_child("ulimit::a_heap_that_cannot_be_made_leaves_nothing", &[], || {
        let heap = Heap::process();
        let before = virtual_bytes();
        set_limit(libc::RLIMIT_DATA, 1 << 16);
        let block = heap.allocate(100);
        let after = virtual_bytes();
        set_limit(libc::RLIMIT_DATA, libc::RLIM_INFINITY);
        assert!(block.is_null());
        assert!(after < before + (1 << 20), "{before}, then {after}");
        assert!(!heap.allocate(100).is_null());
        assert!(virtual_bytes() > 256 << 30);
    });
}
