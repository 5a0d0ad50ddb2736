//! Slots that children of forks may still read.
//!
//! A child of `Pager::fork` copies seals and key, and reads the file, while the parent continues to write. The parent does not
//! reuse a freed slot that it wrote before its last fork: it *holds* the slot until every child that lived at the free has ended,
//! executed a program, or dropped its pager. Each fork has a pipe, whose write end the child has open. When no process has it
//! open, the child has stopped reading the file.
//!
//! Held slots have two generations, each with its pipes: the parent frees the older generation when its pipes are closed, and the
//! newer one takes its place. So overlapping forks delay the reuse of a slot, and do not prevent it.
#![allow(unsafe_code, reason = "poll(2) of pipes")]

use std::io::pipe;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_os::{AtomicWords, Errno};

use super::slot_map::SlotMap;
use super::units::Slot;
use crate::descriptors::Descriptor;

/// Slots of a word.
const BITS: u32 = u64::BITS;

/// The children of forks, and the held slots.
#[derive(Debug)]
pub(super) struct Children {
    /// A bit for each held slot: of the newer generation, and of the older one.
    held: AtomicWords,
    old: AtomicWords,
    count: AtomicU64,
    /// A bit for each slot that was written since the last fork.
    fresh: AtomicWords,
    /// Whether a child may read the file.
    is_shared: AtomicBool,
    pipes: Mutex<Pipes>,
}

#[derive(Debug, Default)]
struct Pipes {
    /// One for each fork with a child that may read slots of the newer generation, and of both.
    ends: Vec<Descriptor>,
    old: Vec<Descriptor>,
    /// The write end: during a fork, of its pipe; in a child, of the pipe of the fork that made it.
    own: Option<Descriptor>,
}

impl Children {
    pub(super) fn new(slots: u32) -> Result<Children, Errno> {
        let words = slots.div_ceil(BITS) as usize;
        Ok(Children {
            held: AtomicWords::new(words)?,
            old: AtomicWords::new(words)?,
            count: AtomicU64::new(0),
            fresh: AtomicWords::new(words)?,
            is_shared: AtomicBool::new(false),
            pipes: Mutex::default(),
        })
    }

    fn pipes(&self) -> MutexGuard<'_, Pipes> {
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares a fork. No other thread uses the file until [`Children::end_fork`].
    ///
    /// # Errors
    /// The process can open no further descriptor.
    pub(super) fn begin_fork(&self) -> Result<(), Errno> {
        let (end, own) =
            pipe().map_err(|error| Errno::of_number(error.raw_os_error().unwrap_or(libc::EMFILE)))?;
        let (end, own) = (Descriptor::of(end.into())?, Descriptor::of(own.into())?);
        let mut pipes = self.pipes();
        pipes.prune();
        pipes.ends.push(end);
        pipes.own = Some(own);
        // A page that was never written to stays absent.
        for word in self.fresh.iter().filter(|word| word.load(Ordering::Relaxed) != 0) {
            word.store(0, Ordering::Relaxed);
        }
        self.is_shared.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends a fork in the parent, or in the child. After a fork that failed, no process has the write end.
    pub(super) fn end_fork(&self, is_child: bool) {
        let mut pipes = self.pipes();
        match is_child {
            true => {
                pipes.ends.clear();
                pipes.old.clear();
            }
            false => pipes.own = None,
        }
    }

    pub(super) fn note_written(&self, slot: Slot) {
        let (word, bit) = place(slot);
        self.fresh[word].fetch_or(bit, Ordering::Relaxed);
    }

    /// Holds a freed slot if a child may read it. Returns whether it does. Lock-free and async-signal-safe.
    pub(super) fn hold(&self, slot: Slot) -> bool {
        let (word, bit) = place(slot);
        let is_fresh = self.fresh[word].load(Ordering::Relaxed) & bit != 0;
        if is_fresh || !self.is_shared.load(Ordering::Acquire) {
            return false;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.held[word].fetch_or(bit, Ordering::Release);
        true
    }

    /// Whether the parent holds a slot.
    pub(super) fn holds(&self, slot: Slot) -> bool {
        let (word, bit) = place(slot);
        let held = [&self.held, &self.old].map(|slots| slots[word].load(Ordering::Acquire));
        (held[0] | held[1]) & bit != 0
    }

    /// Whether a child may read the file.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    pub(super) fn held(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Frees the held slots that no child reads. By one thread at a time, not during a fork.
    pub(super) fn release(&self, map: &SlotMap) {
        if !self.is_shared() && self.held() == 0 {
            return;
        }
        let mut pipes = self.pipes();
        pipes.prune();
        // A generation without pipes is free; then the next one may be free too.
        for _ in 0..2 {
            if !pipes.old.is_empty() {
                return;
            }
            self.free_old(map);
            self.grow_old();
            pipes.old = std::mem::take(&mut pipes.ends);
        }
        if pipes.old.is_empty() {
            self.is_shared.store(false, Ordering::Release);
        }
    }

    fn free_old(&self, map: &SlotMap) {
        for (word, bits) in taken(&self.old) {
            let mut bits = bits;
            while bits != 0 {
                if let Some(slot) = Slot::new(word * BITS + bits.trailing_zeros()) {
                    map.put(slot);
                    self.count.fetch_sub(1, Ordering::Relaxed);
                }
                bits &= bits - 1;
            }
        }
    }

    /// Makes the newer generation the older one. The older one is empty before.
    fn grow_old(&self) {
        for (word, bits) in taken(&self.held) {
            self.old[word as usize].fetch_or(bits, Ordering::Release);
        }
    }
}

impl Pipes {
    /// Closes the pipes without a reading child.
    fn prune(&mut self) {
        self.ends.retain(|end| !is_closed(end));
        self.old.retain(|end| !is_closed(end));
    }
}

/// Takes the bits of each word that has some, with its number. A page that was never written to stays absent.
fn taken(words: &AtomicWords) -> impl Iterator<Item = (u32, u64)> {
    let used = (0..)
        .zip(words.iter())
        .filter(|(_, word)| word.load(Ordering::Relaxed) != 0);
    used.map(|(number, word)| (number, word.swap(0, Ordering::AcqRel)))
}

/// Whether no process has the write end of a pipe.
fn is_closed(end: &Descriptor) -> bool {
    let mut polled = libc::pollfd {
        fd: end.as_fd().as_raw_fd(),
        events: 0,
        revents: 0,
    };
    // SAFETY: the structure is valid, and the call does not wait.
    let count = unsafe { libc::poll(&raw mut polled, 1, 0) };
    count == 1 && polled.revents & libc::POLLHUP != 0
}

/// Word and bit of a slot.
fn place(slot: Slot) -> (usize, u64) {
    ((slot.number() / BITS) as usize, 1 << (slot.number() % BITS))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn slot(number: u32) -> Slot {
        Slot::new(number).expect("it is small")
    }

    #[test]
    fn slots_of_before_a_fork_are_held_until_its_write_end_is_closed() {
        let (children, map) = (
            Children::new(130).expect("addresses"),
            SlotMap::new(130).expect("addresses"),
        );
        for number in [0, 1, 129] {
            children.note_written(slot(number));
        }
        assert!(!children.hold(slot(0)), "no child reads it");
        children.begin_fork().expect("descriptors are free");
        let child = {
            let pipes = children.pipes();
            let own = pipes.own.as_ref().expect("a fork is under way");
            own.as_fd().try_clone_to_owned().expect("descriptors are free")
        };
        children.end_fork(false);
        children.note_written(slot(2));
        assert!(children.hold(slot(1)) && children.hold(slot(129)) && !children.hold(slot(2)));
        children.release(&map);
        assert!(children.holds(slot(129)) && !map.contains(slot(129)));
        assert_eq!((children.held(), map.free()), (2, 0));
        drop(child);
        children.release(&map);
        assert!(!children.holds(slot(129)) && map.contains(slot(129)));
        assert_eq!((children.held(), map.free()), (0, 2));
        assert!(!children.hold(slot(0)));
    }

    /// With one generation, the parent held slots as long as any child lived.
    #[test]
    fn forks_that_overlap_hold_no_slot_for_ever() {
        let (children, map) = (
            Children::new(64).expect("addresses"),
            SlotMap::new(64).expect("addresses"),
        );
        let mut last = None;
        for number in 0..8 {
            children.note_written(slot(number));
            children.begin_fork().expect("descriptors are free");
            let own = children.pipes().own.take();
            children.end_fork(false);
            assert!(children.hold(slot(number)));
            // The child of the fork before ends once this one lives.
            last = own;
            children.release(&map);
        }
        assert!(children.held() <= 2, "{} slots are held", children.held());
        assert!(children.holds(slot(7)));
        drop(last);
        children.release(&map);
        assert_eq!((children.held(), map.free()), (0, 8));
        assert!(!children.is_shared());
    }

    #[test]
    fn a_fork_that_fails_holds_no_slot() {
        let (children, map) = (
            Children::new(1).expect("addresses"),
            SlotMap::new(1).expect("addresses"),
        );
        children.note_written(slot(0));
        children.begin_fork().expect("descriptors are free");
        assert!(children.hold(slot(0)));
        children.end_fork(false);
        children.release(&map);
        assert!(map.contains(slot(0)));
    }
}
