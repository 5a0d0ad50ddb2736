//! The compression store as the manager sees it.

use crate::backing::{Backing, Damaged, PutError};
use crate::page::{Page, PageIndex, Place, Tier};
use crate::store;

/// Saved copies in a compression store.
#[derive(Debug)]
pub(crate) struct SavedCopies {
    store: store::Store,
    /// The most bytes that the store can ever use.
    most: u64,
}

impl SavedCopies {
    /// Copies in `store`, which has addresses for `most` bytes.
    pub(crate) fn new(store: store::Store, most: u64) -> SavedCopies {
        SavedCopies { store, most }
    }
}

fn owner(page: PageIndex) -> store::PageIndex {
    store::PageIndex::new(page.number())
}

/// The store's place of ours, which it made.
fn place_of(place: Place) -> Result<store::Place, Damaged> {
    store::Place::of_bits(place.bits()).ok_or(Damaged::Checksum)
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
        let copy = self.store.get(owner(page), place_of(place)?, bytes);
        copy.map_err(|_| Damaged::Checksum)
    }

    fn free(&self, page: PageIndex, place: Place) {
        // The page's word is the only one that names the place. A store that does not know it has counted the damage.
        if let Ok(place) = place_of(place) {
            let _ = self.store.free(owner(page), place);
        }
    }

    fn tier(&self, _: Place) -> Tier {
        Tier::Memory
    }

    fn clean(&self, bytes: u64, relocate: &mut dyn FnMut(PageIndex, Place, Place) -> bool) -> bool {
        let cleaned = self.store.clean(bytes, |owner, old, new| {
            match (Place::new(old.bits()), Place::new(new.bits())) {
                (Ok(old), Ok(new)) => relocate(PageIndex::new(owner.number()), old, new),
                _ => false,
            }
        });
        cleaned.is_ok_and(|cleaned| cleaned.segments > 0)
    }

    fn is_exclusive(&self, place: Place) -> bool {
        place_of(place).is_ok_and(|place| !place.is_same_filled())
    }

    fn used_bytes(&self) -> u64 {
        self.store.used_bytes()
    }

    fn set_limit(&self, bytes: u64) {
        self.store.set_limit(bytes.min(self.most));
    }
}
