//! The orders in which writers and readers of a table may take their steps, and the steps after which a writer is killed.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-pager --release versioned`

use loom::sync::Arc;
use loom::thread;

use super::*;

/// A table of two words in the buffers of two writers. The words of each version are equal.
struct Memory {
    head: AtomicU64,
    buffers: Vec<AtomicU64>,
}

const WORDS: usize = 2;

/// Runs a model in every order in which a thread is interrupted against its will up to three times.
fn model(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

impl Memory {
    fn new() -> Arc<Memory> {
        Arc::new(Memory {
            head: AtomicU64::new(Version::new(1, 0).word()),
            buffers: (0..4 * WORDS).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    fn table(&self) -> Versioned<'_> {
        Versioned::new(&self.head, &self.buffers, WORDS)
    }

    /// Reads a version, unless writers keep it busy, and checks that it is whole.
    fn read(&self) -> Option<(Version, u64)> {
        let mut copy = [0; WORDS];
        let read = self.table().read(&mut copy);
        assert_ne!(read, Err(ReadFailure::Damaged));
        let version = read.ok()?;
        assert_eq!(copy[0], copy[1], "it is whole");
        Some((version, copy[0]))
    }

    /// Adds 1 to each word, in one try.
    fn add(&self, writer: usize) -> bool {
        let Some((seen, value)) = self.read() else {
            return false;
        };
        self.table().replace(seen, writer, &[value + 1; WORDS])
    }

    /// As `add`, by a writer that is killed when it has made `steps` steps.
    fn add_and_be_killed(&self, writer: usize, steps: usize) {
        let Some((seen, value)) = self.read() else {
            return;
        };
        let mut made = 0;
        let lives = || {
            made += 1;
            made <= steps
        };
        let _ = self.table().prepare(seen, writer, &[value + 1; WORDS], lives);
    }
}

#[test]
fn versions_are_read_whole() {
    model(|| {
        let memory = Memory::new();
        let writer = thread::spawn({
            let memory = memory.clone();
            // The third version is in the buffer of the first.
            move || (0..2).filter(|_| memory.add(0)).count() as u64
        });
        let seen = memory.read().map_or(0, |(_, value)| value);
        let made = writer.join().unwrap();
        assert!(seen <= made);
        assert_eq!(made, 2, "it is alone");
    });
}

#[test]
fn no_change_is_lost() {
    model(|| {
        let memory = Memory::new();
        let other = thread::spawn({
            let memory = memory.clone();
            move || u64::from(memory.add(1))
        });
        let mine = u64::from(memory.add(0));
        let all = mine + other.join().unwrap();
        assert!(all >= 1, "one of them succeeds");
        assert_eq!(memory.read().map(|(_, value)| value), Some(all));
    });
}

#[test]
fn a_killed_writer_changes_all_or_nothing() {
    for steps in 0..=WORDS {
        model(move || {
            let memory = Memory::new();
            let killed = thread::spawn({
                let memory = memory.clone();
                move || memory.add_and_be_killed(1, steps)
            });
            let mine = u64::from(memory.add(0));
            killed.join().unwrap();
            assert_eq!(
                mine, 1,
                "a writer that is killed before its last step stops nobody"
            );
            assert_eq!(memory.read().map(|(_, value)| value), Some(1));
            // Another process has the row of the killed one.
            assert!(memory.add(1));
            assert_eq!(memory.read().map(|(_, value)| value), Some(2));
        });
    }
}
