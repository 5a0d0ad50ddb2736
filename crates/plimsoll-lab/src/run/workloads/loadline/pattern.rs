//! How a worker chooses the page that it visits next: five patterns, each in a few nanoseconds and in bounded memory.

use std::hint::black_box;
use std::time::Instant;

use crate::workload::mix;
use plimsoll_model::scenario::Pattern;

/// Share of the pages that are hot, as a divisor.
const HOT_DIVISOR: u64 = 10;
/// Of so many visits, all but one go to the hot pages.
const HOT_TURNS: u64 = 10;
/// Exponent of Zipf's law: YCSB's value for the popularity of records (Cooper et al., 2010).
const ZIPF_EXPONENT: f64 = 0.99;
/// Ranks up to twice this have a weight each; later ones share one with their neighbours, at most a 32nd of their rank.
/// So a rank's weight is right to 2%.
const OWN_WEIGHTS: u64 = 32;
/// Slots of the table of Zipf's law: a power of two that 2^32 pages need no more of.
const SLOTS: usize = 1024;
/// Where a rank goes, as a share of all pages: steps of the golden ratio scatter the first few of any number of ranks
/// evenly.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// A source of pages, each below the number that it was made for.
#[derive(Debug)]
pub(super) struct Choices {
    random: Random,
    pages: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Uniform,
    Zipf(Zipf, Scatter),
    Sequential { next: u64 },
    HotCold { hot: u64, scatter: Scatter },
    Chase,
}

impl Choices {
    /// The pattern on `pages` pages, at least 1 and fewer than 2^32.
    pub(super) fn new(pattern: Pattern, pages: u64, seed: u64) -> Choices {
        debug_assert!((1..1 << 32).contains(&pages));
        let kind = match pattern {
            Pattern::Uniform => Kind::Uniform,
            Pattern::Zipf => Kind::Zipf(Zipf::new(pages), Scatter::new(pages)),
            Pattern::Sequential => Kind::Sequential { next: 0 },
            Pattern::HotCold => Kind::HotCold {
                hot: (pages / HOT_DIVISOR).max(1),
                scatter: Scatter::new(pages),
            },
            Pattern::Chase => Kind::Chase,
        };
        Choices {
            random: Random::new(seed),
            pages,
            kind,
        }
    }

    /// The same, from another page on if the pattern has an order of its own.
    pub(super) fn starting_at(mut self, page: u64) -> Choices {
        if let Kind::Sequential { next } = &mut self.kind {
            *next = page;
        }
        self
    }

    /// Visits page after page, from `first` in a chase, until `visit` returns `None`. Otherwise it returns
    /// the page's successor, which only a chase follows.
    ///
    /// A loop for each pattern, so that its state stays in registers.
    #[inline]
    pub(super) fn each(&mut self, first: u64, mut visit: impl FnMut(u64) -> Option<u64>) {
        let pages = self.pages;
        match &mut self.kind {
            Kind::Uniform => self.random.each(|random| visit(share(random, pages).0)),
            Kind::Zipf(zipf, scatter) => self.random.each(|random| visit(scatter.page(zipf.rank(random)))),
            Kind::Sequential { next } => {
                let mut going = true;
                while going {
                    let page = *next;
                    *next = if page + 1 == pages { 0 } else { page + 1 };
                    going = visit(page).is_some();
                }
            }
            Kind::HotCold { hot, scatter } => {
                let (hot, cold) = (*hot, pages - *hot);
                self.random.each(|random| {
                    let (turn, within) = share(random, HOT_TURNS);
                    // Chosen before the arithmetic, which then needs no branch that a processor would guess wrong.
                    let (start, count) = if turn == 0 { (hot, cold) } else { (0, hot) };
                    visit(scatter.page((start + share(within, count).0).min(pages - 1)))
                });
            }
            Kind::Chase => {
                let mut page = first;
                while let Some(next) = visit(page) {
                    page = next;
                }
            }
        }
    }
}

/// The successor of each page in a chase: one random cycle through all of them (S. Sattolo, 1986). It takes 4 bytes a
/// page while it lives.
pub(super) fn cycle(pages: u64, seed: u64) -> Vec<u32> {
    // `Choices::new` refuses 2^32 pages and more.
    let mut next: Vec<u32> = (0..pages as u32).collect();
    let mut random = Random::new(!seed);
    for last in (1..next.len()).rev() {
        let other = share(random.next(), last as u64).0 as usize;
        next.swap(last, other);
    }
    next
}

/// xoroshiro128+ (D. Blackman and S. Vigna, 2021): no multiplication; its weak lowest bits do not matter, since the
/// choices use the higher ones.
#[derive(Debug)]
pub(super) struct Random([u64; 2]);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        // Not both zero, as the function is a bijection.
        Random([mix(seed), mix(!seed)])
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        let [first, second] = self.0;
        let mixed = first ^ second;
        self.0 = [
            first.rotate_left(24) ^ mixed ^ (mixed << 16),
            mixed.rotate_left(37),
        ];
        first.wrapping_add(second)
    }

    /// Hands out random numbers until `take` wants no more.
    #[inline]
    fn each(&mut self, mut take: impl FnMut(u64) -> Option<u64>) {
        let mut random = Random(self.0);
        while take(random.next()).is_some() {}
        *self = random;
    }
}

/// The part of `parts` equal parts that `random` falls into, and where in it: again a random number (D. Lemire, Fast
/// random integer generation in an interval, 2019). The bias is below `parts / 2^64`.
#[inline]
fn share(random: u64, parts: u64) -> (u64, u64) {
    let wide = u128::from(random) * u128::from(parts);
    ((wide >> 64) as u64, wide as u64)
}

/// A bijection that scatters ranks over pages: the rank times a number prime to the number of pages, modulo that.
///
/// Without a division: `step` is that number over the pages as a fraction of 2^64, rounded up. The product with a rank
/// below 2^32 is too large by less than 2^32, so times fewer than 2^32 pages by less than one part of 2^64.
#[derive(Debug)]
struct Scatter {
    pages: u64,
    step: u64,
}

impl Scatter {
    fn new(pages: u64) -> Scatter {
        let mut multiplier = ((pages as f64 * GOLDEN) as u64).max(1);
        while greatest_common_divisor(multiplier, pages) != 1 {
            multiplier += 1;
        }
        // Of one page the fraction is 1, which wraps to 0: right as well.
        let step = (u128::from(multiplier) << 64).div_ceil(u128::from(pages)) as u64;
        Scatter { pages, step }
    }

    #[inline]
    fn page(&self, rank: u64) -> u64 {
        share(rank.wrapping_mul(self.step), self.pages).0
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Ranks by Zipf's law from a table of aliases (A. J. Walker, 1977; M. D. Vose, 1991).
#[derive(Debug)]
struct Zipf(Box<[Slot; SLOTS]>);

/// One of the equally likely slots of the table: below the threshold a rank of the first range, else one of the second.
#[derive(Debug, Clone, Copy)]
struct Slot {
    threshold: u64,
    /// Below the threshold, and from it on.
    ranks: [Ranks; 2],
}

#[derive(Debug, Clone, Copy)]
struct Ranks {
    start: u32,
    count: u32,
}

impl Ranks {
    /// Weight of all of them together: summed for a single one, else by the integral, which over a 64th of the rank is
    /// right to 1e-5.
    fn weight(self) -> f64 {
        let (first, power) = (f64::from(self.start) + 1.0, 1.0 - ZIPF_EXPONENT);
        match self.count {
            1 => first.powf(-ZIPF_EXPONENT),
            count => {
                let (from, to) = (first - 0.5, first - 0.5 + f64::from(count));
                (to.powf(power) - from.powf(power)) / power
            }
        }
    }
}

/// The ranks of so many pages, those of about the same weight together.
fn ranges(pages: u64) -> Vec<Ranks> {
    let mut ranges = Vec::new();
    let mut start = 0;
    while start < pages {
        let count = (start / OWN_WEIGHTS).clamp(1, pages - start);
        // Programs are below 2^32, as the pages are.
        ranges.push(Ranks {
            start: start as u32,
            count: count as u32,
        });
        start += count;
    }
    ranges
}

impl Zipf {
    fn new(pages: u64) -> Zipf {
        Zipf(aliases(&ranges(pages)))
    }

    #[inline]
    fn rank(&self, random: u64) -> u64 {
        // The highest bits choose the slot, those below them the side of the threshold, the lower half the rank.
        const BITS: u32 = SLOTS.ilog2();
        let slot = &self.0[(random >> (u64::BITS - BITS)) as usize];
        let within = random << BITS;
        let ranks = slot.ranks[usize::from(within >= slot.threshold)];
        let lower = random & u64::from(u32::MAX);
        u64::from(ranks.start) + ((lower * u64::from(ranks.count)) >> 32)
    }
}

/// The table for ranges by their weights: at least one range, and no more than slots.
fn aliases(ranges: &[Ranks]) -> Box<[Slot; SLOTS]> {
    let weights = ranges.iter().map(|ranks| ranks.weight());
    let mean = weights.clone().sum::<f64>() / SLOTS as f64;
    // In units of one slot; slots without a range of their own have no weight.
    let mut left: Vec<f64> = weights.map(|weight| weight / mean).collect();
    left.resize(SLOTS, 0.0);
    let mut slots = Box::new(
        [Slot {
            threshold: u64::MAX,
            ranks: [ranges[0]; 2],
        }; SLOTS],
    );
    for (slot, &ranks) in slots.iter_mut().zip(ranges) {
        slot.ranks = [ranks; 2];
    }
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..SLOTS).partition(|&index| left[index] < 1.0);
    // A slot that is not full is filled up from one that has more than its own.
    while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
        small.pop();
        slots[poor].threshold = (left[poor] * 2f64.powi(64)) as u64;
        slots[poor].ranks[1] = ranges[rich];
        left[rich] -= 1.0 - left[poor];
        if left[rich] < 1.0 {
            large.pop();
            small.push(rich);
        }
    }
    slots
}

/// Seconds that a choice takes by itself, the best of several passes; of a chase nothing, as its choice is the read
/// of the page.
pub(super) fn cost_s(choices: &mut Choices) -> f64 {
    const PASSES: u32 = 5;
    const EACH: u32 = 100_000;
    if matches!(choices.kind, Kind::Chase) {
        return 0.0;
    }
    let mut best = f64::INFINITY;
    for _ in 0..PASSES {
        let start = Instant::now();
        let (mut sum, mut left) = (0_u64, EACH);
        choices.each(0, |page| {
            sum = sum.wrapping_add(page);
            left -= 1;
            (left > 0).then_some(0)
        });
        black_box(sum);
        best = best.min(start.elapsed().as_secs_f64() / f64::from(EACH));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Pattern; 5] = [
        Pattern::Uniform,
        Pattern::Zipf,
        Pattern::Sequential,
        Pattern::HotCold,
        Pattern::Chase,
    ];

    /// How often each page is chosen in `visits` visits.
    fn histogram(pattern: Pattern, pages: u64, visits: u64) -> Vec<u64> {
        let mut choices = Choices::new(pattern, pages, 7);
        let successors = cycle(pages, 7);
        let mut counts = vec![0; pages as usize];
        let mut left = visits;
        choices.each(0, |page| {
            counts[page as usize] += 1;
            left -= 1;
            (left > 0).then(|| u64::from(successors[page as usize]))
        });
        counts
    }

    /// Whether counts could be those of these probabilities: chi-square over its degrees of freedom is near 1, and
    /// for thousands of degrees its spread is a few percent.
    fn fits(counts: &[u64], probability: impl Fn(usize) -> f64) -> bool {
        let visits: u64 = counts.iter().sum();
        let chi_square: f64 = counts
            .iter()
            .enumerate()
            .map(|(page, &count)| {
                let expected = probability(page) * visits as f64;
                (count as f64 - expected).powi(2) / expected
            })
            .sum();
        chi_square / (counts.len() as f64 - 1.0) < 1.25
    }

    proptest! {
        #[test]
        fn every_choice_is_a_page(pages in 1u64..3000, seed: u64) {
            for pattern in ALL {
                let mut choices = Choices::new(pattern, pages, seed);
                let (mut left, mut inside) = (300, true);
                choices.each(0, |page| {
                    inside &= page < pages;
                    left -= 1;
                    (left > 0).then_some(left % pages)
                });
                prop_assert!(inside, "{:?}", pattern);
            }
        }

        #[test]
        fn scattering_is_a_bijection(pages in 1u64..3000) {
            let scatter = Scatter::new(pages);
            let mut found: Vec<u64> = (0..pages).map(|rank| scatter.page(rank)).collect();
            found.sort_unstable();
            prop_assert_eq!(found, (0..pages).collect::<Vec<_>>());
        }

        #[test]
        fn scattering_is_a_product_modulo_the_pages(pages in 1u64..1 << 32, ranks in prop::collection::vec(0u64..1 << 32, 9)) {
            let scatter = Scatter::new(pages);
            let multiplier = if pages == 1 { 1 } else { scatter.page(1) };
            for rank in ranks.into_iter().map(|rank| rank % pages).chain([pages - 1]) {
                prop_assert_eq!(scatter.page(rank), rank * multiplier % pages);
            }
        }

        #[test]
        fn a_chase_is_one_cycle(pages in 1u64..2000, seed: u64) {
            let next = cycle(pages, seed);
            let (mut at, mut steps) = (0, 0);
            loop {
                at = next[at as usize];
                steps += 1;
                if at == 0 {
                    break;
                }
            }
            prop_assert_eq!(steps, pages);
        }
    }

    #[test]
    fn uniform_choices_are_uniform() {
        let counts = histogram(Pattern::Uniform, 3000, 600_000);
        assert!(fits(&counts, |_| 1.0 / 3000.0));
    }

    #[test]
    fn sequential_and_chased_pages_come_equally_often() {
        for pattern in [Pattern::Sequential, Pattern::Chase] {
            assert!(
                histogram(pattern, 1000, 5000).iter().all(|&count| count == 5),
                "{pattern:?}"
            );
        }
    }

    #[test]
    fn nine_of_ten_visits_go_to_a_tenth_of_the_pages() {
        let counts = histogram(Pattern::HotCold, 2000, 1_000_000);
        let scatter = Scatter::new(2000);
        let mut hot = vec![false; 2000];
        (0..200).for_each(|rank| hot[scatter.page(rank) as usize] = true);
        assert!(fits(&counts, |page| if hot[page] {
            0.9 / 200.0
        } else {
            0.1 / 1800.0
        }));
    }

    #[test]
    fn zipf_ranks_have_the_weights_of_the_law() {
        let pages = 3000;
        let total: f64 = (1..=pages).map(|rank| (rank as f64).powf(-ZIPF_EXPONENT)).sum();
        let counts = histogram(Pattern::Zipf, pages, 2_000_000);
        let scatter = Scatter::new(pages);
        let mut rank_of = vec![0; pages as usize];
        (0..pages).for_each(|rank| rank_of[scatter.page(rank) as usize] = rank);
        assert!(fits(&counts, |page| ((rank_of[page] + 1) as f64)
            .powf(-ZIPF_EXPONENT)
            / total));
    }

    #[test]
    fn the_table_of_zipf_holds_any_number_of_pages() {
        assert!(ranges(u64::from(u32::MAX)).len() <= SLOTS);
    }
}
