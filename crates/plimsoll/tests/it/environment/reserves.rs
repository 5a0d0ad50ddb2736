//! Safe sizes and the tripwire: pure functions.

use std::time::Duration;

use plimsoll_lab::environment::{Misfit, Trip, Tripwire, memory_reserve, safe_size};
use plimsoll_model::scenario::{AllocatorSet, Machine, Map, Mapping, Settings, Touch, Workload};
use proptest::prelude::*;

use super::{MIB, settings};
use crate::machine::set_size;

const GIB: u64 = 1 << 30;

fn machine(ram: u64, available: u64) -> Machine {
    Machine {
        ram,
        available,
        cgroup_limit: None,
        cpus: 2,
        allocators: AllocatorSet::default(),
    }
}

#[test]
fn the_reserve_is_512_mib_or_5_percent() {
    assert_eq!(memory_reserve(2 * GIB), 512 * MIB);
    assert_eq!(memory_reserve(100 * GIB), 5 * GIB);
}

#[test]
fn a_size_too_large_names_the_largest_safe_size() {
    let machine = machine(8 * GIB, 6 * GIB);
    for (subject, size) in [
        ("zram", 7 * GIB),
        ("zswap", 99 << 40),
        ("none", 6 * GIB),
        ("swapfile", u64::MAX),
    ] {
        let mut asked = settings(subject);
        set_size(&mut asked, size);
        (asked.limit, asked.swap_size) = (size, size);
        let error = safe_size(&machine, None, &asked).unwrap_err();
        assert_eq!(error.asked, size);
        assert!(
            error.largest > 4 * GIB && error.largest < 6 * GIB,
            "{subject}: {error}"
        );
        set_size(&mut asked, error.largest);
        (asked.limit, asked.swap_size) = (error.largest, error.largest);
        assert_eq!(safe_size(&machine, None, &asked), Ok(()), "{subject}");
    }
}

#[test]
fn each_bound_is_named() {
    let roomy = machine(64 * GIB, 60 * GIB);
    let mut asked = settings("swapfile");
    set_size(&mut asked, 4 * GIB);
    (asked.limit, asked.swap_size) = (2 * GIB, 4 * GIB);
    assert_eq!(safe_size(&roomy, Some(4 * GIB), &asked), Ok(()));
    let disk = safe_size(&roomy, Some(4 * GIB - 1), &asked).unwrap_err();
    let folder = asked.swap_dir.clone();
    let on_disk = |takers, needed, free| Misfit::Disk {
        takers,
        needed,
        folder: folder.clone(),
        free,
    };
    assert_eq!(disk.why, on_disk("its swap file takes", 4 * GIB, 4 * GIB - 1));
    let filled = asked.workload;
    asked.workload = Workload::Map(Map {
        size: 4 * GIB,
        hold: 0.0,
        mapping: Mapping::File,
        touch: Touch::Whole,
    });
    let both = safe_size(&roomy, Some(8 * GIB - 1), &asked).unwrap_err();
    let takers = "its swap file and the file that it maps take";
    assert_eq!(both.why, on_disk(takers, 8 * GIB, 8 * GIB - 1));
    asked.subject = "none".parse().unwrap();
    assert_eq!(safe_size(&roomy, Some(4 * GIB), &asked), Ok(()));
    let mapped = safe_size(&roomy, Some(4 * GIB - 1), &asked).unwrap_err();
    assert_eq!(
        mapped.why,
        on_disk("the file that it maps takes", 4 * GIB, 4 * GIB - 1)
    );
    asked = Settings {
        workload: filled,
        subject: "pager:lz4,store-cap=512M".parse().unwrap(),
        ..asked
    };
    assert_eq!(safe_size(&roomy, Some(8 * GIB), &asked), Ok(()));
    let paged = safe_size(&roomy, Some(8 * GIB - 1), &asked).unwrap_err();
    assert_eq!(paged.why, on_disk("its page file takes", 8 * GIB, 8 * GIB - 1));
    asked = Settings {
        subject: "swapfile".parse().unwrap(),
        ..asked
    };
    let confined = Machine {
        cgroup_limit: Some(2 * GIB),
        ..roomy
    };
    let cgroup = safe_size(&confined, None, &asked).unwrap_err();
    assert!(
        matches!(cgroup.why, Misfit::Cgroup { limit, resident } if limit == 2 * GIB && resident > limit),
        "{cgroup}"
    );
    let full = safe_size(&machine(64 * GIB, 3 * GIB), None, &asked).unwrap_err();
    assert_eq!(full.largest, 0, "{full}");
    assert!(matches!(full.why, Misfit::Memory { .. }), "{full}");
}

#[test]
fn a_swap_file_takes_the_trimmed_part_off_memory_and_zram_does_not() {
    let machine = machine(8 * GIB, 4 * GIB);
    let mut asked = settings("swapfile");
    set_size(&mut asked, 5 * GIB);
    (asked.limit, asked.swap_size) = (GIB, 5 * GIB);
    assert_eq!(safe_size(&machine, None, &asked), Ok(()));
    asked.subject = "zram".parse().unwrap();
    assert!(safe_size(&machine, None, &asked).is_err());
}

proptest! {
    /// The largest safe size is safe, and one MiB more is not.
    #[test]
    fn the_largest_size_is_the_boundary(
        available in 0u64..32 * GIB,
        size in 1u64..1 << 50,
        limit_percent in 1u64..=200,
        swap_percent in 1u64..=200,
        subject in prop::sample::select(vec!["zram", "zswap", "swapfile", "none"]),
        cgroup_limit in prop::option::of(64 * MIB..64 * GIB),
        disk in prop::option::of(0u64..64 * GIB),
    ) {
        let machine = Machine { cgroup_limit, ..machine(32 * GIB, available) };
        let sized = |bytes: u64| {
            let mut asked = settings(subject);
            let part = |percent: u64| (u128::from(bytes) * u128::from(size / 100 * percent) / u128::from(size)) as u64;
            set_size(&mut asked, bytes);
            (asked.limit, asked.swap_size) = (part(limit_percent), part(swap_percent));
            asked
        };
        if let Err(error) = safe_size(&machine, disk, &sized(size)) {
            prop_assert!(error.largest < size);
            if error.largest > 0 {
                prop_assert_eq!(safe_size(&machine, disk, &sized(error.largest)), Ok(()));
            }
            let more = error.largest + 2 * MIB;
            if more < size {
                prop_assert!(safe_size(&machine, disk, &sized(more)).is_err());
            }
        }
    }

    /// More memory never makes a safe size unsafe.
    #[test]
    fn more_memory_is_never_worse(available in 0u64..16 * GIB, more in 0u64..16 * GIB, size in 1u64..16 * GIB) {
        let mut asked = settings("zram");
        set_size(&mut asked, size);
        (asked.limit, asked.swap_size) = (size / 2, size);
        if safe_size(&machine(32 * GIB, available), None, &asked).is_ok() {
            prop_assert_eq!(safe_size(&machine(32 * GIB, available + more), None, &asked), Ok(()));
        }
    }

    /// With twice the reserve available, no sequence of readings trips.
    #[test]
    fn pressure_alone_never_trips(steps in prop::collection::vec((1u64..3000, 0u64..3_000_000), 1..200)) {
        let mut wire = Tripwire::new(8 * GIB);
        let (mut now, mut total) = (Duration::ZERO, 0);
        for (milliseconds, stalled) in steps {
            now += Duration::from_millis(milliseconds);
            total += stalled;
            prop_assert_eq!(wire.check(now, 2 * memory_reserve(8 * GIB), Some(total)), None);
        }
    }
}

/// Feeds ten readings a second for `seconds` with the given share stalled; returns the time of the first trip.
fn trips_after(seconds: u64, available: u64, stalled: f64) -> Option<u64> {
    let mut wire = Tripwire::new(8 * GIB);
    (0..seconds * 10).find_map(|tick| {
        let now = Duration::from_millis(tick * 100);
        let total = (now.as_micros() as f64 * stalled) as u64;
        wire.check(now, available, Some(total))
            .map(|_| now.as_millis() as u64)
    })
}

#[test]
fn the_tripwire() {
    let reserve = memory_reserve(8 * GIB);
    assert_eq!(trips_after(60, 2 * reserve - 1, 0.59), None);
    assert_eq!(trips_after(60, 2 * reserve, 1.0), None);
    let after = trips_after(60, 2 * reserve - 1, 0.61).expect("it must trip");
    assert!((5000..=5100).contains(&after), "after {after} ms");
    assert_eq!(trips_after(60, reserve - 1, 0.0), Some(0));
    assert_eq!(trips_after(60, reserve, 0.0), None);
}

#[test]
fn a_stall_that_is_over_no_longer_trips() {
    let reserve = memory_reserve(8 * GIB);
    let mut wire = Tripwire::new(8 * GIB);
    let mut total = 0;
    let mut trips = Vec::new();
    for tick in 0u64..300 {
        // Fully stalled between the seconds 5 and 10 only.
        total += if (50..100).contains(&tick) { 100_000 } else { 0 };
        let trip = wire.check(Duration::from_millis(tick * 100), reserve + 1, Some(total));
        trips.extend(trip.map(|_| tick));
    }
    let (first, last) = (trips[0], *trips.last().unwrap());
    assert!(
        (79..=82).contains(&first) && (118..=122).contains(&last),
        "from {first} to {last}"
    );
}

#[test]
fn the_tripwire_works_without_psi() {
    let mut wire = Tripwire::new(8 * GIB);
    assert_eq!(wire.check(Duration::ZERO, GIB, None), None);
    let trip = Trip::Reserve {
        available: 100 * MIB,
        reserve: 512 * MIB,
    };
    assert_eq!(wire.check(Duration::from_secs(1), 100 * MIB, None), Some(trip));
}
