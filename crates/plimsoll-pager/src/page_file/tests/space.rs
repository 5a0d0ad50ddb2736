//! Disk space: steps, limits, holes, and slots that are used again.

use std::sync::Arc;

use plimsoll_os::Errno;

use super::faulty::Faulty;
use super::*;

/// Writes segments of the seeds `from..` until the file refuses; returns their slots and the refusal.
fn fill(writer: &mut Writer, count: usize) -> (Vec<Slot>, StartError) {
    let mut slots = Vec::new();
    let data = segment(7);
    loop {
        match writer.start(&vec![&*data; count]) {
            Ok(_) => slots.extend(writer.complete(true).unwrap().outcome.unwrap().iter()),
            Err(error) => return (slots, error),
        }
    }
}

#[test]
fn space_is_allocated_in_growing_steps() {
    let file = Arc::new(Faulty::new(200));
    let (pages, mut writer) = page_file(&file, 200);
    let mut steps = vec![file.state().allocated_mebibytes()];
    let data = segment(1);
    for _ in 0..200 {
        write(&mut writer, &[&*data; 16]).unwrap();
        let now = file.state().allocated_mebibytes();
        if steps.last() != Some(&now) {
            steps.push(now);
        }
        assert_eq!(pages.stats().allocated_bytes, (now << 20) as u64);
    }
    assert_eq!(steps, [16, 48, 112, 200]);
    let full = writer.start(&[&data]);
    assert_eq!(full, Err(StartError::Full { wanted: 1, free: 0 }));
    assert_eq!(
        pages.state(),
        State::Writable,
        "the size that the user gave is no error"
    );
    assert_eq!(pages.stats().operations, 200, "each write was one operation");
}

#[test]
fn a_full_disk_limits_the_file_to_its_space() {
    for errno in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
        let file = Arc::new(Faulty::new(100));
        file.state().room = Some((37, errno));
        let (pages, mut writer) = page_file(&file, 100);
        let (slots, full) = fill(&mut writer, 16);
        assert_eq!(slots.len(), 37 * 16, "halved steps take all of the room");
        assert_eq!(full, StartError::Full { wanted: 16, free: 0 });
        assert_eq!(
            pages.state(),
            State::Limited {
                bytes: 37 << 20,
                errno
            }
        );

        // Space that another program frees changes nothing; slots of the file are used again, and keep their space.
        file.state().room = None;
        slots
            .iter()
            .step_by(3)
            .for_each(|slot| pages.free(*slot).unwrap());
        assert_eq!(writer.rest(), 0);
        let (again, _) = fill(&mut writer, 1);
        assert_eq!(again.len(), slots.len().div_ceil(3));
        assert_eq!(file.state().allocated_mebibytes(), 37);
        for slot in again.iter().chain(&slots) {
            assert_eq!(read(&pages, *slot), Ok(segment(7)));
        }
        writer.validate().unwrap();
    }
}

#[test]
fn a_disk_without_any_room_refuses_the_file() {
    let file = Arc::new(Faulty::new(16));
    file.state().room = Some((0, Errno::NOSPC));
    let made = PageFile::on(Arc::clone(&file) as _, 16, Path::new("/faulty"), |backing, _| {
        Ok(Box::new(Plain::new(backing)?) as Box<dyn Queue>)
    });
    let error = made.err().unwrap();
    assert!(
        matches!(
            error,
            CreateError::Space {
                source: Errno::NOSPC,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(file.state().allocated_mebibytes(), 0);
}

/// The kernel would kill the process by SIGXFSZ.
#[test]
fn no_call_exceeds_the_limit_of_file_sizes() {
    let file = Arc::new(Faulty::new(100));
    file.state().most_bytes = Some((20 << 20) + 5);
    let (pages, mut writer) = page_file(&file, 100);
    let (slots, _) = fill(&mut writer, 16);
    assert_eq!(slots.len(), 20 * 16);
    let limited = State::Limited {
        bytes: 20 << 20,
        errno: Errno::FBIG,
    };
    assert_eq!(pages.state(), limited);

    // Lowered below the space that the file has.
    file.state().most_bytes = Some(10 << 20);
    pages.free(slots[0]).unwrap();
    let low = write(&mut writer, &[&segment(1)]).unwrap();
    assert_eq!(low[0], slots[0], "below the limit");
    let high = slots[20 * 16 - 1];
    pages.free(high).unwrap();
    let writes = file.state().writes;
    let refused = writer.start(&[&segment(2)]).unwrap_err();
    let StartError::Failed(WriteFailure::Write {
        position,
        errno: Errno::FBIG,
        ..
    }) = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!(position, u64::from(high.number()) * SLOT_BYTES as u64);
    assert_eq!(file.state().writes, writes);
    writer.validate().unwrap();
}

#[test]
fn a_file_system_that_cannot_allocate_ahead_gets_a_sparse_file() {
    let file = Arc::new(Faulty::new(40));
    file.state().cannot_allocate = true;
    let (pages, mut writer) = page_file(&file, 40);
    let (slots, _) = fill(&mut writer, 16);
    assert_eq!(slots.len(), 40 * 16);
    assert_eq!(pages.state(), State::Writable);
}

#[test]
fn an_interrupted_allocation_is_tried_again() {
    let file = Arc::new(Faulty::new(16));
    file.state().interrupts = 5;
    let (pages, _writer) = page_file(&file, 16);
    assert_eq!(pages.stats().allocated_bytes, 16 << 20);
}

/// A signal halved the step, and a signal during the extension by a last MiB made the file full for good.
#[test]
fn an_interrupted_extension_is_tried_again() {
    let file = Arc::new(Faulty::new(40));
    file.state().cannot_allocate = true;
    let (pages, mut writer) = page_file(&file, 40);
    file.state().interrupted_extensions = 5;
    let (slots, _) = fill(&mut writer, 16);
    assert_eq!(slots.len(), 40 * 16);
    assert_eq!(pages.state(), State::Writable);
}

/// One signal during a punch ended punching for good.
#[test]
fn an_interrupted_punch_is_tried_again() {
    let file = Arc::new(Faulty::new(16));
    let (pages, mut writer) = page_file(&file, 16);
    let (slots, _) = fill(&mut writer, 16);
    slots[..4 * 16].iter().for_each(|slot| pages.free(*slot).unwrap());
    file.state().interrupted_punches = 5;
    assert_eq!(writer.rest(), 4 << 20);
    assert_eq!(file.state().allocated_mebibytes(), 12);
    writer.validate().unwrap();
}

#[test]
fn signals_that_interrupt_each_try_are_no_limit_of_the_file() {
    const ALWAYS: u64 = u64::MAX;
    let file = Arc::new(Faulty::new(40));
    let (pages, mut writer) = page_file(&file, 40);
    let first = pages.stats().allocated_bytes >> 20;
    file.state().interrupts = ALWAYS;
    let (mut slots, full) = fill(&mut writer, 16);
    assert_eq!(slots.len() as u64, first * 16, "the space that it had before");
    assert_eq!(full, StartError::Full { wanted: 16, free: 0 });
    assert_eq!(pages.state(), State::Writable);
    file.state().interrupts = 0;
    slots.extend(fill(&mut writer, 16).0);
    assert_eq!(slots.len(), 40 * 16);

    slots.iter().for_each(|slot| pages.free(*slot).unwrap());
    file.state().interrupted_punches = ALWAYS;
    assert_eq!(writer.rest(), 0);
    writer.validate().unwrap();
    file.state().interrupted_punches = 0;
    assert_eq!(writer.rest(), 40 << 20);
    assert_eq!(file.state().allocated_mebibytes(), 0);
    writer.validate().unwrap();
}

#[test]
fn free_space_is_returned_and_allocated_again() {
    let file = Arc::new(Faulty::new(64));
    let (pages, mut writer) = page_file(&file, 64);
    let (slots, _) = fill(&mut writer, 16);
    // All but one slot of the MiB 3, and all of 10 to 19.
    let freed = slots[3 * 16..4 * 16 - 1].iter().chain(&slots[10 * 16..20 * 16]);
    freed.for_each(|slot| pages.free(*slot).unwrap());
    assert_eq!(writer.rest(), 10 << 20, "whole MiB alone");
    assert_eq!(file.state().allocated_mebibytes(), 54);
    assert_eq!(pages.stats().allocated_bytes, 54 << 20);
    assert_eq!(pages.stats().punched_bytes, 10 << 20);
    writer.validate().unwrap();
    for slot in slots[..3 * 16].iter().chain(&slots[20 * 16..]) {
        assert_eq!(read(&pages, *slot), Ok(segment(7)));
    }
    let (again, _) = fill(&mut writer, 1);
    assert_eq!(again.len(), 10 * 16 + 15);
    assert_eq!(file.state().allocated_mebibytes(), 64);
    writer.validate().unwrap();
}

#[test]
fn a_file_system_without_holes_keeps_the_space() {
    let file = Arc::new(Faulty::new(16));
    file.state().cannot_punch = true;
    let (pages, mut writer) = page_file(&file, 16);
    let (slots, _) = fill(&mut writer, 16);
    slots.iter().for_each(|slot| pages.free(*slot).unwrap());
    assert_eq!(writer.rest(), 0);
    assert_eq!(file.state().allocated_mebibytes(), 16);
    writer.validate().unwrap();
    assert_eq!(fill(&mut writer, 16).0.len(), 16 * 16, "the slots are still free");
}

#[test]
fn a_write_to_scattered_slots_is_one_operation_a_run() {
    let file = Arc::new(Faulty::new(1));
    let (pages, mut writer) = page_file(&file, 1);
    let (slots, _) = fill(&mut writer, 16);
    // Runs of 1, 2 and 4 slots.
    let freed = [1, 4, 5, 8, 9, 10, 11].map(|number| slots[number]);
    freed.iter().for_each(|slot| pages.free(*slot).unwrap());
    let before = pages.stats().operations;
    let segments: Vec<_> = (0..7).map(segment).collect();
    let references: Vec<&Segment> = segments.iter().map(|segment| &**segment).collect();
    let written = write(&mut writer, &references).unwrap();
    assert_eq!(pages.stats().operations - before, 3);
    for (slot, segment) in written.iter().zip(&segments) {
        assert_eq!(read(&pages, *slot).as_ref(), Ok(segment));
    }
    writer.validate().unwrap();
}

/// 72 bytes of seals and a bit for a slot of 64 KiB, and less than 5 MiB of buffers.
#[test]
fn metadata_is_counted_and_small() {
    let file = Arc::new(Faulty::new(1024));
    let (pages, mut writer) = page_file(&file, 1024);
    let empty = pages.metadata_bytes();
    assert!(empty < 200 << 10, "{empty}");
    write(&mut writer, &[&segment(1)]).unwrap();
    let buffered = pages.metadata_bytes();
    assert!(
        (SLOT_BYTES as u64..2 * SLOT_BYTES as u64).contains(&(buffered - empty)),
        "{empty} {buffered}"
    );
    writer.rest();
    let slots = fill(&mut writer, 16).0.len() as u64;
    writer.rest();
    let full = pages.metadata_bytes();
    assert!(
        (slots * 72..slots * 73 + empty).contains(&full),
        "{full} for {slots}"
    );
}
