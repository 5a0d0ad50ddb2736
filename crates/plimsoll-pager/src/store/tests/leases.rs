//! Leases of buffers and contexts: used up, and lost by a fork.

use super::content::{Class, page_of};
use super::*;

fn text(number: u32) -> Page {
    page_of(Class::Text, number.into())
}

#[test]
fn a_put_fails_while_every_writer_is_leased() {
    let store = store();
    let all: Vec<_> = core::iter::from_fn(|| store.writers.lease(&store.space.memory)).collect();
    assert_eq!(all.len(), Writers::COUNT);
    assert_eq!(store.put(page(1), &text(1)), Err(PutError::Busy(BusyError)));
    assert_eq!(store.clean(1, |_, _, _| true), Err(BusyError));
    // A page of one word needs none.
    assert!(store.put(page(2), &[7; PAGE]).is_ok());
    drop(all);
    assert!(store.put(page(1), &text(1)).is_ok());
}

/// A handler that interrupts a put takes another writer.
#[test]
fn a_put_within_a_put_has_its_own_segment() {
    let store = store();
    let outer = store.put(page(1), &text(1)).expect("there is room");
    let lease = store.writers.lease(&store.space.memory);
    let inner = store.put(page(2), &text(2)).expect("there is room");
    drop(lease);
    let (PlaceKind::InMemory(outer), PlaceKind::InMemory(inner)) = (outer.kind(), inner.kind()) else {
        panic!("both are entries");
    };
    assert_ne!(outer.segment, inner.segment);
}

/// The other threads of a forked process were writing, reading and cleaning.
#[test]
fn the_child_of_a_fork_uses_the_store_as_before() {
    let store = store();
    let mut owner = Owner::of(&store, 400, text);
    (0..400)
        .filter(|number| number % 3 > 0)
        .for_each(|number| owner.free(&store, number));
    store.close_segments();
    let claimed = (0..store.space.begun()).find(|segment| store.space.record(*segment).claim());
    assert!(claimed.is_some());
    while let Some(reader) = store.readers.lease(&store.space.memory) {
        core::mem::forget(reader);
    }
    while let Some(writer) = store.writers.lease(&store.space.memory) {
        core::mem::forget(writer);
    }
    store.after_fork_in_child();
    owner.verify(&store, text);
    let cleaned = owner.clean(&store);
    assert!(cleaned.moved > 0);
    owner.verify(&store, text);
    store.put(page(1000), &text(1000)).expect("there is room");
    store.validate().expect("every invariant holds");
}
