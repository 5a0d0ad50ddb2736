//! The thread that resolves faults while the faulting threads wait.
//!
//! The calls that make a page present, or writable again, wake the threads that wait for it.
//!
//! It obeys the rules of the signal handler: it allocates nothing while it serves. It never touches the arena, so that it
//! cannot wait for itself; nor does any thread while it holds a page busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use plimsoll_os::{Errno, FaultReader, Fd};

use super::signal::{Faults, SignalsBlocked, report};
use crate::manager::Patience;

/// A pager whose faults a thread resolves.
pub(crate) trait ThreadFaults: Faults {
    /// The userfaultfd.
    fn userfault(&self) -> &Fd;

    /// Notes a fault of a thread at `address`. Returns the time that the thread has to wait before it is resolved.
    fn delay(&self, address: usize, thread: usize) -> Duration;

    /// Adds the time that a throttled thread waited.
    fn add_delay(&self, time: Duration);
}

/// Faults that wait at the same time: more than one if the throttle goes from one thread to another.
const MOST_DELAYED: usize = 8;

/// A fault of a throttled thread, which waits for the reply.
#[derive(Debug, Clone, Copy)]
struct Delayed {
    address: usize,
    since: Instant,
    delay: Duration,
}

/// The faults of throttled threads. The thread of the pager resolves those of others meanwhile.
#[derive(Debug, Default)]
struct Queue([Option<Delayed>; MOST_DELAYED]);

impl Queue {
    /// Puts a fault off. Returns whether there was an entry for it.
    fn push(&mut self, delayed: Delayed) -> bool {
        let free = self.0.iter_mut().find(|entry| entry.is_none());
        free.map(|entry| *entry = Some(delayed)).is_some()
    }

    /// The time until the next fault is due; none without any.
    fn due(&self) -> Option<Duration> {
        let left = self.0.iter().flatten();
        left.map(|fault| fault.delay.saturating_sub(fault.since.elapsed()))
            .min()
    }

    /// Takes a fault that is due.
    fn pop(&mut self) -> Option<Delayed> {
        let is_due = |fault: &Delayed| fault.since.elapsed() >= fault.delay;
        self.0
            .iter_mut()
            .find(|entry| entry.as_ref().is_some_and(is_due))?
            .take()
    }
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
    let mut queue = Queue::default();
    loop {
        let read = shared.reader.next(pager.userfault(), queue.due(), |fault| {
            turns |= 1;
            shared.turns.store(turns, Ordering::Release);
            let delayed = Delayed {
                address: fault.address,
                since: Instant::now(),
                delay: pager.delay(fault.address, fault.thread),
            };
            if delayed.delay.is_zero() || !queue.push(delayed) {
                resolve(pager, fault.address);
            }
        });
        while let Some(fault) = queue.pop() {
            turns |= 1;
            shared.turns.store(turns, Ordering::Release);
            pager.add_delay(fault.since.elapsed());
            resolve(pager, fault.address);
        }
        turns = turns.next_multiple_of(2) % (1 << 31);
        shared.turns.store(turns, Ordering::Release);
        match read {
            Ok(Some(_)) => {}
            Ok(None) => {
                let rest = queue.0.iter_mut().filter_map(Option::take);
                return rest.for_each(|fault| resolve(pager, fault.address));
            }
            Err(_) => {
                plimsoll_os::write_error(b"plimsoll-pager: cannot read the faults of the process\n");
                std::process::abort();
            }
        }
    }
}

fn resolve(pager: &dyn ThreadFaults, address: usize) {
    if let Err(error) = pager.resolve(address) {
        // The faulting thread cannot go on, and there is no signal that its program could handle.
        report(error);
        std::process::abort();
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
