//! Thrash control on real memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_pager::{FaultMode, Pager, Region, Stats, ThrashControl, ThrashStep, TrimMode};

use crate::children::Random;
use crate::pages::{PAGE, fill, is_as_filled};

const MIB: usize = 1 << 20;
/// A machine that is busy for longer than this fails the test.
const LIMIT: Duration = Duration::from_secs(120);

fn pager(rule: ThrashControl, mode: FaultMode) -> Pager {
    let builder = Pager::builder().ram(12 * MIB as u64).address_space(1 << 30);
    let builder = builder.thrash_control(rule).fault_mode(mode);
    builder.build().expect("userfaultfd is allowed")
}

/// Threads that access the pages of a region each, at random, until the statistics are as wanted. Returns them, and the accesses
/// of each thread.
fn thrash(pager: &Pager, regions: &mut [Region], is_wanted: impl Fn(&Stats) -> bool) -> (Stats, Vec<u64>) {
    let is_over = AtomicBool::new(false);
    let counts: Vec<AtomicU64> = regions.iter().map(|_| AtomicU64::new(0)).collect();
    let stats = std::thread::scope(|scope| {
        for (region, count) in regions.iter_mut().zip(&counts) {
            let is_over = &is_over;
            scope.spawn(move || {
                let pages = region.len() / PAGE;
                let bytes = region.bytes();
                let mut random = Random(0x5DEE_CE66);
                while !is_over.load(Ordering::Relaxed) {
                    let page = random.below(pages as u64) as usize;
                    std::hint::black_box(bytes[page * PAGE + 8]);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let start = Instant::now();
        let mut stats = pager.stats();
        while !is_wanted(&stats) && start.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(20));
            stats = pager.stats();
        }
        is_over.store(true, Ordering::Relaxed);
        stats
    });
    (
        stats,
        counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
    )
}

fn regions(pager: &Pager, bytes: [usize; 2]) -> Vec<Region> {
    let regions = bytes.into_iter().enumerate().map(|(number, bytes)| {
        let mut region = pager.map(bytes).expect("addresses are free");
        fill(region.bytes_mut(), number, 0);
        region
    });
    regions.collect()
}

fn verify(regions: &[Region]) {
    for (number, region) in regions.iter().enumerate() {
        assert!(is_as_filled(region.bytes(), number, 0), "region {number}");
    }
}

#[test]
fn thrashing_is_reported_without_control_and_ends_with_the_load() {
    let pager = pager(ThrashControl::Off, FaultMode::Signal);
    let mut regions = regions(&pager, [9 * MIB, 9 * MIB]);
    let is_reported = |stats: &Stats| stats.thrash_step == ThrashStep::Thrashing;
    let (stats, _) = thrash(&pager, &mut regions, is_reported);
    assert!(is_reported(&stats), "{stats:?}");
    let start = Instant::now();
    while pager.stats().thrash_step != ThrashStep::Calm {
        assert!(start.elapsed() < LIMIT, "{:?}", pager.stats());
        std::thread::sleep(Duration::from_millis(20));
    }
    let stats = pager.stats();
    assert_eq!((stats.thrash_trials, stats.throttled_us), (0, 0));
    assert_eq!(stats.thrash_us[2..], [0; 3], "no measure was in force: {stats:?}");
    assert!(stats.thrash_us[ThrashStep::Thrashing as usize] > 0);
    verify(&regions);
}

/// With control the measures are tried, and a throttled thread makes progress; in both fault modes.
#[test]
fn measures_are_tried_while_the_pager_thrashes() {
    for mode in [FaultMode::Signal, FaultMode::Thread] {
        let pager = pager(ThrashControl::On, mode);
        let mut regions = regions(&pager, [7 * MIB, 14 * MIB]);
        let is_throttled =
            |stats: &Stats| stats.throttled_us > 0 && stats.thrash_us[ThrashStep::Throttle as usize] > 0;
        let (stats, _) = thrash(&pager, &mut regions, is_throttled);
        assert!(is_throttled(&stats), "{mode:?}: {stats:?}");
        let in_standby = stats.thrash_us[ThrashStep::GrownStandby as usize];
        assert!(in_standby > 0 && stats.thrash_trials >= 2, "{mode:?}: {stats:?}");
        verify(&regions);
        assert_eq!(pager.validate(), []);
    }
}

/// Each fault of the throttled thread ends after 10 ms at most, so that it has many within some seconds of delay.
#[test]
fn a_throttled_thread_makes_progress() {
    for mode in [FaultMode::Signal, FaultMode::Thread] {
        let pager = pager(ThrashControl::Fixed(ThrashStep::Throttle), mode);
        let mut regions = regions(&pager, [9 * MIB, 9 * MIB]);
        let is_delayed = |stats: &Stats| stats.throttled_us > 500_000;
        let (stats, accesses) = thrash(&pager, &mut regions, is_delayed);
        assert!(is_delayed(&stats), "{mode:?}: {stats:?}");
        assert!(
            accesses.iter().all(|accesses| *accesses > 50),
            "{mode:?}: {accesses:?}"
        );
        verify(&regions);
        assert_eq!(pager.validate(), []);
    }
}

/// A single thread is never throttled, whatever it faults.
#[test]
fn the_only_thread_that_faults_is_not_throttled() {
    let pager = pager(ThrashControl::Fixed(ThrashStep::Throttle), FaultMode::Signal);
    let mut regions = regions(&pager, [14 * MIB, MIB]);
    let before = pager.stats().throttled_us;
    let is_over =
        |stats: &Stats| stats.refaults > 20_000 && stats.thrash_us[ThrashStep::NoReadAhead as usize] > 0;
    let (stats, _) = thrash(&pager, &mut regions[..1], is_over);
    assert!(is_over(&stats) && stats.worst_faulter_percent == 100, "{stats:?}");
    assert_eq!(stats.throttled_us, before, "{stats:?}");
    verify(&regions);
}

/// In the mode in which each fault trims there is no stock to grow, and nothing to read ahead.
#[test]
fn a_pager_that_trims_at_each_fault_takes_no_measure() {
    let pager = pager(ThrashControl::Fixed(ThrashStep::Throttle), FaultMode::Signal);
    pager.set_trim_mode(TrimMode::PerFault);
    let mut regions = regions(&pager, [9 * MIB, 9 * MIB]);
    let is_seen = |stats: &Stats| stats.thrash_us.iter().sum::<u64>() > 1_000_000 && stats.refaults > 2000;
    let (stats, _) = thrash(&pager, &mut regions, is_seen);
    assert!(is_seen(&stats), "{stats:?}");
    assert_eq!(stats.throttled_us, 0, "{stats:?}");
    assert!(stats.thrash_step <= ThrashStep::Thrashing, "{stats:?}");
    verify(&regions);
}
