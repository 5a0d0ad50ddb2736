//! The budget.

use super::content::{CLASSES, Class, Numbers, page_of};
use super::*;

/// Bytes of the store's mapping that are resident, by the kernel.
#[allow(unsafe_code, reason = "`mincore(2)` on the mapping of a store")]
fn resident(store: &Store) -> u64 {
    let (start, length) = store.space.memory.range();
    let mut pages = vec![0u8; length / PAGE];
    // SAFETY: the range is mapped, and there is a byte for each of its pages.
    let returned = unsafe { libc::mincore(start as *mut _, length, pages.as_mut_ptr().cast()) };
    assert_eq!(returned, 0);
    pages.iter().filter(|flags| **flags & 1 == 1).count() as u64 * PAGE as u64
}

#[test]
fn used_bytes_cover_what_is_resident() {
    let store = store();
    let mut numbers = Numbers(7);
    let mut owner = Owner::of(&store, 0, |_| [0; PAGE]);
    let check = |store: &Store, step: &str| {
        let (used, resident) = (store.used_bytes(), resident(store));
        assert!(used >= resident, "{step}: {used} bytes used, {resident} resident");
        // Contexts of codecs are counted whole; the store itself is outside of the mapping.
        assert!(
            used - resident < 600 << 10,
            "{step}: {used} bytes used, {resident} resident"
        );
    };
    check(&store, "empty");
    for number in 0..2000 {
        let class = CLASSES[numbers.below(CLASSES.len() as u64) as usize];
        owner
            .places
            .push(store.put(page(number), &page_of(class, number.into())).ok());
    }
    check(&store, "put");
    store.close_segments();
    owner.recompress(&store, false);
    check(&store, "recompressed");
    for number in (0..2000).filter(|number| number % 3 > 0) {
        owner.free(&store, number);
    }
    store.close_segments();
    owner.clean(&store);
    check(&store, "cleaned");
    owner.recompress(&store, true);
    check(&store, "recompressed together");
    for number in 0..2000 {
        if let Some(place) = owner.places[number as usize] {
            read(&store, number, place).expect("it has a copy");
        }
    }
    check(&store, "read");
    (0..2000).for_each(|number| owner.free(&store, number));
    store.close_segments();
    store.return_free();
    check(&store, "freed");
    let stats = store.stats();
    assert_eq!((stats.pages, stats.live, stats.recycled), (0, 0, 0));
    assert!(
        store.used_bytes() < 900 << 10,
        "tables and buffers alone: {}",
        store.used_bytes()
    );
}

#[test]
fn the_limit_is_never_exceeded() {
    let limit = 4 << 20;
    let store = limited(limit);
    let mut owner = Owner {
        places: vec![None; 4096],
    };
    let mut numbers = Numbers(3);
    let mut refused = 0;
    for round in 0..20_000u64 {
        let number = numbers.below(4096) as u32;
        owner.free(&store, number);
        match store.put(page(number), &page_of(Class::Edge, round)) {
            Ok(place) => owner.places[number as usize] = Some(place),
            Err(PutError::Full { used, .. }) => {
                assert!(used <= limit);
                refused += 1;
                if refused % 16 == 0 {
                    let cleaned = owner.clean(&store);
                    assert!(!cleaned.is_full, "the reserve is enough");
                }
            }
            Err(error) => panic!("{error}"),
        }
        assert!(
            store.used_bytes() <= limit,
            "round {round}: {}",
            store.used_bytes()
        );
    }
    assert!(refused > 100, "{refused} puts were refused");
    store.validate().expect("every invariant holds");
}

#[test]
fn a_lower_limit_leaves_room_to_clean() {
    let store = store();
    let content = |number: u32| page_of(Class::Edge, number.into());
    let mut owner = Owner::of(&store, 4000, content);
    (0..4000)
        .filter(|number| number % 4 > 0)
        .for_each(|number| owner.free(&store, number));
    store.close_segments();
    let before = store.used_bytes();
    store.set_limit(2 << 20);
    assert!(matches!(
        store.put(page(5000), &content(1)),
        Err(PutError::Full { .. })
    ));
    let cleaned = owner.clean(&store);
    store.return_free();
    assert!(!cleaned.is_full);
    assert!(
        store.used_bytes() < before / 2,
        "{} of {before}",
        store.used_bytes()
    );
    owner.verify(&store, content);
}

#[test]
fn freed_segments_are_used_again() {
    let store = limited(2 << 20);
    for round in 0..200u64 {
        let content = |number: u32| page_of(Class::Edge, round * 100 + u64::from(number));
        let mut owner = Owner::of(&store, 100, content);
        assert!(owner.places.iter().all(Option::is_some), "round {round}");
        owner.verify(&store, content);
        (0..100).for_each(|number| owner.free(&store, number));
    }
    assert!(store.space.begun() < 20, "{} segments", store.space.begun());
}

/// Bytes of RAM for each page, as entries, headers and unused ends, without the tables and buffers of a whole store.
#[test]
fn little_is_lost_at_the_ends_of_segments() {
    let store = store();
    let before = store.used_bytes();
    let owner = Owner::of(&store, 4000, |number| {
        page_of(
            [Class::Text, Class::Pointers, Class::Program][number as usize % 3],
            number.into(),
        )
    });
    assert!(owner.places.iter().all(Option::is_some));
    let (used, live) = (store.used_bytes() - before, store.stats().live);
    // Buffers of one writer, and open segments.
    let fixed = 64 << 10;
    assert!(
        used - fixed < live + live / 100,
        "{used} bytes for entries of {live}"
    );
}

/// Open segments were never cleaned: a process with 200 KiB of copies in use had a store of 728 KiB, and 0.2 MiB of its budget of
/// 1 MiB for pages.
#[test]
fn a_small_store_cleans_open_segments_too() {
    let store = store();
    let content = |number: u32| page_of(Class::Random, number.into());
    let mut owner = Owner::of(&store, 48, content);
    (0..48)
        .filter(|number| number % 4 > 0)
        .for_each(|number| owner.free(&store, number));
    let before = store.stats();
    assert!(before.dead > 36 * PAGE as u64, "{before:?}");
    owner.clean(&store);
    let after = store.stats();
    assert!(after.dead < 8 * PAGE as u64, "{after:?}");
    let in_segments = after.used - after.recycled;
    assert!(
        in_segments + 16 * PAGE as u64 <= before.used,
        "{after:?} after {before:?}"
    );
    owner.verify(&store, content);
    assert_eq!(store.validate(), Ok(()));
}
