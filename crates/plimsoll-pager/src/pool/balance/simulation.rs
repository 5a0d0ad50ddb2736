//! Members with known miss-ratio curves: the split that rounds reach, against the best one.
//!
//! Each member is a curve: the misses a second of a number of pages. It reports refaults by distance as a pager with LRU
//! would. The best split is found by dynamic programming over shares of a 256th of the total.

use super::*;
use crate::pool::distances::{Period, RefaultDistances};

const TOTAL: u64 = 1 << 16;
const UNITS: usize = 256;
const UNIT: u64 = TOTAL / UNITS as u64;
const ROUNDS: usize = 600;
/// Rounds at the end whose misses count.
const COUNTED: usize = 200;

/// Accesses a second, and the pages on which they fall.
#[derive(Debug, Clone, Copy)]
enum Curve {
    /// Any of `pages` pages with equal probability: misses fall linearly.
    Uniform { rate: f64, pages: f64 },
    /// Few pages often, many rarely: misses fall exponentially.
    Skewed { rate: f64, scale: f64 },
    /// Few pages often, very many rarely: misses fall as 1/x.
    LongTail { rate: f64, scale: f64 },
    /// One page after the other: all miss until all fit.
    Loop { rate: f64, pages: f64 },
}

impl Curve {
    fn misses(self, pages: f64) -> f64 {
        match self {
            Curve::Uniform { rate, pages: all } => rate * (1.0 - pages / all).max(0.0),
            Curve::Skewed { rate, scale } => rate * (-pages / scale).exp(),
            Curve::LongTail { rate, scale } => rate * scale / (scale + pages),
            Curve::Loop { rate, pages: all } => {
                if pages < all {
                    rate
                } else {
                    0.0
                }
            }
        }
    }

    fn rate(self) -> f64 {
        match self {
            Curve::Uniform { rate, .. }
            | Curve::Skewed { rate, .. }
            | Curve::LongTail { rate, .. }
            | Curve::Loop { rate, .. } => rate,
        }
    }

    fn wanted(self) -> u64 {
        match self {
            Curve::Uniform { pages, .. } | Curve::Loop { pages, .. } => pages.ceil() as u64,
            // All but a thousandth.
            Curve::Skewed { scale, .. } => (scale * 1000_f64.ln()) as u64,
            Curve::LongTail { .. } => TOTAL,
        }
    }

    /// The gain that the member publishes at this size.
    fn gain(self, pages: u64, most: u64) -> u64 {
        let at = |more: f64| self.misses(pages as f64 + more);
        let mut counts = RefaultDistances::new().counts();
        let mut nearer = at(0.0);
        for (class, count) in counts.iter_mut().enumerate() {
            let farther = at((1_u64 << class) as f64);
            *count = (nearer - farther).round() as u64;
            nearer = farther;
        }
        let refaults: u64 = counts.iter().sum();
        let period = Period {
            counts,
            stall_us: refaults * 10,
            milliseconds: 1000,
        };
        period.gain(TOTAL / 256, most)
    }
}

/// The least misses of any split.
fn best(curves: &[Curve]) -> f64 {
    let mut least = vec![0.0; UNITS + 1];
    for curve in curves {
        let with = |units: usize| {
            let split = |own: usize| least[units - own] + curve.misses((own as u64 * UNIT) as f64);
            (0..=units).map(split).fold(f64::INFINITY, f64::min)
        };
        least = (0..=UNITS).map(with).collect();
    }
    least[UNITS]
}

struct Pool {
    readings: Vec<Reading>,
}

impl Pool {
    /// A pool whose first member has everything.
    fn new(members: usize) -> Pool {
        let reading = |at| {
            let given = if at == 0 { TOTAL } else { 0 };
            Reading {
                given,
                charged: given,
                minimum: 0,
                kept: 0,
                maximum: TOTAL,
                resident: 0,
                wanted: 0,
                gain: 0,
                gain_now: 0,
                priority: 5,
                activity: Activity::Bids,
                history: History::new(TOTAL),
            }
        };
        Pool {
            readings: (0..members).map(reading).collect(),
        }
    }

    /// A round, whose changes all members follow at once. Returns the misses of a second after it.
    fn round(&mut self, curves: &[Curve]) -> f64 {
        for (reading, curve) in self.readings.iter_mut().zip(curves) {
            let gain = curve.gain(reading.given, TOTAL - reading.given);
            reading.gain = reading.gain / 2 + gain / 2;
            reading.gain_now = gain;
            reading.wanted = curve.wanted();
            reading.resident = reading.given.min(reading.wanted);
        }
        let decisions = balance(TOTAL, &self.readings);
        for (reading, decision) in self.readings.iter_mut().zip(decisions) {
            reading.given = decision.given;
            reading.charged = decision.given;
            reading.history = decision.history;
        }
        let misses = self.readings.iter().zip(curves);
        misses
            .map(|(reading, curve)| curve.misses(reading.given as f64))
            .sum()
    }

    /// Misses a second at the end of many rounds.
    fn settle(&mut self, curves: &[Curve]) -> f64 {
        let misses: Vec<f64> = (0..ROUNDS).map(|_| self.round(curves)).collect();
        misses[ROUNDS - COUNTED..].iter().sum::<f64>() / COUNTED as f64
    }
}

/// Checks that misses above those of the best split are at most a tenth of these and a hundredth of all accesses.
#[track_caller]
fn comes_near_the_best(curves: &[Curve]) {
    for first in 0..curves.len() {
        let mut curves = curves.to_vec();
        curves.rotate_left(first);
        let mut pool = Pool::new(curves.len());
        let reached = pool.settle(&curves);
        let best = best(&curves);
        let accesses: f64 = curves.iter().map(|curve| curve.rate()).sum();
        let given: Vec<u64> = pool.readings.iter().map(|reading| reading.given).collect();
        assert!(
            reached <= best * 1.1 + accesses * 0.01,
            "{reached:.0} misses a second, {best:.0} with the best split, of {accesses:.0} accesses: {given:?} of {curves:?}"
        );
    }
}

#[test]
fn skewed_members() {
    comes_near_the_best(&[
        Curve::Skewed {
            rate: 50_000.0,
            scale: 9000.0,
        },
        Curve::Skewed {
            rate: 10_000.0,
            scale: 20_000.0,
        },
        Curve::Skewed {
            rate: 90_000.0,
            scale: 4000.0,
        },
    ]);
}

#[test]
fn members_with_long_tails() {
    comes_near_the_best(&[
        Curve::LongTail {
            rate: 50_000.0,
            scale: 3000.0,
        },
        Curve::LongTail {
            rate: 20_000.0,
            scale: 500.0,
        },
        Curve::Skewed {
            rate: 30_000.0,
            scale: 8000.0,
        },
        Curve::LongTail {
            rate: 5000.0,
            scale: 9000.0,
        },
    ]);
}

#[test]
fn dense_members_go_before_thin_ones() {
    comes_near_the_best(&[
        Curve::Uniform {
            rate: 90_000.0,
            pages: 40_000.0,
        },
        Curve::Uniform {
            rate: 20_000.0,
            pages: 50_000.0,
        },
    ]);
}

#[test]
fn a_loop_that_fits_stays_whole() {
    comes_near_the_best(&[
        Curve::Loop {
            rate: 60_000.0,
            pages: 30_000.0,
        },
        Curve::LongTail {
            rate: 20_000.0,
            scale: 5000.0,
        },
    ]);
}

#[test]
fn a_loop_that_cannot_fit_gets_nothing_from_others() {
    comes_near_the_best(&[
        Curve::Loop {
            rate: 90_000.0,
            pages: 100_000.0,
        },
        Curve::Skewed {
            rate: 50_000.0,
            scale: 10_000.0,
        },
        Curve::LongTail {
            rate: 20_000.0,
            scale: 3000.0,
        },
    ]);
}

#[test]
fn idle_members_leave_their_pages() {
    comes_near_the_best(&[
        Curve::Uniform {
            rate: 0.0,
            pages: 10.0,
        },
        Curve::Skewed {
            rate: 50_000.0,
            scale: 10_000.0,
        },
        Curve::Skewed {
            rate: 50_000.0,
            scale: 12_000.0,
        },
    ]);
}

#[test]
fn equal_members_get_equal_shares() {
    let curves = [Curve::Skewed {
        rate: 40_000.0,
        scale: 8000.0,
    }; 5];
    comes_near_the_best(&curves);
    let mut pool = Pool::new(curves.len());
    pool.settle(&curves);
    for reading in &pool.readings {
        let share = reading.given as f64 * 5.0 / TOTAL as f64;
        assert!((0.8..1.2).contains(&share), "{share:.2} of an equal share");
    }
}

#[test]
fn a_split_follows_a_change_of_the_curves() {
    let mut curves = [
        Curve::Skewed {
            rate: 90_000.0,
            scale: 9000.0,
        },
        Curve::Skewed {
            rate: 900.0,
            scale: 9000.0,
        },
    ];
    let mut pool = Pool::new(2);
    pool.settle(&curves);
    assert!(pool.readings[0].given > pool.readings[1].given);
    curves.reverse();
    let reached = pool.settle(&curves);
    assert!(pool.readings[0].given < pool.readings[1].given);
    assert!(reached <= best(&curves) * 1.1 + 900.0);
}
