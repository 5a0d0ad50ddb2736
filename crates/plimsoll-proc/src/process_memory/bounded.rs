//! Reads of another process's memory that end in time.
//!
//! A read of memory waits for the owner of its pages where they are absent: a userfaultfd with privilege, or a file of a FUSE
//! file system. A hostile process never answers, so a thread of its own makes the reads.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_os::{Memory, MemoryError, OtherProcess};

/// The longest time of one read. A page that the kernel reads from a busy disk takes less.
const LIMIT: Duration = Duration::from_secs(2);
/// The longest time of all reads of a search. A process has at most 65,530 mappings by default (`vm.max_map_count`), and a
/// read takes 10 to 30 us; a hostile one could delay each by almost [`LIMIT`].
const SEARCH_LIMIT: Duration = Duration::from_secs(5);

/// The memory of another process. After a read that did not end in time, every read fails.
#[derive(Debug)]
pub struct BoundedMemory {
    pid: u32,
    reader: RefCell<Reader>,
    /// Time that is left for reads.
    left: Cell<Duration>,
}

#[derive(Debug)]
enum Reader {
    /// No read was made.
    Idle,
    Reading {
        /// Addresses and numbers of bytes.
        requests: Sender<(usize, usize)>,
        replies: Receiver<Result<Vec<u8>, MemoryError>>,
    },
    /// Its thread waits for the other process; it ends with this process.
    Stuck,
}

impl BoundedMemory {
    /// The memory of the process `pid`. Each read takes 2 s at most.
    pub fn new(pid: u32) -> BoundedMemory {
        BoundedMemory::within(pid, Duration::MAX)
    }

    /// The memory of the process `pid` for a search: as [`BoundedMemory::new`], and all reads together take 5 s at most.
    pub fn for_search(pid: u32) -> BoundedMemory {
        BoundedMemory::within(pid, SEARCH_LIMIT)
    }

    fn within(pid: u32, left: Duration) -> BoundedMemory {
        BoundedMemory {
            pid,
            reader: RefCell::new(Reader::Idle),
            left: Cell::new(left),
        }
    }
}

/// Starts the thread that reads; none if the system has no room for one.
fn start(pid: u32) -> Option<Reader> {
    let (requests, asked) = channel::<(usize, usize)>();
    let (answer, replies) = channel();
    let read = move || {
        let memory = OtherProcess::new(pid);
        while let Ok((address, length)) = asked.recv() {
            let mut bytes = vec![0; length];
            let outcome = memory.read(address, &mut bytes).map(|()| bytes);
            if answer.send(outcome).is_err() {
                return;
            }
        }
    };
    let started = thread::Builder::new().name("memory".to_owned()).spawn(read);
    started.ok().map(|_| Reader::Reading { requests, replies })
}

impl Memory for BoundedMemory {
    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        let mut reader = self.reader.borrow_mut();
        if let Reader::Idle = *reader {
            *reader = start(self.pid).unwrap_or(Reader::Stuck);
        }
        let Reader::Reading { requests, replies } = &*reader else {
            return Err(MemoryError::NoAnswer { address });
        };
        let start = Instant::now();
        let answered = requests
            .send((address, into.len()))
            .ok()
            .and_then(|()| replies.recv_timeout(LIMIT.min(self.left.get())).ok());
        self.left.set(self.left.get().saturating_sub(start.elapsed()));
        let Some(outcome) = answered else {
            *reader = Reader::Stuck;
            return Err(MemoryError::NoAnswer { address });
        };
        into.copy_from_slice(&outcome?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_a_search_share_a_time() {
        let word = 7_u64;
        let address = (&raw const word).expose_provenance();
        let memory = BoundedMemory::within(std::process::id(), SEARCH_LIMIT);
        let mut bytes = [0; 8];
        assert_eq!(memory.read(address, &mut bytes), Ok(()));
        assert_eq!(u64::from_ne_bytes(bytes), 7);
        assert!(memory.left.get() < SEARCH_LIMIT);
        memory.left.set(Duration::ZERO);
        // The first read without time can find its reply already there; the thread needs longer than no time.
        let late = (0..1000).find_map(|_| memory.read(address, &mut bytes).err());
        assert_eq!(late, Some(MemoryError::NoAnswer { address }));
        assert_eq!(memory.read(address, &mut bytes), late.map_or(Ok(()), Err));
    }
}
