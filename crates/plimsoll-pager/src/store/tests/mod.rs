//! Tests of the store as a whole, by topic.

mod accounting;
mod content;
mod copies;
mod damage;
mod hostile;
mod idle;
mod leases;
mod model;
mod pages;
mod spill;
mod threads;

use super::*;

/// A store of 16 MiB.
fn store() -> Store {
    limited(16 << 20)
}

fn limited(limit: u64) -> Store {
    Store::new(&StoreOptions {
        most: 64 << 20,
        limit,
        first: FirstCodec::Lz4,
    })
    .expect("there is address space")
}

fn page(number: u32) -> PageIndex {
    PageIndex::new(number)
}

/// The copy of a page.
fn read(store: &Store, number: u32, place: Place) -> Result<Page, Flaw> {
    let mut target = [0x77; PAGE];
    match store.get(page(number), place, &mut target) {
        Ok(()) => Ok(target),
        Err(damaged) => {
            assert_eq!((damaged.page, damaged.place), (page(number), place));
            Err(damaged.flaw)
        }
    }
}

/// Pages of one owner that agrees to every move.
struct Owner {
    places: Vec<Option<Place>>,
}

impl Owner {
    /// Puts `count` pages that `content` makes.
    fn of(store: &Store, count: u32, mut content: impl FnMut(u32) -> Page) -> Owner {
        let places = (0..count).map(|number| store.put(page(number), &content(number)).ok());
        Owner {
            places: places.collect(),
        }
    }

    fn place(&self, number: u32) -> Place {
        self.places[number as usize].expect("it has a copy")
    }

    /// The answer to a request to move a page.
    fn relocate(&mut self, page: PageIndex, old: Place, new: Place) -> bool {
        let place = &mut self.places[page.number() as usize];
        let is_there = *place == Some(old);
        if is_there {
            *place = Some(new);
        }
        is_there
    }

    fn free(&mut self, store: &Store, number: u32) {
        if let Some(place) = self.places[number as usize].take() {
            store.free(page(number), place).expect("it has a copy");
        }
    }

    fn clean(&mut self, store: &Store) -> Cleaned {
        store
            .clean(u64::MAX, |page, old, new| self.relocate(page, old, new))
            .expect("a writer is free")
    }

    /// Recompresses all closed segments.
    fn recompress(&mut self, store: &Store, is_together: bool) -> Cleaned {
        let idle = Idle {
            pages: 0,
            quads: if is_together { 0 } else { u32::MAX },
        };
        store
            .recompress(idle, u64::MAX, |page, old, new| self.relocate(page, old, new))
            .expect("a writer is free")
    }

    /// Checks that every page is as `content` made it.
    fn verify(&self, store: &Store, mut content: impl FnMut(u32) -> Page) {
        for (number, place) in self.places.iter().enumerate() {
            if let Some(place) = place {
                let number = number as u32;
                assert!(
                    read(store, number, *place) == Ok(content(number)),
                    "page {number}"
                );
            }
        }
    }
}
