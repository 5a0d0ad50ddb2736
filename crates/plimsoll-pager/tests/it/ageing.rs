//! The heat of chunks on real memory.

use std::time::{Duration, Instant};

use plimsoll_pager::page::PageState;
use plimsoll_pager::{AgeingState, Pager, Region, TrimTo};

use crate::pages::{PAGE, fill, is_as_filled};

const MIB: usize = 1 << 20;
/// A window of these tests: many accesses of a loop lie in each.
const WINDOW: Duration = Duration::from_millis(500);
/// A machine that is busy for longer than this fails the test.
const LIMIT: Duration = Duration::from_secs(120);

fn pager(ram: usize, window: Option<Duration>) -> Pager {
    let builder = Pager::builder().ram(ram as u64).address_space(1 << 30);
    builder.ageing(window).build().expect("userfaultfd is allowed")
}

/// Whether the kernel tells accesses: without `UFFDIO_MOVE` chunks cannot be set apart.
fn is_told(pager: &Pager) -> bool {
    pager.stats().ageing == AgeingState::On
}

fn active_bytes(pager: &Pager, region: &Region, all: &[&Region]) -> usize {
    // Regions lie in the arena in the order in which they were mapped.
    let first = all
        .iter()
        .map(|region| region.as_ptr() as usize)
        .min()
        .expect("regions");
    let start = ((region.as_ptr() as usize - first) / PAGE) as u64;
    let end = start + region.len().div_ceil(PAGE) as u64;
    let snapshot = pager.snapshot();
    let active = snapshot
        .runs()
        .iter()
        .filter(|run| run.state == PageState::Active);
    let pages: u64 = active
        .map(|run| {
            let from = u64::from(run.pages.first.number());
            let to = u64::from(run.pages.end());
            to.min(end).saturating_sub(from.max(start))
        })
        .sum();
    pages as usize * PAGE
}

/// Four chunks, of which one and its neighbour are used, become hot; the others stay cold, and are trimmed first.
#[test]
fn chunks_in_use_stay_when_others_are_trimmed() {
    let pager = pager(12 * MIB, Some(WINDOW));
    // The hand of the trimmer begins with the first region.
    let mut hot = pager.map(2 * MIB).expect("addresses are free");
    let mut cold = pager.map(4 * MIB).expect("addresses are free");
    let mut more = pager.map(12 * MIB).expect("addresses are free");
    fill(cold.bytes_mut(), 1, 0);
    fill(hot.bytes_mut(), 2, 0);
    // The kernel resolves the faults of a region until its first trim.
    for region in [&cold, &hot] {
        region.trim(.., TrimTo::Modified).expect("the range is inside");
    }
    assert!(is_as_filled(cold.bytes(), 1, 0));
    let start = Instant::now();
    let mut round = 0;
    // A window begins with trims: these are of a third region.
    while is_told(&pager) && pager.stats().ageing_windows < 5 {
        assert!(start.elapsed() < LIMIT, "{:#?}", pager.stats());
        round += 1;
        fill(&mut more.bytes_mut()[..MIB], 3, round);
        more.trim(..MIB, TrimTo::Standby).expect("the range is inside");
        assert!(is_as_filled(hot.bytes(), 2, 0));
        std::thread::sleep(Duration::from_millis(5));
    }
    if !is_told(&pager) {
        assert_eq!(pager.stats().ageing, AgeingState::Unsupported);
        return;
    }
    let all = [&cold, &hot, &more];
    assert_eq!(active_bytes(&pager, &hot, &all), 2 * MIB);
    // More than the budget leaves: pages of the cold region make way.
    fill(&mut more.bytes_mut()[MIB..7 * MIB], 3, 0);
    let all = [&cold, &hot, &more];
    let (of_cold, of_hot) = (
        active_bytes(&pager, &cold, &all),
        active_bytes(&pager, &hot, &all),
    );
    assert!(
        of_cold < 4 * MIB && of_hot == 2 * MIB,
        "{of_cold} {of_hot} {:#?}",
        pager.stats()
    );
    assert!(is_as_filled(cold.bytes(), 1, 0) && is_as_filled(hot.bytes(), 2, 0));
    assert!(pager.validate().is_empty());
}

/// Marks each page with its number: the rest compresses to next to nothing.
fn mark(bytes: &mut [u8]) {
    for (number, page) in bytes.chunks_exact_mut(PAGE).enumerate() {
        page[..8].copy_from_slice(&(number as u64 + 1).to_ne_bytes());
    }
}

/// Reads the mark of each page, from page `first` on.
fn check(bytes: &[u8], first: usize) {
    for (number, page) in bytes.chunks_exact(PAGE).enumerate() {
        assert_eq!(page[..8], (first as u64 + number as u64 + 1).to_ne_bytes());
    }
}

/// Pages in use all the time, beside a scan that is so long that each of its chunks is used in few windows alone.
struct Judged {
    /// Refaults of the pages in use.
    refaults: u64,
    /// The time between two uses of them.
    step: Duration,
}

/// None if the kernel does not tell accesses.
fn hot_set_beside_scan(window: Option<Duration>) -> Option<Judged> {
    const PART: usize = 4 * MIB;
    const PASSES: u32 = 2;
    let pager = pager(24 * MIB, window);
    let mut hot = pager.map(8 * MIB).expect("addresses are free");
    let mut scanned = pager.map(192 * MIB).expect("addresses are free");
    mark(hot.bytes_mut());
    mark(scanned.bytes_mut());
    let parts = (scanned.len() / PART) as u32;
    let start = Instant::now();
    let (mut judged, mut refaults, mut time) = (0, 0, Duration::ZERO);
    while judged < PASSES {
        assert!(start.elapsed() < LIMIT, "{:#?}", pager.stats());
        // From then on, the pages in use are of the hottest class.
        let is_judged = window.is_none() || pager.stats().ageing_windows >= 8;
        let since = Instant::now();
        for (number, part) in scanned.bytes().chunks(PART).enumerate() {
            check(part, number * PART / PAGE);
            // The scan lasts for many windows, on any machine.
            std::thread::sleep(Duration::from_millis(60));
            let before = pager.stats().refaults;
            check(hot.bytes(), 0);
            if is_judged {
                refaults += pager.stats().refaults - before;
            }
        }
        judged += u32::from(is_judged);
        time = since.elapsed();
        if window.is_some() && !is_told(&pager) {
            return None;
        }
    }
    let step = time / parts;
    Some(Judged { refaults, step })
}

/// On a busy machine, windows of a fixed time were over before the pages in use had been used again: those were cold, and evicted.
#[test]
fn a_hot_set_beside_a_scan_refaults_less() {
    let without = hot_set_beside_scan(None).expect("it needs no support");
    let Some(with) = hot_set_beside_scan(Some(without.step * 4)) else {
        return;
    };
    let (with, without) = (with.refaults, without.refaults);
    eprintln!("{with} refaults with ageing, {without} without");
    assert!(with * 2 < without, "{with} with ageing, {without} without");
}
