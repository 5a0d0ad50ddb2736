//! Cleaning: entries move by the consent of their owners.

use super::content::{CLASSES, Class, page_of};
use super::*;

fn content(number: u32) -> Page {
    page_of(CLASSES[number as usize % CLASSES.len()], number.into())
}

#[test]
fn cleaning_frees_segments_and_keeps_every_page() {
    let store = store();
    let mut owner = Owner::of(&store, 3000, content);
    (0..3000)
        .filter(|number| number % 5 > 0)
        .for_each(|number| owner.free(&store, number));
    store.close_segments();
    let before = store.stats();
    let cleaned = owner.clean(&store);
    let after = store.stats();
    owner.verify(&store, content);
    assert!(cleaned.moved > 0 && cleaned.refused == 0);
    assert_eq!((after.live, after.pages), (before.live, before.pages));
    assert!(after.closed_segments < before.closed_segments / 2, "{after:?}");
    store.validate().expect("every invariant holds");
}

#[test]
fn a_refused_page_stays_where_it_is() {
    let store = store();
    let mut owner = Owner::of(&store, 3000, content);
    (0..3000)
        .filter(|number| number % 5 > 0)
        .for_each(|number| owner.free(&store, number));
    store.close_segments();
    let before = owner.places.clone();
    let cleaned = store
        .clean(u64::MAX, |page, old, new| {
            page.number() % 2 == 0 && owner.relocate(page, old, new)
        })
        .expect("a writer is free");
    assert!(cleaned.moved > 0 && cleaned.refused > 0);
    for (number, place) in before.iter().enumerate().filter(|(number, _)| number % 2 == 1) {
        assert_eq!(owner.places[number], *place);
    }
    owner.verify(&store, content);
    store.validate().expect("every invariant holds");
}

#[test]
fn cleaning_that_every_owner_refuses_ends_and_uses_nothing() {
    let store = store();
    let mut owner = Owner::of(&store, 3000, content);
    (0..3000)
        .filter(|number| number % 5 > 0)
        .for_each(|number| owner.free(&store, number));
    store.close_segments();
    let cleaned = store.clean(u64::MAX, |_, _, _| false).expect("a writer is free");
    assert!(cleaned.moved == 0 && cleaned.refused > 0);
    store.close_segments();
    store.return_free();
    owner.verify(&store, content);
    store.validate().expect("every invariant holds");
}

#[test]
fn a_page_that_is_freed_meanwhile_does_not_move() {
    let store = store();
    let mut owner = Owner::of(&store, 1000, content);
    (0..1000)
        .filter(|number| number % 3 > 0)
        .for_each(|number| owner.free(&store, number));
    store.close_segments();
    let cleaned = store
        .clean(u64::MAX, |page, old, new| {
            if page.number() % 2 == 0 {
                owner.free(&store, page.number());
            }
            owner.relocate(page, old, new)
        })
        .expect("a writer is free");
    assert!(cleaned.moved > 0 && cleaned.refused > 0);
    owner.verify(&store, content);
    store.validate().expect("every invariant holds");
}

#[test]
fn the_budget_bounds_the_copied_bytes() {
    let store = store();
    let mut owner = Owner::of(&store, 3000, |number| page_of(Class::Edge, number.into()));
    (0..3000)
        .filter(|number| number % 4 > 0)
        .for_each(|number| owner.free(&store, number));
    store.close_segments();
    let cleaned = store
        .clean(100 << 10, |page, old, new| owner.relocate(page, old, new))
        .expect("a writer is free");
    // It looks at the budget after each segment.
    assert!((100 << 10..164 << 10).contains(&cleaned.copied), "{cleaned:?}");
}

#[test]
fn full_segments_are_not_cleaned() {
    let store = store();
    let mut owner = Owner::of(&store, 1000, content);
    store.close_segments();
    let closed = owner.clean(&store);
    // The last one of each writer may be half empty.
    assert!(closed.segments <= 4, "{closed:?}");
}

#[test]
fn a_quad_moves_without_the_pages_that_are_out_of_use() {
    for kept in [1u32, 2, 3] {
        let store = store();
        let text = |number: u32| page_of(Class::Text, number.into());
        let mut owner = Owner::of(&store, 2000, text);
        store.close_segments();
        owner.recompress(&store, true);
        (0..2000)
            .filter(|number| number % 4 >= kept)
            .for_each(|number| owner.free(&store, number));
        store.close_segments();
        let before = store.stats();
        let cleaned = owner.clean(&store);
        store.close_segments();
        let after = store.stats();
        assert!(
            u64::from(cleaned.segments) == before.closed_segments,
            "{kept}: {cleaned:?}"
        );
        let most = before.closed_segments * u64::from(kept + 1) / 4;
        assert!(after.closed_segments <= most, "{kept}: {before:?}, {after:?}");
        owner.verify(&store, text);
        store.validate().expect("every invariant holds");
        // The segment that was open is not full.
        assert!(owner.clean(&store).segments <= 1, "{kept}: cleaning ends");
    }
}

#[test]
fn a_quad_moves_page_by_page_if_owners_disagree() {
    let store = store();
    let text = |number: u32| page_of(Class::Text, number.into());
    let mut owner = Owner::of(&store, 2000, text);
    store.close_segments();
    owner.recompress(&store, true);
    (0..2000)
        .filter(|number| number % 4 == 0)
        .for_each(|number| owner.free(&store, number));
    (0..2000)
        .filter(|number| number / 4 % 3 > 0)
        .for_each(|number| owner.free(&store, number));
    store.close_segments();
    let cleaned = store
        .clean(u64::MAX, |page, old, new| {
            page.number() % 4 != 2 && owner.relocate(page, old, new)
        })
        .expect("a writer is free");
    assert!(cleaned.moved > 0 && cleaned.refused > 0, "{cleaned:?}");
    owner.verify(&store, text);
    store.validate().expect("every invariant holds");
    (0..2000).for_each(|number| owner.free(&store, number));
    store.close_segments();
    assert_eq!(store.stats().live, 0);
    store.validate().expect("every invariant holds");
}
