//! Writes in flight, and the buffers that they are made from.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use plimsoll_os::{Advice, Errno, Mapping};

use super::backing::Backing;
use super::units::{SLOTS_PER_WRITE, WRITE_BYTES};

/// Buffers of a queue, and so the most writes in flight.
pub(super) const BUFFERS: usize = 4;
/// The most operations in flight: a write to scattered slots has one for each.
pub(super) const MOST_OPERATIONS: usize = BUFFERS * SLOTS_PER_WRITE;

/// A part of a buffer to write to one place.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) buffer: usize,
    /// Number of the run in the write.
    pub(super) run: usize,
    pub(super) range: Range<usize>,
    pub(super) position: u64,
}

/// The end of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// So many bytes were written.
    Wrote(usize),
    /// The kernel refused.
    Refused(Errno),
    /// The kernel did not begin it, for a reason that has nothing to do with the file.
    NotStarted,
}

/// An operation that is no longer in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finished {
    pub(super) buffer: usize,
    pub(super) run: usize,
    pub(super) outcome: Outcome,
}

/// The means to write: io_uring, or `pwrite(2)`.
pub(super) trait Queue: Send {
    /// The memory of the buffers.
    fn staging(&mut self) -> &mut Staging;

    /// Starts an operation. Its buffer is not written to until it has finished.
    fn start(&mut self, operation: Operation);

    /// The next operation that has finished, in any order. If `wait`, waits for one while one is in flight.
    fn finish(&mut self, wait: bool) -> Option<Finished>;

    /// Whether the kernel writes by itself.
    fn is_ring(&self) -> bool;

    /// Bytes of memory beside the buffers.
    fn bytes(&self) -> u64;
}

/// The memory of the buffers.
///
/// Invariant: a buffer with operations in flight is neither written to nor unmapped.
#[derive(Debug)]
pub(super) struct Staging {
    memory: Mapping,
    /// Operations in flight, by buffer.
    in_flight: [u32; BUFFERS],
    /// Bytes of each buffer that were written to since its pages were returned.
    used: [usize; BUFFERS],
    /// Bytes that count as resident in any case.
    reserved: u64,
}

impl Staging {
    pub(super) fn new() -> Result<Staging, Errno> {
        let memory = Mapping::anonymous(BUFFERS * WRITE_BYTES)?;
        // A page of a child would be a copy that nothing reads.
        memory.wipe_in_children()?;
        // A huge page would make two buffers resident as one is used. A kernel without them refuses.
        let _ = memory.advise(Advice::NoHugePage);
        Ok(Staging {
            memory,
            in_flight: [0; BUFFERS],
            used: [0; BUFFERS],
            reserved: 0,
        })
    }

    /// The first bytes of a buffer, to write to.
    ///
    /// # Panics
    /// If an operation on it is in flight.
    pub(super) fn buffer_mut(&mut self, buffer: usize, length: usize) -> &mut [u8] {
        assert_eq!(self.in_flight[buffer], 0, "buffer {buffer} is in flight");
        self.used[buffer] = self.used[buffer].max(length);
        &mut self.memory.bytes_mut()[buffer * WRITE_BYTES..(buffer + 1) * WRITE_BYTES][..length]
    }

    /// Counts so many bytes as resident from now on, whether they are or not.
    pub(super) fn reserve(&mut self, bytes: u64) {
        self.reserved = bytes;
    }

    /// The bytes of an operation.
    pub(super) fn bytes(&self, buffer: usize, range: Range<usize>) -> &[u8] {
        &self.memory.bytes()[buffer * WRITE_BYTES..(buffer + 1) * WRITE_BYTES][range]
    }

    pub(super) fn begin(&mut self, buffer: usize) {
        self.in_flight[buffer] += 1;
    }

    pub(super) fn end(&mut self, buffer: usize) {
        self.in_flight[buffer] -= 1;
    }

    pub(super) fn total_in_flight(&self) -> u32 {
        self.in_flight.iter().sum()
    }

    /// Returns the pages of the buffers to the kernel, if no operation is in flight.
    pub(super) fn release(&mut self) {
        if self.total_in_flight() == 0 && self.memory.discard().is_ok() {
            self.used = [0; BUFFERS];
        }
    }

    /// Bytes of the buffers in RAM.
    pub(super) fn resident(&self) -> u64 {
        self.reserved.max(self.used.iter().sum::<usize>() as u64)
    }
}

/// Writes by `pwrite(2)`: an operation has finished when it was started.
pub(super) struct Plain {
    backing: Arc<dyn Backing>,
    staging: Staging,
    finished: VecDeque<Finished>,
}

impl Plain {
    pub(super) fn new(backing: Arc<dyn Backing>) -> Result<Plain, Errno> {
        Ok(Plain {
            backing,
            staging: Staging::new()?,
            finished: VecDeque::with_capacity(MOST_OPERATIONS),
        })
    }
}

impl Queue for Plain {
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
        let written = self.backing.write_at(self.staging.bytes(buffer, range), position);
        let outcome = written.map_or_else(Outcome::Refused, Outcome::Wrote);
        self.staging.begin(buffer);
        self.finished.push_back(Finished { buffer, run, outcome });
    }

    fn finish(&mut self, _wait: bool) -> Option<Finished> {
        let finished = self.finished.pop_front()?;
        self.staging.end(finished.buffer);
        Some(finished)
    }

    fn is_ring(&self) -> bool {
        false
    }

    fn bytes(&self) -> u64 {
        (MOST_OPERATIONS * size_of::<Finished>()) as u64
    }
}
