//! Refault distances of a member: the slope of its miss-ratio curve, without knowing the curve.
//!
//! The *distance* of a refault is the number of pages by which the working set was too small for it: the number of pages
//! that the member evicted between the eviction of the page and its refault. Under LRU, a member with `d` more pages
//! would not have had the refaults of a distance up to `d`. So the refaults of a second, counted by distance, are the curve
//! of misses to the right of the present size. Its steepest chord, the most stall saved for each page, is the *gain*: a member
//! that scans a loop is worth nothing for one page more, but much for all that it lacks.

use std::sync::atomic::{AtomicU64, Ordering};

/// Classes of distances: class k counts those above 2^(k-1) pages up to 2^k.
const CLASSES: usize = 40;

/// Pages of a GiB, for which a gain is stated.
const PAGES_OF_GAIN: f64 = 262_144.0;

/// Counts of refaults by distance. Any thread counts, also in a signal handler.
#[derive(Debug)]
pub struct RefaultDistances {
    classes: [AtomicU64; CLASSES],
}

/// The counts at one time.
pub(crate) type Counts = [u64; CLASSES];

impl Default for RefaultDistances {
    fn default() -> RefaultDistances {
        RefaultDistances::new()
    }
}

impl RefaultDistances {
    /// No refaults.
    pub const fn new() -> RefaultDistances {
        RefaultDistances {
            classes: [const { AtomicU64::new(0) }; CLASSES],
        }
    }

    /// Counts a refault of this distance in pages of 4 KiB. It makes one atomic addition.
    pub fn record(&self, distance: u64) {
        let class = u64::BITS - distance.max(1).saturating_sub(1).leading_zeros();
        self.classes[(class as usize).min(CLASSES - 1)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        std::array::from_fn(|class| self.classes[class].load(Ordering::Relaxed))
    }
}

/// The refaults of a distance up to about `pages`: the class that it lies in is in whole.
pub(crate) fn within(counts: &Counts, pages: u64) -> u64 {
    let classes = counts.iter().enumerate();
    let near = classes.take_while(|(class, _)| (1_u64 << class) / 2 < pages);
    near.fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

/// The refaults of some time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Period {
    /// Refaults by distance.
    pub(crate) counts: Counts,
    /// Microseconds that they took.
    pub(crate) stall_us: u64,
    /// Length of the time.
    pub(crate) milliseconds: u64,
}

impl Period {
    /// Microseconds of stall a second that one more GiB would save, by the steepest chord of the curve that ends between
    /// `least` pages, the least that is worth a trade, and `most` pages, the most that the member can get.
    pub(crate) fn gain(&self, least: u64, most: u64) -> u64 {
        let refaults: u64 = self.counts.iter().sum();
        if refaults == 0 || self.milliseconds == 0 {
            return 0;
        }
        let stall_of_each = self.stall_us as f64 / refaults as f64;
        let seconds = self.milliseconds as f64 / 1000.0;
        let mut saved = 0;
        let mut steepest = 0.0_f64;
        for (class, count) in self.counts.iter().enumerate() {
            saved += count;
            let pages = (1_u64 << class).max(least);
            if pages <= most {
                let slope = saved as f64 * stall_of_each / seconds / pages as f64;
                steepest = steepest.max(slope);
            }
        }
        // A cast saturates.
        (steepest * PAGES_OF_GAIN) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refaults_within_a_distance_are_those_of_its_class_and_below() {
        let distances = RefaultDistances::new();
        for distance in [1, 2, 3, 4, 5, 1000, 1 << 60] {
            distances.record(distance);
        }
        let counts = distances.counts();
        for (pages, expected) in [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 4),
            (4, 4),
            (5, 5),
            (900, 6),
            (u64::MAX, 7),
        ] {
            assert_eq!(within(&counts, pages), expected, "{pages} pages");
        }
    }

    fn period(distances: &[(u64, u64)]) -> Period {
        let counted = RefaultDistances::new();
        for (distance, refaults) in distances {
            (0..*refaults).for_each(|_| counted.record(*distance));
        }
        let refaults: u64 = distances.iter().map(|(_, refaults)| refaults).sum();
        Period {
            counts: counted.counts(),
            stall_us: refaults * 10,
            milliseconds: 1000,
        }
    }

    #[test]
    fn distances_are_counted_by_powers_of_two() {
        let counted = RefaultDistances::new();
        for distance in [0, 1, 2, 3, 4, 5, 8, 9, u64::MAX] {
            counted.record(distance);
        }
        let counts = counted.counts();
        assert_eq!(counts[..5], [2, 1, 2, 2, 1]);
        assert_eq!(counts[CLASSES - 1], 1);
    }

    #[test]
    fn the_gain_is_the_steepest_chord() {
        // 100 refaults of 10 us would be saved by 1024 pages: 1000 us by a 256th of a GiB.
        assert_eq!(period(&[(1024, 100)]).gain(1, 1 << 20), 256_000);
        // Ten of them by 16 pages: the shorter chord is steeper.
        assert_eq!(
            period(&[(16, 10), (1024, 90)]).gain(1, 1 << 20),
            100 * 262_144 / 16
        );
        assert_eq!(period(&[]).gain(1, 1 << 20), 0);
    }

    #[test]
    fn a_loop_that_cannot_fit_gains_nothing() {
        let scan = period(&[(1 << 16, 5000)]);
        assert!(scan.gain(1, 1 << 16) > 0);
        assert_eq!(scan.gain(1, (1 << 16) - 1), 0);
    }

    /// One refault of a short distance outweighed a thousand of longer ones.
    #[test]
    fn single_refaults_of_short_distances_weigh_little() {
        let single = period(&[(1, 1)]).gain(1024, 1 << 20);
        let many = period(&[(4096, 1000)]).gain(1024, 1 << 20);
        assert!(many > 100 * single, "{many} {single}");
    }
}
