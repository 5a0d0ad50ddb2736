//! An allocator that is broken is found out, in every load that verifies.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_heap_load::{Block, Calls, Fragmentation, LoadError, Replacement, Sizes, Source, Spread, Until};

#[test]
fn a_wrong_byte_at_either_end_is_seen_and_told() {
    for size in [1_u32, 2, 3, 100] {
        let mut bytes = vec![0_u8; size as usize];
        let address = NonNull::new(bytes.as_mut_ptr()).expect("a vector with bytes");
        for offset in [0, size - 1] {
            // SAFETY: the bytes live until the end of this turn, and only raw pointers reach them.
            let block = unsafe { Block::marked(address, size, 0xA55A) };
            block.verify().expect("it is as it was written");
            // SAFETY: the offset is inside of the bytes.
            let byte = unsafe { address.as_ptr().add(offset as usize) };
            // SAFETY: as above.
            let written = unsafe { byte.read() };
            // SAFETY: as above.
            unsafe { byte.write(written ^ 0x10) };
            match block.verify() {
                Err(LoadError::WrongByte {
                    address: at,
                    size: of,
                    offset: where_,
                    written: mark,
                    found,
                }) => {
                    assert_eq!((at, of, where_), (address.as_ptr() as usize, size, offset));
                    assert_eq!((mark, found), (written, written ^ 0x10));
                }
                other => panic!("size {size}, byte {offset}: {other:?}"),
            }
        }
    }
}

/// Returns every block twice, as an allocator does whose lists are broken by a double free or a race.
struct Twice {
    given: Option<(NonNull<u8>, u32)>,
}

impl Source for Twice {
    fn allocate(&mut self, size: u32, tag: u32) -> Result<Block, LoadError> {
        match self.given.take() {
            // SAFETY: the memory is large enough, and never freed; the test needs that another block has it too.
            Some((address, room)) if size <= room => Ok(unsafe { Block::marked(address, size, tag) }),
            _ => {
                let address = Calls
                    .allocate(1024, 0)?
                    .into_address()
                    .expect("a block has an address");
                self.given = Some((address, 1024));
                // SAFETY: malloc returned 1024 bytes, and no block is larger.
                Ok(unsafe { Block::marked(address, size, tag) })
            }
        }
    }

    fn release(&mut self, block: Block) -> Result<(), LoadError> {
        block.verify()
    }

    fn grow(&mut self, _: &mut Block, _: u32) -> Result<(), LoadError> {
        unreachable!("these loads grow no blocks")
    }
}

#[test]
fn an_allocator_that_gives_memory_out_twice_ends_a_load() {
    let replacement = Replacement {
        threads: 2,
        blocks: 100,
        until: Until::Count(1000),
        ..Replacement::default()
    };
    let error = replacement
        .run_on(|_| Twice { given: None })
        .expect_err("blocks overlap");
    assert!(matches!(error, LoadError::WrongByte { .. }), "{error}");

    let sizes = Sizes::new(16, 64, Spread::Uniform).expect("right");
    let fragmentation = Fragmentation {
        live_bytes: 100 << 10,
        phases: vec![sizes; 2],
        ..Fragmentation::default()
    };
    let error = fragmentation
        .run_on(&mut Twice { given: None })
        .expect_err("blocks overlap");
    assert!(matches!(error, LoadError::WrongByte { .. }), "{error}");
}

/// Has no memory left after some blocks.
struct Exhausted<'a>(&'a AtomicU64);

impl Source for Exhausted<'_> {
    fn allocate(&mut self, size: u32, tag: u32) -> Result<Block, LoadError> {
        let left = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map_err(|_| LoadError::OutOfMemory { size })?;
        Calls.allocate(size, tag)
    }

    fn release(&mut self, block: Block) -> Result<(), LoadError> {
        Calls.release(block)
    }

    fn grow(&mut self, block: &mut Block, size: u32) -> Result<(), LoadError> {
        Calls.grow(block, size)
    }
}

/// One thread fails in its fill, or while it replaces, and the others must not wait for it.
#[test]
fn memory_that_runs_out_ends_a_load_of_many_threads() {
    for blocks in [50, 350, 600] {
        let left = AtomicU64::new(blocks);
        let load = Replacement {
            threads: 4,
            blocks: 100,
            until: Until::Count(1000),
            ..Replacement::default()
        };
        let error = load.run_on(|_| Exhausted(&left)).expect_err("too few blocks");
        assert!(matches!(error, LoadError::OutOfMemory { .. }), "{error}");
    }
}

#[test]
fn growing_keeps_what_a_block_holds() {
    let mut block = Calls.allocate(1, 0xBEEF).expect("memory");
    for size in [2, 3, 100, 5000, 100_000] {
        Calls.grow(&mut block, size).expect("realloc kept the marks");
        assert_eq!(block.size(), size);
        let address = block.into_address().expect("a block has an address");
        // SAFETY: realloc returned `size` bytes.
        block = unsafe { Block::marked(address, size, 0xBEEF) };
    }
    Calls.release(block).expect("it is as it was written");
}
