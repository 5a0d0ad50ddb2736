//! Growth where limits leave little room, or somebody else has the addresses.
#![allow(unsafe_code)]

use plimsoll_lfh::{Heap, SEGMENT};

use crate::child::in_child;

pub(crate) fn set_limit(of: libc::__rlimit_resource_t, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit is valid.
    assert_eq!(unsafe { libc::setrlimit(of, &raw const limit) }, 0);
}

/// Bytes of address space of this process. Allocates nothing.
pub(crate) fn virtual_bytes() -> u64 {
    let mut text = [0_u8; 128];
    // SAFETY: the path ends in a zero, and the buffer is as long as is said.
    let read = unsafe {
        let file = libc::open(c"/proc/self/statm".as_ptr(), libc::O_RDONLY);
        assert!(file >= 0);
        let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        read as usize
    };
    let pages = text[..read].iter().take_while(|byte| byte.is_ascii_digit());
    let pages = pages.fold(0, |pages, digit| pages * 10 + u64::from(digit - b'0'));
    // SAFETY: asks for a number of the system.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

/// Growth that comes to nothing took memory for its tables, again and again until nothing was left of the limit.
#[test]
fn growth_in_vain_takes_nothing() {
    in_child("ulimit::growth_in_vain_takes_nothing", &[], || {
        let heap = Heap::process();
        set_limit(libc::RLIMIT_AS, virtual_bytes() + (64 << 20));
        assert!(!heap.allocate(1000).is_null());
        set_limit(libc::RLIMIT_AS, virtual_bytes() + (1 << 20));
        let before = virtual_bytes();
        for _ in 0..100 {
            assert!(heap.allocate(64 << 20).is_null());
        }
        assert_eq!(virtual_bytes(), before);
    });
}

/// What somebody else mapped is gone around, and stays as it is.
#[test]
fn addresses_in_use_are_gone_around() {
    in_child("ulimit::addresses_in_use_are_gone_around", &[], || {
        let heap = Heap::process();
        set_limit(libc::RLIMIT_AS, virtual_bytes() + (512 << 20));
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
