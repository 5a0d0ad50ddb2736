//! The orders in which threads may free blocks remotely, take them and give up the subsegment.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-lfh --release remote_free`

use std::vec::Vec;

use loom::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};

use super::*;

/// A subsegment of a few blocks, whose links are in an array of their own; the mutex is its bucket's lock.
struct Subsegment {
    word: RemoteFree,
    /// Number + 1 of the block after each, as the blocks themselves have it.
    links: [AtomicU16; CAPACITY],
    /// Times that the subsegment was listed and freed.
    listed: AtomicUsize,
    emptied: AtomicUsize,
    bucket: Mutex<Bucket>,
}

/// The bucket's use of a subsegment whose blocks are all free, and whether that is its present use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bucket {
    Gives,
    Keeps,
    Has,
}

const CAPACITY: usize = 3;

/// Runs a model in every order in which a thread is interrupted against its will up to three times: more of that
/// takes hours, and finds nothing that three do not in words of so few transitions.
fn model(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

impl Subsegment {
    fn new(state: SubsegmentState, unchained: u16) -> Subsegment {
        let word = FreeBlocks {
            head: 0,
            chained: 0,
            unchained,
            state,
        };
        Subsegment {
            word: RemoteFree(AtomicU64::new(word.word())),
            links: core::array::from_fn(|_| AtomicU16::new(0)),
            listed: AtomicUsize::new(0),
            emptied: AtomicUsize::new(0),
            bucket: Mutex::new(Bucket::Gives),
        }
    }

    /// Frees a block and does the duty that follows, as the front end does.
    fn free(&self, block: u16) {
        let duty = self.word.push(block + 1, 1, CAPACITY as u16, |head| {
            self.links[block as usize].store(head, Ordering::Relaxed);
        });
        match duty {
            Duty::Nothing => {}
            Duty::List => {
                let mut bucket = self.bucket.lock().unwrap();
                match self.word.listed(CAPACITY as u16) {
                    SubsegmentState::Emptying => self.retire(&mut bucket),
                    _ => {
                        self.listed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            Duty::Empty => {
                let mut bucket = self.bucket.lock().unwrap();
                self.retire(&mut bucket);
            }
            Duty::TooMany => panic!("no block came twice"),
        }
    }

    /// Keeps the subsegment as the bucket's spare one, or frees it.
    fn retire(&self, bucket: &mut Bucket) {
        let free = self.word.load();
        assert_eq!(free.state, SubsegmentState::Emptying);
        assert_eq!((free.chained + free.unchained) as usize, CAPACITY);
        assert_eq!(
            self.walk(Chain {
                head: free.head,
                count: free.chained
            })
            .len(),
            free.chained as usize
        );
        self.emptied.fetch_add(1, Ordering::Relaxed);
        match *bucket {
            Bucket::Gives => self.word.end(SubsegmentState::Nothing, 0),
            Bucket::Keeps => {
                self.word.end(SubsegmentState::Spare, CAPACITY as u16);
                *bucket = Bucket::Has;
            }
            Bucket::Has => panic!("it is spare already"),
        }
    }

    /// Makes the spare subsegment that of a slot, as the bucket's next need does. None if there is none.
    fn begin(&self) -> bool {
        let mut bucket = self.bucket.lock().unwrap();
        let kept = *bucket == Bucket::Has;
        if kept {
            let free = self.word.load();
            let spare = FreeBlocks {
                head: 0,
                chained: 0,
                unchained: CAPACITY as u16,
                state: SubsegmentState::Spare,
            };
            assert_eq!(free, spare, "no other thread changes it");
            self.word.start();
            *bucket = Bucket::Keeps;
        }
        kept
    }

    /// The blocks of a chain, each once.
    fn walk(&self, chain: Chain) -> Vec<u16> {
        let mut blocks = Vec::new();
        let mut at = chain.head;
        while at != 0 {
            assert!(blocks.len() < CAPACITY, "the chain has no end");
            blocks.push(at - 1);
            at = self.links[at as usize - 1].load(Ordering::Relaxed);
        }
        assert_eq!(blocks.len(), chain.count as usize);
        let mut sorted = blocks.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), blocks.len(), "a block came twice");
        blocks
    }
}

/// Begins to free the first two blocks, by a thread each.
fn free_two(subsegment: &Arc<Subsegment>) -> [JoinHandle<()>; 2] {
    [0, 1].map(|block| {
        let other = Arc::clone(subsegment);
        thread::spawn(move || other.free(block))
    })
}

fn join(threads: [JoinHandle<()>; 2]) {
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn the_first_frees_of_a_full_subsegment_list_it_once() {
    model(|| {
        let subsegment = Arc::new(Subsegment::new(SubsegmentState::Full, 0));
        let other = Arc::clone(&subsegment);
        let thread = thread::spawn(move || other.free(0));
        subsegment.free(1);
        thread.join().unwrap();
        let free = subsegment.word.load();
        assert_eq!((free.state, free.chained), (SubsegmentState::Listed, 2));
        assert_eq!(subsegment.listed.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn the_last_free_frees_the_subsegment_once() {
    model(|| {
        let subsegment = Arc::new(Subsegment::new(SubsegmentState::Full, 0));
        let threads = free_two(&subsegment);
        subsegment.free(2);
        join(threads);
        assert_eq!(subsegment.word.load().state, SubsegmentState::Nothing);
        assert_eq!(subsegment.emptied.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_listed_subsegment_is_either_activated_or_freed() {
    model(|| {
        let subsegment = Arc::new(Subsegment::new(SubsegmentState::Listed, 1));
        let threads = free_two(&subsegment);
        let taken = {
            let _bucket = subsegment.bucket.lock().unwrap();
            let activated = subsegment.word.activate();
            activated.then(|| subsegment.walk(subsegment.word.collect()).len())
        };
        join(threads);
        let emptied = subsegment.emptied.load(Ordering::Relaxed);
        match taken {
            Some(taken) => {
                let free = subsegment.word.load();
                assert_eq!((free.state, emptied), (SubsegmentState::Active, 0));
                assert_eq!(taken + free.chained as usize, 2);
            }
            None => assert_eq!(emptied, 1),
        }
    });
}

#[test]
fn no_block_is_lost_when_a_slot_gives_up_its_subsegment() {
    model(|| {
        let subsegment = Arc::new(Subsegment::new(SubsegmentState::Active, 0));
        let threads = free_two(&subsegment);
        let collected = {
            let mut bucket = subsegment.bucket.lock().unwrap();
            let chain = subsegment.word.collect();
            let walked = subsegment.walk(chain).len();
            // One more was never allocated.
            match subsegment.word.deactivate(walked as u16 + 1, CAPACITY as u16) {
                SubsegmentState::Emptying => subsegment.retire(&mut bucket),
                state => assert_eq!(state, SubsegmentState::Listed),
            }
            walked
        };
        join(threads);
        assert!(collected <= 2);
        assert_eq!(subsegment.emptied.load(Ordering::Relaxed), 1);
        assert_eq!(subsegment.word.load().state, SubsegmentState::Nothing);
    });
}

#[test]
fn a_subsegment_given_up_full_is_listed_by_the_next_free() {
    model(|| {
        let subsegment = Arc::new(Subsegment::new(SubsegmentState::Active, 0));
        let other = Arc::clone(&subsegment);
        let thread = thread::spawn(move || other.free(0));
        let state = {
            let _bucket = subsegment.bucket.lock().unwrap();
            subsegment.word.deactivate(0, CAPACITY as u16)
        };
        thread.join().unwrap();
        let free = subsegment.word.load();
        assert_eq!((free.state, free.chained), (SubsegmentState::Listed, 1));
        let expected = usize::from(state == SubsegmentState::Full);
        assert_eq!(subsegment.listed.load(Ordering::Relaxed), expected);
    });
}

#[test]
fn an_empty_subsegment_is_spare_and_reused() {
    model(|| {
        let subsegment = Arc::new(Subsegment::new(SubsegmentState::Full, 0));
        *subsegment.bucket.lock().unwrap() = Bucket::Keeps;
        let threads = free_two(&subsegment);
        subsegment.free(2);
        // In the middle of it, or afterwards.
        let mut begun = subsegment.begin();
        join(threads);
        begun |= subsegment.begin();
        assert!(begun && !subsegment.begin());
        assert_eq!(subsegment.emptied.load(Ordering::Relaxed), 1);
        // A block of its new use is freed to it, and found there.
        assert_eq!(subsegment.word.load().state, SubsegmentState::Active);
        subsegment.free(1);
        assert_eq!(subsegment.walk(subsegment.word.collect()), [1]);
        assert_eq!(*subsegment.bucket.lock().unwrap(), Bucket::Keeps);
    });
}

#[test]
fn a_block_that_is_freed_twice_never_gets_into_a_spare_subsegment() {
    model(|| {
        let subsegment = Arc::new(Subsegment::new(SubsegmentState::Listed, CAPACITY as u16 - 1));
        *subsegment.bucket.lock().unwrap() = Bucket::Keeps;
        let free = |subsegment: &Subsegment| {
            let duty = subsegment.word.push(1, 1, CAPACITY as u16, |_| ());
            if duty == Duty::Empty {
                subsegment.retire(&mut subsegment.bucket.lock().unwrap());
            }
            duty
        };
        let other = Arc::clone(&subsegment);
        let thread = thread::spawn(move || free(&other));
        let duties = [free(&subsegment), thread.join().unwrap()];
        assert!(duties.contains(&Duty::Empty) && duties.contains(&Duty::TooMany));
        assert_eq!(subsegment.word.load().state, SubsegmentState::Spare);
    });
}
