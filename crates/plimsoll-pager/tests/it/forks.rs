//! Children of a process with a pager: none sees zeros where its parent has data, and none changes its parent's memory.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use plimsoll_pager::page::Violation;
use plimsoll_pager::{MapError, Pager, RangeError, Region, TrimTo, WorkingSetError};
use plimsoll_testkit::{again, command, fork, role, status_of_fork};

use crate::children::{Random, wait};
use crate::modes::builder;

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
pub(crate) const WRITERS: usize = 3;
const FORKERS: usize = 4;
const FORKS: usize = 15;

/// Runs `work` in a new process of `test`, so that its children are those of no other test.
pub(crate) fn alone(test: &str, work: impl FnOnce()) {
    if role().is_some() {
        return work();
    }
    let output = again(test, "alone").output().expect("the test program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{errors}");
}

/// A word of a page: never 0, different for each page and round.
pub(crate) fn value(page: usize, word: usize, round: u64) -> u64 {
    ((page * 512 + word / 8 + 1) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ round << 1 | 1
}

pub(crate) fn words(region: &Region) -> *mut u64 {
    region.as_ptr().cast()
}

/// Writes pages `first..end` of a region again and again, and checks before each write that the last one is kept.
///
/// # Safety
/// No other thread uses these pages, and the region lives meanwhile.
unsafe fn write_and_verify(words: *mut u64, first: usize, end: usize, done: &AtomicBool) -> u64 {
    let mut round = 0;
    while !done.load(Ordering::Relaxed) {
        for page in first..end {
            for word in (0..512).step_by(37) {
                // SAFETY: the caller's premise.
                let at = unsafe { words.add(page * 512 + word) };
                // SAFETY: as above.
                let seen = unsafe { at.read_volatile() };
                let expected = if round == 0 { 0 } else { value(page, word, round) };
                assert_eq!(seen, expected, "page {page}, word {word}, round {round}");
                // SAFETY: as above.
                unsafe { at.write_volatile(value(page, word, round + 1)) };
            }
        }
        round += 1;
    }
    round
}

/// Runs `tasks` beside threads that write all pages of `region` and check them, and one that trims it, until the last task has
/// ended. Every byte has to be as it was written.
pub(crate) fn under_load<'a>(region: &Region, tasks: Vec<Box<dyn FnOnce() + Send + 'a>>) {
    /// Counts a task out when it ends, also by a panic; the last one ends the load.
    struct End<'a>(&'a AtomicUsize, &'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            if self.0.fetch_sub(1, Ordering::SeqCst) == 1 {
                self.1.store(true, Ordering::SeqCst);
            }
        }
    }
    let (left, done) = (AtomicUsize::new(tasks.len()), AtomicBool::new(false));
    let (left, done) = (&left, &done);
    let pages = region.len() / PAGE;
    let at = words(region) as usize;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let part = pages / WRITERS;
                let first = writer * part;
                // SAFETY: each thread has pages of its own.
                scope.spawn(move || unsafe { write_and_verify(at as *mut u64, first, first + part, done) })
            })
            .collect();
        let trimmer = scope.spawn(move || {
            let (mut random, mut trimmed) = (Random(77), 0);
            while !done.load(Ordering::Relaxed) {
                let first = random.below(pages as u64 - 64) as usize * PAGE;
                let to = [TrimTo::Modified, TrimTo::Standby, TrimTo::Store][random.below(3) as usize];
                trimmed += region.trim(first..first + 64 * PAGE, to).expect("in the region");
            }
            trimmed
        });
        for task in tasks {
            scope.spawn(move || {
                let _end = End(left, done);
                task();
            });
        }
        for writer in writers {
            assert!(writer.join().expect("every byte is as written") > 0);
        }
        assert!(trimmer.join().expect("no panic") > 0);
    });
}

/// The ways in which a child uses its parent's memory.
const USES: usize = 5;

/// Codes of a child that had no signal.
const SAW_ZERO: i32 = 3;
const SAW_DATA: i32 = 4;
const AS_DOCUMENTED: i32 = 0;
const NOT_AS_DOCUMENTED: i32 = 5;

/// Forks from a thread among others. The child makes system calls alone until it ends.
pub(crate) fn fork_and_use(pager: &Pager, region: &Region, native: &Region, number: usize, page: usize) {
    let pid = fork(60, || {
        let refused = |outcome: bool| if outcome { AS_DOCUMENTED } else { NOT_AS_DOCUMENTED };
        let seen = |word: u64| if word == 0 { SAW_ZERO } else { SAW_DATA };
        // SAFETY: the child uses memory that it has, and memory that it has not: that ends it.
        unsafe {
            match number % USES {
                0 => seen(words(region).add(page * 512).read_volatile()),
                1 => {
                    words(region).add(page * 512).write_volatile(7);
                    SAW_DATA
                }
                2 => seen(words(native).read_volatile()),
                3 => refused(
                    region.prefetch(page * PAGE..) == Err(RangeError::Forked)
                        && region.trim(.., TrimTo::Store) == Err(RangeError::Forked)
                        && region.pin(..PAGE).is_err_and(|error| error == RangeError::Forked)
                        && matches!(pager.map(PAGE), Err(MapError::Forked)),
                ),
                _ => libc::execl(c"/bin/true".as_ptr(), c"true".as_ptr(), null_mut::<u8>()),
            }
        }
    });
    let status = wait(pid);
    if number % USES < 3 {
        let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
        assert_eq!(signal, Some(libc::SIGSEGV), "{}: {status:#x}", number % USES);
    } else {
        assert_eq!(status, 0, "{}", number % USES);
    }
}

#[test]
fn threads_that_fork_under_load_get_children_without_zeros() {
    alone(
        "forks::threads_that_fork_under_load_get_children_without_zeros",
        || {
            let pager = builder().ram(12 << 20).build().expect("userfaultfd is allowed");
            let region = pager.map(24 * MIB).expect("addresses are free");
            let pages = region.len() / PAGE;
            let within = builder().ram(16 << 20).build().expect("a second pager");
            let mut native = within.map(MIB).expect("addresses are free");
            native.bytes_mut().fill(9);
            assert!(within.stats().native_pages > 0);

            let (pager, region, native, within) = (&pager, &region, &native, &within);
            let task = |forker: usize| -> Box<dyn FnOnce() + Send> {
                Box::new(move || {
                    let mut random = Random(forker as u64 + 1);
                    for number in 0..FORKS {
                        let page = random.below(pages as u64) as usize;
                        fork_and_use(pager, region, native, number + forker, page);
                        let status = command("/bin/true").status().expect("it starts");
                        assert!(status.success());
                    }
                })
            };
            under_load(region, (0..FORKERS).map(task).collect());
            assert!(native.bytes().iter().all(|byte| *byte == 9));
            assert_eq!(pager.validate(), []);
            assert_eq!(within.validate(), []);
        },
    );
}

/// Has a child of a fork call every function of a region and of its pager.
pub(crate) fn call_everything_in_a_child(pager: &Pager, region: &Region) {
    let (pager, region) = (pager as *const Pager as usize, region as *const Region as usize);
    let status = status_of_fork(move || {
        // SAFETY: the child's copies of the values; its parent waits.
        let (pager, region) = unsafe { (&*(pager as *const Pager), &mut *(region as *mut Region)) };
        let forked = Err(RangeError::Forked);
        assert_eq!(region.prefetch(..), forked);
        assert_eq!(region.discard(..), forked);
        assert_eq!(region.reset(..), Err(RangeError::Forked));
        assert_eq!(region.trim(.., TrimTo::Store), Err(RangeError::Forked));
        assert_eq!(region.is_pinned(..), Err(RangeError::Forked));
        assert!(region.pin(..).is_err_and(|error| error == RangeError::Forked));
        assert!(region.read_into(.., std::io::stdin()).is_err());
        assert!(region.write_from(.., std::io::stdout()).is_err());
        assert_eq!(
            region.set_working_set(0, MIB as u64),
            Err(WorkingSetError::Forked)
        );
        // These have no result, and do nothing.
        region.set_priority(1);
        region.suspend();
        region.resume();
        region.end_working_set();
        assert!(pager.is_forked());
        assert_eq!(pager.validate(), [Violation::Forked]);
        assert_eq!(pager.map(MIB).err(), Some(MapError::Forked));
    });
    assert_eq!(status, 0);
}

/// A userfaultfd acts on the memory of the process that opened it, also when a child of a fork makes the call: a child that
/// suspended a region once ended by SIGSEGV, or registered native memory of its parent, which then counted pages of no region.
#[test]
fn a_child_never_changes_the_memory_of_its_parent() {
    let pager = builder().ram(16 << 20).build().expect("userfaultfd is allowed");
    let mut region = pager.map(2 * MIB).expect("a small region");
    region.bytes_mut().fill(9);
    // Native pages.
    assert_eq!(pager.stats().native_pages, (2 * MIB / PAGE) as u64);
    let before = pager.stats();
    call_everything_in_a_child(&pager, &region);
    assert_eq!(pager.stats().native_pages, before.native_pages);
    assert_eq!(pager.validate(), []);
    // Active, modified and standby pages.
    region.trim(..MIB, TrimTo::Modified).expect("a part");
    region.trim(MIB / 2..MIB, TrimTo::Standby).expect("a part");
    let before = pager.stats();
    call_everything_in_a_child(&pager, &region);
    let after = pager.stats();
    assert_eq!(
        (after.active_pages, after.compressed_pages, after.native_pages),
        (before.active_pages, before.compressed_pages, before.native_pages)
    );
    assert_eq!(pager.validate(), []);
    assert!(region.bytes().iter().all(|byte| *byte == 9));
    // Saved pages.
    region.trim(.., TrimTo::Store).expect("the whole region");
    call_everything_in_a_child(&pager, &region);

    // The child has a mapping of its own at the address of a page: its faults are no faults of the pager.
    let address = region.as_ptr() as usize;
    let status = status_of_fork(move || {
        let file = tempfile::tempfile().expect("the folder for temporary files takes one");
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: nothing is mapped at the address of the region. The access, behind the end of the file, ends the child.
        unsafe {
            let mapped = libc::mmap(address as *mut _, PAGE, access, flags, file.as_raw_fd(), 0);
            assert_eq!(mapped as usize, address);
            (address as *const u8).read_volatile();
        }
    });
    assert!(
        libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGBUS,
        "{status:#x}"
    );
    let stats = pager.stats();
    assert_eq!(
        (stats.active_pages, stats.compressed_pages),
        (0, (2 * MIB / PAGE) as u64)
    );
    assert_eq!(pager.validate(), []);
    assert!(region.bytes().iter().all(|byte| *byte == 9));
}

/// The lock of a region's policy may be held by another thread at the fork: a child that waited for it would wait for ever.
#[test]
fn a_child_drops_a_region_that_another_thread_suspends() {
    alone(
        "forks::a_child_drops_a_region_that_another_thread_suspends",
        || {
            let pager = builder().ram(16 << 20).build().expect("userfaultfd is allowed");
            let mut region = pager.map(4 * MIB).expect("a small region");
            region.bytes_mut().fill(9);
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        region.suspend();
                        region.resume();
                        std::hint::black_box(
                            region
                                .bytes()
                                .iter()
                                .step_by(PAGE)
                                .map(|byte| u32::from(*byte))
                                .sum::<u32>(),
                        );
                    }
                });
                let at = &raw const region as usize;
                for _ in 0..40 {
                    // The alarm of `fork` ends a child that waits.
                    let child = fork(30, || {
                        // SAFETY: the child's copy of the value.
                        drop(unsafe { std::ptr::read(at as *const Region) });
                        0
                    });
                    let status = wait(child);
                    if status != 0 {
                        done.store(true, Ordering::Relaxed);
                    }
                    assert_eq!(status, 0);
                }
                done.store(true, Ordering::Relaxed);
            });
            assert_eq!(pager.validate(), []);
        },
    );
}

#[test]
fn a_child_builds_a_pager_of_its_own() {
    let pager = builder().ram(16 << 20).build().expect("userfaultfd is allowed");
    let mut region = pager.map(2 * MIB).expect("a small region");
    region.bytes_mut().fill(9);
    region.trim(.., TrimTo::Store).expect("the whole region");
    let status = status_of_fork(|| {
        let pager = builder().ram(8 << 20).build().expect("a child is a process");
        let mut region = pager.map(16 * MIB).expect("addresses are free");
        region.bytes_mut().fill(5);
        region.trim(.., TrimTo::Store).expect("the whole region");
        assert!(region.bytes().iter().all(|byte| *byte == 5));
        assert_eq!(pager.validate(), []);
    });
    assert_eq!(status, 0);
    assert!(region.bytes().iter().all(|byte| *byte == 9));
    assert_eq!(pager.validate(), []);
}

struct Shared {
    address: usize,
    bytes: usize,
}

/// Reads the region in a child that shares the memory.
extern "C" fn read_all(shared: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the parent waits, and its values live.
    let bytes = unsafe {
        let shared = &*shared.cast::<Shared>();
        std::slice::from_raw_parts(shared.address as *const u8, shared.bytes)
    };
    libc::c_int::from(bytes.iter().any(|byte| *byte != 9))
}

#[test]
fn a_child_that_shares_the_memory_sees_the_data() {
    let pager = builder().ram(16 << 20).build().expect("userfaultfd is allowed");
    let mut region = pager.map(MIB).expect("a small region");
    region.bytes_mut().fill(9);
    region.trim(.., TrimTo::Store).expect("the whole region");
    let mut stack = vec![0_u128; 16 << 10];
    let mut shared = Shared {
        address: region.as_ptr() as usize,
        bytes: region.len(),
    };
    // SAFETY: the child has a stack of its own, and the parent sleeps until it ends.
    let pid = unsafe {
        libc::clone(
            read_all,
            stack.as_mut_ptr().add(stack.len()).cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw mut shared).cast(),
        )
    };
    assert!(pid > 0);
    assert_eq!(wait(pid), 0);
    assert_eq!(pager.validate(), []);
}
