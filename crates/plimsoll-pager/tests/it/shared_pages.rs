//! Pages that a device has pinned, or that a child of a fork shares: the kernel does not move them.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::{IoUring, opcode, types};
use plimsoll_pager::TrimTo;
use plimsoll_testkit::capability;

use crate::children::{Child, wait};
use crate::forked_pagers::fork;
use crate::forks::alone;
use crate::modes::{builder, copies};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
const BUFFER: usize = 64 << 10;

/// A buffer that a ring registered is pinned: the kernel writes to its frames, wherever its pages are.
#[test]
fn a_buffer_that_a_device_pinned_is_not_trimmed() {
    let ring = IoUring::new(4);
    if !capability("io-uring", ring.is_ok(), "the system refuses it") {
        return;
    }
    let mut ring = ring.expect("checked above");
    let pager = builder().ram(16 << 20).build().expect("userfaultfd is allowed");
    let mut region = pager.map(MIB).expect("a small region");
    region.bytes_mut().fill(9);
    // From here on the chunk is registered.
    region.trim(.., TrimTo::Store).expect("the whole region");
    let buffer = libc::iovec {
        iov_base: region.as_ptr().cast(),
        iov_len: BUFFER,
    };
    let pin = region.pin(..BUFFER).expect("a small range");
    // SAFETY: the region outlives the ring's use of the buffer.
    unsafe { ring.submitter().register_buffers(&[buffer]) }.expect("the pages are present");
    // On a kernel without moves the pager cannot see what a device has pinned: such a range stays pinned in the pager.
    let kept = copies().then_some(pin);

    region.trim(.., TrimTo::Store).expect("the whole region");
    region.trim(.., TrimTo::Store).expect("the whole region");
    let stats = pager.stats();
    assert_eq!(stats.active_pages, (BUFFER / 4096) as u64);
    assert!(copies() || stats.unmovable_pages > 0);

    let mut file = tempfile::tempfile().expect("the folder for temporary files takes one");
    file.write_all(&[5; BUFFER]).expect("there is space");
    let read = opcode::ReadFixed::new(types::Fd(file.as_raw_fd()), region.as_ptr(), BUFFER as u32, 0).build();
    // SAFETY: the buffer is registered.
    unsafe { ring.submission().push(&read) }.expect("the queue is empty");
    ring.submit_and_wait(1).expect("the ring works");
    let done = ring.completion().next().expect("one entry");
    assert_eq!(done.result(), BUFFER as i32);
    assert!(region.bytes()[..BUFFER].iter().all(|byte| *byte == 5));
    assert!(region.bytes()[BUFFER..].iter().all(|byte| *byte == 9));

    drop(kept);
    ring.submitter().unregister_buffers().expect("registered above");
    region.trim(.., TrimTo::Store).expect("the whole region");
    assert_eq!(pager.stats().active_pages, 0);
    assert!(region.bytes()[..BUFFER].iter().all(|byte| *byte == 5));
    assert_eq!(pager.validate(), []);
}

/// A program that undoes `MADV_DONTFORK` shares present pages with its child.
#[test]
fn pages_that_a_child_shares_are_trimmed_and_stay_the_childs() {
    let pager = builder().ram(16 << 20).build().expect("userfaultfd is allowed");
    let mut region = pager.map(MIB).expect("a small region");
    // Registered, and present.
    region.bytes_mut().fill(1);
    region.trim(.., TrimTo::Store).expect("the whole region");
    region.bytes_mut().fill(9);
    let (address, length) = (region.as_ptr() as usize, region.len());
    // SAFETY: changes nothing in this process.
    let shared = unsafe { libc::madvise(address as *mut _, length, libc::MADV_DOFORK) };
    assert_eq!(shared, 0);
    let (mut waits, go) = std::io::pipe().expect("descriptors are free");
    let end = File::from(std::os::fd::OwnedFd::from(
        go.try_clone().expect("descriptors are free"),
    ));
    drop(go);
    let writer = end.as_raw_fd();
    let child = Child::fork(move || {
        // SAFETY: the child's copy of the descriptor, which it uses no more.
        unsafe { libc::close(writer) };
        let mut byte = [0];
        waits.read_exact(&mut byte).expect("the parent writes");
        // SAFETY: the child has these pages as they were at the fork.
        let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, length) };
        assert!(bytes.iter().all(|byte| *byte == 9));
    });
    let trimmed = region.trim(.., TrimTo::Store).expect("the whole region");
    let stats = pager.stats();
    assert_eq!((trimmed as usize, stats.active_pages), (length / 4096, 0));
    assert_eq!(stats.unshared_pages > 0, !copies());
    region.bytes_mut().fill(3);
    let mut end = end;
    end.write_all(&[1]).expect("the child waits");
    assert_eq!(child.wait(), 0);
    assert!(region.bytes().iter().all(|byte| *byte == 3));
    assert_eq!(pager.validate(), []);
}

/// In the mode of threads with privilege, shared pages were never trimmed: a write to one that was dropped meanwhile would wait
/// for the page that its own thread held.
#[test]
fn a_shared_page_that_the_program_drops_during_a_trim_is_whole_or_zero() {
    const ROUNDS: u8 = 20;
    alone(
        "shared_pages::a_shared_page_that_the_program_drops_during_a_trim_is_whole_or_zero",
        || {
            let pager = builder().ram(16 << 20).build().expect("userfaultfd is allowed");
            let mut region = pager.map(4 * MIB).expect("addresses are free");
            region.trim(.., TrimTo::Store).expect("the whole region");
            for round in 1..=ROUNDS {
                region.bytes_mut().fill(round);
                let (mut waits, end) = std::io::pipe().expect("descriptors are free");
                let writer = end.as_raw_fd();
                let shared = &region;
                let child = fork(&pager, || {
                    // SAFETY: the child's copy of the descriptor, which it uses no more.
                    unsafe { libc::close(writer) };
                    assert_eq!(waits.read(&mut [0]).expect("a pipe"), 0);
                    i32::from(shared.bytes().iter().any(|byte| *byte != round))
                });
                let is_over = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        while !is_over.load(Ordering::Relaxed) {
                            shared.trim(.., TrimTo::Modified).expect("the whole region");
                        }
                    });
                    // Faults on dropped pages wait for the trims of their neighbours.
                    scope.spawn(|| {
                        while !is_over.load(Ordering::Relaxed) {
                            for page in (0..shared.len()).step_by(PAGE) {
                                // SAFETY: the page is mapped, and no thread writes it.
                                unsafe { shared.as_ptr().add(page).read_volatile() };
                            }
                        }
                    });
                    for page in (0..shared.len()).step_by(PAGE) {
                        // SAFETY: the page is the region's, and zeros are as good as its bytes to the reader.
                        let dropped = unsafe {
                            libc::madvise(shared.as_ptr().add(page).cast(), PAGE, libc::MADV_DONTNEED)
                        };
                        assert_eq!(dropped, 0);
                    }
                    is_over.store(true, Ordering::Relaxed);
                });
                for (page, bytes) in region.bytes().chunks(PAGE).enumerate() {
                    let first = bytes[0];
                    assert!(first == round || first == 0, "page {page}: {first}");
                    assert!(bytes.iter().all(|byte| *byte == first), "page {page}");
                }
                drop(end);
                assert_eq!(wait(child), 0);
            }
            assert_eq!(pager.validate(), []);
        },
    );
}
