//! A table in shared memory that always has one valid version, even if a member is killed or stopped at any instruction.
//!
//! The *head* is a word with the number of the present version and of the buffer that holds it. Each writer has two buffers
//! of its own. It reads the present version, writes the next one into that of its buffers that is not the present one, and
//! makes it the present one by a compare-and-swap of the head. If another writer was first, the swap fails, nothing has
//! changed, and the writer starts again.
//!
//! ```text
//!   read(head = n in B)        write                    compare-and-swap of the head: n in B -> n+1 in M
//!   -------------------> copy of n -> next version in M ---------------------------------> present: n+1 in M
//!                            ^                                  | another writer was first
//!                            +----------------------------------+ (M is not present, so no reader uses it)
//! ```
//!
//! So there is no lock, and no state in which a killed writer leaves work for others. A lock could be made robust against
//! the kill of its holder (by a word with its identity, or by the kernel), but not against SIGSTOP of its holder: a stopped
//! holder is alive, and the others would wait for as long as it is stopped. Stopped members are an ordinary case here. A
//! robust mutex of the C library has another defect: it links the mutex into a list through pointers that stand in the
//! shared memory, which damaged contents would make any member follow. Locks of a file (`flock`, `F_OFD_SETLK`) are shared with
//! a forked child, and are gone if the program closes the descriptor.
//!
//! Invariants:
//! - The buffer that the head names has no writer. A reader that finds the same head before and after its copy has a whole
//!   version. Checked by `versions_are_read_whole`.
//! - A version has one successor. Checked by `no_change_is_lost`, and with a writer that is killed after any of its steps by
//!   `a_killed_writer_changes_all_or_nothing`.
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(all(test, loom))]
mod models;

/// Bits of the head for the number of the buffer; the rest is the version, which never wraps.
const BUFFER_BITS: u32 = 8;

/// Copies that a reader begins before it gives up. Each failed one means that writers made another version meanwhile.
const TRIES: usize = if cfg!(loom) { 2 } else { 10_000 };

/// A version as the head has it: its number and its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version(u64);

impl Version {
    /// The version with this number in this buffer.
    pub(crate) fn new(number: u64, buffer: usize) -> Version {
        Version(number << BUFFER_BITS | buffer as u64)
    }

    /// The word of the head.
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    fn number(self) -> u64 {
        self.0 >> BUFFER_BITS
    }

    fn buffer(self) -> usize {
        (self.0 & ((1 << BUFFER_BITS) - 1)) as usize
    }
}

/// A failed read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadFailure {
    /// The head names no buffer.
    Damaged,
    /// Writers made versions faster than this reader copies them.
    Busy,
}

/// The table: its head, and buffers of `words` words each, of which writer number n has 2n and 2n + 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Versioned<'m> {
    head: &'m AtomicU64,
    buffers: &'m [AtomicU64],
    words: usize,
}

impl<'m> Versioned<'m> {
    pub(crate) fn new(head: &'m AtomicU64, buffers: &'m [AtomicU64], words: usize) -> Versioned<'m> {
        Versioned { head, buffers, words }
    }

    fn buffer(&self, number: usize) -> Option<&'m [AtomicU64]> {
        let start = number.checked_mul(self.words)?;
        self.buffers.get(start..start.checked_add(self.words)?)
    }

    /// The present version, not copied.
    pub(crate) fn version(&self) -> Version {
        Version(self.head.load(Ordering::Acquire))
    }

    /// Copies the present version, of as many words as `copy` has.
    pub(crate) fn read(&self, copy: &mut [u64]) -> Result<Version, ReadFailure> {
        for _ in 0..TRIES {
            let version = self.version();
            let buffer = self.buffer(version.buffer()).ok_or(ReadFailure::Damaged)?;
            for (to, from) in copy.iter_mut().zip(buffer) {
                *to = from.load(Ordering::Relaxed);
            }
            // Pairs with the fence of a writer of this buffer: a reader that has copied one of its words sees its head.
            fence(Ordering::Acquire);
            if self.head.load(Ordering::Relaxed) == version.word() {
                return Ok(version);
            }
        }
        Err(ReadFailure::Busy)
    }

    /// Makes `next` the version after `seen`, which [`read`](Versioned::read) returned, in a buffer of writer `writer`. A
    /// writer makes one call at a time. Returns false, and changes nothing, if `seen` is not the present version any more,
    /// or there is no such writer.
    pub(crate) fn replace(&self, seen: Version, writer: usize, next: &[u64]) -> bool {
        let Some(made) = self.prepare(seen, writer, next, || true) else {
            return false;
        };
        self.head
            .compare_exchange(seen.word(), made.word(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Writes `next` into the writer's buffer that is not the present version, as long as `lives` returns true before each
    /// word.
    fn prepare(
        &self,
        seen: Version,
        writer: usize,
        next: &[u64],
        mut lives: impl FnMut() -> bool,
    ) -> Option<Version> {
        // Only this writer makes its buffers the present one, and it made none since it read `seen`.
        let mine = 2 * writer + usize::from(seen.buffer() == 2 * writer);
        let buffer = self.buffer(mine)?;
        fence(Ordering::Release);
        for (to, from) in buffer.iter().zip(next) {
            if !lives() {
                return None;
            }
            to.store(*from, Ordering::Relaxed);
        }
        lives().then(|| Version::new(seen.number() + 1, mine))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn memory(words: usize) -> Vec<AtomicU64> {
        (0..words).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn each_writer_makes_the_next_version() {
        let head = AtomicU64::new(Version::new(1, 0).word());
        let buffers = memory(4 * 3);
        let table = Versioned::new(&head, &buffers, 3);
        let mut copy = [9; 3];
        let first = table.read(&mut copy).expect("it is whole");
        assert_eq!(copy, [0; 3]);
        for (round, writer) in [0, 0, 1, 1, 0, 1].into_iter().enumerate() {
            let seen = table.read(&mut copy).expect("it is whole");
            let next = [round as u64 + 1; 3];
            assert!(table.replace(seen, writer, &next));
            assert!(
                !table.replace(seen, 1 - writer, &[99; 3]),
                "a version has one successor"
            );
            table.read(&mut copy).expect("it is whole");
            assert_eq!(copy, next);
        }
        assert!(!table.replace(first, 0, &[99; 3]));
    }

    #[test]
    fn a_head_without_a_buffer_is_damage() {
        let buffers = memory(4 * 3);
        let head = AtomicU64::new(u64::MAX);
        let table = Versioned::new(&head, &buffers, 3);
        assert_eq!(table.read(&mut [0; 3]), Err(ReadFailure::Damaged));
        assert!(
            !table.replace(table.version(), 7, &[1; 3]),
            "there is no such writer"
        );
    }

    /// Threads that count up in all words at once, beside readers.
    #[test]
    fn versions_of_many_threads_are_whole_and_none_is_lost() {
        const WRITERS: usize = 3;
        const ROUNDS: u64 = 2000;
        let head = AtomicU64::new(Version::new(1, 0).word());
        let buffers = memory(2 * WRITERS * 16);
        let table = Versioned::new(&head, &buffers, 16);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || {
                    let mut copy = [0; 16];
                    for _ in 0..ROUNDS {
                        loop {
                            let seen = table.read(&mut copy).expect("writers pause");
                            assert!(copy.iter().all(|word| *word == copy[0]), "{copy:?}");
                            if table.replace(seen, writer, &[copy[0] + 1; 16]) {
                                break;
                            }
                        }
                    }
                });
            }
        });
        let mut copy = [0; 16];
        table.read(&mut copy).expect("it is whole");
        assert_eq!(copy, [WRITERS as u64 * ROUNDS; 16]);
    }
}
