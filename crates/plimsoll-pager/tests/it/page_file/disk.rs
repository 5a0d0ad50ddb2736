//! Data on a real disk.

use std::os::unix::fs::{FileExt, MetadataExt};

use plimsoll_pager::page_file::{StartError, State};
use plimsoll_testkit::capability;

use super::*;
use crate::allocations;

#[test]
fn this_machine_writes_by_io_uring_past_the_page_cache() {
    let folder = folder();
    let (file, _writer) = create(folder.path(), 1 << 20);
    let stats = file.stats();
    capability("io-uring", stats.ring, "the kernel refuses io_uring_setup(2)");
    capability(
        "o-direct",
        stats.direct,
        "the disk of the target folder has no direct access",
    );
}

/// Fills a file by several writes in flight, frees a part, and fills it again.
#[test]
fn data_is_read_as_it_was_written_by_all_means() {
    for options in all_options() {
        let folder = folder();
        let (file, mut writer) = PageFile::create(folder.path(), 24 << 20, options).unwrap();
        assert!(options.ring || !file.stats().ring);
        assert!(options.direct || !file.stats().direct);
        let mut contents: Vec<(Slot, u64)> = Vec::new();
        let mut seed = 0;
        for round in 0..4 {
            fill(&mut writer, &mut contents, &mut seed, 16 - 3 * round);
            assert_eq!(contents.len(), 24 * 16);
            for (slot, seed) in &contents {
                assert_eq!(read(&file, *slot), Ok(segment(*seed)), "{options:?}");
            }
            writer.validate().unwrap();
            // By slot, so that whole MiB are freed.
            contents.sort();
            let mut number = 0;
            contents.retain(|(slot, _)| {
                number += 1;
                let keep = number % 3 != 0 && !(100..200).contains(&number);
                if !keep {
                    file.free(*slot).unwrap();
                }
                keep
            });
            writer.validate().unwrap();
            assert!(writer.rest() > 0, "free MiB are punched");
        }
        assert_eq!(file.state(), State::Writable);
        assert_eq!(file.stats().repeated_operations, 0);
    }
}

/// Writes segments, so many at once, until the file is full.
fn fill(writer: &mut Writer, contents: &mut Vec<(Slot, u64)>, seed: &mut u64, mut count: usize) {
    let mut in_flight = std::collections::HashMap::new();
    loop {
        let seeds: Vec<u64> = (*seed..).take(count).collect();
        let segments: Vec<_> = seeds.iter().map(|seed| segment(*seed)).collect();
        let references: Vec<&Segment> = segments.iter().map(|segment| &**segment).collect();
        match writer.start(&references) {
            Ok(batch) => {
                *seed += count as u64;
                in_flight.insert(batch, seeds);
                continue;
            }
            Err(StartError::Full { free, .. }) if in_flight.is_empty() => match free {
                0 => return,
                free => count = free as usize,
            },
            Err(StartError::Full { .. } | StartError::Busy) => {}
            Err(error) => panic!("{error}"),
        }
        if let Some(completed) = writer.complete(true) {
            let slots = completed.outcome.unwrap();
            let seeds = in_flight.remove(&completed.batch).unwrap();
            contents.extend(slots.iter().copied().zip(seeds));
        }
    }
}

#[test]
fn free_space_returns_to_the_file_system() {
    let folder = folder();
    let (file, mut writer) = create(folder.path(), 16 << 20);
    let opened = reopen(folder.path());
    let allocated = || opened.metadata().unwrap().blocks() * 512;
    assert!(allocated() >= 16 << 20, "allocated ahead: {}", allocated());
    let data = segment(1);
    let mut slots = Vec::new();
    for _ in 0..16 {
        slots.extend(write(&mut writer, &[&*data; 16]).unwrap().iter());
    }
    slots[16..].iter().for_each(|slot| file.free(*slot).unwrap());
    assert_eq!(writer.rest(), 15 << 20);
    assert!(allocated() < 2 << 20, "{}", allocated());
    for slot in &slots[..16] {
        assert_eq!(read(&file, *slot).as_ref(), Ok(&data));
    }
}

#[test]
fn a_bit_flipped_on_the_disk_is_detected() {
    for options in all_options() {
        let folder = folder();
        let (file, mut writer) = PageFile::create(folder.path(), 1 << 20, options).unwrap();
        let data = segment(1);
        let slots = write(&mut writer, &[&*data; 16]).unwrap();
        let disk = reopen(folder.path());
        for (number, slot) in slots.iter().enumerate() {
            let offset = (number * 4099) % SLOT_BYTES;
            let block = slot.block_at(offset).unwrap();
            let position = u64::from(slot.number()) * SLOT_BYTES as u64 + offset as u64;
            let mut byte = [0];
            disk.read_exact_at(&mut byte, position).unwrap();
            disk.write_all_at(&[byte[0] ^ 1 << (number % 8)], position)
                .unwrap();
            let damaged = Err(ReadError::Damaged(block));
            assert_eq!(
                file.read_block(block, &mut BlockBuffer::new()),
                damaged,
                "{options:?}"
            );
            disk.write_all_at(&byte, position).unwrap();
            assert_eq!(read(&file, *slot).as_ref(), Ok(&data));
        }
    }
}

#[test]
fn a_file_that_was_cut_off_is_damaged() {
    let folder = folder();
    let (file, mut writer) = create(folder.path(), 1 << 20);
    let slots = write(&mut writer, &[&*segment(1); 2]).unwrap();
    reopen(folder.path()).set_len(SLOT_BYTES as u64 + 5000).unwrap();
    assert!(read(&file, slots[0]).is_ok());
    let damaged = Err(ReadError::Damaged(slots[1].block_at(0).unwrap()));
    assert_eq!(read(&file, slots[1]), damaged);
}

/// The page cache would be memory that the budget does not count.
#[test]
fn the_page_cache_holds_no_blocks() {
    for options in all_options() {
        let folder = folder();
        let (file, mut writer) = PageFile::create(folder.path(), 2 << 20, options).unwrap();
        let data = segment(1);
        for _ in 0..2 {
            let slots = write(&mut writer, &[&*data; 16]).unwrap();
            slots.iter().for_each(|slot| assert!(read(&file, *slot).is_ok()));
        }
        let cached = cached_pages(&reopen(folder.path()), 2 << 20);
        assert_eq!(cached, 0, "{options:?}");
    }
}

/// Pages of a file that are in the page cache (`mincore(2)`).
fn cached_pages(file: &std::fs::File, length: usize) -> usize {
    use std::os::fd::AsRawFd;
    let mut pages = vec![0_u8; length / 4096];
    // SAFETY: a new mapping, which nothing refers to; `pages` has a byte for each of its pages.
    unsafe {
        let map = libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(map, libc::MAP_FAILED);
        assert_eq!(libc::mincore(map, length, pages.as_mut_ptr()), 0);
        assert_eq!(libc::munmap(map, length), 0);
    }
    pages.iter().filter(|page| **page & 1 == 1).count()
}

#[test]
fn a_dropped_writer_waits_for_its_writes() {
    let folder = folder();
    for round in 0..20 {
        let (file, mut writer) = create(folder.path(), 16 << 20);
        let data = segment(round);
        for _ in 0..4 {
            writer.start(&[&*data; 16]).unwrap();
        }
        drop(writer);
        drop(file);
        assert_eq!(open_files(folder.path()), Vec::<PathBuf>::new());
    }
}

/// The kernel cancels the operations of a thread that ends.
#[test]
fn writes_of_a_thread_that_ended_are_completed() {
    let folder = folder();
    let (file, mut writer) = create(folder.path(), 16 << 20);
    for round in 0..10 {
        let data = segment(round);
        let started = std::thread::spawn(move || {
            let data = segment(round);
            for _ in 0..4 {
                writer.start(&[&*data; 16]).unwrap();
            }
            writer
        });
        writer = started.join().unwrap();
        let mut completed = 0;
        while let Some(done) = writer.complete(true) {
            for slot in done.outcome.unwrap().iter() {
                assert_eq!(read(&file, *slot).as_ref(), Ok(&data));
                file.free(*slot).unwrap();
            }
            completed += 1;
        }
        assert_eq!(completed, 4);
    }
}

/// A fault handler reads and frees, and the pager writes as memory is short: an allocation could wait for either.
#[test]
fn reads_writes_and_frees_allocate_nothing() {
    for options in all_options() {
        let folder = folder();
        let (file, mut writer) = PageFile::create(folder.path(), 40 << 20, options).unwrap();
        let data = segment(1);
        let mut buffer = Box::new(BlockBuffer::new());
        let mut slots: Vec<Slot> = Vec::with_capacity(40 * 16);
        let ((), allocations) = allocations::count(|| {
            for round in 0..120 {
                let batch = match writer.start(&[&*data; 16]) {
                    Ok(_) => None,
                    Err(StartError::Busy | StartError::Full { .. }) => writer.complete(true),
                    Err(error) => panic!("{error}"),
                };
                let written = batch.map(|batch| batch.outcome.unwrap());
                slots.extend(written.iter().flat_map(|slots| slots.iter()));
                if slots.len() > 20 * 16 {
                    for slot in slots.drain(..10 * 16) {
                        let block = slot.block_at(round).unwrap();
                        file.read_block(block, &mut buffer).unwrap();
                        file.free(slot).unwrap();
                    }
                    writer.rest();
                }
            }
            while writer.complete(true).is_some() {}
            let _ = (file.state(), file.stats(), file.metadata_bytes());
        });
        assert_eq!(allocations, 0, "{options:?}");
        assert!(file.stats().segments_written > 500);
    }
}
