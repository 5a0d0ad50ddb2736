//! Mistakes of programs that end the process, by the calls that programs make.
#![allow(unsafe_code)]

use std::os::unix::process::ExitStatusExt;

use plimsoll_lfh::Heap;

use plimsoll_testkit::{again, role};

/// The name of a mistake, the function that makes it, the block in the message, and its code.
type Mistake = (&'static str, fn(), Option<&'static str>, &'static str);

/// The block of 48 bytes in a message.
const BLOCK: Option<&str> = Some("of 48 bytes (bucket 3)");
/// The same in a hardened heap: with the checked bytes behind them, 48 bytes take a longer block.
const LONGER: Option<&str> = Some("of 64 bytes (bucket 4)");

const USED: &str = "use-after-free";
const WRITTEN: &str = "write-after-free";
const INNER: &str = "not-a-block";

const MISTAKES: [Mistake; 10] = [
    ("double free", double_free, BLOCK, "double-free"),
    ("free of an inner address", inner_address, BLOCK, INNER),
    ("free of a foreign address", foreign, None, "foreign-address"),
    ("use after free", use_after_free, BLOCK, WRITTEN),
    ("resize after free", || resize_after_free(48, 60), BLOCK, USED),
    (
        "resize after free to another size",
        || resize_after_free(48, 1000),
        BLOCK,
        USED,
    ),
    (
        "resize after free in an absent page",
        resize_after_purge,
        BLOCK,
        USED,
    ),
    ("size after free", size_after_free, BLOCK, USED),
    ("resize of an inner address", resize_inner, BLOCK, INNER),
    ("overrun", overrun, BLOCK, WRITTEN),
];

/// Mistakes that a hardened heap detects besides, at any place in a block.
const HARDENED: [Mistake; 4] = [
    (
        "use after free at the start",
        || write_after_free(0),
        LONGER,
        WRITTEN,
    ),
    (
        "use after free of the second word",
        || write_after_free(8),
        LONGER,
        WRITTEN,
    ),
    (
        "use after free at the end",
        || write_after_free(47),
        LONGER,
        WRITTEN,
    ),
    ("overrun by a byte", overrun_by_a_byte, LONGER, "overrun"),
];

fn block() -> *mut u8 {
    Heap::process().allocate(48)
}

/// # Safety
/// None: these are the mistakes under test.
unsafe fn free(block: *mut u8) {
    // SAFETY: the caller's.
    unsafe { Heap::process().free(block) };
}

fn double_free() {
    let block = block();
    // SAFETY: the mistake of this test.
    unsafe {
        free(block);
        free(block);
    }
}

fn inner_address() {
    // SAFETY: the mistake of this test.
    unsafe { free(block().add(16)) };
}

fn foreign() {
    let mut word = [0_u64; 4];
    // SAFETY: the mistake of this test.
    unsafe { free(word.as_mut_ptr().cast()) };
}

fn use_after_free() {
    let freed = block();
    // SAFETY: the mistake of this test.
    unsafe {
        free(freed);
        freed.write_bytes(1, 48);
    }
    block();
}

fn resize_after_free(size: usize, to: usize) {
    let freed = Heap::process().allocate(size);
    // SAFETY: the mistake of this test.
    unsafe {
        free(freed);
        Heap::process().reallocate(freed, to);
    }
}

fn size_after_free() {
    let freed = block();
    // SAFETY: the mistake of this test.
    unsafe {
        free(freed);
        Heap::process().usable_size(freed);
    }
}

fn resize_inner() {
    // SAFETY: the mistake of this test.
    unsafe { Heap::process().reallocate(block().add(16), 100) };
}

/// The page of the block has returned to the kernel, and the block has no tag.
fn resize_after_purge() {
    let blocks: Vec<_> = (0..4000).map(|_| block()).collect();
    let (kept, freed) = blocks.split_at(1);
    // SAFETY: the mistake of this test.
    unsafe {
        freed.iter().for_each(|block| free(*block));
        Heap::process().trim();
        // The subsegment of the block that is kept.
        let near = |block: &&*mut u8| block.addr() / 16384 == kept[0].addr() / 16384;
        let last = freed.iter().filter(near).max().expect("it has neighbours");
        Heap::process().reallocate(*last, 60);
    }
}

fn overrun() {
    let mut blocks: Vec<_> = (0..64).map(|_| block()).collect();
    blocks.sort_unstable();
    let pair = blocks
        .windows(2)
        .find(|pair| pair[0] as usize + 48 == pair[1] as usize)
        .expect("some of the blocks are neighbours");
    // SAFETY: the mistake of this test.
    unsafe {
        free(pair[1]);
        pair[0].write_bytes(1, 48 + 16);
    }
    block();
}

fn write_after_free(at: usize) {
    let freed = block();
    // SAFETY: the mistake of this test.
    unsafe {
        free(freed);
        freed.add(at).write(1);
    }
    // It leaves the quarantine, and is allocated again.
    for _ in 0..4 {
        let blocks: Vec<_> = (0..200).map(|_| block()).collect();
        // SAFETY: the blocks are this function's.
        blocks.into_iter().for_each(|block| unsafe { free(block) });
    }
}

fn overrun_by_a_byte() {
    let block = block();
    // SAFETY: the mistake of this test.
    unsafe {
        block.add(48).write(0);
        free(block);
    }
}

/// With restartable sequences and without.
#[test]
fn mistakes_end_the_process_and_are_named() {
    if let Some(name) = role() {
        let (_, commit, ..) = MISTAKES
            .iter()
            .chain(&HARDENED)
            .find(|(known, ..)| *known == name)
            .expect("a mistake of the table");
        return commit();
    }
    let hardened = HARDENED.map(|mistake| (mistake, "hardened"));
    for ((name, _, block, code), profile) in MISTAKES
        .map(|mistake| (mistake, "default"))
        .into_iter()
        .chain(hardened)
    {
        for sections in ["on", "off"] {
            let output = again("mistakes::mistakes_end_the_process_and_are_named", name)
                .env("PLIMSOLL_HEAP_RSEQ", sections)
                .env("PLIMSOLL_HEAP_PROFILE", profile)
                .output()
                .expect("the test program starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.signal(), Some(6), "{name}: {said}");
            let (start, end) = ("plimsoll-malloc: 0x", format!(" [{code}]"));
            let line = said
                .lines()
                .find(|line| line.starts_with(start) && line.ends_with(&end));
            let line = line.unwrap_or_else(|| panic!("{name}: {said}"));
            match block {
                Some(block) => assert!(line.contains(block), "{name}: {said}"),
                None => assert!(!line.contains("(bucket "), "{name}: {said}"),
            }
        }
    }
}
