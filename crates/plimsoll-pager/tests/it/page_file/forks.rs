//! Forked children: they read, and never write with the parent's nonces.

use std::os::fd::AsRawFd;

use plimsoll_pager::page_file::StartError;
use plimsoll_testkit::{fork, status_of_fork};

use super::*;

#[test]
fn a_forked_child_reads_and_cannot_write() {
    for options in all_options() {
        let folder = folder();
        let (file, mut writer) = PageFile::create(folder.path(), 8 << 20, options).unwrap();
        let data = segment(1);
        let slots = write(&mut writer, &[&*data; 16]).unwrap();
        // In flight as the child is made.
        let batch = writer.start(&[&data]).unwrap();
        let mut both = (file, writer);
        let status = status_of_fork(std::panic::AssertUnwindSafe(|| {
            let (file, writer) = &mut both;
            assert_eq!(writer.start(&[&data]), Err(StartError::Forked));
            assert!(writer.complete(true).is_none());
            assert_eq!(writer.rest(), 0);
            for slot in slots.iter() {
                assert_eq!(read(file, *slot).as_ref(), Ok(&data));
            }
            // What the child frees is free for the child alone.
            file.free(slots[0]).unwrap();
            // It can have a page file of its own.
            let (own, mut own_writer) = PageFile::create(folder.path(), 8 << 20, options).unwrap();
            let own_slots = write(&mut own_writer, &[&data]).unwrap();
            assert_eq!(read(&own, own_slots[0]).as_ref(), Ok(&data));
        }));
        assert_eq!(status, 0, "{options:?}");
        let (file, writer) = &mut both;
        let completed = writer.complete(true).unwrap();
        assert_eq!(completed.batch, batch);
        assert_eq!(read(file, completed.outcome.unwrap()[0]).as_ref(), Ok(&data));
        assert_eq!(read(file, slots[0]).as_ref(), Ok(&data));
        write(writer, &[&data]).unwrap();
        writer.validate().unwrap();
    }
}

/// Ends with the values, so that their drops run in the child.
#[test]
fn the_end_of_a_child_leaves_the_file_of_the_parent() {
    for options in all_options() {
        let folder = folder();
        let (file, mut writer) = PageFile::create(folder.path(), 8 << 20, options).unwrap();
        let data = segment(1);
        let slots = write(&mut writer, &[&*data; 16]).unwrap();
        for _ in 0..4 {
            writer.start(&[&*data; 16]).unwrap();
        }
        let both = (file, writer);
        let status = status_of_fork(std::panic::AssertUnwindSafe(|| {
            // SAFETY: the parent's value stays as it is: a copy of its bytes ends, in another process.
            drop(unsafe { std::ptr::read(&raw const both) });
        }));
        assert_eq!(status, 0, "{options:?}");
        let (file, mut writer) = both;
        let mut completed = 0;
        while let Some(done) = writer.complete(true) {
            let written = done.outcome.unwrap();
            written
                .iter()
                .for_each(|slot| assert_eq!(read(&file, *slot).as_ref(), Ok(&data)));
            completed += 1;
        }
        assert_eq!(completed, 4);
        slots
            .iter()
            .for_each(|slot| assert_eq!(read(&file, *slot).as_ref(), Ok(&data)));
    }
}

/// The child's tags are those of before the fork.
#[test]
fn a_child_never_reads_data_that_the_parent_wrote_later() {
    let folder = folder();
    let (file, mut writer) = create(folder.path(), 1 << 20);
    let old = write(&mut writer, &[&segment(1), &segment(2)]).unwrap();
    let (reader, pipe) = std::io::pipe().unwrap();
    let child = fork(60, || {
        // SAFETY: the child's copy of the end of the parent, which it never drops.
        unsafe { libc::close(pipe.as_raw_fd()) };
        // Waits for the parent.
        let waited = std::io::Read::read(&mut &reader, &mut [0]).is_ok();
        let damaged = Err(ReadError::Damaged(old[0].block_at(0).unwrap()));
        let is_right = waited && read(&file, old[0]) == damaged && read(&file, old[1]) == Ok(segment(2));
        i32::from(!is_right)
    });
    file.free(old[0]).unwrap();
    assert_eq!(write(&mut writer, &[&segment(3)]).unwrap()[0], old[0]);
    drop(pipe);
    let mut status = 0;
    // SAFETY: the child of above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(read(&file, old[0]), Ok(segment(3)));
}
