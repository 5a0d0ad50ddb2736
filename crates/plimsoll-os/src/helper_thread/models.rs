//! The orders in which threads add work, ask for a helper, and a helper ends.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-os --release helper_thread`
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// The steps themselves, over loom's atomics.
#[path = "state.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "it is the library's; a helper that could not be started is not modelled"
)]
mod state;

use state::{ABSENT, HelperState, RUNNING};

#[cfg(test)]
extern crate std;

struct Heap {
    state: HelperState,
    /// Added work, and the part of it that helpers have done. Under a lock, as that of heaps is: by this lock a thread
    /// that comes after the helper looked also sees that it did.
    work: Mutex<Work>,
    /// The one stack of all helpers: loom fails if two have it at the same time, or one without having seen the writes
    /// of the one before.
    stack: UnsafeCell<u32>,
    helpers: AtomicUsize,
    /// Whether the helper is to leave, as by a fork.
    dismissed: AtomicU32,
}

struct Work {
    given: usize,
    done: usize,
}

impl Heap {
    fn new() -> Heap {
        Heap {
            state: HelperState(AtomicU32::new(ABSENT)),
            work: Mutex::new(Work { given: 0, done: 0 }),
            stack: UnsafeCell::new(0),
            helpers: AtomicUsize::new(0),
            dismissed: AtomicU32::new(0),
        }
    }

    /// Adds a piece of work, and returns whether the caller is to start a helper.
    fn give(&self) -> bool {
        self.work.lock().unwrap().given += 1;
        self.state.ask()
    }

    /// A helper from its start to its end, as `clone` has it run: the last steps are those of its assembly.
    fn run_helper(&self) {
        self.dismissed.store(0, Ordering::Release);
        self.helpers.fetch_add(1, Ordering::Relaxed);
        loop {
            self.stack.with_mut(|stack| {
                // SAFETY: loom checks that no other thread has it.
                unsafe { *stack += 1 };
            });
            if self.dismissed.load(Ordering::Acquire) != 0 {
                self.state.0.store(ABSENT, Ordering::Release);
                return;
            }
            self.state.begin_to_look();
            {
                let mut work = self.work.lock().unwrap();
                work.done = work.given;
            }
            let ended = self
                .state
                .0
                .compare_exchange(RUNNING, ABSENT, Ordering::AcqRel, Ordering::Acquire);
            if ended.is_ok() {
                return;
            }
        }
    }

    fn give_and_start(&self) {
        if self.give() {
            self.run_helper();
        }
    }
}

fn model(givers: usize, rounds: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let heap = Arc::new(Heap::new());
        let threads: std::vec::Vec<_> = (0..givers)
            .map(|_| {
                let heap = Arc::clone(&heap);
                thread::spawn(move || (0..rounds).for_each(|_| heap.give_and_start()))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(!heap.state.is_present(), "every helper has ended");
        let work = heap.work.lock().unwrap();
        assert_eq!(work.given, givers * rounds);
        assert_eq!(work.done, work.given, "work was left behind");
        let helpers = heap.helpers.load(Ordering::Relaxed);
        assert!((1..=givers * rounds).contains(&helpers));
    });
}

#[test]
fn whatever_two_give_is_done_on_one_stack() {
    model(2, 2);
}

/// A fork, which ends the helper: requests may be left behind, and the next one starts a helper for all of them.
#[test]
fn a_helper_that_leaves_early_has_a_successor_on_its_stack() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let heap = Arc::new(Heap::new());
        let giver = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || heap.give_and_start())
        };
        let fork = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || {
                if heap.state.is_present() {
                    heap.dismissed.store(1, Ordering::Release);
                }
                heap.give_and_start();
            })
        };
        giver.join().unwrap();
        fork.join().unwrap();
        assert!(!heap.state.is_present(), "every helper has ended");
        heap.dismissed.store(0, Ordering::Release);
        heap.give_and_start();
        let work = heap.work.lock().unwrap();
        assert_eq!(work.done, work.given, "work was left behind");
    });
}
