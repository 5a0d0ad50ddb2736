//! Pages are put, read and freed.

use super::content::{CLASSES, Class, page_of};
use super::*;

#[test]
fn every_class_is_read_back_as_it_was_put() {
    let store = store();
    let content = |number: u32| page_of(CLASSES[number as usize % CLASSES.len()], u64::from(number));
    let owner = Owner::of(&store, 900, content);
    owner.verify(&store, content);
    store.validate().expect("every invariant holds");
}

#[test]
fn zstandard_first_is_read_back_as_it_was_put() {
    let options = StoreOptions {
        most: 64 << 20,
        limit: 16 << 20,
        first: FirstCodec::Zstd,
    };
    let store = Store::new(&options).expect("there is address space");
    let content = |number: u32| page_of(CLASSES[number as usize % CLASSES.len()], u64::from(number));
    let owner = Owner::of(&store, 900, content);
    owner.verify(&store, content);
    store.validate().expect("every invariant holds");
}

#[test]
fn a_page_of_one_short_word_takes_no_bytes() {
    let store = store();
    let before = store.used_bytes();
    for (number, class) in [Class::Zero, Class::Word].into_iter().enumerate() {
        let bytes = page_of(class, 5);
        let place = store.put(page(number as u32), &bytes).expect("it takes none");
        assert!(place.is_same_filled());
        assert!(read(&store, number as u32, place) == Ok(bytes));
    }
    assert_eq!((store.used_bytes(), store.stats().same_filled_pages), (before, 2));
    store.free(page(0), Place::same_filled(0)).expect("it has a copy");
    assert_eq!(store.stats().same_filled_pages, 1);
}

#[test]
fn a_page_of_one_long_word_takes_an_entry_of_20_bytes() {
    let store = store();
    let bytes = page_of(Class::LongWord, 5);
    let place = store.put(page(1), &bytes).expect("there is room");
    assert!(!place.is_same_filled() && read(&store, 1, place) == Ok(bytes));
    assert_eq!(store.stats().live, 24, "20, in units of 8");
}

#[test]
fn a_page_above_3_kib_is_kept_as_it_is() {
    let store = store();
    let mut bytes = page_of(Class::Zero, 0);
    // LZ4 keeps these bytes, adds some, and looks for a match at every few bytes alone by then.
    let random = page_of(Class::Random, 5);
    bytes[..2980].copy_from_slice(&random[..2980]);
    store.put(page(1), &bytes).expect("there is room");
    let compressed = store.stats().live;
    assert!(compressed < 3100, "{compressed}");
    bytes[..3080].copy_from_slice(&random[..3080]);
    store.put(page(2), &bytes).expect("there is room");
    assert_eq!(store.stats().live - compressed, 4112, "4108, in units of 8");
}

#[test]
fn a_freed_page_is_gone_and_is_freed_once() {
    let store = store();
    let place = store
        .put(page(9), &page_of(Class::Text, 1))
        .expect("there is room");
    let neighbour = store
        .put(page(10), &page_of(Class::Text, 2))
        .expect("there is room");
    store.free(page(9), place).expect("it has a copy");
    assert_eq!(read(&store, 9, place), Err(Flaw::Freed));
    let again = store.free(page(9), place).expect_err("it has none");
    assert_eq!(again.flaw, Flaw::Freed);
    assert!(read(&store, 10, neighbour) == Ok(page_of(Class::Text, 2)));
    store.validate().expect("every invariant holds");
}

#[test]
fn the_entry_of_another_page_is_refused() {
    let store = store();
    let place = store
        .put(page(9), &page_of(Class::Text, 1))
        .expect("there is room");
    for other in [8, 10, 13, 9 + (1 << 20)] {
        assert_eq!(read(&store, other, place), Err(Flaw::Owner), "page {other}");
        assert_eq!(
            store.free(page(other), place).expect_err("not its place").flaw,
            Flaw::Owner
        );
    }
    assert!(read(&store, 9, place).is_ok());
}

#[test]
fn a_place_outside_of_the_store_is_refused() {
    let store = store();
    let bytes = page_of(Class::Text, 1);
    let place = store.put(page(9), &bytes).expect("there is room");
    for bits in 0..Place::BITS {
        let Some(other) = Place::of_bits(place.bits() ^ 1 << bits) else {
            continue;
        };
        // The copy of a page that is filled with one word is the place itself.
        let is_wrong = !other.is_same_filled() && read(&store, 9, other).is_ok();
        assert!(!is_wrong, "{other:?}");
    }
}

#[test]
fn neighbours_of_a_quad_are_read_together() {
    let store = store();
    let content = |number: u32| page_of(Class::Text, u64::from(number));
    let mut owner = Owner::of(&store, 64, content);
    store.close_segments();
    owner.recompress(&store, true);
    assert!(store.stats().live_quads > 0);
    owner.free(&store, 6);
    let mut run = store.run();
    for number in [4, 5, 7, 8, 5] {
        let mut bytes = [0; PAGE];
        let copy = run.get(page(number), owner.place(number), &NoFile, &mut bytes);
        assert_eq!(copy, Ok(()), "page {number}");
        assert!(bytes == content(number), "page {number}");
    }
    // A page of another quad does not get the bytes of the held one.
    let copy = run.get(page(9), owner.place(5), &NoFile, &mut [0; PAGE]);
    assert!(
        matches!(
            copy,
            Err(SpilledError::Damaged(Damaged {
                flaw: Flaw::Owner,
                ..
            }))
        ),
        "{copy:?}"
    );
}

#[test]
fn a_limit_below_the_least_or_above_the_most_is_refused() {
    for (most, limit) in [(64 << 20, LEAST_LIMIT - 1), (2 << 20, 3 << 20)] {
        let options = StoreOptions {
            most,
            limit,
            first: FirstCodec::Lz4,
        };
        let refused = Store::new(&options).expect_err("no such store");
        assert_eq!(refused, StoreError::Limit { limit, most });
    }
}

#[test]
fn address_space_that_is_not_there_is_an_error() {
    let options = StoreOptions {
        most: 3 << 40,
        limit: 1 << 30,
        first: FirstCodec::Lz4,
    };
    // 3 TiB can be reserved or not; 256 TiB of user space cannot hold more than places can name.
    let _ = Store::new(&options);
    let refused = Store::new(&StoreOptions {
        most: 1 << 50,
        ..options
    })
    .expect_err("places cannot name it");
    assert!(matches!(
        refused,
        StoreError::Memory {
            error: Errno::INVAL,
            ..
        }
    ));
}
