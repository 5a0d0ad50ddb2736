//! A store for tests: a map under a lock, which checks that places are used as the interface says.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

use super::{Backing, Damaged, PutError};
use crate::driver::simulated::Injection;
use crate::page::{PAGE_SIZE, Page, PageIndex, Place, Tier};

/// Keeps pages, compressed by lz4.
#[derive(Default)]
pub(crate) struct ModelStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    copies: HashMap<u64, (PageIndex, Vec<u8>)>,
    next: u64,
    bytes: u64,
    /// Bytes that it may hold; 0 for any number.
    capacity: u64,
    /// Copies of these pages are damaged when they are read.
    damaged: Vec<PageIndex>,
    injection: Injection,
}

/// Bytes of a copy beside its contents.
const HEAD: u64 = 16;

impl ModelStore {
    /// A store of at most `capacity` bytes; 0 for any number.
    pub(crate) fn with_capacity(capacity: u64) -> ModelStore {
        let store = ModelStore::default();
        store.state().capacity = capacity;
        store
    }

    /// Fails `per_mille` of 1000 calls from now on; a read fails as if its copy were damaged.
    pub(crate) fn inject(&self, injection: Injection) {
        self.state().injection = injection;
    }

    /// Ends the injected errors, and returns those so far.
    pub(crate) fn end_injection(&self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.state().injection).injected().clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds it")
    }

    /// Damages the copies of `page`, now and later.
    pub(crate) fn damage(&self, page: PageIndex) {
        self.state().damaged.push(page);
    }

    pub(crate) fn copies(&self) -> usize {
        self.state().copies.len()
    }
}

impl Backing for ModelStore {
    fn put(&self, owner: PageIndex, page: &Page) -> Result<Place, PutError> {
        let bytes = lz4::block::compress(page, None, false).expect("lz4 takes every page");
        let mut state = self.state();
        let refusals = [("full store", PutError::Full), ("busy store", PutError::Busy)];
        if let Some(refusal) = state.injection.draw(&refusals) {
            return Err(refusal);
        }
        let length = bytes.len() as u64 + HEAD;
        if state.capacity > 0 && state.bytes + length > state.capacity {
            return Err(PutError::Full);
        }
        state.bytes += length;
        state.next += 1;
        let place = state.next;
        state.copies.insert(place, (owner, bytes));
        Ok(Place::new(place).expect("a test saves fewer pages"))
    }

    fn get(&self, owner: PageIndex, place: Place, page: &mut Page) -> Result<(), Damaged> {
        let mut state = self.state();
        if state.injection.draw(&[("damaged copy", ())]).is_some() {
            // Its bytes are any: the reader must not use them.
            page.fill(0xDB);
            return Err(Damaged::Checksum);
        }
        let (of, bytes) = state.copies.get(&place.bits()).ok_or(Damaged::Checksum)?;
        if *of != owner || state.damaged.contains(of) {
            return Err(Damaged::Checksum);
        }
        let bytes = lz4::block::decompress(bytes, Some(PAGE_SIZE as i32)).map_err(|_| Damaged::Checksum)?;
        page.copy_from_slice(&bytes);
        Ok(())
    }

    fn free(&self, owner: PageIndex, place: Place) {
        let mut state = self.state();
        let copy = state.copies.remove(&place.bits());
        let (of, bytes) = copy.expect("a copy is freed once");
        assert_eq!(of, owner, "a copy is freed by its owner");
        state.bytes -= bytes.len() as u64 + HEAD;
    }

    fn tier(&self, _: Place) -> Tier {
        Tier::Memory
    }

    fn clean(&self, bytes: u64, relocate: &mut dyn FnMut(PageIndex, Place, Place) -> bool) -> bool {
        // A map has no gaps, but its copies move as those of a store do.
        let mut state = self.state();
        let mut moved = 0;
        let old: Vec<u64> = state.copies.keys().copied().take(8).collect();
        for old in old {
            let Some((owner, copy)) = state.copies.get(&old).cloned() else {
                continue;
            };
            if moved + copy.len() as u64 > bytes {
                break;
            }
            moved += copy.len() as u64;
            state.next += 1;
            let new = state.next;
            let place = |place| Place::new(place).expect("a test saves fewer pages");
            let is_moved = relocate(owner, place(old), place(new));
            if is_moved {
                state.copies.remove(&old);
                state.copies.insert(new, (owner, copy));
            }
        }
        false
    }

    fn identity(&self, _: PageIndex, place: Place) -> Option<u64> {
        Some(place.bits())
    }

    fn used_bytes(&self) -> u64 {
        self.state().bytes
    }

    fn set_limit(&self, bytes: u64) {
        let mut state = self.state();
        if state.capacity > 0 {
            state.capacity = bytes;
        }
    }
}
