//! Errors of the disk: the state that they leave, and the data that stays.

use std::sync::Arc;

use plimsoll_os::Errno;

use super::super::cipher::MOST_BLOCKS;
use super::super::create::try_block;
use super::faulty::{Fault, Faulty};
use super::*;

/// Writes a first segment, makes the next writes of the file fail as ordered, and writes three segments.
fn fail_second_write(faults: &[Fault]) -> (PageFile, Writer, Slot, Result<Slots, WriteFailure>) {
    let file = Arc::new(Faulty::new(16));
    let (pages, mut writer) = page_file(&file, 16);
    let first = write(&mut writer, &[&segment(1)]).unwrap()[0];
    let writes = file.state().writes;
    let orders = (writes..).zip(faults.iter().copied());
    file.state().write_faults.extend(orders);
    let segments = [2, 3, 4].map(segment);
    let outcome = write(&mut writer, &segments.each_ref().map(|segment| &**segment));
    if let Ok(slots) = outcome {
        for (slot, segment) in slots.iter().zip(&segments) {
            assert_eq!(read(&pages, *slot), Ok(segment.clone()));
        }
    }
    writer.validate().unwrap();
    (pages, writer, first, outcome)
}

#[test]
fn an_error_of_the_disk_ends_writes_and_leaves_written_data_readable() {
    for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
        let (pages, mut writer, first, outcome) = fail_second_write(&[Fault::Refuse(errno)]);
        let failure = outcome.unwrap_err();
        let WriteFailure::Write {
            errno: cause, length, ..
        } = failure
        else {
            panic!("{failure:?}");
        };
        assert_eq!((cause, length), (errno, 3 * SLOT_BYTES));
        assert_eq!(pages.state(), State::Failed(failure));
        assert_eq!(pages.state().errno(), Some(errno));
        // The disk would accept this write, but the state stays.
        let refused = writer.start(&[&segment(9)]);
        assert_eq!(refused, Err(StartError::Failed(failure)));
        assert_eq!(writer.in_flight(), 0);
        assert_eq!(read(&pages, first), Ok(segment(1)));
        pages.free(first).unwrap();
        assert_eq!(
            read(&pages, first),
            Err(ReadError::NotWritten(first.block_at(0).unwrap()))
        );
        writer.validate().unwrap();
    }
}

#[test]
fn an_interrupted_or_short_write_is_completed() {
    let interrupted = Fault::Refuse(Errno::INTR);
    let cases: [&[Fault]; 5] = [
        &[interrupted],
        &[interrupted, interrupted, interrupted],
        &[Fault::Refuse(Errno::AGAIN)],
        &[Fault::Short(SLOT_BYTES)],
        // It goes on at a block of the disk.
        &[Fault::Short(70_001), Fault::Short(50_000)],
    ];
    for faults in cases {
        let (pages, _writer, _, outcome) = fail_second_write(faults);
        assert_eq!(outcome.unwrap().len(), 3, "{faults:?}");
        assert_eq!(pages.state(), State::Writable);
        assert_eq!(pages.stats().repeated_operations, 1, "{faults:?}");
    }
}

#[test]
fn a_write_that_stays_short_is_an_error() {
    let cases: [(&[Fault], usize); 3] = [
        (&[Fault::Short(0), Fault::Short(0)], 0),
        (&[Fault::Short(5000), Fault::Short(900)], 5000),
        (&[Fault::Short(5000), Fault::Short(4096), Fault::Short(0)], 8192),
    ];
    for (faults, expected) in cases {
        let (pages, _writer, first, outcome) = fail_second_write(faults);
        let failure = outcome.unwrap_err();
        let WriteFailure::Short { written, .. } = failure else {
            panic!("{failure:?}");
        };
        assert_eq!(written, expected);
        assert_eq!(pages.state(), State::Failed(failure));
        assert_eq!(read(&pages, first), Ok(segment(1)));
    }
    // The rest meets a full disk.
    let (_, _, _, outcome) = fail_second_write(&[Fault::Short(8192), Fault::Refuse(Errno::NOSPC)]);
    let failure = outcome.unwrap_err();
    assert!(
        matches!(
            failure,
            WriteFailure::Write {
                errno: Errno::NOSPC,
                ..
            }
        ),
        "{failure:?}"
    );
}

#[test]
fn an_interrupted_write_back_is_tried_again() {
    let file = Arc::new(Faulty::new(16));
    let (pages, mut writer) = page_file(&file, 16);
    file.state()
        .settle_faults
        .extend([(0, Errno::INTR), (1, Errno::INTR)]);
    write(&mut writer, &[&segment(1)]).unwrap();
    assert_eq!((pages.state(), file.state().settled), (State::Writable, 3));
    writer.validate().unwrap();
}

#[test]
fn an_error_of_the_write_back_is_an_error_of_the_write() {
    let file = Arc::new(Faulty::new(16));
    let (pages, mut writer) = page_file(&file, 16);
    file.state().settle_faults.insert(0, Errno::IO);
    let failure = write(&mut writer, &[&segment(1)]).unwrap_err();
    assert_eq!(pages.state(), State::Failed(failure));
    assert_eq!(pages.stats().used_slots, 0);
    writer.validate().unwrap();
}

/// Several writes are in flight as one of them fails: the others are in the file all the same.
#[test]
fn an_error_concerns_its_own_write_alone() {
    let file = Arc::new(Faulty::new(16));
    let (pages, mut writer) = page_file(&file, 16);
    file.state().write_faults.insert(1, Fault::Refuse(Errno::IO));
    let segments: Vec<_> = (0..3).map(segment).collect();
    let batches: Vec<Batch> = segments
        .iter()
        .map(|segment| writer.start(&[segment]).unwrap())
        .collect();
    assert_eq!(writer.in_flight(), 3);
    let mut failed = Vec::new();
    while let Some(completed) = writer.complete(true) {
        let number = batches
            .iter()
            .position(|batch| *batch == completed.batch)
            .unwrap();
        match completed.outcome {
            Ok(slots) => assert_eq!(read(&pages, slots[0]).as_ref(), Ok(&segments[number])),
            Err(_) => failed.push(number),
        }
    }
    assert_eq!(failed, [1]);
    assert_eq!(pages.stats().used_slots, 2);
    writer.validate().unwrap();
}

#[test]
fn a_read_error_is_reported_and_the_next_read_works() {
    let file = Arc::new(Faulty::new(16));
    let (pages, mut writer) = page_file(&file, 16);
    let slot = write(&mut writer, &[&segment(1)]).unwrap()[0];
    let block = slot.block_at(0).unwrap();
    let mut buffer = BlockBuffer([7; BLOCK_BYTES]);
    let reads = file.state().reads;
    file.state().read_faults.insert(reads, Errno::IO);
    let error = pages.read_block(block, &mut buffer);
    assert_eq!(
        error,
        Err(ReadError::Io {
            block,
            errno: Errno::IO
        })
    );
    assert_eq!(buffer.0, [0; BLOCK_BYTES], "no former data stays in the buffer");
    assert_eq!(read(&pages, slot), Ok(segment(1)));
    assert_eq!((pages.stats().read_errors, pages.state()), (1, State::Writable));
}

#[test]
fn every_flipped_bit_of_a_block_is_detected() {
    let file = Arc::new(Faulty::new(16));
    let (pages, mut writer) = page_file(&file, 16);
    let slot = write(&mut writer, &[&segment(1)]).unwrap()[0];
    let block = slot.block_at(BLOCK_BYTES).unwrap();
    let mut buffer = Box::new(BlockBuffer::new());
    for bit in 0..BLOCK_BYTES * 8 {
        let byte = block.position() as usize + bit / 8;
        file.state().bytes[byte] ^= 1 << (bit % 8);
        let read = pages.read_block(block, &mut buffer);
        assert_eq!(read, Err(ReadError::Damaged(block)), "bit {bit}");
        file.state().bytes[byte] ^= 1 << (bit % 8);
    }
    assert_eq!(buffer.0, [0; BLOCK_BYTES], "damaged data is not given out");
    assert_eq!(pages.stats().damaged_blocks, BLOCK_BYTES as u64 * 8);
    assert_eq!(
        read(&pages, slot),
        Ok(segment(1)),
        "the other bits are as they were"
    );
}

/// A disk that returns an older version of a block, or another block, returns data that once passed.
#[test]
fn a_block_of_another_place_or_time_is_detected() {
    let file = Arc::new(Faulty::new(16));
    let (pages, mut writer) = page_file(&file, 16);
    let first = write(&mut writer, &[&segment(1)]).unwrap()[0];
    let old = file.state().bytes.clone();
    pages.free(first).unwrap();
    let slots = write(&mut writer, &[&segment(2), &segment(2)]).unwrap();
    assert_eq!(slots[0], first, "the slot is used again");
    let new = file.state().bytes.clone();

    let damaged = Err(ReadError::Damaged(first.block_at(0).unwrap()));
    file.state().bytes = old;
    assert_eq!(read(&pages, first), damaged, "an older version");
    file.state().bytes.clone_from(&new);
    file.state().bytes.copy_within(SLOT_BYTES..2 * SLOT_BYTES, 0);
    assert_eq!(read(&pages, first), damaged, "another slot with the same data");
    file.state().bytes.clone_from(&new);
    file.state().bytes.copy_within(BLOCK_BYTES..2 * BLOCK_BYTES, 0);
    assert_eq!(read(&pages, first), damaged, "another block of the slot");
    file.state().bytes = new;
    assert_eq!(read(&pages, first), Ok(segment(2)));
}

#[test]
fn a_slot_without_data_is_neither_read_nor_freed() {
    let file = Arc::new(Faulty::new(16));
    let (pages, mut writer) = page_file(&file, 16);
    let mut buffer = BlockBuffer::new();
    for number in [0, 255, 256, MOST_SLOTS - 1] {
        let slot = Slot::new(number).unwrap();
        let block = slot.block_at(0).unwrap();
        assert_eq!(
            pages.read_block(block, &mut buffer),
            Err(ReadError::NotWritten(block))
        );
        assert_eq!(pages.free(slot), Err(NotWritten(slot)));
    }
    assert_eq!(Slot::new(MOST_SLOTS), None);
    let slot = write(&mut writer, &[&segment(1)]).unwrap()[0];
    pages.free(slot).unwrap();
    assert_eq!(pages.free(slot), Err(NotWritten(slot)), "freed twice");
    writer.validate().unwrap();
}

#[test]
fn a_write_has_1_to_16_segments_and_4_writes_are_in_flight() {
    let file = Arc::new(Faulty::new(16));
    let (_pages, mut writer) = page_file(&file, 16);
    let one = segment(1);
    assert_eq!(writer.start(&[]), Err(StartError::Count(0)));
    assert_eq!(writer.start(&[&*one; 17]), Err(StartError::Count(17)));
    let batches: Vec<Batch> = (0..4).map(|_| writer.start(&[&one]).unwrap()).collect();
    assert_eq!(writer.start(&[&one]), Err(StartError::Busy));
    let first = writer.complete(false).unwrap();
    assert!(batches.contains(&first.batch));
    writer.start(&[&*one; 16]).unwrap();
}

#[test]
fn a_worn_key_ends_writes_before_a_nonce_repeats() {
    let file = Arc::new(Faulty::new(16));
    let (pages, mut writer) = page_file(&file, 16);
    let blocks = BLOCKS_PER_SLOT as u64;
    writer.set_next_nonce(MOST_BLOCKS - 2 * blocks);
    let slot = write(&mut writer, &[&segment(1)]).unwrap()[0];
    let failed = Err(StartError::Failed(WriteFailure::KeyWorn));
    assert_eq!(writer.start(&[&segment(2), &segment(3)]), failed);
    assert_eq!(pages.state(), State::Failed(WriteFailure::KeyWorn));
    assert_eq!(read(&pages, slot), Ok(segment(1)));
}

/// The error of a disk that was nearly full was EIO.
#[test]
fn the_first_test_of_a_file_completes_a_short_write() {
    let tried = |faults: &[Fault]| {
        let file = Faulty::new(1);
        let mut state = file.state();
        state.allocated[0] = true;
        state.write_faults.extend((0..).zip(faults.iter().copied()));
        drop(state);
        try_block(&file)
    };
    let short = Fault::Short(4096);
    assert_eq!(tried(&[]), Ok(()));
    assert_eq!(tried(&[short, Fault::Refuse(Errno::INTR), short]), Ok(()));
    for errno in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
        assert_eq!(tried(&[short, Fault::Refuse(errno)]), Err((true, errno)));
    }
    let broken = Err((false, Errno::IO));
    assert_eq!(tried(&[Fault::Refuse(Errno::IO)]), broken);
    assert_eq!(tried(&[short, Fault::Short(0)]), broken);
}
