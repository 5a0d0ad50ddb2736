//! Reading of several pages one after another.

use core::fmt;

use super::entry::{Flaw, Header};
use super::place::{PageIndex, Place, PlaceKind, Spot, bit_of, quad_of};
use super::reader::{self, Reader};
use super::space::Space;
use super::units::{BLOCK, Page, SEGMENT, UNIT};
use super::{SpilledError, Store, codec};

/// Reads the copies of pages of the store and of the page file. It keeps the blocks that it read from the file, and the
/// pages that it decompressed together, for the pages that come next: a block is read once for the run of its entries.
///
/// The caller has all pages of a run locked from its start on: their slots of the page file are not freed meanwhile, and
/// an entry keeps its place. No allocation, no lock, for signal handlers.
pub struct Run<'s> {
    store: &'s Store,
    reader: Option<Reader<'s>>,
    /// The entry whose pages are decompressed in the reader, if it has several.
    group: Option<(Place, Header)>,
    blocks: Blocks,
}

/// The blocks of the page file in the reader: their slot, the number of the first, and how many they are.
#[derive(Debug, Default)]
struct Blocks(Option<(u32, usize, usize)>);

impl Store {
    /// A run of reads.
    pub fn run(&self) -> Run<'_> {
        Run {
            store: self,
            reader: None,
            group: None,
            blocks: Blocks::default(),
        }
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("group", &self.group)
            .field("blocks", &self.blocks)
            .finish()
    }
}

impl Run<'_> {
    /// Reads the copy of `page` at `place`. `read` reads a block, 0 to 3, of a slot of the page file.
    ///
    /// # Errors
    /// The error of `read`, or [`Damaged`](super::Damaged); `target` then has any bytes.
    pub fn get<E>(
        &mut self,
        page: PageIndex,
        place: Place,
        read: impl FnMut(u32, usize, &mut [u8; BLOCK]) -> Result<(), E>,
        target: &mut Page,
    ) -> Result<(), SpilledError<E>> {
        self.find(page, place, read, target).map_err(|error| match error {
            Missed::Read(error) => SpilledError::Read(error),
            Missed::Flaw(flaw) => SpilledError::Damaged(self.store.damaged(page, place, flaw)),
        })
    }

    fn find<E>(
        &mut self,
        page: PageIndex,
        place: Place,
        read: impl FnMut(u32, usize, &mut [u8; BLOCK]) -> Result<(), E>,
        target: &mut Page,
    ) -> Result<(), Missed<E>> {
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
            (None, PlaceKind::InFile(spot)) => self.blocks.load(reader, space, spot, read)?,
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

impl Blocks {
    /// Has the blocks of an entry in the reader, then the checked entry.
    fn load<E>(
        &mut self,
        reader: &mut Reader<'_>,
        space: &Space,
        spot: Spot,
        mut read: impl FnMut(u32, usize, &mut [u8; BLOCK]) -> Result<(), E>,
    ) -> Result<Header, Missed<E>> {
        let (slot, block, offset) = (spot.segment, spot.offset() / BLOCK, spot.offset() % BLOCK);
        // After an error the reader has none.
        let held = self.0.take();
        let blocks = reader.blocks(space);
        let mut count = match held {
            Some((of, first, count)) if of == slot && first == block => count,
            Some((of, first, 2)) if of == slot && first + 1 == block => {
                blocks[0] = blocks[1];
                1
            }
            _ => {
                read(slot, block, &mut blocks[0]).map_err(Missed::Read)?;
                1
            }
        };
        // The header, and with it the length, may be in both.
        let is_in_one = offset + 2 * UNIT <= BLOCK && reader.end_of_entry(offset) <= BLOCK;
        if !is_in_one && count == 1 {
            if (block + 1) * BLOCK >= SEGMENT {
                return Err(Missed::Flaw(Flaw::Place));
            }
            read(slot, block + 1, &mut reader.blocks(space)[1]).map_err(Missed::Read)?;
            count = 2;
        }
        let header = reader.load_from_blocks(offset, count)?;
        self.0 = Some((slot, block, count));
        Ok(header)
    }
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
