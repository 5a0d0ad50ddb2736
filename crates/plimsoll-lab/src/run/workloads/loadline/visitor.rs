//! One visiting thread: its choice of pages, its share of writes, and its counts.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::pace::{Schedule, nanoseconds, wait_until};
use super::pattern::{Choices, Random};
use super::tally::Tally;
use super::words::Pages;
use crate::workload::mix;
use plimsoll_model::scenario::Pattern;

/// The settings that all threads of a worker share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    pub(super) pattern: Pattern,
    pub(super) write_percent: u32,
    pub(super) threads: u32,
    /// Steps of computing after a visit.
    pub(super) steps: u64,
    /// Seed of the tags and of the choices.
    pub(super) seed: u64,
}

/// A thread's visits, from its preparation on.
#[derive(Debug)]
pub(super) struct Visitor {
    habits: Habits,
    choices: Choices,
    mix: WriteMix,
    /// The page that a chase goes to next.
    next: u64,
    pub(super) visits: u64,
    /// Of them, those that raised a counter.
    pub(super) writes: u64,
    /// Of them, those of a page with a wrong tag.
    pub(super) wrong: u64,
}

impl Visitor {
    /// The thread of that number, on `pages` pages. Each starts at another place.
    pub(super) fn new(habits: Habits, pages: u64, thread: u32) -> Visitor {
        let seed = match thread {
            0 => habits.seed,
            _ => mix(habits.seed.wrapping_add(u64::from(thread))),
        };
        let first = pages * u64::from(thread) / u64::from(habits.threads);
        Visitor {
            habits,
            choices: Choices::new(habits.pattern, pages, seed).starting_at(first),
            mix: WriteMix::new(habits.write_percent, !seed),
            next: first,
            visits: 0,
            writes: 0,
            wrong: 0,
        }
    }

    pub(super) fn choices(&mut self) -> &mut Choices {
        &mut self.choices
    }

    /// Visits one after the other for `seconds` from `start`, at least once, and hands out whether each wrote and its
    /// nanoseconds.
    ///
    /// A visit is timed from before its access to after it: the computation is not in its latency.
    pub(super) fn visit(
        &mut self,
        pages: Pages<'_>,
        start: Instant,
        seconds: f64,
        mut timed: impl FnMut(bool, u64),
    ) {
        let lasts = Duration::from_secs_f64(seconds);
        let steps = self.habits.steps;
        let mut before = start.elapsed();
        self.each(pages, |writes, work| {
            let after = start.elapsed();
            timed(writes, nanoseconds(after.saturating_sub(before)));
            *work = compute(*work, steps);
            before = start.elapsed();
            before < lasts
        });
    }

    /// Visits when it is due, for `seconds` from `start`. Returns the number of visits that were due.
    pub(super) fn visit_on_schedule(
        &mut self,
        pages: Pages<'_>,
        start: Instant,
        seconds: f64,
        (schedule, tally): (Schedule, &mut Tally),
    ) -> u64 {
        let lasts = Duration::from_secs_f64(seconds);
        let steps = self.habits.steps;
        let mut number = 0;
        let mut due = schedule.due(number);
        if due < lasts {
            wait_until(start, due);
            let mut before = start.elapsed();
            self.each(pages, |writes, work| {
                let after = start.elapsed();
                let since = |begin: Duration| nanoseconds(after.saturating_sub(begin));
                tally.open(writes, since(due), since(before));
                *work = compute(*work, steps);
                number += 1;
                due = schedule.due(number);
                if due >= lasts || start.elapsed() >= lasts {
                    return false;
                }
                wait_until(start, due);
                before = start.elapsed();
                true
            });
        }
        number + schedule.count_unserved(number, lasts, start.elapsed(), tally)
    }

    /// Accesses page after page until `then` returns false. It gets whether the access wrote, and the value to compute
    /// with.
    #[inline]
    fn each(&mut self, pages: Pages<'_>, mut then: impl FnMut(bool, &mut u64) -> bool) {
        let seed = self.habits.seed;
        let shared = self.habits.threads > 1;
        let (mut visits, mut writes, mut wrong, mut successor) = (0, 0, 0, self.next);
        let mut work = seed;
        let mix = &mut self.mix;
        self.choices.each(self.next, |page| {
            let words = pages.words(page);
            wrong += u64::from(words.tag() != page ^ seed);
            let does_write = mix.next();
            if does_write {
                words.count(shared);
                writes += 1;
            }
            successor = words.successor();
            visits += 1;
            then(does_write, &mut work).then_some(successor)
        });
        black_box(work);
        self.next = successor;
        self.visits += visits;
        self.writes += writes;
        self.wrong += wrong;
    }
}

/// Which visits write: a share of them, at random, so that no page is always written.
#[derive(Debug)]
enum WriteMix {
    All,
    None,
    /// Those with a random number below the threshold.
    Some {
        threshold: u64,
        random: Random,
    },
}

impl WriteMix {
    fn new(percent: u32, seed: u64) -> WriteMix {
        match percent {
            0 => WriteMix::None,
            100.. => WriteMix::All,
            percent => WriteMix::Some {
                threshold: u64::MAX / 100 * u64::from(percent),
                random: Random::new(seed),
            },
        }
    }

    #[inline]
    fn next(&mut self) -> bool {
        match self {
            WriteMix::All => true,
            WriteMix::None => false,
            WriteMix::Some { threshold, random } => random.next() < *threshold,
        }
    }
}

/// Steps of arithmetic, none of which can begin before the one before it has ended.
pub(super) fn compute(work: u64, steps: u64) -> u64 {
    (0..steps).fold(work, |work, _| mix(work))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_share_of_the_visits_writes(percent in 0u32..=100, seed: u64) {
            const VISITS: u32 = 20_000;
            let mut mix = WriteMix::new(percent, seed);
            let writes = (0..VISITS).filter(|_| mix.next()).count() as f64;
            let share = f64::from(percent) / 100.0;
            // Six standard deviations.
            let allowed = 6.0 * (share * (1.0 - share) / f64::from(VISITS)).sqrt();
            prop_assert!((writes / f64::from(VISITS) - share).abs() <= allowed);
        }
    }
}
