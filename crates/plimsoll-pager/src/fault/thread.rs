//! The thread that resolves faults while the faulting threads wait.
//!
//! The calls that make a page present, or writable again, wake the threads that wait for it.
//!
//! It obeys the rules of the signal handler: it allocates nothing while it serves. It never touches the arena, so that it
//! cannot wait for itself; nor does any thread while it holds a page busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

use plimsoll_os::{Errno, FaultReader, Fd};

use super::signal::{Faults, SignalsBlocked, report};
use crate::manager::Patience;

/// A pager whose faults a thread resolves.
pub(crate) trait ThreadFaults: Faults {
    fn userfault(&self) -> &Fd;
}

#[derive(Debug)]
struct Shared {
    reader: FaultReader,
    /// Counts beginnings and ends of work: odd while the thread works on faults. Their pages may be present already, and
    /// their threads run.
    turns: AtomicU32,
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct FaultThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl FaultThread {
    /// Starts the thread of `pager`, and waits until it is up.
    pub(crate) fn start(pager: Arc<dyn ThreadFaults>) -> Result<FaultThread, Errno> {
        let shared = Arc::new(Shared {
            reader: FaultReader::new()?,
            // Until the thread is up: its start allocates.
            turns: AtomicU32::new(1),
        });
        let served = shared.clone();
        // The thread inherits the mask: no handler of the program runs on it.
        let blocked = SignalsBlocked::new();
        let thread = thread::Builder::new()
            .name("pager-faults".to_owned())
            .spawn(move || serve(&*pager, &served));
        drop(blocked);
        let thread =
            thread.map_err(|error| Errno::of_number(error.raw_os_error().unwrap_or(libc::EAGAIN)))?;
        let started = FaultThread {
            shared,
            thread: Some(thread),
        };
        started.rest();
        Ok(started)
    }

    /// Waits for the end of the work on faults whose threads run again: it may hold their pages busy, and pages ahead of
    /// them.
    pub(crate) fn rest(&self) {
        let turn = self.shared.turns.load(Ordering::Acquire);
        let mut patience = Patience::default();
        while turn % 2 == 1 && self.shared.turns.load(Ordering::Acquire) == turn {
            patience.wait();
        }
    }
}

fn serve(pager: &dyn ThreadFaults, shared: &Shared) {
    // This thread alone changes it.
    let mut turns = 2;
    shared.turns.store(turns, Ordering::Release);
    loop {
        let read = shared.reader.next(pager.userfault(), |fault| {
            turns |= 1;
            shared.turns.store(turns, Ordering::Release);
            if let Err(error) = pager.resolve(fault.address) {
                // The faulting thread cannot go on, and there is no signal that its program could handle.
                report(error);
                std::process::abort();
            }
        });
        turns = turns.next_multiple_of(2) % (1 << 31);
        shared.turns.store(turns, Ordering::Release);
        match read {
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(_) => {
                plimsoll_os::write_error(b"plimsoll-pager: cannot read the faults of the process\n");
                std::process::abort();
            }
        }
    }
}

impl Drop for FaultThread {
    fn drop(&mut self) {
        self.shared.reader.end();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
    }
}
