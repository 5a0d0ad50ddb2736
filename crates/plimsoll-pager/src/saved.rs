//! The compressed store and the page file as the manager sees them.

mod clean;
mod creation;
mod deferred;
mod file_tier;
mod files;
mod slot_counts;

use std::ops::Range;

use plimsoll_os::Errno;

use crate::backing::{Backing, Damaged, Owners, PageFileUse, PutError, Room, Spillable};
use crate::page::{Page, PageIndex, Place, Tier};
use crate::page_file::ReadError;
use crate::store::{self, Idle, SpilledError};

pub(crate) use deferred::FilePlan;
pub(crate) use file_tier::FileTier;

/// Seconds after which an entry is compressed again by Zstandard, and those after which neighbours are compressed together.
const IDLE: Idle = Idle { pages: 4, quads: 30 };

/// Bytes of pages that are compressed again in a second.
const RECOMPRESSED: u64 = 16 << 20;

/// Saved copies in a compressed store, and in a page file for those that were idle longest.
#[derive(Debug)]
pub(crate) struct SavedCopies {
    store: store::Store,
    /// The most bytes that the store may ever use: those of its addresses, or its cap.
    most: u64,
    file: Option<FileTier>,
    /// Whether idle entries are compressed again.
    recompresses: bool,
}

impl SavedCopies {
    /// Copies in `store`, which may use `most` bytes at most.
    pub(crate) fn new(store: store::Store, most: u64) -> SavedCopies {
        SavedCopies {
            store,
            most,
            file: None,
            recompresses: false,
        }
    }

    /// The same with a page file.
    pub(crate) fn with_file(self, file: FileTier) -> SavedCopies {
        SavedCopies {
            file: Some(file),
            ..self
        }
    }

    /// The same, with idle entries compressed again.
    pub(crate) fn with_recompression(self) -> SavedCopies {
        SavedCopies {
            recompresses: true,
            ..self
        }
    }
}

impl SavedCopies {
    fn get_by(
        &self,
        run: &mut store::Run<'_>,
        page: PageIndex,
        place: Place,
        bytes: &mut Page,
    ) -> Result<(), Damaged> {
        let place = place_of(place)?;
        let copy = match &self.file {
            Some(file) => run.get(owner(page), place, file, bytes),
            None => {
                let copy = run.get(owner(page), place, &store::NoFile, bytes);
                return copy.map_err(|_| Damaged::Checksum);
            }
        };
        copy.map_err(|error| match error {
            SpilledError::Read(ReadError::Io { errno, .. }) => Damaged::File(errno),
            SpilledError::Read(_) => Damaged::File(plimsoll_os::Errno::BADMSG),
            SpilledError::Damaged(_) => Damaged::Checksum,
        })
    }
}

fn owner(page: PageIndex) -> store::PageIndex {
    store::PageIndex::new(page.number())
}

/// The page of an entry.
fn page_of(owner: store::PageIndex) -> PageIndex {
    PageIndex::new(owner.number())
}

/// The store's place of ours, which it made.
fn place_of(place: Place) -> Result<store::Place, Damaged> {
    store::Place::of_bits(place.bits()).ok_or(Damaged::Checksum)
}

/// Asks the owner of an entry to move it.
fn relocate(owners: &dyn Owners, page: store::PageIndex, old: store::Place, new: store::Place) -> bool {
    match (Place::new(old.bits()), Place::new(new.bits())) {
        (Ok(old), Ok(new)) => owners.relocate(page_of(page), old, new),
        _ => false,
    }
}

impl Backing for SavedCopies {
    fn put(&self, page: PageIndex, bytes: &Page) -> Result<Place, PutError> {
        let place = self.store.put(owner(page), bytes).map_err(|error| match error {
            store::PutError::Full { .. } => PutError::Full,
            _ => PutError::Busy,
        })?;
        Place::new(place.bits()).map_err(|_| PutError::Full)
    }

    fn get(&self, page: PageIndex, place: Place, bytes: &mut Page) -> Result<(), Damaged> {
        self.get_by(&mut self.store.run(), page, place, bytes)
    }

    fn expect(&self, place: Place) {
        if let Ok(place) = place_of(place) {
            self.store.expect(place);
        }
    }

    fn get_run(&self, first: PageIndex, places: &[Place], pages: &mut [Page]) -> usize {
        let mut run = self.store.run();
        let copies = (0..).zip(places.iter().zip(pages));
        let read =
            copies.map_while(|(n, (place, bytes))| self.get_by(&mut run, first.plus(n), *place, bytes).ok());
        read.count()
    }

    fn free(&self, page: PageIndex, place: Place) {
        // The page's word is the only one that names the place. A store that does not know it has counted the damage.
        let Ok(place) = place_of(place) else { return };
        match (place.slot(), &self.file) {
            (Some(slot), Some(file)) => file.free_page(slot),
            _ => drop(self.store.free(owner(page), place)),
        }
    }

    fn tier(&self, place: Place) -> Tier {
        match place_of(place).map(store::Place::slot) {
            Ok(Some(_)) => Tier::File,
            _ => Tier::Memory,
        }
    }

    fn clean(&self, bytes: u64, relocate: &mut dyn FnMut(PageIndex, Place, Place) -> bool) -> bool {
        let cleaned = self.store.clean(bytes, |owner, old, new| {
            match (Place::new(old.bits()), Place::new(new.bits())) {
                (Ok(old), Ok(new)) => relocate(page_of(owner), old, new),
                _ => false,
            }
        });
        cleaned.is_ok_and(|cleaned| cleaned.segments > 0)
    }

    fn identity(&self, owner: PageIndex, place: Place) -> Option<u64> {
        let of_store = place_of(place).ok()?;
        // The pages of a quad have one place, and the store checks that they are that quad's.
        let position = u64::from(owner.number()) % store::QUAD as u64;
        (!of_store.is_same_filled()).then_some(place.bits() * store::QUAD as u64 + position)
    }

    fn used_bytes(&self) -> u64 {
        self.store.used_bytes() + self.file.as_ref().map_or(0, FileTier::bytes)
    }

    fn fixed_bytes(&self) -> u64 {
        self.store.fixed_bytes() + self.file.as_ref().map_or(0, FileTier::bytes)
    }

    fn addresses(&self) -> Range<usize> {
        self.store.addresses()
    }

    fn set_limit(&self, bytes: u64) {
        self.store.set_limit(bytes.min(self.most));
    }

    fn spillable(&self) -> Option<Spillable> {
        let file = self.file.as_ref().filter(|file| file.takes_more())?;
        Some(Spillable {
            used: self.store.used_bytes(),
            most: self.store.limit_of_puts(),
            write: file.write_bytes(),
        })
    }

    fn spill(&self, bytes: u64, owners: &dyn Owners) -> Room {
        match &self.file {
            Some(file) => file.spill(&self.store, bytes, owners),
            None => Room::None,
        }
    }

    fn age(&self, owners: &dyn Owners) {
        self.store.advance_epoch();
        if self.recompresses {
            // Busy: 64 threads write at the moment. There is time later.
            let _ = self.store.recompress(IDLE, RECOMPRESSED, |page, old, new| {
                relocate(owners, page, old, new)
            });
        }
        if let Some(file) = &self.file {
            file.age(owners);
        }
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let store = self.store.validate().err().map(|broken| broken.invariant());
        store.or_else(|| Some(self.file.as_ref()?.validate().err()?.invariant()))
    }

    fn begin_fork(&self) -> Result<(), Errno> {
        self.file.as_ref().map_or(Ok(()), FileTier::begin_fork)
    }

    fn end_fork(&self, is_child: bool) {
        if let Some(tier) = &self.file {
            tier.end_fork(is_child);
        }
    }

    fn leave(&self) {
        if let Some(tier) = &self.file {
            tier.leave();
        }
    }

    fn poll_page_file(&self) {
        if let Some(tier) = &self.file {
            tier.poll_creation();
        }
    }

    fn expect_page_file(&self) {
        if let Some(tier) = &self.file {
            tier.expect_creation();
        }
    }

    fn refuse_page_file(&self, errno: Errno) {
        if let Some(tier) = &self.file {
            tier.refuse_creation(errno);
        }
    }

    fn page_file(&self) -> Option<PageFileUse> {
        self.file.as_ref().map(FileTier::stats)
    }
}

#[cfg(all(test, not(loom)))]
impl SavedCopies {
    /// Checks the invariants of store and page file, while no thread uses them.
    #[track_caller]
    pub(crate) fn validate(&self) {
        self.store.validate().expect("every invariant of the store holds");
        if let Some(file) = &self.file {
            file.validate().expect("every invariant of the page file holds");
        }
    }

    /// As [`store::Store::close_segments`].
    pub(crate) fn close_segments(&self) {
        self.store.close_segments();
    }

    pub(crate) fn store_stats(&self) -> store::Stats {
        self.store.stats()
    }
}
