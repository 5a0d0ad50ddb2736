//! Sizes: their text, their bounds, and that a seed draws the same ones again.

use plimsoll_heap_load::{Random, Sizes, Spread, parse_bytes};

fn sizes(text: &str) -> Sizes {
    text.parse().expect("sizes that make sense")
}

fn drawn(sizes: Sizes, seed: u64, stream: u64, count: usize) -> Vec<u32> {
    let mut random = Random::new(seed, stream);
    (0..count).map(|_| sizes.pick(random.draw())).collect()
}

#[test]
fn text_means_what_the_talk_means_by_it() {
    let bounds = |text| (sizes(text).low(), sizes(text).high());
    assert_eq!(bounds("0-1k"), (1, 1024));
    assert_eq!(bounds("1-2k"), (1024, 2048), "the unit stands for both bounds");
    assert_eq!(bounds("22"), (22, 22));
    assert_eq!(bounds("16b-1k"), (16, 1024));
    assert_eq!(bounds("16k-1m"), (16 << 10, 1 << 20));
    assert_eq!(
        sizes("log:8b-1000"),
        Sizes::new(8, 1000, Spread::Inverse).expect("right")
    );
    for text in ["0-1k", "22", "log:8b-1000"] {
        assert_eq!(sizes(&sizes(text).to_string()), sizes(text), "text and back");
    }
}

#[test]
fn text_that_makes_no_sense_is_refused_with_a_reason() {
    for (text, named) in [
        ("16-1k", "16b-1k"),
        ("0", "0 bytes"),
        ("2k-1k", "2048"),
        ("many", "`many`"),
        ("", "``"),
        ("1-5g", "4 GiB"),
    ] {
        let error = text.parse::<Sizes>().expect_err(text).to_string();
        assert!(error.contains(named), "{text}: {error}");
    }
    assert_eq!(parse_bytes("70m"), Ok(70 << 20));
    assert!(parse_bytes("99999999999g").is_err());
}

#[test]
fn sizes_stay_in_their_bounds_and_reach_them() {
    for text in ["0-1k", "1-2k", "16-64", "22", "log:8b-1000", "log:16b-64b", "3-3"] {
        let sizes = sizes(text);
        let drawn = drawn(sizes, 7, 0, 200_000);
        assert_eq!(drawn.iter().min(), Some(&sizes.low()), "{text}");
        assert_eq!(drawn.iter().max(), Some(&sizes.high()), "{text}");
    }
}

#[test]
fn sizes_are_spread_as_said() {
    let mean = |text| {
        drawn(sizes(text), 3, 0, 200_000)
            .iter()
            .map(|&size| f64::from(size))
            .sum::<f64>()
            / 2e5
    };
    assert!((mean("0-1k") - 512.5).abs() < 5.0, "uniform: {}", mean("0-1k"));
    let drawn = drawn(sizes("log:16b-1023"), 3, 0, 200_000);
    let below_64 = drawn.iter().filter(|size| **size < 64).count() as f64 / 2e5;
    assert!(
        (below_64 - 2.0 / 6.0).abs() < 0.01,
        "two octaves of six: {below_64}"
    );
}

#[test]
fn the_same_seed_draws_the_same_sizes() {
    let sizes = sizes("0-1k");
    assert_eq!(drawn(sizes, 1, 0, 1000), drawn(sizes, 1, 0, 1000));
    assert_ne!(drawn(sizes, 1, 0, 1000), drawn(sizes, 2, 0, 1000), "another seed");
    assert_ne!(
        drawn(sizes, 1, 0, 1000),
        drawn(sizes, 1, 1, 1000),
        "another thread"
    );
}
