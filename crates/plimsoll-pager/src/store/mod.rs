//! The compressed store: copies of trimmed pages in RAM, compressed.
//!
//! Entries lie packed in segments of 64 KiB, in the order in which they were put; a freed entry leaves a gap until
//! cleaning moves the other entries of its segment away. All memory of a store is one reserved mapping, and every page of it
//! that may be resident counts: segments, headers, tables, buffers.
//!
//! | content of a page | copy |
//! |---|---|
//! | a word of 4 bytes, repeated | in the place itself |
//! | a word of 8 bytes, repeated | an entry of 20 bytes |
//! | other | LZ4, or as it is if that makes more than 3 KiB |
//! | the same, idle | Zstandard |
//! | the same, idle longest | Zstandard, up to four neighbours of an aligned quad together |
//!
//! # Threads
//!
//! - A page's copy is put, read and freed by the thread that has the page's word locked. The store relies on it for
//!   right answers only: a place that is no more yields [`Damaged`], never undefined behaviour, as segments are read and
//!   written by atomic words.
//! - [`Store::get`], [`Run::get`] and [`Store::free`] are for signal handlers: no allocation, no
//!   lock, a bounded stack. They read in leased memory (`lease`), which takes one atomic step. Only if 256 threads read at
//!   a time does the next one wait.
//! - Writers ([`Store::put`], [`Store::clean`], [`Store::recompress`]) lease memory and have open segments of their own:
//!   nothing is shared while a page is compressed. A put may interrupt another one in the same thread.
//! - A move of an entry is made by the consent of the pages' owners (`relocation`).
//!
//! # Invariants
//!
//! Each stands beside its struct; [`Store::validate`] checks those of segments and counts.
//!
//! # Layers
//!
//! `units`, `place`, `entry`, `codec`, `slots`, `segment`, `memory`; `lease`, `space`; `reader`, `writer`;
//! `claim`, `relocation`; `run`, `clean`, `recompress`, `spill`, `stats`, `validate`.

mod claim;
mod clean;
mod codec;
mod entry;
mod lease;
mod memory;
mod place;
mod reader;
mod recompress;
mod relocation;
mod run;
mod segment;
mod slots;
mod space;
mod spill;
mod stats;
mod units;
mod validate;
mod writer;

use core::ops::Range;
use core::sync::atomic::Ordering;

use plimsoll_os::Errno;

use codec::{Compressor, Decompressor, Lz4State, filling_word};
use entry::Header;
use place::{PlaceKind, Spot, bit_of, quad_of};
use reader::Readers;
use relocation::{Mover, Relocate};
use segment::{Content, State};
use space::{Purpose, Space};
use stats::Counters;
use writer::{Target, Writers};

pub use claim::Cleaned;
pub use entry::Flaw;
pub use place::{PageIndex, Place};
pub use recompress::Idle;
pub use run::{Blocks, NoFile, Run};
pub(crate) use spill::{FOUND, entries_of};
pub use spill::{Spill, Spilled, SpilledError};
pub use stats::Stats;
pub use units::{BLOCK, PAGE, Page, QUAD, QUAD_BYTES, SEGMENT};
pub use validate::Violation;

/// The smallest limit of a store: its tables and buffers, and some segments.
pub const LEAST_LIMIT: u64 = 1 << 20;

/// The codec of pages when they are put.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FirstCodec {
    /// LZ4: fast.
    #[default]
    Lz4,
    /// Zstandard: dense.
    Zstd,
}

/// How a store is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOptions {
    /// The most bytes that it may ever use: address space for them is reserved.
    pub most: u64,
    /// The most bytes that it may use at first ([`Store::set_limit`]).
    pub limit: u64,
    /// The codec of pages when they are put.
    pub first: FirstCodec,
}

/// The reason for which there is no store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No address space.
    #[error(
        "cannot reserve {bytes} bytes of address space for the compressed store: {error}; \
         lower its size, or raise RLIMIT_AS"
    )]
    Memory {
        /// Bytes of the mapping.
        bytes: u64,
        /// The error of `mmap(2)`.
        error: Errno,
    },
    /// Less than [`LEAST_LIMIT`], or a limit above the most bytes.
    #[error(
        "cannot limit the compressed store to {limit} of at most {most} bytes: its tables and buffers need \
         {least}; raise its size",
        least = LEAST_LIMIT
    )]
    Limit {
        /// [`StoreOptions::limit`].
        limit: u64,
        /// [`StoreOptions::most`].
        most: u64,
    },
    /// A codec library other than the one that this crate is made for.
    #[error(
        "cannot prepare the codecs of the compressed store: their contexts need more memory; build with the locked versions"
    )]
    Codec,
}

/// The reason for which a page was not put. It is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names of the fields describe them")]
pub enum PutError {
    /// The limit leaves no room.
    #[error(
        "cannot store page {}: the compressed store uses {used} of {limit} bytes; clean it, spill it to a page file, or \
         raise its limit", .page.number()
    )]
    Full {
        page: PageIndex,
        /// Bytes in use.
        used: u64,
        limit: u64,
    },
    /// 64 other threads write at the moment.
    #[error(transparent)]
    Busy(#[from] BusyError),
}

/// 64 other threads write at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot write to the compressed store: 64 threads do; try again")]
pub struct BusyError;

/// A copy of a page that is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot restore page {} from its copy at {:#x}: {flaw}; test the machine's memory and report it", .page.number(), .place.bits())]
pub struct Damaged {
    /// The one whose content cannot be restored.
    pub page: PageIndex,
    /// The place of the copy.
    pub place: Place,
    /// The error of the copy.
    pub flaw: Flaw,
}

/// A compressed store.
#[derive(Debug)]
pub struct Store {
    space: Space,
    readers: Readers,
    writers: Writers,
    counters: Counters,
    first: FirstCodec,
}

impl Store {
    /// Makes an empty store.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn new(options: &StoreOptions) -> Result<Store, StoreError> {
        let StoreOptions { most, limit, first } = *options;
        if limit < LEAST_LIMIT || most < limit {
            return Err(StoreError::Limit { limit, most });
        }
        if !(Lz4State::fits() && Compressor::fits() && Decompressor::fits()) {
            return Err(StoreError::Codec);
        }
        let failed = |error| StoreError::Memory { bytes: most, error };
        // A closed segment is full to the last of its pages but three, as no entry is longer; writers have open ones. Segments that are
        // closed early are cleaned soon.
        let open = Writers::COUNT * writer::MOST_OPEN;
        let segments = most.div_ceil(((SEGMENT - entry::LONGEST) / PAGE * PAGE) as u64) + open as u64;
        let segments = u32::try_from(segments).map_err(|_| failed(Errno::INVAL))?;
        let (space, [readers, writers]) =
            Space::new(segments, [Readers::BYTES, Writers::BYTES], limit).map_err(failed)?;
        space.count(size_of::<Store>());
        Ok(Store {
            space,
            readers: Readers::new(readers),
            writers: Writers::new(writers),
            counters: Counters::default(),
            first,
        })
    }

    /// Stores a copy of a page, which has none.
    ///
    /// # Errors
    /// [`PutError`].
    pub fn put(&self, owner: PageIndex, page: &Page) -> Result<Place, PutError> {
        let word = filling_word(page);
        if let Some(word) = word
            && word as u32 == (word >> 32) as u32
        {
            self.counters.same_filled.fetch_add(1, Ordering::Relaxed);
            return Ok(Place::same_filled(word as u32));
        }
        let mut writer = self.writers.lease(&self.space.memory).ok_or(BusyError)?;
        let (codec, length) = match (word, self.first) {
            (Some(word), _) => writer.pack_word(&self.space, word),
            (None, FirstCodec::Lz4) => writer.pack_fast(&self.space, page),
            (None, FirstCodec::Zstd) => writer.pack_dense(&self.space, page),
        };
        let header = Header {
            length,
            codec,
            present: bit_of(owner),
            live: bit_of(owner),
            quad: quad_of(owner),
        };
        let to = Target {
            content: Content::Fresh,
            epoch: self.space.epoch(),
            purpose: Purpose::Put,
        };
        let spot = writer
            .append(&self.space, &header, to)
            .map_err(|space::Full| PutError::Full {
                page: owner,
                used: self.space.used(),
                limit: self.space.limit(),
            })?;
        self.counters.pages.fetch_add(1, Ordering::Relaxed);
        Ok(Place::in_memory(spot))
    }

    /// Reads the copy of a page, in RAM. For signal handlers.
    ///
    /// # Errors
    /// [`Damaged`]; `target` then has any bytes.
    pub fn get(&self, page: PageIndex, place: Place, target: &mut Page) -> Result<(), Damaged> {
        self.run()
            .get(page, place, &NoFile, target)
            .map_err(|error| match error {
                SpilledError::Read(NoFile) => self.damaged(page, place, Flaw::Place),
                SpilledError::Damaged(damaged) => damaged,
            })
    }

    /// Has the processor fetch the copy at `place` if it is in RAM, as it is to be read soon. A hint, for signal handlers.
    pub fn expect(&self, place: Place) {
        /// An entry of LZ4 has about as many; the processor itself goes on behind them.
        const BYTES: usize = 1 << 10;
        if let PlaceKind::InMemory(spot) = place.kind()
            && spot.segment < self.space.begun()
        {
            let words = &self.space.words(spot.segment)[spot.unit as usize..];
            plimsoll_os::prefetch(words.as_ptr() as usize, BYTES);
        }
    }

    /// Frees the copy of a page, in RAM. For signal handlers; it may return a segment's pages to the kernel.
    ///
    /// # Errors
    /// [`Damaged`] if the place has no copy of that page: the store is unchanged.
    pub fn free(&self, page: PageIndex, place: Place) -> Result<(), Damaged> {
        let freed = match place.kind() {
            PlaceKind::SameFilled(_) => {
                self.counters.same_filled.fetch_sub(1, Ordering::Relaxed);
                return Ok(());
            }
            PlaceKind::InMemory(spot) => self.free_entry(page, spot),
            PlaceKind::InFile(_) => Err(Flaw::Place),
        };
        freed.map_err(|flaw| self.damaged(page, place, flaw))
    }

    fn free_entry(&self, page: PageIndex, spot: Spot) -> Result<(), Flaw> {
        let header = reader::header(&self.space, spot)?;
        if header.quad != quad_of(page) || header.present & bit_of(page) == 0 {
            return Err(Flaw::Owner);
        }
        if self.space.retire(spot, bit_of(page), header.weight()) == 0 {
            return Err(Flaw::Freed);
        }
        self.forget_pages(1);
        Ok(())
    }

    fn forget_pages(&self, pages: u64) {
        self.counters.pages.fetch_sub(pages, Ordering::Relaxed);
    }

    fn damaged(&self, page: PageIndex, place: Place, flaw: Flaw) -> Damaged {
        self.counters.damaged.fetch_add(1, Ordering::Relaxed);
        Damaged { page, place, flaw }
    }

    fn mover<'s, 'r>(&'s self, relocate: &'r mut Relocate<'r>) -> Result<Mover<'s, 'r>, BusyError> {
        Ok(Mover {
            space: &self.space,
            writer: self.writers.lease(&self.space.memory).ok_or(BusyError)?,
            reader: reader::lease(&self.readers, &self.space),
            relocate,
        })
    }

    /// Bytes of RAM that the store uses: segments, headers, tables, buffers.
    pub fn used_bytes(&self) -> u64 {
        self.space.used()
    }

    /// Those of the used bytes that stay in use without any entry: tables and buffers.
    pub fn fixed_bytes(&self) -> u64 {
        self.space.fixed()
    }

    /// Addresses of all segments that were ever used.
    pub fn addresses(&self) -> Range<usize> {
        match self.space.begun() {
            0 => 0..0,
            begun => {
                let start = self.space.words(0).as_ptr() as usize;
                start..start + begun as usize * SEGMENT
            }
        }
    }

    /// The bytes in use at which puts are refused: the limit less those that are left to cleaning.
    pub fn limit_of_puts(&self) -> u64 {
        self.space.limit().saturating_sub(space::RESERVE)
    }

    /// Sets the most bytes that puts may use, at most [`StoreOptions::most`]. What is above stays, until it is freed, cleaned
    /// or spilled.
    pub fn set_limit(&self, bytes: u64) {
        self.space.set_limit(bytes);
    }

    /// Begins the next epoch: the unit of idle time of [`Store::recompress`] and of spills.
    pub fn advance_epoch(&self) {
        self.space.advance_epoch();
    }

    /// Returns the pages of free segments to the kernel. Returns the number of bytes.
    pub fn return_free(&self) -> u64 {
        self.space.return_free()
    }

    /// Closes the open segments of all writers that are not writing, so that cleaning, recompression and spills reach all
    /// entries.
    pub fn close_segments(&self) {
        for slot in 0..self.writers.touched() {
            if let Some(mut writer) = self.writers.lease_slot(&self.space.memory, slot) {
                writer.close_all(&self.space);
            }
        }
    }

    /// Makes the store usable in the child of a fork, whose other threads are gone with the leases that they had. What they
    /// were writing is lost space.
    pub fn after_fork_in_child(&self) {
        self.readers.release_all();
        self.writers.release_all();
        for segment in 0..self.space.begun() {
            let record = self.space.record(segment);
            if record.state() == State::Claimed {
                self.space.settle(segment, record.finish(State::Closed));
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
