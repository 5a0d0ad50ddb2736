//! Recompression of idle entries.

use super::content::{CLASSES, Class, page_of};
use super::*;

fn content(number: u32) -> Page {
    page_of(CLASSES[number as usize % CLASSES.len()], number.into())
}

#[test]
fn idle_pages_get_smaller_and_stay_as_they_were() {
    let store = store();
    let text = |number: u32| page_of(Class::Text, number.into());
    let mut owner = Owner::of(&store, 1000, text);
    store.close_segments();
    let fresh = store.stats().live;
    owner.recompress(&store, false);
    store.close_segments();
    let packed = store.stats();
    assert!(
        packed.live < fresh * 9 / 10,
        "{fresh} bytes of LZ4, {} of Zstandard",
        packed.live
    );
    assert_eq!((packed.live_fresh, packed.live_quads), (0, 0));
    owner.verify(&store, text);
    owner.recompress(&store, true);
    let quads = store.stats();
    assert!(
        quads.live < packed.live * 9 / 10,
        "{} bytes alone, {} together",
        packed.live,
        quads.live
    );
    owner.verify(&store, text);
    store.validate().expect("every invariant holds");
}

#[test]
fn every_class_survives_recompression() {
    for is_together in [false, true] {
        let store = store();
        let mut owner = Owner::of(&store, 1800, content);
        store.close_segments();
        let before = store.stats();
        let done = owner.recompress(&store, is_together);
        owner.verify(&store, content);
        let after = store.stats();
        assert!(done.moved > 0 && after.live < before.live && after.pages == before.pages);
        store.validate().expect("every invariant holds");
        store.close_segments();
        let again = owner.recompress(&store, is_together);
        assert_eq!(again.segments, 0, "nothing is compressed twice by the same codec");
    }
}

#[test]
fn young_pages_are_left_alone() {
    let store = store();
    let mut owner = Owner::of(&store, 500, content);
    store.close_segments();
    let idle = Idle { pages: 3, quads: 10 };
    for epoch in 0..12 {
        let done = store
            .recompress(idle, u64::MAX, |page, old, new| owner.relocate(page, old, new))
            .expect("a writer is free");
        assert_eq!(done.segments > 0, [3, 10].contains(&epoch), "epoch {epoch}");
        store.close_segments();
        store.advance_epoch();
    }
    owner.verify(&store, content);
}

#[test]
fn refused_pages_keep_their_old_entries() {
    for is_together in [false, true] {
        let store = store();
        let mut owner = Owner::of(&store, 1000, content);
        store.close_segments();
        let idle = Idle {
            pages: 0,
            quads: if is_together { 0 } else { u32::MAX },
        };
        let done = store
            .recompress(idle, u64::MAX, |page, old, new| {
                page.number() % 3 > 0 && owner.relocate(page, old, new)
            })
            .expect("a writer is free");
        assert!(done.moved > 0 && done.refused > 0);
        owner.verify(&store, content);
        store.validate().expect("every invariant holds");
        (0..1000).for_each(|number| owner.free(&store, number));
        store.close_segments();
        assert_eq!(store.stats().live, 0);
        store.validate().expect("every invariant holds");
    }
}

#[test]
fn quads_with_pages_missing_hold_the_others() {
    let store = store();
    let text = |number: u32| page_of(Class::Text, number.into());
    let mut owner = Owner::of(&store, 1000, text);
    let is_missing = |number: &u32| [0, 5, 6, 11, 12, 13, 15].contains(&(number % 16));
    (0..1000)
        .filter(is_missing)
        .for_each(|number| owner.free(&store, number));
    store.close_segments();
    owner.recompress(&store, true);
    owner.verify(&store, text);
    let quads = store.stats().live_quads;
    assert!(quads > 0);
    store.validate().expect("every invariant holds");
}

#[test]
fn the_budget_bounds_the_work() {
    let store = store();
    let mut owner = Owner::of(&store, 2000, |number| page_of(Class::Text, number.into()));
    store.close_segments();
    let idle = Idle {
        pages: 0,
        quads: u32::MAX,
    };
    let done = store
        .recompress(idle, 1, |page, old, new| owner.relocate(page, old, new))
        .expect("a writer is free");
    assert_eq!(done.segments, 1);
}
