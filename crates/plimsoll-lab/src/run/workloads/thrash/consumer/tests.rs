//! Tests of consumers.

use super::*;
use crate::workload::PagerBudget;
use plimsoll_model::scenario::PagerOptions;
use proptest::prelude::*;

/// A consumer with memory from malloc.
fn consumer(bytes: u64) -> Consumer {
    let mut consumer = Consumer::default();
    consumer.allocate(&Allocate { bytes, pager: None }).unwrap();
    consumer
}

fn asked(writes: u64, sleep: f64, end: f64) -> Consume {
    Consume {
        writes,
        sleep,
        start: 0.0,
        together: 0.0,
        end,
        seed: 7,
    }
}

proptest! {
    #[test]
    fn every_write_is_in_the_memory(seed: u64, bytes in 1u64..1 << 40, number: u64) {
        let (place, _) = Choices { seed, bytes }.of(number);
        prop_assert!((place as u64) < bytes);
    }

    #[test]
    fn a_replay_gives_the_expected_content(seed: u64, bytes in 1u64..200_000, writes in 0u64..5_000) {
        let choices = Choices { seed, bytes };
        let mut memory = vec![0; bytes as usize];
        write_all(&mut memory, choices, 0, writes);
        let found = Witness::of(choices, writes, &memory).verify();
        prop_assert!(found.holds() && found.bytes > 0, "{:?}", found);
    }
}

#[test]
fn places_and_values_are_spread_evenly() {
    // Chi-squared with 255 degrees of freedom: beyond 400 is one chance in 10^8.
    let choices = Choices {
        seed: 3,
        bytes: 256 * 4096,
    };
    let (mut places, mut values) = ([0_u32; 256], [0_u32; 256]);
    for number in 0..256_000 {
        let (place, value) = choices.of(number);
        places[place / 4096] += 1;
        values[usize::from(value)] += 1;
    }
    for counts in [places, values] {
        let chi: f64 = counts
            .iter()
            .map(|&count| (f64::from(count) - 1000.0).powi(2) / 1000.0)
            .sum();
        assert!(chi < 400.0, "{chi}");
    }
}

#[test]
fn a_cycle_touches_as_many_pages_as_chance_predicts() {
    let (pages, writes) = (2560_u64, 1000_u64);
    let choices = Choices {
        seed: 11,
        bytes: pages * PAGE,
    };
    let mut diary = Diary::new(choices);
    let mut counted = std::collections::BTreeSet::new();
    for number in 0..writes {
        counted.insert(choices.of(number).0 as u64 / PAGE);
    }
    let found = diary.distinct_pages(0, writes);
    assert_eq!(found, counted.len() as u64, "counted in another way");
    let expected = pages as f64 * (1.0 - (1.0 - 1.0 / pages as f64).powf(writes as f64));
    let ratio = found as f64 / expected;
    assert!((0.95..1.05).contains(&ratio), "{found} of {expected}");
}

#[test]
fn a_consumer_reports_its_writes_and_cycles() {
    let mut consumer = consumer(1 << 20);
    let (cost, findings) = consumer.consume(&asked(500, 0.01, 0.2)).unwrap();
    let value = |name: &str| findings.values[name];
    assert!(value("cycles") >= 1.0);
    let late = value("cycles") - value("cycles_in_time");
    assert!((0.0..=1.0).contains(&late), "only the last can be: {findings:?}");
    assert_eq!(value("writes"), value("cycles") * 500.0);
    assert_eq!(cost.bytes as f64, value("writes"));
    // Not more than fit: each cycle is followed by its sleep, but for the last one.
    assert!(value("cycles") <= 1.0 + value("active_s") / 0.01, "{findings:?}");
    assert!(value("cycles") - value("sleeps") <= 1.0, "{findings:?}");
    assert_eq!(
        value("counted_cycles"),
        (value("cycles") / COUNTED_EVERY as f64).ceil()
    );
    assert_eq!(value("pages"), 256.0);
    let latencies = Latencies::from_text(findings.latency.as_ref().unwrap()).unwrap();
    assert_eq!(latencies.count() as f64, value("cycles"));
    assert!(value("shortest_cycle_s") <= value("longest_cycle_s"));
    assert!(consumer.witness.unwrap().verify().holds());
    assert!(!findings.values.contains_key(finding::STALLED), "{findings:?}");
}

/// 32 MiB in a budget of 12 MiB: pages return through the store, with the bytes written to them.
#[test]
fn a_consumer_of_a_pager_finds_its_writes_and_frees_its_memory() {
    let mut consumer = Consumer::default();
    let bytes = 32 << 20;
    let pager = Some(PagerRequest {
        budget: PagerBudget::Own(12 << 20),
        bytes,
        options: PagerOptions::default(),
        folder: "/var/tmp".into(),
    });
    consumer.allocate(&Allocate { bytes, pager }).unwrap();
    // Each of a hundred cycles touches nearly all pages: nine times the pages that have a frame.
    let asked = Consume {
        writes: 20_000,
        ..asked(1, 0.0, 0.5)
    };
    let (_, findings) = consumer.consume(&asked).unwrap();
    let stats = consumer.pager.as_ref().unwrap().stats();
    assert!(
        stats.hard_faults > 1000 && findings.values[finding::STALLED] > 0.0,
        "{stats:?}"
    );
    let in_use = stats.active_pages + stats.modified_pages + stats.compressed_pages;
    assert_eq!((in_use, stats.standby_pages), (0, [0; 8]), "{stats:?}");
    assert!(consumer.witness.unwrap().verify().holds());
}

#[test]
fn a_cycle_counts_by_the_time_of_its_end() {
    let choices = Choices { seed: 5, bytes: PAGE };
    let (mut diary, mut memory) = (Diary::new(choices), vec![0; PAGE as usize]);
    let (now, hour) = (Instant::now(), Duration::from_secs(3600));
    diary.cycle(&mut memory, 10, now..=now + hour);
    diary.cycle(&mut memory, 10, now..=now);
    assert_eq!(
        (diary.cycles, diary.cycles_in_time, diary.cycles_together),
        (2, 1, 1)
    );
    diary.cycle(&mut memory, 10, now + hour..=now + hour);
    assert_eq!(
        (diary.cycles, diary.cycles_in_time, diary.cycles_together),
        (3, 2, 1)
    );
}

#[test]
fn a_wrong_byte_is_found() {
    let mut consumer = consumer(1 << 20);
    consumer.consume(&asked(500, 0.001, 0.02)).unwrap();
    let mut witness = consumer.witness.unwrap();
    witness.pages[2].1[99] ^= 1;
    let offset = witness.pages[2].0 * PAGE + 99;
    let found = witness.verify();
    assert!(!found.holds());
    assert_eq!((found.wrong_bytes, found.first_wrong), (1, Some(offset)));
}

#[test]
fn invalid_requests_are_refused() {
    let mut consumer = Consumer::default();
    let error = consumer.consume(&asked(1, 0.0, 0.0)).unwrap_err();
    assert!(matches!(error, ConsumeError::NoMemory), "{error}");
    let nothing = Allocate {
        bytes: 0,
        pager: None,
    };
    let error = consumer.allocate(&nothing).unwrap_err();
    assert!(matches!(error, ConsumeError::Size { bytes: 0 }), "{error}");
    for (writes, sleep, end) in [
        (0, 0.0, 0.0),
        (1, -1.0, 0.0),
        (1, f64::NAN, 0.0),
        (1, 0.0, -1.0),
        (1, 0.0, f64::INFINITY),
    ] {
        let error = consumer.consume(&asked(writes, sleep, end)).unwrap_err();
        let is_named = match writes {
            0 => matches!(error, ConsumeError::NoWrites { .. }),
            _ => matches!(error, ConsumeError::Times { .. }),
        };
        assert!(is_named, "{error}");
    }
}
