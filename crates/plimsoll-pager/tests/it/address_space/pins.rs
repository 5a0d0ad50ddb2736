//! Pins of signal handlers, of a moment, and for ever.

use std::os::fd::AsRawFd;

use plimsoll_pager::{RangeError, TrimTo};

use super::{KIB, MIB, part};
use crate::allocations;
use crate::modes::builder;
use crate::pages::{PAGE, fill};

#[test]
fn a_pin_in_a_handler_takes_as_much_as_the_budget_allows() {
    let pager = builder().ram(8 << 20).build().expect("userfaultfd is allowed");
    let region = pager.map(32 * MIB).expect("addresses are free");
    fill(part(&region, 0, 32 * MIB), 1, 1);
    region.trim(.., TrimTo::Store).expect("the whole region");
    let start = 3 * PAGE + 100;
    let pin = region.pin(MIB..MIB + PAGE).expect("a small range");
    let ((guard, bytes), count) = allocations::count(|| {
        region
            .pin_in_signal_handler(start..)
            .expect("the budget allows a part")
    });
    assert_eq!(count, 0);
    // The store has most of the budget, as the pages compress to a fifth.
    assert!(
        (256 * KIB..4 * MIB).contains(&bytes) && (start + bytes).is_multiple_of(PAGE),
        "{bytes}"
    );
    let stats = pager.stats();
    assert_eq!(stats.pinned_pages as usize, 1 + (start + bytes) / PAGE - 3);
    assert!(
        stats.active_pages >= stats.pinned_pages && stats.forced_frames == 0,
        "{stats:?}"
    );
    let file = tempfile::tempfile().expect("there is a folder for temporary files");
    // SAFETY: the kernel reads the region.
    let written = unsafe { libc::write(file.as_raw_fd(), region.as_ptr().add(start).cast(), bytes) };
    assert_eq!(written, bytes as isize);
    // Restored pages leave the store: there is room for more.
    let mut more = Vec::new();
    let refused = loop {
        match region.pin_in_signal_handler(20 * MIB..) {
            Ok(pinned) => more.push(pinned),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, RangeError::PinTooLarge { .. }), "{refused}");
    let stats = pager.stats();
    assert!(
        stats.pinned_pages <= 1024 && stats.forced_frames == 0,
        "{stats:?}"
    );
    drop(more);
    drop((guard, pin));
    let (guard, bytes) = region.pin_in_signal_handler(5..5).expect("no byte");
    assert_eq!(bytes, 0);
    drop(guard);
    let guards: Vec<_> = (0..)
        .map_while(|page| region.pin_in_signal_handler(page * PAGE..page * PAGE + 1).ok())
        .collect();
    assert_eq!(guards.len(), 256);
    let refused = region.pin_in_signal_handler(..1);
    assert_eq!(refused.err(), Some(RangeError::TooManyPins));
    drop(guards);
    assert_eq!(pager.stats().pinned_pages, 0);
    let outside = region.pin_in_signal_handler(32 * MIB - 1..32 * MIB + 1);
    assert!(matches!(outside, Err(RangeError::OutOfBounds { .. })));
    assert_eq!(pager.validate(), []);
}

/// Calls of other threads once left no pin to a call: it failed with `EFAULT`, though it had the right to its memory.
#[test]
fn a_pin_for_a_moment_is_there_whatever_calls_have_pinned() {
    let pager = builder().ram(8 << 20).build().expect("userfaultfd is allowed");
    let region = pager.map(32 * MIB).expect("addresses are free");
    fill(part(&region, 0, 32 * MIB), 1, 1);
    region.trim(.., TrimTo::Store).expect("the whole region");
    let mut pins = Vec::new();
    let refused = loop {
        match region.pin_in_signal_handler(20 * MIB..) {
            Ok(pinned) => pins.push(pinned),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, RangeError::PinTooLarge { .. }), "{refused}");
    let file = tempfile::tempfile().expect("there is a folder for temporary files");
    for offset in (0..20 * MIB).step_by(MIB + 100) {
        let (pin, count) = allocations::count(|| region.pin_for_a_moment(offset).expect("room for it"));
        assert_eq!(count, 0);
        assert_eq!(region.is_pinned(offset..offset + 1), Ok(true));
        // SAFETY: the kernel reads the region.
        let written = unsafe { libc::write(file.as_raw_fd(), region.as_ptr().add(offset).cast(), 1) };
        assert_eq!(written, 1);
        drop(pin);
        assert_eq!(region.is_pinned(offset..offset + 1), Ok(false));
    }
    drop(pins);
    let pins: Vec<_> = (0..256)
        .map(|page| region.pin_in_signal_handler(page * PAGE..page * PAGE + 1))
        .collect();
    assert!(pins.iter().all(Result::is_ok));
    let refused = region.pin_in_signal_handler(..1);
    assert_eq!(refused.err(), Some(RangeError::TooManyPins));
    let moments: Vec<_> = (0..)
        .map_while(|page| region.pin_for_a_moment(page * PAGE).ok())
        .collect();
    assert_eq!(moments.len(), 32);
    drop((moments, pins));
    assert_eq!(pager.stats().pinned_pages, 0);
    let outside = region.pin_for_a_moment(32 * MIB);
    assert!(matches!(outside, Err(RangeError::OutOfBounds { .. })));
    assert!(region.pin_for_a_moment(usize::MAX).is_err());
    assert_eq!(pager.validate(), []);
}

/// Memory that the kernel uses for the life of the process (an alternate signal stack) is pinned whatever calls have pinned, once for
/// each range.
#[test]
fn a_pin_for_ever_lasts_until_its_region_ends() {
    let pager = builder().ram(8 << 20).build().expect("userfaultfd is allowed");
    let region = pager.map(32 * MIB).expect("addresses are free");
    fill(part(&region, 0, 32 * MIB), 1, 1);
    region.trim(.., TrimTo::Store).expect("the whole region");
    let mut pins = Vec::new();
    while let Ok(pinned) = region.pin_in_signal_handler(20 * MIB..) {
        pins.push(pinned);
    }
    for _ in 0..1000 {
        assert_eq!(region.pin_for_ever(100..2 * PAGE), Ok(()));
    }
    assert_eq!(region.pin_for_ever(4 * PAGE..4 * PAGE), Ok(()));
    drop(pins);
    assert_eq!(pager.stats().pinned_pages, 2);
    region.trim(.., TrimTo::Store).expect("the whole region");
    assert_eq!(pager.stats().active_pages, 2);
    let refused = region.pin_for_ever(MIB..6 * MIB);
    assert!(matches!(refused, Err(RangeError::PinTooLarge { .. })));
    drop(region);
    assert_eq!(pager.stats().pinned_pages, 0);
    assert_eq!(pager.validate(), []);
}

/// Half of the budget could be pinned for ever while the compressed store had most of it, and as much again by calls.
#[test]
fn pins_for_ever_leave_room_beside_the_store_and_other_pins() {
    let pager = builder().ram(8 << 20).build().expect("userfaultfd is allowed");
    let region = pager.map(32 * MIB).expect("addresses are free");
    fill(part(&region, 0, 32 * MIB), 1, 1);
    region.trim(.., TrimTo::Store).expect("the whole region");
    let left = || {
        let stats = pager.stats();
        (stats.ram - stats.store_bytes - stats.metadata_bytes) as usize
    };
    assert!(left() / 2 < 3 * MIB, "{}", left());
    let refused = region.pin_for_ever(..3 * MIB);
    assert!(matches!(refused, Err(RangeError::PinTooLarge { .. })));
    let mut pins = Vec::new();
    while let Ok(pinned) = region.pin_in_signal_handler(20 * MIB..) {
        pins.push(pinned);
    }
    let refused = region.pin_for_ever(..left() * 3 / 8);
    assert!(matches!(refused, Err(RangeError::PinTooLarge { .. })));
    // Signal stacks of threads.
    assert_eq!(region.pin_for_ever(..16 * PAGE), Ok(()));
    drop(pins);
    let refused = region.pin_for_ever(16 * PAGE..16 * PAGE + left() / 2);
    assert!(matches!(refused, Err(RangeError::PinTooLarge { .. })));
    let stats = pager.stats();
    assert_eq!((stats.pinned_pages, stats.forced_frames), (16, 0), "{stats:?}");
    assert_eq!(pager.validate(), []);
}
