//! Writes by io_uring.
//!
//! A ring can stop working after it was made: a filter of system calls that the program installs later refuses
//! `io_uring_enter(2)`. Operations that the kernel had not taken by then end as [`Outcome::NotStarted`], and the ring
//! is not entered again.
#![allow(
    unsafe_code,
    reason = "operations of io_uring, whose buffers the kernel reads after the call"
)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use plimsoll_os::{Errno, Origin};

use super::backing::Backing;
use super::queue::{Finished, MOST_OPERATIONS, Operation, Outcome, Queue, Staging};
use super::units::SLOTS_PER_WRITE;

/// Entries of the two rings in bytes, as the kernel counts them: 64 of a submission, 16 of each of twice as many
/// completions.
const RING_BYTES: u64 = (MOST_OPERATIONS * (64 + 4 + 2 * 16)) as u64;
/// Refusals of a kernel that is short of memory before the ring counts as broken.
const MOST_REFUSALS: u32 = 1000;
/// Time between two tries.
const PAUSE: Duration = Duration::from_micros(100);

/// A queue that the kernel works on.
///
/// Invariant: the kernel reads `staging` at ranges of operations in flight alone, and `staging` counts those. So the
/// buffer of such an operation is not written to ([`Staging::buffer_mut`]), and `drop` waits for all before the
/// memory is unmapped. Checked by `a_dropped_writer_waits_for_its_writes`.
pub(super) struct Ring {
    ring: IoUring,
    /// Keeps the descriptor open.
    backing: Arc<dyn Backing>,
    staging: Staging,
    finished: VecDeque<Finished>,
    /// Operations handed to the kernel, in their order, until it took them.
    queued: VecDeque<(usize, usize)>,
    /// Operations that the kernel took and has not finished.
    taken: usize,
    /// Whether the ring can be entered.
    works: bool,
    origin: Arc<Origin>,
}

impl Ring {
    /// A ring for the file of `backing`; none if the kernel refuses one (`EPERM`, `ENOSYS`, `ENOMEM`).
    pub(super) fn new(backing: Arc<dyn Backing>, origin: Arc<Origin>) -> Result<Option<Ring>, Errno> {
        let Ok(ring) = IoUring::new(MOST_OPERATIONS as u32) else {
            return Ok(None);
        };
        Ok(Some(Ring {
            ring,
            backing,
            staging: Staging::new()?,
            finished: VecDeque::with_capacity(MOST_OPERATIONS),
            queued: VecDeque::with_capacity(MOST_OPERATIONS),
            taken: 0,
            works: true,
            origin,
        }))
    }

    fn push(&mut self, buffer: usize, run: usize, outcome: Outcome) {
        self.finished.push_back(Finished { buffer, run, outcome });
    }

    /// Gives up the ring: what the kernel did not take, it will never take, since only an enter lets it.
    fn abandon(&mut self) {
        self.works = false;
        while let Some((buffer, run)) = self.queued.pop_front() {
            self.push(buffer, run, Outcome::NotStarted);
        }
    }

    /// Takes note of the operations that the kernel took.
    fn count_taken(&mut self) {
        let left = self.ring.submission().len();
        while self.queued.len() > left {
            self.queued.pop_front();
            self.taken += 1;
        }
    }

    /// Hands queued operations to the kernel, and waits for the end of `want` operations.
    fn enter(&mut self, want: usize) {
        let mut refusals = 0;
        while refusals < MOST_REFUSALS {
            let entered = self.ring.submit_and_wait(want);
            self.count_taken();
            self.reap();
            match entered.map_err(|error| error.raw_os_error().map(Errno::of_number)) {
                Ok(_) if self.queued.is_empty() => return,
                // It took a part.
                Ok(_) | Err(Some(Errno::INTR)) => {}
                Err(Some(Errno::AGAIN | Errno::BUSY)) => {
                    refusals += 1;
                    std::thread::sleep(PAUSE);
                }
                Err(_) => break,
            }
            if want > 0 && !self.finished.is_empty() {
                return;
            }
        }
        self.abandon();
    }

    /// Moves completions of the kernel to `finished`.
    fn reap(&mut self) {
        loop {
            let next = self.ring.completion().next();
            let Some(entry) = next else {
                return;
            };
            let number = entry.user_data() as usize;
            let outcome = match entry.result() {
                bytes @ 0.. => Outcome::Wrote(bytes as usize),
                error => Outcome::Refused(Errno::of_number(-error)),
            };
            self.taken -= 1;
            self.push(number / SLOTS_PER_WRITE, number % SLOTS_PER_WRITE, outcome);
        }
    }

    /// Waits for the end of an operation that the kernel took.
    fn wait(&mut self) {
        while self.finished.is_empty() && self.taken > 0 {
            if self.works {
                self.enter(1);
            } else {
                // Completions arrive at the end of any system call.
                std::thread::sleep(PAUSE);
                self.reap();
            }
        }
    }
}

impl Queue for Ring {
    fn staging(&mut self) -> &mut Staging {
        &mut self.staging
    }

    fn start(&mut self, operation: Operation) {
        let Operation {
            buffer,
            run,
            range,
            position,
        } = operation;
        self.staging.begin(buffer);
        let Some(descriptor) = self.backing.descriptor().filter(|_| self.works) else {
            return self.push(buffer, run, Outcome::NotStarted);
        };
        let bytes = self.staging.bytes(buffer, range);
        let number = (buffer * SLOTS_PER_WRITE + run) as u64;
        let entry = opcode::Write::new(types::Fd(descriptor), bytes.as_ptr(), bytes.len() as u32)
            .offset(position)
            .build()
            .user_data(number);
        // SAFETY: the descriptor is open as long as `backing`, and the bytes stay mapped and unchanged until the
        // operation has finished, by the invariant.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            // There is an entry for each operation in flight, so this does not happen.
            return self.push(buffer, run, Outcome::NotStarted);
        }
        self.queued.push_back((buffer, run));
        self.enter(0);
    }

    fn finish(&mut self, wait: bool) -> Option<Finished> {
        self.reap();
        if wait {
            self.wait();
        }
        let finished = self.finished.pop_front()?;
        self.staging.end(finished.buffer);
        Some(finished)
    }

    fn is_ring(&self) -> bool {
        self.works
    }

    fn bytes(&self) -> u64 {
        RING_BYTES + (MOST_OPERATIONS * (size_of::<Finished>() + size_of::<(usize, usize)>())) as u64
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // A child has the parent's count, and its buffers are not those that the kernel reads.
        if !self.origin.is_here() {
            return;
        }
        while self.taken > 0 {
            self.finished.clear();
            self.wait();
        }
    }
}
