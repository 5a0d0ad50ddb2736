//! The thread that resolves faults while the faulting threads wait.
//!
//! The calls that make a page present, or writable again, wake the threads that wait for it.
//!
//! It obeys the rules of the signal handler: it allocates nothing while it serves. It never touches the arena, so that it
//! cannot wait for itself; nor does any thread while it holds a page busy.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use plimsoll_os::{Errno, FaultReader, Fd};

use super::FaultError;
use super::last_words::report;
use super::signal::Faults;
use crate::descriptors::{OwnNumber, first_number};
use crate::manager::Patience;
use crate::own_thread::OwnThread;
use crate::page::PAGE_SIZE;

/// A pager whose faults a thread resolves.
pub(crate) trait ThreadFaults: Faults {
    fn userfault(&self) -> &Fd;

    /// Notes a fault of a thread at `address`. Returns the time that the thread has to wait before it is resolved.
    fn delay(&self, address: usize, thread: usize) -> Duration;

    /// Whether the page at `address` is evicted. It is not if it is in no region.
    fn is_evicted(&self, address: usize) -> bool;

    /// Whether faults at `address` come to the pager: not in a region that was unmapped, or that the kernel serves, nor on a
    /// surrendered page.
    fn takes_faults(&self, address: usize) -> bool;

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
    /// Ends before the descriptor is closed.
    _number: OwnNumber,
    reader: FaultReader,
    /// Counts beginnings and ends of work: odd while the thread reads faults and works on them. Their pages may be present
    /// already, and their threads run.
    turns: AtomicU32,
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct FaultThread {
    shared: Arc<Shared>,
    thread: Option<OwnThread>,
}

impl FaultThread {
    /// Starts the thread of `pager`, and waits until it is up.
    pub(crate) fn start(pager: Arc<dyn ThreadFaults>) -> Result<FaultThread, Errno> {
        let reader = FaultReader::new(first_number().unwrap_or(0))?;
        let shared = Arc::new(Shared {
            _number: OwnNumber::of(reader.number()),
            reader,
            // Until the thread is up: its start allocates.
            turns: AtomicU32::new(1),
        });
        let served = shared.clone();
        let thread = OwnThread::start(c"pager-faults", move || serve(&*pager, &served))?;
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
    let turns = Cell::new(2_u32);
    let set_turns = |next| {
        turns.set(next);
        shared.turns.store(next, Ordering::Release);
    };
    set_turns(2);
    // Before the read: another thread may resolve a fault right after it, and the faulting thread rests at once.
    let begin = || set_turns(turns.get() | 1);
    let mut queue = Queue::default();
    loop {
        let read = shared
            .reader
            .next(pager.userfault(), queue.due(), begin, |fault| {
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
            begin();
            resume(pager, fault);
        }
        set_turns(turns.get().next_multiple_of(2) % (1 << 31));
        match read {
            Ok(Some(_)) => {}
            Ok(None) => {
                let rest = queue.0.iter_mut().filter_map(Option::take);
                return rest.for_each(|fault| resume(pager, fault));
            }
            Err(_) => {
                plimsoll_os::write_error(b"plimsoll-pager: cannot read the faults of the process\n");
                std::process::abort();
            }
        }
    }
}

/// Resolves a fault. If another thread has made the page present since the fault was read, the faulting thread runs again, and may
/// have unmapped the page: then no thread waits, and the error does not count.
fn resolve(pager: &dyn ThreadFaults, address: usize) {
    let Err(error) = pager.resolve(address) else {
        return;
    };
    if pager.takes_faults(address) {
        give_up(pager, address, error);
    }
    // A thread that touched a page which another one surrendered waits still.
    let _ = plimsoll_os::uffd_wake(pager.userfault(), address & !(PAGE_SIZE - 1), PAGE_SIZE);
}

/// Resolves a fault that was put off, unless another thread did meanwhile: the throttled thread runs again then, and may have
/// unmapped the page since.
fn resume(pager: &dyn ThreadFaults, fault: Delayed) {
    pager.add_delay(fault.since.elapsed());
    if pager.is_evicted(fault.address)
        && let Err(error) = pager.resolve(fault.address)
        && pager.is_evicted(fault.address)
    {
        give_up(pager, fault.address, error);
    }
    // If the page was discarded, the thread waits still. It fails if the page is in no region any more.
    let page = fault.address & !(PAGE_SIZE - 1);
    let _ = plimsoll_os::uffd_wake(pager.userfault(), page, PAGE_SIZE);
}

/// Ends the process: the faulting thread cannot go on, and there is no signal that its program could handle.
fn give_up(pager: &dyn ThreadFaults, address: usize, error: FaultError) -> ! {
    report(error, pager.facts(address));
    std::process::abort();
}

impl Drop for FaultThread {
    fn drop(&mut self) {
        self.shared.reader.end();
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use plimsoll_os::{
        RegisterMode, UffdMode, address_space, api_handshake, open_userfaultfd, uffd_register, uffd_zero,
    };

    use super::*;
    use crate::fault::Facts;

    /// A pager whose page changes its state while its fault waits, or is resolved.
    struct Fake {
        descriptor: Fd,
        /// The answers of `is_evicted`, the last one first.
        evicted: Mutex<Vec<bool>>,
        resolved: Mutex<Cell<u32>>,
        /// The state of the thread that serves it: its reader ends with the first fault.
        served: Option<Arc<Shared>>,
        /// The turns of the thread at each fault that it had read.
        turns: Mutex<Vec<u32>>,
    }

    impl Faults for Fake {
        fn resolve(&self, _: usize) -> Result<(), FaultError> {
            let resolved = self.resolved.lock().expect("no panic");
            resolved.set(resolved.get() + 1);
            if let Some(served) = &self.served {
                served.reader.end();
            }
            Err(FaultError::Refused(Errno::INVAL))
        }

        fn is_surrendered(&self, _: usize) -> bool {
            false
        }

        fn pace(&self, _: usize) {}

        fn replace_lost_page(&self, _: usize) -> bool {
            false
        }

        fn facts(&self, address: usize) -> Facts {
            Facts::Astray(address)
        }

        fn is_here(&self) -> bool {
            true
        }
    }

    impl ThreadFaults for Fake {
        fn userfault(&self) -> &Fd {
            &self.descriptor
        }

        fn delay(&self, _: usize, _: usize) -> Duration {
            if let Some(served) = &self.served {
                let turn = served.turns.load(Ordering::Acquire);
                self.turns.lock().expect("no panic").push(turn);
            }
            Duration::ZERO
        }

        fn is_evicted(&self, _: usize) -> bool {
            let mut evicted = self.evicted.lock().expect("no panic");
            evicted.pop().expect("it is asked no more")
        }

        fn takes_faults(&self, _: usize) -> bool {
            false
        }

        fn add_delay(&self, _: Duration) {}
    }

    /// The same, without a throttle, between the read of a fault and its resolution.
    #[test]
    fn a_fault_in_a_region_that_was_unmapped_meanwhile_ends_no_process() {
        let fake = Fake {
            descriptor: open_userfaultfd(UffdMode::UserModeOnly).expect("userfaultfd is allowed"),
            evicted: Mutex::default(),
            resolved: Mutex::default(),
            served: None,
            turns: Mutex::default(),
        };
        resolve(&fake, 4096);
        assert_eq!(fake.resolved.lock().expect("no panic").get(), 1);
    }

    /// The stress of sixteen threads ended with "cannot restore a page: the kernel refuses it": while the fault of a throttled
    /// thread waited, a prefetch of another thread had made its page present, and the thread had unmapped the region.
    #[test]
    fn a_fault_that_another_thread_resolved_meanwhile_is_not_resolved_again() {
        for (evicted, resolved) in [(vec![false], 0), (vec![false, true], 1)] {
            let fake = Fake {
                // Its calls fail: it has made no handshake.
                descriptor: open_userfaultfd(UffdMode::UserModeOnly).expect("userfaultfd is allowed"),
                evicted: Mutex::new(evicted),
                resolved: Mutex::default(),
                served: None,
                turns: Mutex::default(),
            };
            resume(
                &fake,
                Delayed {
                    address: 4096,
                    since: Instant::now(),
                    delay: Duration::ZERO,
                },
            );
            assert_eq!(fake.resolved.lock().expect("no panic").get(), resolved);
            assert!(fake.evicted.lock().expect("no panic").is_empty());
        }
    }

    /// The thread once announced its work after the read: when another thread had resolved the fault, the faulting thread rested
    /// before that, and unmapped the page. The reader calls `begin` before it reads; here, the thread does its part.
    #[test]
    #[allow(unsafe_code, reason = "a page that a thread touches and the test fills")]
    fn the_work_on_a_fault_is_announced_when_the_fault_is_read() {
        let descriptor = open_userfaultfd(UffdMode::UserModeOnly).expect("userfaultfd is allowed");
        api_handshake(&descriptor).expect("its first handshake");
        let start = address_space::map(PAGE_SIZE).expect("memory");
        uffd_register(&descriptor, start, PAGE_SIZE, RegisterMode::Missing).expect("a plain mapping");
        let reader = FaultReader::new(0).expect("a descriptor is free");
        let shared = Arc::new(Shared {
            _number: OwnNumber::of(reader.number()),
            reader,
            turns: AtomicU32::new(1),
        });
        let fake = Fake {
            descriptor,
            evicted: Mutex::default(),
            resolved: Mutex::default(),
            served: Some(shared.clone()),
            turns: Mutex::default(),
        };
        // SAFETY: the page is mapped until the thread has ended.
        let toucher = thread::spawn(move || unsafe { (start as *const u8).read_volatile() });
        serve(&fake, &shared);
        let turns = fake.turns.lock().expect("no panic").clone();
        assert!(
            !turns.is_empty() && turns.iter().all(|turn| turn % 2 == 1),
            "{turns:?}"
        );
        assert_eq!(shared.turns.load(Ordering::Acquire) % 2, 0);
        // SAFETY: the page is this test's.
        let zeroed = unsafe { uffd_zero(&fake.descriptor, start, PAGE_SIZE) };
        assert_eq!(zeroed.error, None);
        assert_eq!(toucher.join().expect("its fault is resolved"), 0);
        // SAFETY: the page is this test's, which uses it no more.
        unsafe { address_space::unmap(start, PAGE_SIZE) }.expect("mapped above");
    }

    #[test]
    fn faults_leave_the_queue_when_they_are_due_and_a_full_one_takes_none() {
        let mut queue = Queue::default();
        assert!(queue.due().is_none() && queue.pop().is_none());
        let delayed = |address, delay| Delayed {
            address,
            since: Instant::now(),
            delay,
        };
        let hour = Duration::from_secs(3600);
        assert!((1..MOST_DELAYED).all(|address| queue.push(delayed(address, hour))));
        assert!(queue.pop().is_none() && queue.due().is_some_and(|due| due > hour / 2));
        assert!(queue.push(delayed(0, Duration::ZERO)) && !queue.push(delayed(9, Duration::ZERO)));
        assert_eq!(queue.due(), Some(Duration::ZERO));
        assert_eq!(queue.pop().map(|fault| fault.address), Some(0));
        assert!(queue.pop().is_none());
    }
}
