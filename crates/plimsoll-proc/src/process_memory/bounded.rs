//! Reads of another process's memory that end in time.
//!
//! A read of memory waits for the owner of its pages where they are absent: a userfaultfd with privilege, or a file of a FUSE
//! file system. A hostile process never answers, so a thread of its own makes the reads.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use plimsoll_os::{Memory, MemoryError, OtherProcess};

/// The longest time of one read. A page that the kernel reads from a busy disk takes less.
const LIMIT: Duration = Duration::from_secs(2);

/// The memory of another process. After a read that did not end in time, every read fails.
#[derive(Debug)]
pub struct BoundedMemory {
    pid: u32,
    reader: RefCell<Reader>,
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
    /// The memory of the process `pid`.
    pub fn new(pid: u32) -> BoundedMemory {
        BoundedMemory {
            pid,
            reader: RefCell::new(Reader::Idle),
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
        let answered = requests
            .send((address, into.len()))
            .ok()
            .and_then(|()| replies.recv_timeout(LIMIT).ok());
        let Some(outcome) = answered else {
            *reader = Reader::Stuck;
            return Err(MemoryError::NoAnswer { address });
        };
        into.copy_from_slice(&outcome?);
        Ok(())
    }
}
