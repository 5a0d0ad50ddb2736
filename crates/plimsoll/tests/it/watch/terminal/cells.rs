//! Layers in eighths of a cell, and the pace of drawing.

use std::time::{Duration, Instant};

use plimsoll_monitor::watch::terminal::{Pace, heights};
use proptest::prelude::*;

proptest! {
    /// For all values of the layers, also below zero, a column is full to the brim, in proportion to within an eighth.
    #[test]
    fn the_eighths_of_a_column_sum_to_its_height(
        layers in prop::collection::vec(-(1_i64 << 40)..(1_i64 << 44), 1..12),
        rows in 1_usize..200,
        seen in prop::option::of(0_usize..12),
    ) {
        let full = rows * 8;
        let heights = heights(&layers, full, seen);
        let total: i128 = layers.iter().map(|&bytes| i128::from(bytes.max(0))).sum();
        prop_assert_eq!(heights.iter().sum::<usize>(), if total == 0 { 0 } else { full });
        for (layer, (&bytes, &height)) in layers.iter().zip(&heights).enumerate() {
            let exact = bytes.max(0) as f64 * full as f64 / (total as f64).max(1.0);
            // Two edges, each rounded to the nearest; and an eighth that what is seen may have taken from the tallest.
            prop_assert!((height as f64 - exact).abs() <= 2.0 + 1e-6, "layer {}: {} for {}", layer, height, exact);
            prop_assert!(bytes > 0 || height == 0);
        }
        if let Some(seen) = seen.filter(|&seen| layers.get(seen).is_some_and(|&bytes| bytes > 0)) {
            let tallest = heights.iter().max().copied().unwrap_or(0);
            prop_assert!(heights[seen] > 0 || tallest <= 1, "what is seen is not rounded away");
        }
    }
}

#[test]
fn a_slow_terminal_is_drawn_on_less_often_but_never_forgotten() {
    let now = Instant::now();
    let mut pace = Pace::default();
    assert!(pace.wait(now).is_zero(), "the first frame is due");
    pace.drew(now, Duration::from_millis(1));
    assert_eq!(pace.wait(now), Duration::from_millis(200));
    pace.press();
    assert_eq!(
        pace.wait(now),
        Duration::from_millis(20),
        "a key is answered soon"
    );
    pace.drew(now, Duration::from_millis(400));
    assert_eq!(pace.wait(now), Duration::from_millis(800));
    pace.press();
    assert_eq!(
        pace.wait(now),
        Duration::from_millis(800),
        "but not by adding to what is under way"
    );
    pace.drew(now, Duration::from_secs(30));
    assert_eq!(pace.wait(now), Duration::from_secs(2));
    assert!(pace.wait(now + Duration::from_secs(2)).is_zero());
}
