//! The page file for readers: reads, frees, state.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use plimsoll_os::{Errno, Origin, page_size};

use super::backing::Backing;
use super::children::Children;
use super::cipher::Cipher;
use super::error::{NotWritten, ReadError, State, WriteFailure};
use super::seals::Seals;
use super::slot_map::SlotMap;
use super::units::{BLOCK_BYTES, Block, BlockBuffer, Slot};

/// Alignment of a direct read or write that goes on after a short one.
pub(super) const ALIGNMENT: usize = 4096;

/// All that the writer and the readers share.
pub(super) struct Shared {
    pub(super) backing: Arc<dyn Backing>,
    pub(super) cipher: Cipher,
    pub(super) seals: Seals,
    pub(super) map: SlotMap,
    pub(super) children: Children,
    pub(super) origin: Arc<Origin>,
    pub(super) slots: u32,
    /// Bytes with disk space.
    pub(super) allocated: AtomicU64,
    /// The error that ended the file's growth, and the bytes that it has.
    pub(super) limit: OnceLock<(u64, Errno)>,
    /// The error that ended its writes.
    pub(super) failure: OnceLock<WriteFailure>,
    pub(super) counters: Counters,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) ring: AtomicBool,
    pub(super) used_slots: AtomicU64,
    pub(super) segments_written: AtomicU64,
    pub(super) operations: AtomicU64,
    pub(super) repeated: AtomicU64,
    pub(super) punched: AtomicU64,
    pub(super) writer_bytes: AtomicU64,
    blocks_read: AtomicU64,
    damaged: AtomicU64,
    read_errors: AtomicU64,
}

/// Counts of a page file since its creation, and its present size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageFileStats {
    /// Slots of the file.
    pub slots: u64,
    /// Slots that hold data.
    pub used_slots: u64,
    /// Bytes that the file system allocated.
    pub allocated_bytes: u64,
    /// Segments of 64 KiB that went to the file.
    pub segments_written: u64,
    /// Operations of the kernel that wrote them.
    pub operations: u64,
    /// Operations that were made again by `pwrite(2)`, after a short write, an interrupt, or a ring that stopped
    /// working.
    pub repeated_operations: u64,
    /// Bytes of freed slots that were returned to the file system.
    pub punched_bytes: u64,
    /// Reads of 16 KiB.
    pub blocks_read: u64,
    /// Reads of a block that was changed on the disk.
    pub damaged_blocks: u64,
    /// Reads that the kernel refused.
    pub read_errors: u64,
    /// Whether reads and writes pass the page cache by (`O_DIRECT`).
    pub direct: bool,
    /// Whether io_uring writes, not `pwrite(2)`.
    pub ring: bool,
}

/// Encrypted disk space for segments. Its blocks return to the file system when it and its [`Writer`](super::Writer)
/// end.
///
/// All methods can be called by several threads, and in a signal handler.
pub struct PageFile {
    pub(super) shared: Arc<Shared>,
}

impl std::fmt::Debug for PageFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageFile")
            .field("state", &self.state())
            .field("stats", &self.stats())
            .finish()
    }
}

impl PageFile {
    /// Reads a block of a written slot. Neither allocates nor locks, and leaves `errno` as it is.
    ///
    /// The caller keeps the slot from being freed meanwhile; a read that loses that race returns an error or the
    /// former data, never data of another slot.
    ///
    /// # Errors
    /// [`ReadError`]; the buffer is zero then.
    pub fn read_block(&self, block: Block, buffer: &mut BlockBuffer) -> Result<(), ReadError> {
        self.read_block_to(block, &mut buffer.0)
    }

    /// As [`PageFile::read_block`], to memory that must be aligned to 4096 bytes: the kernel refuses other memory for direct
    /// access.
    pub(crate) fn read_block_to(&self, block: Block, bytes: &mut [u8; BLOCK_BYTES]) -> Result<(), ReadError> {
        let counters = &self.shared.counters;
        counters.blocks_read.fetch_add(1, Ordering::Relaxed);
        let read = self.read_sealed(block, bytes);
        if let Err(error) = read {
            bytes.fill(0);
            match error {
                ReadError::Damaged(_) => counters.damaged.fetch_add(1, Ordering::Relaxed),
                ReadError::Io { .. } => counters.read_errors.fetch_add(1, Ordering::Relaxed),
                ReadError::NotWritten(_) => 0,
            };
        }
        read
    }

    /// The nonce of a block, which no other contents of any block ever have; 0 if it is not written.
    pub(crate) fn seal(&self, block: Block) -> u64 {
        self.shared.seals.get(block).map_or(0, |(nonce, _)| nonce)
    }

    fn read_sealed(&self, block: Block, bytes: &mut [u8; BLOCK_BYTES]) -> Result<(), ReadError> {
        let seals = &self.shared.seals;
        let (nonce, tag) = seals.get(block).ok_or(ReadError::NotWritten(block))?;
        let whole = read_all(&*self.shared.backing, bytes, block.position());
        let whole = whole.map_err(|errno| ReadError::Io { block, errno })?;
        if whole && self.shared.cipher.open(nonce, tag, bytes).is_ok() {
            return Ok(());
        }
        match seals.get(block) {
            Some((now, _)) if now == nonce => Err(ReadError::Damaged(block)),
            // Freed, and perhaps written again, during the read.
            _ => Err(ReadError::NotWritten(block)),
        }
    }

    /// Frees a written slot for other segments. Neither allocates nor locks.
    ///
    /// # Errors
    /// If the slot holds no data; nothing changes then.
    pub fn free(&self, slot: Slot) -> Result<(), NotWritten> {
        if !self.shared.seals.withdraw(slot) {
            return Err(NotWritten(slot));
        }
        self.shared.counters.used_slots.fetch_sub(1, Ordering::Relaxed);
        if !self.shared.children.hold(slot) {
            self.shared.map.put(slot);
        }
        Ok(())
    }

    /// Whether this process is a forked child of the one that created it. No system call.
    fn is_of_parent(&self) -> bool {
        !self.shared.origin.shares_memory()
    }

    /// Prepares a fork with a child that reads the blocks that are written now. Nothing may be in flight, and no other thread
    /// may use the file until [`PageFile::end_fork`].
    ///
    /// # Errors
    /// The process can open no further descriptor.
    pub(crate) fn begin_fork(&self) -> Result<(), Errno> {
        match self.is_of_parent() {
            // This process writes nothing. Its child inherits the write end of the pipe.
            true => Ok(()),
            false => self.shared.children.begin_fork(),
        }
    }

    /// Ends a fork in the parent, or in the child.
    pub(crate) fn end_fork(&self, is_child: bool) {
        if is_child || !self.is_of_parent() {
            self.shared.children.end_fork(is_child);
        }
    }

    /// Ends the reads of this process, a child that has the file of its parent.
    pub(crate) fn leave(&self) {
        if self.is_of_parent() {
            self.shared.children.end_fork(false);
        }
    }

    /// The slots of the file: their numbers are below.
    pub(crate) fn slots(&self) -> u32 {
        self.shared.slots
    }

    /// Whether no slot holds data.
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.counters.used_slots.load(Ordering::Relaxed) == 0
    }

    /// Slots that a write may take, of the space that the file has.
    pub(crate) fn free_slots(&self) -> u64 {
        self.shared.map.free()
    }

    /// Whether children of forks may read slots that are needed no more.
    pub(crate) fn has_readers(&self) -> bool {
        self.shared.children.is_shared()
    }

    /// Frees slots that children of forks do not read any more. Not while a fork is under way.
    pub(crate) fn release_held(&self) {
        if !self.is_of_parent() {
            self.shared.children.release(&self.shared.map);
        }
    }

    /// Its ability to write.
    pub fn state(&self) -> State {
        if self.is_of_parent() {
            return State::OfParent;
        }
        if let Some(failure) = self.shared.failure.get() {
            return State::Failed(*failure);
        }
        match self.shared.limit.get() {
            Some((bytes, errno)) => State::Limited {
                bytes: *bytes,
                errno: *errno,
            },
            None => State::Writable,
        }
    }

    /// Bytes of RAM that it takes: tags, bitmaps, buffers, key. Tables count up to the highest slot that was ever used.
    pub fn metadata_bytes(&self) -> u64 {
        let shared = &self.shared;
        let slots = shared.map.high_water();
        let page = page_size() as u64;
        // Seals; free, held (of two generations) and fresh slots; chunks with space.
        let tables = [
            Seals::bytes(slots),
            slots / 8,
            slots / 8,
            slots / 8,
            slots / 8,
            slots / 8 / 16,
        ];
        let tables: u64 = tables.iter().map(|bytes| bytes.next_multiple_of(page)).sum();
        let values = (size_of::<Shared>() + size_of::<PageFile>()) as u64;
        // A child of a fork has no use for the buffers of its parent.
        let writer = match self.is_of_parent() {
            true => 0,
            false => shared.counters.writer_bytes.load(Ordering::Relaxed),
        };
        tables + shared.cipher.bytes() + page + values + writer
    }

    /// Counts since its creation.
    pub fn stats(&self) -> PageFileStats {
        let shared = &self.shared;
        let counters = &shared.counters;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PageFileStats {
            slots: u64::from(shared.slots),
            used_slots: load(&counters.used_slots),
            allocated_bytes: load(&shared.allocated),
            segments_written: load(&counters.segments_written),
            operations: load(&counters.operations),
            repeated_operations: load(&counters.repeated),
            punched_bytes: load(&counters.punched),
            blocks_read: load(&counters.blocks_read),
            damaged_blocks: load(&counters.damaged),
            read_errors: load(&counters.read_errors),
            direct: shared.backing.is_direct(),
            ring: counters.ring.load(Ordering::Relaxed),
        }
    }
}

/// Fills `bytes`; false if the file ends before. Async-signal-safe.
pub(super) fn read_all(backing: &dyn Backing, bytes: &mut [u8], position: u64) -> Result<bool, Errno> {
    let mut done = 0;
    while done < bytes.len() {
        match backing.read_at(&mut bytes[done..], position + done as u64) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
            Ok(read) => {
                let before = done;
                done += read;
                if done < bytes.len() {
                    // A direct read goes on at a block of the disk.
                    done -= done % ALIGNMENT;
                    if done <= before {
                        return Ok(false);
                    }
                }
            }
        }
    }
    Ok(true)
}
