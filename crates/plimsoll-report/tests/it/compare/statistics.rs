//! The statistics against enumeration, published values, and their invariants.

use plimsoll_report::analysis::statistics::{can_tell, holm, least_p, mann_whitney, median_ratio};
use proptest::prelude::*;

/// p by counting every arrangement of the ranks.
fn by_enumeration(first: &[f64], second: &[f64]) -> f64 {
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let u = |members: u32| -> i64 {
        let chosen = |index: usize| members & (1 << index) != 0;
        let mut count = 0;
        for a in (0..all.len()).filter(|&index| chosen(index)) {
            count += (0..all.len()).filter(|&b| !chosen(b) && all[a] > all[b]).count() as i64;
        }
        count
    };
    let middle = (first.len() * second.len()) as i64;
    let far = |u: i64| (2 * u - middle).abs();
    let seen = far(u((1 << first.len()) - 1));
    let arrangements = (0..1_u32 << all.len()).filter(|set| set.count_ones() as usize == first.len());
    let (mut total, mut extreme) = (0, 0);
    for set in arrangements {
        total += 1;
        extreme += i32::from(far(u(set)) >= seen);
    }
    f64::from(extreme) / f64::from(total)
}

#[test]
fn mann_whitney_knows_published_critical_values() {
    // Mann and Whitney's table: U = 2 of 5 and 5 has a two-sided p of 0.032 (8 of 252), U = 0 one of 2/252.
    let first = [1.0, 2.0, 3.0, 4.0, 7.0];
    let second = [5.0, 6.0, 8.0, 9.0, 10.0];
    assert!((mann_whitney(&first, &second).expect("samples") - 8.0 / 252.0).abs() < 1e-12);
    let apart = [11.0, 12.0, 13.0, 14.0, 15.0];
    assert!((mann_whitney(&first, &apart).expect("samples") - 2.0 / 252.0).abs() < 1e-12);
    // With ties, by hand: U = 1, t = 3, variance 9/12 * (7 - 24/30) = 4.65, z = (3.5 - 0.5) / 2.1564 = 1.3912.
    let tied = mann_whitney(&[1.0, 2.0, 2.0], &[2.0, 3.0, 4.0]).expect("samples");
    assert!((tied - 0.1642).abs() < 0.0005, "{tied}");
    assert_eq!(mann_whitney(&[2.0; 4], &[2.0; 4]), Some(1.0));
    assert_eq!(mann_whitney(&[], &[1.0]), None);
}

#[test]
fn few_repeats_cannot_tell() {
    assert!((least_p(3, 3) - 0.1).abs() < 1e-12);
    assert!((least_p(5, 5) - 2.0 / 252.0).abs() < 1e-12);
    assert!(!can_tell(1, 1) && !can_tell(3, 3) && !can_tell(4, 12) && can_tell(5, 5));
}

#[test]
fn holm_corrects_as_published() {
    // Holm 1979, by hand: 0.01 * 4, 0.015 * 3, 0.03 * 2, 0.04 raised to the one before.
    let corrected = holm(&[0.01, 0.04, 0.03, 0.015]);
    for (value, expected) in corrected.iter().zip([0.04, 0.06, 0.06, 0.045]) {
        assert!((value - expected).abs() < 1e-12, "{corrected:?}");
    }
}

proptest! {
    #[test]
    fn exact_p_is_that_of_enumeration(
        values in proptest::collection::hash_set(0_u32..10_000, 4..10),
        part in 0.2_f64..0.8,
    ) {
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let cut = ((values.len() as f64 * part) as usize).clamp(1, values.len() - 1);
        let (first, second) = values.split_at(cut);
        let p = mann_whitney(first, second).expect("samples");
        prop_assert!((p - by_enumeration(first, second)).abs() < 1e-9);
    }

    #[test]
    fn exchanging_inverts_and_scaling_changes_nothing(
        first in proptest::collection::vec(0.1_f64..100.0, 5..12),
        second in proptest::collection::vec(0.1_f64..100.0, 5..12),
        power in -8_i32..8,
    ) {
        let there = median_ratio(&first, &second, 7).expect("medians");
        let back = median_ratio(&second, &first, 7).expect("medians");
        prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
        let (low, high) = there.interval.expect("enough");
        let (other_low, other_high) = back.interval.expect("enough");
        prop_assert!((low * other_high - 1.0).abs() < 1e-9 && (high * other_low - 1.0).abs() < 1e-9);
        prop_assert!(low <= there.ratio && there.ratio <= high);
        let scaled = |values: &[f64]| -> Vec<f64> { values.iter().map(|value| value * 2f64.powi(power)).collect() };
        prop_assert_eq!(median_ratio(&scaled(&first), &scaled(&second), 7), Some(there));
        prop_assert_eq!(mann_whitney(&scaled(&first), &scaled(&second)), mann_whitney(&first, &second));
        let (p, q) = (mann_whitney(&first, &second).expect("p"), mann_whitney(&second, &first).expect("p"));
        prop_assert!((p - q).abs() < 1e-12);
    }

    #[test]
    fn holm_is_monotone_and_never_below_the_raw_value(p in proptest::collection::vec(0.0_f64..=1.0, 0..30)) {
        let corrected = holm(&p);
        for (a, &raw) in p.iter().enumerate() {
            prop_assert!(corrected[a] >= raw && corrected[a] <= 1.0);
            for (b, &other) in p.iter().enumerate() {
                prop_assert!(raw > other || corrected[a] <= corrected[b]);
            }
        }
    }
}
