//! The worker's own cost of a visit: choice, clock and computation, without the access.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use plimsoll_os::page_size;

use super::tally::Tally;
use super::visitor::{Habits, Visitor, compute};
use super::words::Pages;

/// Pages that the own cost is measured on: few enough for the second-level cache.
const OWN_PAGES: usize = 64;
/// Seconds of each pass that measures the own cost, and how many of them: the best counts.
const OWN_SECONDS: f64 = 0.001;
const OWN_PASSES: u32 = 20;
/// Steps of computing in a pass that measures how long one takes, and how many of them: the best counts.
const STEPS: u64 = 10_000;
const STEP_PASSES: u32 = 50;

/// Number of steps that take `seconds` on an idle CPU.
pub(super) fn steps_of(seconds: f64) -> u64 {
    if seconds == 0.0 {
        return 0;
    }
    let mut best = f64::INFINITY;
    for pass in 0..STEP_PASSES {
        let start = Instant::now();
        black_box(compute(black_box(pass.into()), STEPS));
        best = best.min(start.elapsed().as_secs_f64());
    }
    ((seconds / best * STEPS as f64) as u64).max(1)
}

/// Seconds of a visit on memory that is surely resident and cached, with the share of file pages that `visited` has: choice,
/// clock, computing.
pub(super) fn own_cost_s(habits: Habits, visited: Pages<'_>) -> f64 {
    let page_words = page_size() / size_of::<AtomicU64>();
    let mut memory: Vec<AtomicU64> = Vec::new();
    memory.resize_with(OWN_PAGES * page_words, AtomicU64::default);
    let files = visited.files_before(OWN_PAGES as u64) as usize;
    let (file, anonymous) = memory.split_at(files * page_words);
    let Ok(pages) = Pages::of_words(anonymous, file) else {
        unreachable!("a constant number of pages");
    };
    pages.tag(habits.pattern, habits.seed);
    let mut visitor = Visitor::new(habits, pages.count, 0);
    let mut tally = Tally::new();
    let mut best = f64::INFINITY;
    for _ in 0..OWN_PASSES {
        let before = visitor.visits;
        let start = Instant::now();
        visitor.visit(pages, start, OWN_SECONDS, |writes, ns| tally.open(writes, ns, ns));
        best = best.min(start.elapsed().as_secs_f64() / (visitor.visits - before) as f64);
    }
    black_box(tally);
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computing_takes_about_its_time() {
        let steps = steps_of(1e-3);
        let start = Instant::now();
        black_box(compute(1, black_box(steps)));
        // On a busy machine it takes longer, never much less.
        assert!(start.elapsed().as_secs_f64() > 0.5e-3, "{steps} steps");
        assert_eq!(steps_of(0.0), 0);
    }
}
