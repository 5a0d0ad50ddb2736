//! Changed bits of entries: each is reported, or changes no page.

use core::sync::atomic::Ordering;

use super::content::{Class, page_of};
use super::*;

impl Store {
    /// Changes a bit of the entry at `place`, as a fault of the machine would.
    pub(super) fn flip(&self, place: Place, bit: usize) {
        let PlaceKind::InMemory(spot) = place.kind() else {
            panic!("{place:?} is no entry");
        };
        let word = &self.space.words(spot.segment)[spot.unit as usize + bit / 64];
        word.fetch_xor(1 << (bit % 64), Ordering::Relaxed);
    }

    /// Bits of the entry at `place`, without the zeros at its end.
    fn entry_bits(&self, place: Place) -> usize {
        let PlaceKind::InMemory(spot) = place.kind() else {
            panic!("{place:?} is no entry");
        };
        let header = reader::header(&self.space, spot).expect("it is an entry");
        (entry::HEADER + header.length) * 8
    }
}

/// Flips every bit of the entries of some pages, one at a time.
fn flip_all(store: &Store, owner: &Owner, numbers: &[u32], content: impl Fn(u32) -> Page) {
    for &number in numbers {
        let place = owner.place(number);
        for bit in 0..store.entry_bits(place) {
            store.flip(place, bit);
            if let Ok(read) = read(store, number, place) {
                assert!(read == content(number), "page {number}, bit {bit}: a wrong page");
                // Another page's live bit alone may change unnoticed by this one.
                assert!((21..25).contains(&bit), "page {number}, bit {bit} is not noticed");
            }
            store.flip(place, bit);
        }
        assert!(read(store, number, place) == Ok(content(number)));
    }
}

#[test]
fn a_flipped_bit_never_yields_a_wrong_page() {
    let store = store();
    let classes = [Class::Text, Class::LongWord, Class::Random, Class::Runs];
    let content = |number: u32| page_of(classes[number as usize % 4], number.into());
    let owner = Owner::of(&store, 8, content);
    flip_all(&store, &owner, &[0, 1, 2, 3], content);
}

#[test]
fn a_flipped_bit_of_a_zstandard_entry_never_yields_a_wrong_page() {
    let store = store();
    let text = |number: u32| page_of(Class::Text, number.into());
    let mut owner = Owner::of(&store, 200, text);
    store.close_segments();
    owner.recompress(&store, false);
    flip_all(&store, &owner, &[0, 7], text);
    store.close_segments();
    owner.recompress(&store, true);
    flip_all(&store, &owner, &[5], text);
}

#[test]
fn a_damaged_entry_is_counted_and_its_neighbours_are_whole() {
    let store = store();
    let text = |number: u32| page_of(Class::Text, number.into());
    let mut owner = Owner::of(&store, 200, text);
    store.flip(owner.place(50), 1000);
    assert_eq!(read(&store, 50, owner.place(50)), Err(Flaw::Checksum));
    assert_eq!(store.stats().damaged_pages, 1);
    // Its length is still known, so it can be freed.
    owner.free(&store, 50);
    owner.verify(&store, text);
}

#[test]
fn cleaning_never_moves_a_damaged_entry() {
    let store = store();
    let text = |number: u32| page_of(Class::Text, number.into());
    let mut owner = Owner::of(&store, 400, text);
    (0..400)
        .filter(|number| number % 4 > 0)
        .for_each(|number| owner.free(&store, number));
    store.close_segments();
    store.flip(owner.place(40), 1000);
    let before = owner.place(40);
    let cleaned = owner.clean(&store);
    assert_eq!((cleaned.damaged, store.stats().damaged_segments), (1, 1));
    assert_eq!(
        (owner.place(40), read(&store, 40, before)),
        (before, Err(Flaw::Checksum))
    );
    assert_eq!(owner.clean(&store).damaged, 0, "it is not tried again");
    owner.recompress(&store, true);
    store.validate().expect("every invariant holds");
    for number in (0..400).filter(|number| *number != 40) {
        if let Some(place) = owner.places[number as usize] {
            assert!(read(&store, number, place) == Ok(text(number)), "page {number}");
        }
    }
    (0..400).for_each(|number| owner.free(&store, number));
    assert_eq!(store.stats().damaged_segments, 0, "its last entry frees it");
    store.validate().expect("every invariant holds");
}

#[test]
fn a_damaged_segment_is_not_spilled() {
    let store = store();
    let text = |number: u32| page_of(Class::Text, number.into());
    let owner = Owner::of(&store, 200, text);
    store.close_segments();
    (0..200).for_each(|number| store.flip(owner.place(number), 1000));
    let mut bytes = Box::new([0; SEGMENT]);
    assert!(store.take_segment_for_spill(&mut bytes).is_none());
    let stats = store.stats();
    assert_eq!(stats.damaged_segments, stats.closed_segments);
}
