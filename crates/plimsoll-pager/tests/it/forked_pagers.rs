//! Children of `Pager::fork`: each has its parent's data, as it was at the fork, and a pager of its own.
#![allow(unsafe_code)]

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

use plimsoll_pager::page_file::State;
use plimsoll_pager::{FaultMode, ForkError, Forked, Pager, RangeError, Region, TrimTo};

use crate::children::{Random, wait};
use crate::forks::{WRITERS, alone, fork_and_use, under_load, value, words};
use crate::modes::builder;

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
const FORKERS: usize = 2;
const FORKS: usize = 12;
/// The distance of the words of a page that are written.
const STEP: usize = 37;

/// Forks `pager`. The child ends with the code of `work`, with 101 after a panic, or by SIGALRM.
pub(crate) fn fork(pager: &Pager, work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls `work` and `_exit` alone, and `work` waits for no thread of its parent.
    match unsafe { pager.fork() }.expect("the kernel forks") {
        Forked::Parent { child } => child,
        Forked::Child => {
            // SAFETY: only sets a timer, which ends a hanging child.
            unsafe { libc::alarm(600) };
            let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(101);
            // SAFETY: ends the child.
            unsafe { libc::_exit(code) };
        }
        // SAFETY: ends the child.
        Forked::ChildWithoutRegions(_) => unsafe { libc::_exit(102) },
    }
}

/// The round in which a word was written; 0 for one that never was.
fn round_of(page: usize, word: usize, seen: u64) -> u64 {
    match seen {
        0 => 0,
        seen => (seen ^ value(page, word, 0)) >> 1,
    }
}

/// Checks that each page is as a writer had it at one moment: words of its round, then words of the round before.
fn verify(region: &Region, pages: usize) {
    for page in 0..pages {
        // SAFETY: this thread alone uses the child's copy of the region.
        let seen = |word: usize| unsafe { words(region).add(page * 512 + word).read_volatile() };
        let newest = round_of(page, 0, seen(0));
        let mut last = newest;
        for word in (0..512).step_by(STEP) {
            let round = round_of(page, word, seen(word));
            assert!(
                round <= last && round + 1 >= newest,
                "page {page}, word {word}: round {round} after {last} of {newest}"
            );
            assert!(
                seen(word) == 0 || seen(word) == value(page, word, round),
                "page {page}, word {word}: {:#x}",
                seen(word)
            );
            last = round;
        }
    }
}

/// Uses a child's copy: reads all of it, writes it, trims it, and reads it again.
fn use_copy(pager: &Pager, region: &Region, pages: usize) {
    verify(region, pages);
    for page in 0..pages {
        // SAFETY: this thread alone uses the child's copy of the region.
        unsafe { words(region).add(page * 512).write_volatile(value(page, 0, 1000)) };
    }
    region.trim(.., TrimTo::Store).expect("the whole region");
    for page in 0..pages {
        // SAFETY: as above.
        let seen = unsafe { words(region).add(page * 512).read_volatile() };
        assert_eq!(seen, value(page, 0, 1000), "page {page} of the child");
    }
    let other = pager.map(MIB).expect("addresses are free");
    other.set_priority(2);
    other.suspend();
    other.resume();
    drop(other);
    assert!(!pager.is_forked());
    assert_eq!(pager.validate(), []);
    let stats = pager.stats();
    assert!(stats.resident_bytes() <= stats.ram + MIB as u64, "{stats:?}");
}

#[test]
fn threads_that_fork_under_load_get_children_with_their_data() {
    alone(
        "forked_pagers::threads_that_fork_under_load_get_children_with_their_data",
        || {
            let pager = builder().ram(12 << 20).build().expect("userfaultfd is allowed");
            let region = pager.map(24 * MIB).expect("addresses are free");
            let pages = region.len() / PAGE;
            let native = pager.map(PAGE).expect("addresses are free");
            let (pager, region, native) = (&pager, &region, &native);
            let fork_copies = |_| -> Box<dyn FnOnce() + Send> {
                Box::new(move || {
                    for _ in 0..FORKS {
                        let child = fork(pager, || {
                            use_copy(pager, region, pages / WRITERS * WRITERS);
                            0
                        });
                        assert_eq!(wait(child), 0);
                    }
                })
            };
            let mut tasks: Vec<_> = (0..FORKERS).map(fork_copies).collect();
            // Children of fork(2) have no copy, also while another thread makes one.
            tasks.push(Box::new(move || {
                let mut random = Random(5);
                for number in 0..FORKS * 4 {
                    let page = random.below(pages as u64) as usize;
                    fork_and_use(pager, region, native, number % 2, page);
                }
            }));
            under_load(region, tasks);
            assert_eq!(pager.validate(), []);
        },
    );
}

#[test]
fn a_child_and_its_child_have_their_own_data() {
    alone("forked_pagers::a_child_and_its_child_have_their_own_data", || {
        let pager = builder().ram(8 << 20).build().expect("userfaultfd is allowed");
        let mut region = pager.map(16 * MIB).expect("addresses are free");
        region.bytes_mut().fill(1);
        let fill = |region: &Region, byte: u8| {
            // SAFETY: each process has one thread, and its own copy.
            unsafe { std::slice::from_raw_parts_mut(region.as_ptr(), region.len()) }.fill(byte);
        };
        let is = |region: &Region, byte: u8| region.bytes().iter().all(|other| *other == byte);
        let child = fork(&pager, || {
            assert!(is(&region, 1));
            fill(&region, 2);
            let grandchild = fork(&pager, || {
                assert!(is(&region, 2));
                fill(&region, 3);
                assert!(is(&region, 3));
                i32::from(!pager.validate().is_empty())
            });
            let code = wait(grandchild);
            assert!(is(&region, 2));
            code | i32::from(!pager.validate().is_empty())
        });
        assert_eq!(wait(child), 0);
        assert!(is(&region, 1));
        assert_eq!(pager.validate(), []);
    });
}

/// Calls of threads that a child does not have once held their pins in it for ever: they took up its slots and half of its budget.
#[test]
fn a_child_has_no_pins_of_threads_that_it_does_not_have() {
    alone(
        "forked_pagers::a_child_has_no_pins_of_threads_that_it_does_not_have",
        || {
            let pager = builder().ram(8 << 20).build().expect("userfaultfd is allowed");
            let region = pager.map(32 * MIB).expect("addresses are free");
            let (ready, is_over) = (Barrier::new(2), Barrier::new(2));
            let guard = region.pin(20 * MIB..20 * MIB + PAGE).expect("a small range");
            region
                .pin_for_ever(21 * MIB..21 * MIB + PAGE)
                .expect("a small range");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let pins: Vec<_> = (0..200)
                        .map_while(|page| region.pin_in_signal_handler(page * PAGE..page * PAGE + 1).ok())
                        .collect();
                    assert_eq!(pins.len(), 200);
                    let half = region
                        .pin_in_signal_handler(..16 * MIB)
                        .expect("the rest of half of the budget");
                    let moment = region.pin_for_a_moment(22 * MIB).expect("room for it");
                    ready.wait();
                    is_over.wait();
                    drop((half, pins, moment));
                });
                ready.wait();
                let before = pager.stats().pinned_pages;
                assert!(before > 500, "{before}");
                let own = region.pin_for_a_moment(19 * MIB).expect("room for it");
                let child = fork(&pager, || {
                    let is_pinned = |start: usize| region.is_pinned(start..start + PAGE);
                    assert_eq!(is_pinned(19 * MIB), Ok(true), "this thread's");
                    assert_eq!(is_pinned(20 * MIB), Ok(true), "a guard");
                    assert_eq!(is_pinned(21 * MIB), Ok(true), "the process's");
                    assert_eq!(pager.stats().pinned_pages, 3);
                    let pins: Vec<_> = (0..)
                        .map_while(|page| region.pin_in_signal_handler(page * PAGE..page * PAGE + 1).ok())
                        .collect();
                    assert_eq!(pins.len(), 255);
                    drop(pins);
                    i32::from(!pager.validate().is_empty())
                });
                assert_eq!(wait(child), 0);
                assert_eq!(pager.stats().pinned_pages, before + 1);
                drop(own);
                is_over.wait();
            });
            drop(guard);
            assert_eq!(pager.stats().pinned_pages, 1);
            assert_eq!(pager.validate(), []);
        },
    );
}

/// Forks `pager` while the process can open no further file, so that the child cannot manage its copy. Returns the child's wait status.
pub(crate) fn fork_without_descriptors(pager: &Pager, region: &Region) -> i32 {
    let mut former = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both structures are valid; the limit is put back below.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut former), 0);
        // The standard streams take these. With less, poll(2) of two descriptors fails, in the parent's thread for faults too.
        let low = libc::rlimit {
            rlim_cur: 3,
            rlim_max: former.rlim_max,
        };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const low), 0);
    }
    // SAFETY: the child makes system calls alone, and uses memory that it does not have.
    let forked = unsafe { pager.fork() };
    if let Ok(Forked::Child | Forked::ChildWithoutRegions(_)) = forked {
        let is_refused = matches!(forked, Ok(Forked::ChildWithoutRegions(_)))
            && pager.is_forked()
            && region.prefetch(..) == Err(RangeError::Forked);
        // SAFETY: ends the child: by its access, or by a code.
        unsafe {
            if is_refused {
                words(region).read_volatile();
            }
            libc::_exit(1)
        };
    }
    // SAFETY: the structure is valid.
    let restored = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const former) };
    assert_eq!(restored, 0);
    let Ok(Forked::Parent { child }) = forked else {
        panic!("{forked:?}")
    };
    wait(child)
}

/// Without a descriptor of a userfaultfd the child cannot register its copies: it would see zeros for absent pages.
#[test]
fn a_child_that_cannot_manage_its_copies_does_not_have_them() {
    alone(
        "forked_pagers::a_child_that_cannot_manage_its_copies_does_not_have_them",
        || {
            for mode in [FaultMode::Signal, FaultMode::Thread] {
                let pager = builder().fault_mode(mode).ram(8 << 20).build();
                let pager = pager.expect("userfaultfd is allowed");
                let mut region = pager.map(16 * MIB).expect("addresses are free");
                region.bytes_mut().fill(1);
                let status = fork_without_descriptors(&pager, &region);
                let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
                assert_eq!(signal, Some(libc::SIGSEGV), "{mode:?}: {status:#x}");
                assert!(region.bytes().iter().all(|byte| *byte == 1));
                assert_eq!(pager.validate(), []);
            }
        },
    );
}

/// A child that another thread forks during `Pager::fork` must not find a lock of it held: it could never fork a pager of its own.
#[test]
fn a_child_of_another_thread_forks_a_pager_of_its_own() {
    alone(
        "forked_pagers::a_child_of_another_thread_forks_a_pager_of_its_own",
        || {
            let pager = builder().ram(8 << 20).build().expect("userfaultfd is allowed");
            let mut region = pager.map(16 * MIB).expect("addresses are free");
            region.bytes_mut().fill(1);
            let copies = || {
                for _ in 0..40 {
                    assert_eq!(wait(fork(&pager, || 0)), 0);
                }
            };
            let plain = || {
                for _ in 0..40 {
                    let child = plimsoll_testkit::fork(60, || {
                        let own = builder().ram(8 << 20).build().expect("a child is a process");
                        let mut region = own.map(MIB).expect("addresses are free");
                        region.bytes_mut().fill(3);
                        wait(fork(&own, || {
                            i32::from(region.bytes().iter().any(|byte| *byte != 3))
                        }))
                    });
                    assert_eq!(wait(child), 0);
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(copies);
                scope.spawn(plain);
            });
        },
    );
}

/// Words without a pattern, different for each page and seed.
fn fill_noise(region: &Region, seed: u64) {
    for page in 0..region.len() / PAGE {
        let mut random = Random(seed << 32 | (page as u64) << 1 | 1);
        for word in 0..512 {
            // SAFETY: each process has one thread, and its own copy.
            unsafe { words(region).add(page * 512 + word).write(random.below(u64::MAX)) };
        }
    }
}

fn is_noise(region: &Region, seed: u64) -> bool {
    (0..region.len() / PAGE).all(|page| {
        let mut random = Random(seed << 32 | (page as u64) << 1 | 1);
        // SAFETY: as above.
        (0..512).all(|word| unsafe { words(region).add(page * 512 + word).read() } == random.below(u64::MAX))
    })
}

/// The parent would write over copies that only the file has, and that the child needs.
#[test]
fn a_child_and_its_child_read_the_page_file_while_the_parent_writes_on() {
    const ROUNDS: u64 = 3;
    alone(
        "forked_pagers::a_child_and_its_child_read_the_page_file_while_the_parent_writes_on",
        || {
            let folder = tempfile::tempdir().expect("a folder");
            let pager = builder().ram(8 << 20).page_file(folder.path(), 64 << 20).build();
            let pager = pager.expect("userfaultfd is allowed");
            let region = pager.map(24 * MIB).expect("addresses are free");
            let write = |seed: u64| {
                fill_noise(&region, seed);
                region.trim(.., TrimTo::Store).expect("the whole region");
            };
            write(1);
            let in_file = pager.stats().page_file_pages;
            assert!(in_file > 3000, "{in_file} pages in the file");
            for round in 1..=ROUNDS {
                let (mut waits, mut end) = std::io::pipe().expect("descriptors are free");
                let child = fork(&pager, || {
                    let grandchild = fork(&pager, || {
                        let mut byte = [0];
                        assert_eq!(waits.read(&mut byte).expect("a pipe"), 1);
                        assert!(is_noise(&region, round), "round {round} of a child's child");
                        i32::from(!pager.validate().is_empty())
                    });
                    let code = wait(grandchild);
                    assert!(is_noise(&region, round), "round {round} of a child");
                    // Three times its budget: what it read went to a file of its own.
                    let file = pager.stats().page_file.expect("the pager has a file");
                    assert_eq!(file.state, State::Writable);
                    code | i32::from(!pager.validate().is_empty())
                });
                write(round + 100);
                write(round + 1);
                assert_eq!(pager.validate(), []);
                end.write_all(&[1]).expect("the child waits");
                assert_eq!(wait(child), 0);
                assert!(is_noise(&region, round + 1));
                region.trim(.., TrimTo::Store).expect("the whole region");
            }
            // The copies of the children that have ended are free: else the file would be full.
            let file = pager.stats().page_file.expect("the pager has a file");
            assert_eq!(file.state, State::Writable);
            assert!(pager.stats().page_file_pages > 3000, "{:?}", pager.stats());
            assert_eq!(pager.validate(), []);
        },
    );
}

#[test]
fn a_pager_of_a_lost_parent_does_not_fork() {
    let pager = builder().ram(8 << 20).build().expect("userfaultfd is allowed");
    let status = plimsoll_testkit::status_of_fork(AssertUnwindSafe(|| {
        // SAFETY: it fails.
        assert_eq!(unsafe { pager.fork() }, Err(ForkError::Forked));
    }));
    assert_eq!(status, 0);
}
