//! Disk space of a page file: allocated in growing steps, freed in holes. For the writer alone.

use std::sync::atomic::Ordering;

use plimsoll_os::{AtomicWords, Errno, repeat_interrupted};

use super::backing::Backing;
use super::file::Shared;
use super::slot_map::{CHUNK_SLOTS, Run};
use super::units::{SLOTS_PER_WRITE, WRITE_BYTES};

const CHUNK_BYTES: u64 = WRITE_BYTES as u64;
/// Chunks of the first step; each step doubles the next.
const FIRST_STEP: u32 = 16;
/// Chunks of the largest step: 1 GiB.
const LARGEST_STEP: u32 = 1024;

/// The slots of a write: a run for each of the kernel's operations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs {
    runs: [Run; SLOTS_PER_WRITE],
    count: usize,
}

impl Runs {
    pub(super) const NONE: Runs = Runs {
        runs: [Run::NONE; SLOTS_PER_WRITE],
        count: 0,
    };

    pub(super) fn as_slice(&self) -> &[Run] {
        &self.runs[..self.count]
    }

    fn push(&mut self, run: Run) {
        self.runs[self.count] = run;
        self.count += 1;
    }
}

/// The chunks that have disk space.
///
/// Invariant: the bit of a chunk is set if and only if the file system allocated it, or cannot allocate ahead. Only
/// slots of such chunks are in the slot map.
#[derive(Debug)]
pub(super) struct Space {
    chunks: AtomicWords,
    /// Chunks of the file.
    count: u32,
    /// Chunks with disk space.
    allocated: u32,
    /// No chunk below has no disk space.
    lowest: u32,
    /// Chunks of the next allocation.
    step: u32,
    /// Whether the file system allocates ahead.
    preallocates: bool,
    /// Whether the file system punches holes.
    punches: bool,
}

impl Space {
    pub(super) fn new(chunks: u32) -> Result<Space, Errno> {
        Ok(Space {
            chunks: AtomicWords::new(chunks.div_ceil(u64::BITS) as usize)?,
            count: chunks,
            allocated: 0,
            lowest: 0,
            step: FIRST_STEP,
            preallocates: true,
            punches: true,
        })
    }

    /// Whether the chunk has disk space.
    pub(super) fn has(&self, chunk: u32) -> bool {
        self.chunks[(chunk / u64::BITS) as usize].load(Ordering::Relaxed) >> (chunk % u64::BITS) & 1 == 1
    }

    fn set(&self, chunks: std::ops::Range<u32>, has: bool) {
        for chunk in chunks {
            let bit = 1 << (chunk % u64::BITS);
            let word = &self.chunks[(chunk / u64::BITS) as usize];
            match has {
                true => word.fetch_or(bit, Ordering::Relaxed),
                false => word.fetch_and(!bit, Ordering::Relaxed),
            };
        }
    }

    /// Has the file grow until `count` slots are free. False if it cannot.
    pub(super) fn provide(&mut self, shared: &Shared, count: u32) -> bool {
        while shared.map.free() < u64::from(count) {
            if !self.grow(shared) {
                return false;
            }
        }
        true
    }

    /// Takes `count` slots, 1 to 16: side by side if possible, else in the longest runs, after the file has grown as
    /// far as it can.
    pub(super) fn take(&mut self, shared: &Shared, count: u32) -> Option<Runs> {
        let mut runs = Runs::NONE;
        loop {
            if let Some(run) = shared.map.take_run(count) {
                runs.push(run);
                return Some(runs);
            }
            if !self.grow(shared) {
                break;
            }
        }
        // Only this thread takes slots, so there are as many as it sees now.
        if shared.map.free() < u64::from(count) {
            return None;
        }
        let mut missing = count;
        while missing > 0 {
            let run = shared.map.take_longest(missing)?;
            missing -= run.count;
            runs.push(run);
        }
        Some(runs)
    }

    /// Allocates the next step and adds its slots to the map. False if all chunks have space, if the file system
    /// refused once (its error is then `shared.limit`), or if signals interrupted each try.
    pub(super) fn grow(&mut self, shared: &Shared) -> bool {
        if shared.limit.get().is_some() {
            return false;
        }
        self.lowest = (self.lowest..self.count)
            .find(|chunk| !self.has(*chunk))
            .unwrap_or(self.count);
        let first = self.lowest;
        if first == self.count {
            return false;
        }
        let most = (self.count - first).min(self.step);
        let mut count = (first..first + most)
            .take_while(|chunk| !self.has(*chunk))
            .count() as u32;
        let asked = count;
        let errno = loop {
            match self.allocate(&*shared.backing, first, count) {
                Ok(()) => break None,
                Err(errno) if count == 1 => break Some(errno),
                Err(_) => count /= 2,
            }
        };
        if let Some(errno) = errno {
            // An allocation that failed may have taken a part.
            let (start, length) = (u64::from(first) * CHUNK_BYTES, u64::from(asked) * CHUNK_BYTES);
            let _ = repeat_interrupted(|| shared.backing.punch(start, length));
            // The file system may have space for the next call.
            if errno != Errno::INTR {
                let _ = shared.limit.set((self.bytes(), errno));
            }
            return false;
        }
        self.step = match count == asked {
            true => (self.step * 2).min(LARGEST_STEP),
            false => count,
        };
        self.set(first..first + count, true);
        self.allocated += count;
        shared.allocated.store(self.bytes(), Ordering::Relaxed);
        shared.map.put_chunks(first, count);
        true
    }

    /// Allocates chunks that have no space. [`Errno::INTR`] if signals interrupt each try: fewer chunks may succeed.
    fn allocate(&mut self, backing: &dyn Backing, first: u32, count: u32) -> Result<(), Errno> {
        let (start, length) = (u64::from(first) * CHUNK_BYTES, u64::from(count) * CHUNK_BYTES);
        // The kernel would raise SIGXFSZ, which ends a process that does not expect it.
        if backing.most_bytes().is_some_and(|most| start + length > most) {
            return Err(Errno::FBIG);
        }
        if self.preallocates {
            match repeat_interrupted(|| backing.allocate(start, length)) {
                Err(errno) if is_unsupported(errno) => self.preallocates = false,
                allocated => return allocated,
            }
        }
        repeat_interrupted(|| backing.extend(start + length))
    }

    /// Frees the disk space of chunks whose slots are all free, so that they must be allocated again before they are
    /// used. A file that cannot grow keeps its space. Returns the freed bytes.
    pub(super) fn punch(&mut self, shared: &Shared) -> u64 {
        let mut punched = 0;
        let mut chunk = 0;
        let end = (shared.map.high_water() / u64::from(CHUNK_SLOTS)).min(u64::from(self.count)) as u32;
        while chunk < end && self.punches && shared.limit.get().is_none() {
            let first = chunk;
            while chunk < end && self.has(chunk) && shared.map.take_chunk(chunk) {
                chunk += 1;
            }
            let taken = chunk - first;
            chunk += 1;
            if taken == 0 {
                continue;
            }
            let (start, length) = (u64::from(first) * CHUNK_BYTES, u64::from(taken) * CHUNK_BYTES);
            if let Err(errno) = repeat_interrupted(|| shared.backing.punch(start, length)) {
                // Signals that interrupted each try are no property of the file system.
                self.punches = errno == Errno::INTR;
                shared.map.put_chunks(first, taken);
                break;
            }
            self.set(first..first + taken, false);
            self.allocated -= taken;
            self.lowest = self.lowest.min(first);
            punched += length;
        }
        if punched > 0 {
            self.step = FIRST_STEP;
            shared.allocated.store(self.bytes(), Ordering::Relaxed);
        }
        punched
    }

    /// Bytes that have disk space.
    fn bytes(&self) -> u64 {
        u64::from(self.allocated) * CHUNK_BYTES
    }
}

/// Whether the file system has no such call: `EOPNOTSUPP`, or `ENOSYS` of a filter.
fn is_unsupported(errno: Errno) -> bool {
    errno == Errno::NOSYS || errno == Errno::OPNOTSUPP
}
