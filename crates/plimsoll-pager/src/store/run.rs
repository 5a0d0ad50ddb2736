//! Reading of several pages one after another.

use core::fmt;

use super::entry::{Flaw, Header};
use super::place::{PageIndex, Place, PlaceKind, Spot, bit_of, quad_of};
use super::reader::{self, Reader};
use super::space::Space;
use super::units::{BLOCK, Page, SEGMENT, UNIT};
use super::{SpilledError, Store, codec};

/// The blocks of the page file, as the store reads them: four a slot.
pub trait Blocks {
    /// The reason for which a block cannot be read.
    type Error;

    /// A number that no other contents of any block ever have; 0 for a block that is not written.
    fn seal(&self, slot: u32, block: usize) -> u64;

    /// Reads a block, whose slot the caller keeps from being freed.
    ///
    /// # Errors
    /// Any; `bytes` are then no block.
    fn read(&self, slot: u32, block: usize, bytes: &mut [u8; BLOCK]) -> Result<(), Self::Error>;
}

/// No page file: every read of one fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoFile;

impl Blocks for NoFile {
    type Error = NoFile;

    fn seal(&self, _: u32, _: usize) -> u64 {
        0
    }

    fn read(&self, _: u32, _: usize, _: &mut [u8; BLOCK]) -> Result<(), NoFile> {
        Err(NoFile)
    }
}

/// Reads the copies of pages of the store and of the page file, one after another. Pages that were compressed together are
/// decompressed once for all of them. The blocks read last stay in the leased memory, for this run and for later ones.
///
/// The caller has all pages of a run locked from its start on, so that an entry keeps its place. No allocation, no lock,
/// for signal handlers.
pub struct Run<'s> {
    store: &'s Store,
    reader: Option<Reader<'s>>,
    /// The entry whose pages are decompressed in the reader, if it has several.
    group: Option<(Place, Header)>,
}

impl Store {
    /// A run of reads.
    pub fn run(&self) -> Run<'_> {
        Run {
            store: self,
            reader: None,
            group: None,
        }
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}

impl Run<'_> {
    /// Reads the copy of `page` at `place`, in the store or in `file`.
    ///
    /// # Errors
    /// The error of `file`, or [`Damaged`](super::Damaged); `target` then has any bytes.
    pub fn get<F: Blocks>(
        &mut self,
        page: PageIndex,
        place: Place,
        file: &F,
        target: &mut Page,
    ) -> Result<(), SpilledError<F::Error>> {
        self.find(page, place, file, target).map_err(|error| match error {
            Missed::Read(error) => SpilledError::Read(error),
            Missed::Flaw(flaw) => SpilledError::Damaged(self.store.damaged(page, place, flaw)),
        })
    }

    fn find<F: Blocks>(
        &mut self,
        page: PageIndex,
        place: Place,
        file: &F,
        target: &mut Page,
    ) -> Result<(), Missed<F::Error>> {
        if let PlaceKind::SameFilled(word) = place.kind() {
            codec::fill(target, u64::from(word) << 32 | u64::from(word));
            return Ok(());
        }
        let store = self.store;
        let space = &store.space;
        let reader = self
            .reader
            .get_or_insert_with(|| reader::lease(&store.readers, space));
        let held = self.group.take_if(|(held, _)| *held == place);
        self.group = None;
        let header = match (held, place.kind()) {
            (Some((_, header)), _) => header,
            (None, PlaceKind::InFile(spot)) => load(reader, space, spot, file)?,
            (None, PlaceKind::InMemory(spot)) => reader.load(space, spot)?,
            (None, PlaceKind::SameFilled(_)) => return Err(Missed::Flaw(Flaw::Place)),
        };
        if header.quad != quad_of(page) || header.present & bit_of(page) == 0 {
            return Err(Missed::Flaw(Flaw::Owner));
        }
        // An entry in the file has the live bits of the moment at which it was written, and the page's word is what counts.
        if header.live & bit_of(page) == 0 && place.slot().is_none() {
            return Err(Missed::Flaw(Flaw::Freed));
        }
        if header.pages() == 1 {
            return Ok(reader.page(space, &header, bit_of(page), target)?);
        }
        if held.is_none() {
            reader.unpack_pages(space, &header)?;
        }
        let position = header.position(bit_of(page)).ok_or(Flaw::Owner)?;
        target.copy_from_slice(reader.plain_page(position));
        self.group = Some((place, header));
        Ok(())
    }
}

/// Has the blocks of an entry of the page file in the reader, then the checked entry.
fn load<F: Blocks>(
    reader: &mut Reader<'_>,
    space: &Space,
    spot: Spot,
    file: &F,
) -> Result<Header, Missed<F::Error>> {
    let (slot, block, offset) = (spot.segment, spot.offset() / BLOCK, spot.offset() % BLOCK);
    let seal = file.seal(slot, block);
    reader
        .hold_block(space, 0, seal, |bytes| file.read(slot, block, bytes))
        .map_err(Missed::Read)?;
    // The header, and with it the length, may be in both.
    let is_in_one = offset + 2 * UNIT <= BLOCK && reader.end_of_entry(offset) <= BLOCK;
    if !is_in_one {
        let next = block + 1;
        if next * BLOCK >= SEGMENT {
            return Err(Missed::Flaw(Flaw::Place));
        }
        let seal = file.seal(slot, next);
        reader
            .hold_block(space, 1, seal, |bytes| file.read(slot, next, bytes))
            .map_err(Missed::Read)?;
    }
    Ok(reader.load_from_blocks(offset, if is_in_one { 1 } else { 2 })?)
}

/// The reason for which a page was not read.
enum Missed<E> {
    Read(E),
    Flaw(Flaw),
}

impl<E> From<Flaw> for Missed<E> {
    fn from(flaw: Flaw) -> Missed<E> {
        Missed::Flaw(flaw)
    }
}
