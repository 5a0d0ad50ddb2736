//! Segments that move to a page file.

use std::cell::RefCell;
use std::collections::HashMap;

use super::content::{CLASSES, Class, page_of};
use super::*;

/// A page file in RAM: segments by slot.
#[derive(Default)]
pub(super) struct File {
    slots: HashMap<u32, Box<[u8; SEGMENT]>>,
    pub(super) next: u32,
    /// The blocks that were read.
    reads: RefCell<Vec<(u32, usize)>>,
    /// Whether a test changes blocks, so that each read must see the file.
    changes: bool,
}

impl File {
    pub(super) fn write(&mut self, bytes: Box<[u8; SEGMENT]>) -> u32 {
        self.next += 1;
        self.slots.insert(self.next, bytes);
        self.next
    }

    pub(super) fn read(&self, store: &Store, number: u32, place: Place) -> Result<Page, SpilledError<()>> {
        let mut target = [0x77; PAGE];
        self.reads.borrow_mut().clear();
        let read = store.run().get(page(number), place, self, &mut target);
        let reads = self.reads.borrow();
        assert!(reads.len() <= 2 && reads.is_sorted(), "{reads:?}");
        read.map(|()| target)
    }
}

impl Blocks for File {
    type Error = ();

    fn seal(&self, slot: u32, block: usize) -> u64 {
        // No slot is written twice.
        if self.changes {
            0
        } else {
            u64::from(slot) << 2 | block as u64
        }
    }

    fn read(&self, slot: u32, block: usize, bytes: &mut [u8; BLOCK]) -> Result<(), ()> {
        self.reads.borrow_mut().push((slot, block));
        let slot = self.slots.get(&slot).ok_or(())?;
        bytes.copy_from_slice(&slot[block * BLOCK..(block + 1) * BLOCK]);
        Ok(())
    }
}

fn content(number: u32) -> Page {
    page_of(CLASSES[number as usize % CLASSES.len()], number.into())
}

/// Spills every closed segment.
fn spill_all(store: &Store, owner: &mut Owner, file: &mut File) -> u32 {
    let mut moved = 0;
    loop {
        let mut bytes = Box::new([0xee; SEGMENT]);
        let Some(spill) = store.take_segment_for_spill(&mut bytes) else {
            return moved;
        };
        let slot = file.write(bytes);
        moved += spill
            .finish(slot, |page, old, new| owner.relocate(page, old, new))
            .moved;
    }
}

#[test]
fn every_page_is_read_from_the_file() {
    for codec in [None, Some(false), Some(true)] {
        let store = store();
        let mut owner = Owner::of(&store, 1800, content);
        store.close_segments();
        if let Some(is_together) = codec {
            owner.recompress(&store, is_together);
            store.close_segments();
        }
        let mut file = File::default();
        let pages = store.stats().pages;
        assert_eq!(u64::from(spill_all(&store, &mut owner, &mut file)), pages);
        let stats = store.stats();
        assert_eq!((stats.pages, stats.live, stats.closed_segments), (0, 0, 0));
        store.validate().expect("every invariant holds");
        for number in 0..1800 {
            let place = owner.place(number);
            if place.slot().is_some() {
                assert!(
                    file.read(&store, number, place) == Ok(content(number)),
                    "page {number}"
                );
                assert_eq!(read(&store, number, place), Err(Flaw::Place), "it is not in RAM");
            } else {
                assert!(place.is_same_filled());
            }
        }
    }
}

#[test]
fn a_spill_that_fails_leaves_the_pages_in_ram() {
    let store = store();
    let mut owner = Owner::of(&store, 500, content);
    store.close_segments();
    let mut bytes = Box::new([0; SEGMENT]);
    owner.verify(&store, content);
    let before = store.stats();
    for _ in 0..3 {
        let spill = store
            .take_segment_for_spill(&mut bytes)
            .expect("segments are closed");
        owner.verify(&store, content);
        drop(spill);
    }
    assert_eq!(store.stats(), before);
    owner.verify(&store, content);
    store.validate().expect("every invariant holds");
    assert!(spill_all(&store, &mut owner, &mut File::default()) > 0);
}

#[test]
fn pages_change_hands_during_a_spill() {
    let store = store();
    let mut owner = Owner::of(&store, 500, content);
    store.close_segments();
    let mut bytes = Box::new([0; SEGMENT]);
    let spill = store
        .take_segment_for_spill(&mut bytes)
        .expect("segments are closed");
    // Freed while the write was under way, and locked by a reader at its end.
    (0..500).step_by(3).for_each(|number| owner.free(&store, number));
    let mut file = File::default();
    let spilled = spill.finish(file.write(bytes), |page, old, new| {
        page.number() % 3 == 1 && owner.relocate(page, old, new)
    });
    assert!(spilled.moved > 0 && spilled.refused > 0);
    for number in 0..500 {
        let Some(place) = owner.places[number as usize] else {
            continue;
        };
        let bytes = match place.slot() {
            Some(_) => file.read(&store, number, place).expect("the file has it"),
            None => read(&store, number, place).expect("RAM has it"),
        };
        assert!(bytes == content(number), "page {number}");
    }
    store.validate().expect("every invariant holds");
}

#[test]
fn the_segment_idle_longest_is_spilled_first() {
    let store = store();
    // 15 of them fill a segment, and the last 10 more than half of one.
    let text = |number: u32| page_of(Class::Random, number.into());
    let mut places = Vec::new();
    for epoch in 0..4 {
        for number in epoch * 100..epoch * 100 + 100 {
            places.push(Some(
                store.put(page(number), &text(number)).expect("there is room"),
            ));
        }
        store.close_segments();
        store.advance_epoch();
    }
    let mut owner = Owner { places };
    let mut bytes = Box::new([0; SEGMENT]);
    let mut last = 0;
    while let Some(spill) = store.take_segment_for_spill(&mut bytes) {
        let mut epochs = Vec::new();
        let _ = spill.finish(1, |page, old, new| {
            epochs.push(page.number() / 100);
            owner.relocate(page, old, new)
        });
        assert!(
            epochs.iter().all(|epoch| *epoch >= last),
            "{epochs:?} after {last}"
        );
        last = epochs.into_iter().max().unwrap_or(last);
    }
    assert_eq!(last, 3);
}

#[test]
fn damage_in_the_file_is_reported() {
    let store = store();
    let text = |number: u32| page_of(Class::Text, number.into());
    let mut owner = Owner::of(&store, 100, text);
    store.close_segments();
    let mut file = File::default();
    spill_all(&store, &mut owner, &mut file);
    file.changes = true;
    let place = owner.place(50);
    for at in (0..SEGMENT).step_by(7) {
        for slot in file.slots.values_mut() {
            slot[at] ^= 0x10;
        }
        match file.read(&store, 50, place) {
            Ok(read) => assert!(read == text(50), "byte {at}: a wrong page"),
            Err(error) => assert!(matches!(error, SpilledError::Damaged(_)), "byte {at}: {error:?}"),
        }
        for slot in file.slots.values_mut() {
            slot[at] ^= 0x10;
        }
    }
    assert!(matches!(
        file.read(&store, 51, place),
        Err(SpilledError::Damaged(Damaged {
            flaw: Flaw::Owner,
            ..
        }))
    ));
    file.slots.clear();
    assert_eq!(file.read(&store, 50, place), Err(SpilledError::Read(())));
}

#[test]
fn any_place_in_the_file_yields_a_page_or_an_error() {
    let store = store();
    let mut owner = Owner::of(&store, 300, content);
    store.close_segments();
    let mut file = File::default();
    spill_all(&store, &mut owner, &mut file);
    for unit in 0..8192 {
        let place = Place::in_file(Spot { segment: 1, unit });
        for number in [0, 1, 2, 3] {
            if let Ok(read) = file.read(&store, number, place) {
                assert!(read == content(number), "page {number} at {unit}");
            }
        }
    }
}

#[test]
fn a_run_reads_each_block_of_the_file_once() {
    let store = store();
    let mut file = File::default();
    // Text, of which an entry takes a part of a block; the last ones stay in an open segment.
    let content = |number: u32| page_of(Class::Text, number.into());
    let mut owner = Owner::of(&store, 600, content);
    store.close_segments();
    assert!(spill_all(&store, &mut owner, &mut file) > 500);
    let mut run = store.run();
    for number in 0..600 {
        let mut bytes = [0; PAGE];
        let copy = run.get(page(number), owner.place(number), &file, &mut bytes);
        assert_eq!(copy, Ok(()), "page {number}");
        assert!(bytes == content(number), "page {number}");
    }
    let reads = file.reads.take();
    assert!(reads.len() < 600 / 5, "{reads:?}");
    // Pages that were put by turns in two segments alternate between their slots.
    for of_slot in reads.chunk_by(|one, next| one.0 == next.0) {
        assert!(of_slot.is_sorted_by(|one, next| one < next), "{reads:?}");
    }
}

#[test]
fn a_block_is_held_from_run_to_run_and_never_after_a_failed_read() {
    let store = store();
    let mut file = File::default();
    let content = |number: u32| page_of(Class::Text, number.into());
    let mut owner = Owner::of(&store, 200, content);
    store.close_segments();
    assert!(spill_all(&store, &mut owner, &mut file) > 100);
    let get = |number: u32, file: &File| {
        let mut bytes = [0; PAGE];
        let copy = store
            .run()
            .get(page(number), owner.place(number), file, &mut bytes);
        assert!(copy.is_err() || bytes == content(number), "page {number}");
        copy
    };
    assert_eq!(get(0, &file), Ok(()));
    let reads = file.reads.borrow().len();
    assert_eq!(get(1, &file), Ok(()));
    assert_eq!(file.reads.borrow().len(), reads, "page 1 lies behind page 0");
    // The disk fails: pages of other blocks cannot be read, and those of blocks whose buffers were lost neither.
    let slots = std::mem::take(&mut file.slots);
    assert_eq!(get(150, &file), Err(SpilledError::Read(())));
    assert_eq!(get(0, &file), Err(SpilledError::Read(())));
    file.slots = slots;
    assert_eq!(get(0, &file), Ok(()));
    assert_eq!(get(150, &file), Ok(()));
}
