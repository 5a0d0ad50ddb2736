//! The orders in which threads lock a page, change its state, and use its contents.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-pager --release --lib word`
#![allow(unsafe_code, reason = "the contents of a page in the models of its word")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::{PageState, PageWord, Place, Tier};

/// A page with its contents: loom fails if two threads access them at the same time, or one without having seen the
/// writes of the one before.
struct Model {
    word: PageWord,
    arena: UnsafeCell<u32>,
    frame: UnsafeCell<u32>,
    saved: UnsafeCell<u32>,
}

impl Model {
    /// An active page with the contents 7.
    fn active() -> Arc<Model> {
        let word = PageWord::virgin();
        word.try_lock(word.load()).unwrap().fill_zero();
        Arc::new(Model {
            word,
            arena: UnsafeCell::new(7),
            frame: UnsafeCell::new(0),
            saved: UnsafeCell::new(0),
        })
    }

    fn copy(from: &UnsafeCell<u32>, to: &UnsafeCell<u32>) {
        // SAFETY: the caller holds the page busy.
        let value = from.with(|value| unsafe { *value });
        // SAFETY: as above.
        to.with_mut(|target| unsafe { *target = value });
    }

    fn trim(&self) {
        if let Some(locked) = self.word.try_lock_in(PageState::Active) {
            Model::copy(&self.arena, &self.frame);
            // SAFETY: the page is busy.
            self.arena.with_mut(|gone| unsafe { *gone = 0 });
            locked.trim(5);
        }
    }

    fn save(&self) {
        if let Some(locked) = self.word.try_lock_in(PageState::Modified) {
            Model::copy(&self.frame, &self.saved);
            locked.save(Place::new(1).unwrap());
        }
    }

    fn take(&self) {
        if let Some(locked) = self.word.try_lock_in(PageState::Standby) {
            // SAFETY: the page is busy.
            self.frame.with_mut(|gone| unsafe { *gone = 0 });
            locked.take_frame(Tier::Memory, 1);
        }
    }

    /// A thread that waits in vain gives up: two that wait for a third have orders without an end.
    fn fault(&self) {
        for _ in 0..3 {
            let seen = self.word.load();
            let Some(locked) = self.word.try_lock(seen) else {
                thread::yield_now();
                continue;
            };
            match seen.state() {
                PageState::Active => locked.keep(),
                PageState::Modified | PageState::Standby => {
                    Model::copy(&self.frame, &self.arena);
                    locked.soft_fault();
                }
                _ => {
                    Model::copy(&self.saved, &self.arena);
                    locked.hard_fault();
                }
            }
            return;
        }
    }

    fn contents(&self) -> u32 {
        self.fault();
        // SAFETY: no other thread is left.
        self.arena.with(|value| unsafe { *value })
    }
}

#[test]
fn a_page_that_is_trimmed_saved_and_taken_while_it_faults_keeps_its_contents() {
    loom::model(|| {
        let model = Model::active();
        let trimmer = {
            let model = model.clone();
            thread::spawn(move || {
                model.trim();
                model.save();
                model.take();
            })
        };
        model.fault();
        trimmer.join().unwrap();
        assert_eq!(model.contents(), 7);
    });
}

#[test]
fn two_faults_and_a_trim_keep_the_contents() {
    let mut model = loom::model::Builder::new();
    // With three threads, the orders with up to three preemptions.
    model.preemption_bound = Some(3);
    model.check(|| {
        let model = Model::active();
        model.trim();
        let other = {
            let model = model.clone();
            thread::spawn(move || model.fault())
        };
        let trimmer = {
            let model = model.clone();
            thread::spawn(move || model.save())
        };
        model.fault();
        other.join().unwrap();
        trimmer.join().unwrap();
        assert_eq!(model.contents(), 7);
    });
}
