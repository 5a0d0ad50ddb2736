//! Reads the record of a pager, checked before anything of it is followed.

use plimsoll_os::{Memory, MemoryError};

use super::root::{LAYOUT, Root, RootBytes, Sizes};
use crate::manager::{Budget, Counters, Pins};
use crate::page::{CHUNK_PAGES, Chunk, PAGE_SIZE, PageIndex, PageState, PageWord};
use crate::stats::Stats;

/// The reason why a record cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names of the fields describe them")]
pub enum OpenError {
    /// It cannot be read.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The address holds no record of a pager.
    #[error("the address holds no record of a pager")]
    NotAPager,
    /// It is that of another version of this library.
    #[error("the record has layout {found}, this program reads layout {LAYOUT} of its own version")]
    OtherLayout { found: u32 },
    /// A field has an impossible value.
    #[error("`{field}` holds {value:#x}, which cannot be")]
    Damaged { field: &'static str, value: u64 },
}

/// Pages of the regions of a pager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Mapped {
    /// Pages of all regions.
    pub pages: u64,
    /// Those of them whose faults the kernel still resolves.
    pub native_pages: u64,
    /// Those of them that are managed and were never touched, or were discarded.
    pub virgin_pages: u64,
}

/// A pager of another process, read while it runs.
///
/// Invariant, for any contents of the memory: the arena, the shadow area, and both tables lie in the address space, and
/// the tables have as many entries as the arena has pages and chunks. Checked by
/// `any_bytes_of_a_record_end_in_an_error_or_in_bounded_work`.
#[derive(Debug)]
pub struct PublishedPager<'m, M> {
    pub(super) memory: &'m M,
    address: usize,
    pub(super) root: Root,
}

/// Reads that [`PublishedPager::open`] and [`PublishedPager::stats`] make together, at most: the start of the record, the
/// record twice, pins, counters, budget. No value of the process starts another one: each structure is fixed in size and
/// refers to none. Checked by `a_look_is_bounded_for_any_contents`.
pub const LOOK_READS: usize = 6;
/// Bytes of these reads, at most: the sizes of those structures in this program, as `open` refuses every other size.
pub const LOOK_BYTES: usize =
    Root::HEAD + 2 * size_of::<Root>() + size_of::<Pins>() + size_of::<Counters>() + size_of::<Budget>();

/// A sampler makes a look at each tick, with copies on its stack.
const _: () = assert!(LOOK_BYTES <= 8192);

/// Chunks that one call reads.
const CHUNKS_AT_ONCE: usize = 512;

impl<'m, M: Memory> PublishedPager<'m, M> {
    /// Reads the record at `address` and checks it.
    ///
    /// # Errors
    /// [`OpenError`] if it cannot be read, is none, is of another version or holds an impossible value.
    pub fn open(memory: &'m M, address: usize) -> Result<PublishedPager<'m, M>, OpenError> {
        let mut head = [0; Root::HEAD];
        memory.read(address, &mut head)?;
        let (layout, sizes) = Root::head(&head).ok_or(OpenError::NotAPager)?;
        if (layout, sizes) != (LAYOUT, Sizes::OWN) {
            return Err(OpenError::OtherLayout { found: layout });
        }
        let mut bytes: RootBytes = [0; size_of::<Root>()];
        memory.read(address, &mut bytes)?;
        let root = Root::of_bytes(&bytes);
        check(&root)?;
        Ok(PublishedPager {
            memory,
            address,
            root,
        })
    }

    /// The address of the record.
    pub fn address(&self) -> usize {
        self.address
    }

    /// The address of the first byte that regions may have.
    pub fn arena(&self) -> u64 {
        self.root.arena
    }

    /// Pages of addresses.
    pub fn address_space_pages(&self) -> u64 {
        self.root.pages
    }

    /// The counters of the pager now. `store_bytes` and `metadata_bytes` are up to a second old.
    ///
    /// # Errors
    /// [`MemoryError`] if the process has ended or the memory is gone.
    pub fn stats(&self) -> Result<Stats, MemoryError> {
        let mut root: RootBytes = [0; size_of::<Root>()];
        self.memory.read(self.address, &mut root)?;
        let derived = Root::of_bytes(&root).derived();
        let mut pins = [0; size_of::<Pins>()];
        self.memory.read(self.root.pins as usize, &mut pins)?;
        let pinned = Pins::ranges_of(&pins).map(|(_, count)| u64::from(count)).sum();
        Ok(Stats::of(&self.counters()?, &self.budget()?, pinned, derived))
    }

    /// The pages of all regions now.
    ///
    /// # Errors
    /// As [`PublishedPager::stats`].
    pub fn mapped(&self) -> Result<Mapped, MemoryError> {
        let mut bytes = [0; size_of::<u64>()];
        self.memory.read(self.root.mapped as usize, &mut bytes)?;
        let pages = u64::from_ne_bytes(bytes).min(self.root.pages);
        let native_pages = self.budget()?.native().min(pages);
        let mut mapped = Mapped {
            pages,
            native_pages,
            virgin_pages: 0,
        };
        let counters = self.counters()?;
        let used = PageState::ALL
            .into_iter()
            .filter(|state| *state != PageState::Virgin);
        let used = used.fold(0, |sum: u64, state| sum.saturating_add(counters.pages_in(state)));
        mapped.virgin_pages = (mapped.pages - mapped.native_pages).saturating_sub(used);
        Ok(mapped)
    }

    /// Calls `visit` with every chunk below the extent that has a record, by number.
    pub(super) fn each_chunk(&self, mut visit: impl FnMut(u32, &Chunk)) -> Result<(), MemoryError> {
        let chunks = self.extent()?.div_ceil(CHUNK_PAGES);
        if chunks == 0 {
            return Ok(());
        }
        let mut used = vec![0; chunks.div_ceil(u64::BITS) as usize * size_of::<u64>()];
        self.memory.read(self.root.used as usize, &mut used)?;
        let (used, _) = used.as_chunks::<8>();
        let has_record = |number: u32| {
            let word = u64::from_ne_bytes(used[(number / u64::BITS) as usize]);
            word >> (number % u64::BITS) & 1 == 1
        };
        let mut bytes = vec![0; CHUNKS_AT_ONCE * size_of::<Chunk>()];
        for first in (0..chunks).step_by(CHUNKS_AT_ONCE) {
            let count = CHUNKS_AT_ONCE.min((chunks - first) as usize);
            // Reading records that were never written would give them memory.
            if !(first..first + count as u32).any(has_record) {
                continue;
            }
            let bytes = &mut bytes[..count * size_of::<Chunk>()];
            self.memory.read(self.chunk_address(first), bytes)?;
            let (chunks, _) = bytes.as_chunks();
            let chunks = (first..).zip(chunks);
            for (number, chunk) in chunks.filter(|(number, _)| has_record(*number)) {
                visit(number, &Chunk::of_bytes(chunk));
            }
        }
        Ok(())
    }

    /// Pages below which all regions are.
    pub(super) fn extent(&self) -> Result<u32, MemoryError> {
        let mut bytes = [0; size_of::<u32>()];
        self.memory.read(self.root.extent as usize, &mut bytes)?;
        Ok(u32::from_ne_bytes(bytes).min(self.root.pages as u32))
    }

    pub(super) fn counters(&self) -> Result<Counters, MemoryError> {
        let mut bytes = [0; size_of::<Counters>()];
        self.memory.read(self.root.counters as usize, &mut bytes)?;
        Ok(Counters::of_bytes(&bytes))
    }

    pub(super) fn budget(&self) -> Result<Budget, MemoryError> {
        let mut bytes = [0; size_of::<Budget>()];
        self.memory.read(self.root.budget as usize, &mut bytes)?;
        Ok(Budget::of_bytes(&bytes))
    }

    pub(super) fn pinned(&self) -> Result<Vec<(PageIndex, u32)>, MemoryError> {
        let mut bytes = [0; size_of::<Pins>()];
        self.memory.read(self.root.pins as usize, &mut bytes)?;
        Ok(Pins::ranges_of(&bytes).collect())
    }

    /// The address of a chunk, whose number is below that of the arena's chunks.
    pub(super) fn chunk_address(&self, number: u32) -> usize {
        self.root.chunks as usize + number as usize * size_of::<Chunk>()
    }

    /// The address of the first word of a chunk.
    pub(super) fn words_address(&self, number: u32) -> usize {
        self.root.table as usize + number as usize * CHUNK_PAGES as usize * size_of::<PageWord>()
    }
}

/// Checks every field that is followed.
fn check(root: &Root) -> Result<(), OpenError> {
    let sound = |field, value: u64, is_sound: bool| match is_sound {
        true => Ok(()),
        false => Err(OpenError::Damaged { field, value }),
    };
    let inside = |field, value: u64, bytes: u64, alignment: u64| {
        let fits = value
            .checked_add(bytes)
            .is_some_and(|end| usize::try_from(end).is_ok());
        sound(field, value, value > 0 && fits && value.is_multiple_of(alignment))
    };
    let pages = root.pages;
    let count_is_sound =
        pages > 0 && pages < u64::from(u32::MAX) && pages.is_multiple_of(u64::from(CHUNK_PAGES));
    sound("pages", pages, count_is_sound)?;
    let page = PAGE_SIZE as u64;
    inside("arena", root.arena, pages * page, page)?;
    inside("shadow", root.shadow, pages * page, page)?;
    let chunks = pages / u64::from(CHUNK_PAGES);
    inside("table", root.table, pages * size_of::<PageWord>() as u64, 8)?;
    inside("chunks", root.chunks, chunks * size_of::<Chunk>() as u64, 2)?;
    inside("extent", root.extent, size_of::<u32>() as u64, 4)?;
    inside("counters", root.counters, size_of::<Counters>() as u64, 8)?;
    inside("budget", root.budget, size_of::<Budget>() as u64, 8)?;
    inside("pins", root.pins, size_of::<Pins>() as u64, 8)?;
    inside("used", root.used, chunks.div_ceil(64) * 8, 8)?;
    inside("mapped", root.mapped, size_of::<u64>() as u64, 8)
}
