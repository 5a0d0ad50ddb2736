//! Writes to the page file.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_os::{Errno, repeat_interrupted};

use super::cipher::{MOST_BLOCKS, Nonce};
use super::error::{StartError, Violation, WriteFailure};
use super::file::{ALIGNMENT, Shared};
use super::queue::{BUFFERS, Finished, Operation, Outcome, Queue};
use super::seals::Seal;
use super::slot_map::Run;
use super::space::{Runs, Space};
use super::units::{BLOCK_BYTES, BLOCKS_PER_SLOT, SLOT_BYTES, SLOTS_PER_WRITE, Segment, Slot, Slots};

/// The name of a write until it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Batch(u64);

impl Batch {
    /// The number of the write: 0, 1, 2 ...
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// The end of a write.
#[derive(Debug, Clone, Copy)]
pub struct Completed {
    /// The write.
    pub batch: Batch,
    /// The slots that now hold the segments, in their order; or the error: then no segment of the write is in the file.
    pub outcome: Result<Slots, WriteFailure>,
}

/// A write in flight, by the buffer that it is made from.
#[derive(Debug, Clone, Copy)]
struct Flight {
    batch: Batch,
    runs: Runs,
    seals: [Seal; SLOTS_PER_WRITE],
    /// Operations that have not finished.
    pending: usize,
    failure: Option<WriteFailure>,
}

/// The one writer of a page file. After creation it allocates no memory but for the page tables of the kernel.
///
/// Invariant: `next` is greater than every nonce that the key was used with. It never decreases, and no write that is
/// made again is encrypted again. Checked by `no_two_blocks_are_encrypted_with_the_same_nonce`.
pub struct Writer {
    shared: Arc<Shared>,
    queue: Box<dyn Queue>,
    space: Space,
    flights: Box<[Option<Flight>; BUFFERS]>,
    next: Nonce,
    batches: u64,
    /// Slots that [`Writer::start`] leaves free.
    reserve: u32,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let in_flight = self.in_flight();
        f.debug_struct("Writer").field("in_flight", &in_flight).finish()
    }
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, queue: Box<dyn Queue>, space: Space) -> Writer {
        let mut writer = Writer {
            shared,
            queue,
            space,
            flights: Box::new([None; BUFFERS]),
            next: 1,
            batches: 0,
            reserve: 0,
        };
        writer.publish_counters();
        writer
    }

    /// Encrypts 1 to 16 segments into a buffer and begins to write them. The caller keeps the segments until
    /// [`Writer::complete`] returns the batch with its slots.
    ///
    /// # Errors
    /// [`StartError`]: nothing is written.
    pub fn start(&mut self, segments: &[&Segment]) -> Result<Batch, StartError> {
        self.start_beside(segments, self.reserve)
    }

    /// As [`Writer::start`], with the slots that [`Writer::keep_slots`] keeps free, too.
    ///
    /// # Errors
    /// As [`Writer::start`].
    pub(crate) fn start_with_kept_slots(&mut self, segments: &[&Segment]) -> Result<Batch, StartError> {
        self.start_beside(segments, 0)
    }

    /// Has [`Writer::start`] leave so many slots free from now on.
    pub(crate) fn keep_slots(&mut self, slots: u32) {
        self.reserve = slots;
    }

    /// Counts the buffers of so many writes in flight, each of so many segments, as resident from now on.
    pub(crate) fn count_buffers(&mut self, writes: usize, segments: usize) {
        let bytes = writes * segments * SLOT_BYTES;
        self.queue.staging().reserve(bytes as u64);
        self.publish_counters();
    }

    /// Starts a write that leaves `kept` slots free.
    fn start_beside(&mut self, segments: &[&Segment], kept: u32) -> Result<Batch, StartError> {
        if !self.shared.origin.is_here() {
            return Err(StartError::Forked);
        }
        if let Some(failure) = self.shared.failure.get() {
            return Err(StartError::Failed(*failure));
        }
        if segments.is_empty() || segments.len() > SLOTS_PER_WRITE {
            return Err(StartError::Count(segments.len()));
        }
        let free = self.flights.iter().position(Option::is_none);
        let buffer = free.ok_or(StartError::Busy)?;
        let blocks = (segments.len() * BLOCKS_PER_SLOT) as u64;
        if self.next + blocks > MOST_BLOCKS {
            return Err(StartError::Failed(self.fail(WriteFailure::KeyWorn)));
        }
        let count = segments.len() as u32;
        let has_room = self.space.provide(&self.shared, count + kept);
        let runs = has_room.then(|| self.space.take(&self.shared, count)).flatten();
        let runs = runs.ok_or_else(|| StartError::Full {
            wanted: segments.len(),
            free: self.shared.map.free().saturating_sub(u64::from(kept)),
        })?;
        if let Some(failure) = self.beyond_limit(&runs) {
            self.put_back(&runs);
            return Err(StartError::Failed(self.fail(failure)));
        }
        Ok(self.begin(buffer, segments, runs))
    }

    /// The failure of a write past RLIMIT_FSIZE, which may have been lowered since the space was allocated. The
    /// kernel would raise SIGXFSZ.
    fn beyond_limit(&self, runs: &Runs) -> Option<WriteFailure> {
        let most = self.shared.backing.most_bytes()?;
        let beyond = |run: &&Run| end_of(run) > most;
        runs.as_slice()
            .iter()
            .find(beyond)
            .map(|run| WriteFailure::Write {
                position: start_of(run),
                length: length_of(run),
                errno: Errno::FBIG,
            })
    }

    fn begin(&mut self, buffer: usize, segments: &[&Segment], runs: Runs) -> Batch {
        let seals = self.encrypt(buffer, segments);
        let batch = Batch(self.batches);
        self.batches += 1;
        self.flights[buffer] = Some(Flight {
            batch,
            runs,
            seals,
            pending: runs.as_slice().len(),
            failure: None,
        });
        let mut from = 0;
        for (number, run) in runs.as_slice().iter().enumerate() {
            self.queue.start(Operation {
                buffer,
                run: number,
                range: from..from + length_of(run),
                position: start_of(run),
            });
            from += length_of(run);
        }
        let operations = runs.as_slice().len() as u64;
        self.shared
            .counters
            .operations
            .fetch_add(operations, Ordering::Relaxed);
        self.publish_counters();
        batch
    }

    /// Encrypts segments into a buffer, each block with a new nonce.
    fn encrypt(&mut self, buffer: usize, segments: &[&Segment]) -> [Seal; SLOTS_PER_WRITE] {
        let mut seals = [Seal::NONE; SLOTS_PER_WRITE];
        let length = segments.len() * SLOT_BYTES;
        let staging = self.queue.staging().buffer_mut(buffer, length);
        let (slots, _) = staging.as_chunks_mut::<SLOT_BYTES>();
        for ((seal, plain), out) in seals.iter_mut().zip(segments).zip(slots) {
            seal.first = self.next;
            let (plain, _) = plain.as_chunks::<BLOCK_BYTES>();
            let (out, _) = out.as_chunks_mut::<BLOCK_BYTES>();
            for ((tag, plain), out) in seal.tags.iter_mut().zip(plain).zip(out) {
                *tag = self.shared.cipher.seal(self.next, plain, out);
                self.next += 1;
            }
        }
        seals
    }

    /// The next write that is complete, in any order; none if none is in flight, or if `wait` is false and none is
    /// complete. A forked child has no writes in flight.
    pub fn complete(&mut self, wait: bool) -> Option<Completed> {
        if !self.shared.origin.is_here() {
            return None;
        }
        loop {
            let done = |flight: &Option<Flight>| flight.as_ref().is_some_and(|flight| flight.pending == 0);
            if let Some(flight) = self.flights.iter_mut().find(|flight| done(flight)) {
                let flight = flight.take()?;
                return Some(self.close(&flight));
            }
            let finished = self.queue.finish(wait)?;
            self.settle(finished);
        }
    }

    /// Takes note of the end of an operation.
    fn settle(&mut self, finished: Finished) {
        let Finished {
            buffer,
            run: number,
            outcome,
        } = finished;
        let Some(mut flight) = self.flights[buffer] else {
            return;
        };
        let from: usize = flight.runs.as_slice()[..number].iter().map(length_of).sum();
        let run = flight.runs.as_slice()[number];
        let range = from..from + length_of(&run);
        if let Err(failure) = self.finish_write(buffer, range, &run, outcome) {
            flight.failure = Some(failure);
            self.fail(failure);
        }
        flight.pending -= 1;
        self.flights[buffer] = Some(flight);
    }

    /// Completes the write of a run: writes the bytes that the kernel left.
    fn finish_write(
        &mut self,
        buffer: usize,
        range: std::ops::Range<usize>,
        run: &Run,
        outcome: Outcome,
    ) -> Result<(), WriteFailure> {
        let (position, length) = (start_of(run), range.len());
        let refused = |errno| WriteFailure::Write {
            position,
            length,
            errno,
        };
        let mut written = match outcome {
            Outcome::Wrote(written) => written,
            Outcome::NotStarted => 0,
            Outcome::Refused(errno) if is_temporary(errno) => 0,
            Outcome::Refused(errno) => return Err(refused(errno)),
        };
        let counters = &self.shared.counters;
        if written < length {
            counters.repeated.fetch_add(1, Ordering::Relaxed);
        }
        let bytes = self.queue.staging().bytes(buffer, range);
        while written < length {
            // A direct write goes on at a block of the disk. The bytes are the same, so no nonce is used twice.
            let from = written - written % ALIGNMENT;
            match self
                .shared
                .backing
                .write_at(&bytes[from..], position + from as u64)
            {
                Ok(more) if from + more > written => written = from + more,
                Ok(_) => {
                    return Err(WriteFailure::Short {
                        position,
                        length,
                        written,
                    });
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(refused(errno)),
            }
        }
        let backing = &self.shared.backing;
        repeat_interrupted(|| backing.settle(position, length as u64)).map_err(refused)
    }

    /// Publishes the slots of a write, or frees them.
    fn close(&mut self, flight: &Flight) -> Completed {
        let outcome = match flight.failure {
            Some(failure) => {
                self.put_back(&flight.runs);
                Err(failure)
            }
            None => {
                let mut slots = Slots::NONE;
                for (slot, seal) in slots_of(&flight.runs).zip(&flight.seals) {
                    self.shared.children.note_written(slot);
                    self.shared.seals.publish(slot, seal);
                    slots.push(slot);
                }
                let count = slots.len() as u64;
                let counters = &self.shared.counters;
                counters.used_slots.fetch_add(count, Ordering::Relaxed);
                counters.segments_written.fetch_add(count, Ordering::Relaxed);
                Ok(slots)
            }
        };
        self.publish_counters();
        let batch = flight.batch;
        Completed { batch, outcome }
    }

    /// Writes in flight.
    pub fn in_flight(&self) -> usize {
        self.flights.iter().flatten().count()
    }

    /// Returns memory and disk space that is not used: the buffers, if no write is in flight, and whole free MiB of
    /// the file. Call it after a while without writes. Returns the bytes that went back to the file system.
    pub fn rest(&mut self) -> u64 {
        if !self.shared.origin.is_here() {
            return 0;
        }
        self.queue.staging().release();
        let punched = self.space.punch(&self.shared);
        self.shared.counters.punched.fetch_add(punched, Ordering::Relaxed);
        self.publish_counters();
        punched
    }

    /// Checks the invariants of the [module](super) for all slots. Slots in flight, and calls of other threads
    /// meanwhile, are violations.
    ///
    /// # Errors
    /// The first violation.
    pub fn validate(&self) -> Result<(), Violation> {
        let shared = &self.shared;
        let (mut used, mut free) = (0, 0);
        for slot in (0..shared.slots).filter_map(Slot::new) {
            let has_space = self.space.has(slot.number() / SLOTS_PER_WRITE as u32);
            let is_free = shared.map.contains(slot);
            let nonce = shared.seals.first_nonce(slot);
            let is_written = nonce != 0;
            let is_held = shared.children.holds(slot);
            let states = u32::from(is_free) + u32::from(is_written) + u32::from(is_held);
            if states != u32::from(has_space) {
                return Err(Violation::State(slot));
            }
            if nonce >= self.next {
                return Err(Violation::Nonce(slot));
            }
            used += u64::from(is_written);
            free += u64::from(is_free);
        }
        let counted = shared.counters.used_slots.load(Ordering::Relaxed);
        match used == counted && free == shared.map.free() {
            true => Ok(()),
            false => Err(Violation::Counts { used, free }),
        }
    }

    /// Ends all writes for good. The first failure stays; returns it.
    fn fail(&self, failure: WriteFailure) -> WriteFailure {
        *self.shared.failure.get_or_init(|| failure)
    }

    fn put_back(&self, runs: &Runs) {
        slots_of(runs).for_each(|slot| self.shared.map.put(slot));
    }

    fn publish_counters(&mut self) {
        let buffers = self.queue.staging().resident();
        let own = size_of::<Writer>() + BUFFERS * size_of::<Option<Flight>>();
        let counters = &self.shared.counters;
        counters.ring.store(self.queue.is_ring(), Ordering::Relaxed);
        counters
            .writer_bytes
            .store(buffers + self.queue.bytes() + own as u64, Ordering::Relaxed);
    }
}

/// Whether a second try, by another call, may succeed after this error.
fn is_temporary(errno: Errno) -> bool {
    let temporary = [Errno::INTR, Errno::AGAIN, Errno::CANCELED];
    // The operation that a kernel's io_uring does not have.
    let unknown = [Errno::INVAL, Errno::OPNOTSUPP];
    temporary.contains(&errno) || unknown.contains(&errno)
}

fn slots_of(runs: &Runs) -> impl Iterator<Item = Slot> {
    runs.as_slice().iter().flat_map(|run| run.slots())
}

fn start_of(run: &Run) -> u64 {
    u64::from(run.first) * SLOT_BYTES as u64
}

fn length_of(run: &Run) -> usize {
    run.count as usize * SLOT_BYTES
}

fn end_of(run: &Run) -> u64 {
    start_of(run) + length_of(run) as u64
}

#[cfg(all(test, not(loom)))]
impl Writer {
    /// Counts the nonces below `next` as used.
    pub(super) fn set_next_nonce(&mut self, next: Nonce) {
        self.next = next;
    }
}
