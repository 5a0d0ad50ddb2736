//! The mode in which a thread of the pager resolves faults.
#![allow(unsafe_code)]

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::ptr::null_mut;
use std::sync::Barrier;

use plimsoll_pager::{FaultMode, Pager, PagerBuilder, TrimTo};
use plimsoll_testkit::{again, capability, role, status_of_fork};

use crate::allocations;
use crate::children::{become_nobody, is_root};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
const THREADS: usize = 16;

fn builder() -> PagerBuilder {
    Pager::builder().fault_mode(FaultMode::Thread)
}

/// Runs `work` in a new process of `test`.
fn alone(test: &str, work: impl FnOnce()) {
    if role().is_some() {
        return work();
    }
    let output = again(test, "alone").output().expect("the test program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{errors}");
}

fn block_all_signals() {
    // SAFETY: the set is initialised by the first call.
    unsafe {
        let mut all = std::mem::MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        assert_eq!(
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), null_mut()),
            0
        );
    }
}

/// The address of the handler of SIGBUS.
fn disposition() -> usize {
    // SAFETY: reads a disposition into a structure of that type.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        assert_eq!(
            libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut action),
            0
        );
        action.sa_sigaction
    }
}

fn value(page: usize, round: usize) -> u64 {
    ((page + 1) * 7919 + round) as u64
}

#[test]
fn sixteen_threads_that_block_every_signal_fault_without_allocations() {
    let test = "fault_thread::sixteen_threads_that_block_every_signal_fault_without_allocations";
    alone(test, || {
        let before = disposition();
        let pager = builder().ram(16 << 20).build().expect("userfaultfd is allowed");
        assert_eq!(disposition(), before, "no handler is installed");
        let mut region = pager.map(48 * MIB).expect("addresses are free");
        let part = region.len() / THREADS;
        let barrier = Barrier::new(THREADS + 1);
        std::thread::scope(|scope| {
            for (number, bytes) in region.bytes_mut().chunks_mut(part).enumerate() {
                let barrier = &barrier;
                scope.spawn(move || {
                    block_all_signals();
                    let mut wrong = 0;
                    barrier.wait();
                    for round in 1..=3 {
                        for (page, bytes) in bytes.chunks_mut(PAGE).enumerate() {
                            let page = number * part / PAGE + page;
                            let (words, _) = bytes.as_chunks_mut::<8>();
                            let expected = if round == 1 { 0 } else { value(page, round - 1) };
                            for at in [0, 200, 511] {
                                wrong += usize::from(u64::from_ne_bytes(words[at]) != expected);
                                words[at] = value(page, round).to_ne_bytes();
                            }
                        }
                    }
                    barrier.wait();
                    barrier.wait();
                    assert_eq!(wrong, 0);
                });
            }
            let during = allocations::of_threads_for_faults(|| {
                barrier.wait();
                barrier.wait();
            });
            barrier.wait();
            assert_eq!(during, 0);
        });
        let stats = pager.stats();
        assert!(stats.hard_faults + stats.stream_pages > 1000, "{stats:?}");
        assert_eq!(stats.forced_frames, 0);
        assert_eq!(pager.validate(), []);
    });
}

/// Reads a file, writes one, and receives a datagram, all in absent pages. Returns whether every byte came through.
fn use_absent_pages(pager: &Pager) -> bool {
    let mut region = pager.map(MIB).expect("a small region");
    region.bytes_mut().fill(9);
    region.trim(.., TrimTo::Store).expect("the whole region");
    let file = tempfile::tempfile().expect("the folder for temporary files takes one");
    let at: *mut libc::c_void = region.as_ptr().cast();
    // SAFETY: the range is the region's.
    let written = unsafe { libc::write(file.as_raw_fd(), at, MIB) };
    region.bytes_mut().fill(1);
    region.trim(.., TrimTo::Store).expect("the whole region");
    // SAFETY: as above, and no reference to the bytes lives.
    let read = unsafe { libc::pread(file.as_raw_fd(), at, MIB, 0) };
    let is_read = read == MIB as isize && region.bytes().iter().all(|byte| *byte == 9);

    let (from, to) = UnixDatagram::pair().expect("descriptors are free");
    from.send(&[5; 1000]).expect("the buffer is empty");
    region.trim(.., TrimTo::Store).expect("the whole region");
    // SAFETY: as above.
    let received = unsafe { libc::recv(to.as_raw_fd(), at, 1000, libc::MSG_DONTWAIT) };
    let is_received = received == 1000 && region.bytes()[..1000].iter().all(|byte| *byte == 5);
    assert_eq!(pager.validate(), []);
    written == MIB as isize && is_read && is_received
}

#[test]
fn system_calls_on_absent_pages_succeed_with_privilege() {
    for without_move in [false, true] {
        let mut builder = builder().ram(16 << 20);
        if without_move {
            builder = builder.without_move();
        }
        let pager = builder.build().expect("userfaultfd is allowed");
        if !capability(
            "root",
            pager.serves_system_calls(),
            "the user may not have faults of system calls",
        ) {
            return;
        }
        assert!(use_absent_pages(&pager));
    }
}

#[test]
fn system_calls_on_absent_pages_fail_without_privilege() {
    if !capability("root", is_root(), "only root can become another user") {
        return;
    }
    let status = status_of_fork(|| {
        become_nobody();
        let pager = builder().ram(16 << 20).build().expect("every user has this mode");
        let may_have_all = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd")
            .is_ok_and(|setting| setting.trim() == "1")
            || fs::File::options()
                .read(true)
                .write(true)
                .open("/dev/userfaultfd")
                .is_ok();
        assert_eq!(pager.serves_system_calls(), may_have_all);
        assert_eq!(use_absent_pages(&pager), may_have_all);
        let mut region = pager.map(32 * MIB).expect("addresses are free");
        region.bytes_mut().fill(3);
        assert!(region.bytes().iter().all(|byte| *byte == 3));
        assert_eq!(pager.validate(), []);
    });
    assert_eq!(status, 0);
}

fn count(folder: &str) -> usize {
    fs::read_dir(folder).expect("/proc").count()
}

/// Waits for a state: a thread that was joined may still be listed while it leaves the process.
fn settles<T: PartialEq + std::fmt::Debug>(state: impl Fn() -> T, expected: T) {
    let start = std::time::Instant::now();
    while state() != expected {
        assert!(
            start.elapsed().as_secs() < 60,
            "{:?} is not {expected:?}",
            state()
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn the_thread_and_its_descriptors_end_with_the_pager() {
    alone(
        "fault_thread::the_thread_and_its_descriptors_end_with_the_pager",
        || {
            let state = || (count("/proc/self/task"), count("/proc/self/fd"));
            let before = state();
            for _ in 0..3 {
                let pager = builder().ram(16 << 20).build().expect("userfaultfd is allowed");
                let mut region = pager.map(MIB).expect("a small region");
                region.bytes_mut().fill(1);
                settles(|| count("/proc/self/task"), before.0 + 2);
            }
            settles(state, before);
        },
    );
}
