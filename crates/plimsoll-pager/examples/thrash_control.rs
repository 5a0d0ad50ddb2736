//! Thrash control in three loads that do not fit into the budget, each of two threads: `cargo run --release -p
//! plimsoll-pager --example thrash_control -- [ROUNDS [SECONDS [RULE...]]]`.
//!
//! A rule is `on`, or a step to have in force all the time: `standby`, `no-read-ahead`, `throttle`. Each round runs every load
//! without control, then under every rule. The raw values go to standard output, a line each; then the medians of the ratios
//! to the run without control of the same round, with the smallest and the largest.

use std::error::Error;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_pager::{Pager, Stats, ThrashControl, ThrashStep};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
/// The budget, most of which is frames.
const RAM: usize = 64 * MIB;

/// The order in which a thread accesses its pages.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// Any page next.
    Random,
    /// Each page once before any page again, with its neighbours far apart in time.
    Scattered,
    /// One page behind the other.
    Sequential,
}

/// A thread: its pages, and their order.
#[derive(Debug, Clone, Copy)]
struct Work {
    bytes: usize,
    order: Order,
}

/// Two threads: the well-behaved one, and the worst.
struct Load {
    name: &'static str,
    works: [Work; 2],
}

const fn work(mib: usize, order: Order) -> Work {
    Work {
        bytes: mib * MIB,
        order,
    }
}

const LOADS: [Load; 3] = [
    Load {
        name: "hot set beside a scan",
        works: [work(28, Order::Random), work(72, Order::Scattered)],
    },
    Load {
        name: "hot set beside a stream",
        works: [work(28, Order::Random), work(72, Order::Sequential)],
    },
    Load {
        name: "two equal sets",
        works: [work(40, Order::Random), work(40, Order::Random)],
    },
];

const RULES: [(&str, ThrashControl); 4] = [
    ("on", ThrashControl::On),
    ("standby", ThrashControl::Fixed(ThrashStep::GrownStandby)),
    ("no-read-ahead", ThrashControl::Fixed(ThrashStep::NoReadAhead)),
    ("throttle", ThrashControl::Fixed(ThrashStep::Throttle)),
];

/// One run: accesses a second of each thread, and the statistics of the pager.
struct Run {
    speeds: [f64; 2],
    stats: Stats,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let named: Vec<String> = arguments.collect();
    let rules: Vec<_> = match named.as_slice() {
        [] => RULES[..1].to_vec(),
        named => RULES
            .into_iter()
            .filter(|(name, _)| named.iter().any(|one| one == name))
            .collect(),
    };
    let load_average = std::fs::read_to_string("/proc/loadavg")?;
    println!(
        "# load average {}, {rounds} rounds of {seconds} s",
        load_average.trim()
    );
    println!(
        "load,rule,round,good,worst,refaults,soft_faults,stall_us,throttled_us,thrash_us,trials,kept,active,standby"
    );
    let mut lines = Vec::new();
    for load in &LOADS {
        let mut ratios: Vec<Vec<[f64; 3]>> = vec![Vec::new(); rules.len()];
        for round in 0..rounds {
            let base = run(load, ThrashControl::Off, seconds)?;
            print(load, "off", round, &base);
            for ((name, rule), ratios) in rules.iter().zip(&mut ratios) {
                let run = run(load, *rule, seconds)?;
                print(load, name, round, &run);
                let [good, worst] = [0, 1].map(|thread| run.speeds[thread] / base.speeds[thread]);
                let sum = |run: &Run| run.speeds.iter().sum::<f64>();
                ratios.push([good, worst, sum(&run) / sum(&base)]);
            }
        }
        for ((name, _), ratios) in rules.iter().zip(ratios) {
            let [good, worst, sum] = [0, 1, 2].map(|which| interval(ratios.iter().map(|ratio| ratio[which])));
            lines.push(format!("| {} | {name} | {good} | {worst} | {sum} |", load.name));
        }
    }
    println!("\n| load | rule | well-behaved thread | worst thread | both |\n|---|---|---|---|---|");
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Runs a load for some seconds under a rule.
fn run(load: &Load, rule: ThrashControl, seconds: u64) -> Result<Run, Box<dyn Error>> {
    let pager = Pager::builder().ram(RAM as u64).thrash_control(rule).build()?;
    let mut regions = Vec::new();
    for work in load.works {
        let mut region = pager.map(work.bytes)?;
        fill(region.bytes_mut());
        regions.push(region);
    }
    let counts = [AtomicU64::new(0), AtomicU64::new(0)];
    let is_over = AtomicBool::new(false);
    // The list of pages in use settles first.
    let settling = Duration::from_secs(1);
    let speeds = std::thread::scope(|scope| {
        for ((region, work), count) in regions.iter_mut().zip(load.works).zip(&counts) {
            let is_over = &is_over;
            scope.spawn(move || access(region.bytes_mut(), work.order, count, is_over));
        }
        std::thread::sleep(settling);
        let start = Instant::now();
        let before = [0, 1].map(|thread: usize| counts[thread].load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_secs(seconds));
        let elapsed = start.elapsed().as_secs_f64();
        let after = [0, 1].map(|thread: usize| counts[thread].load(Ordering::Relaxed));
        is_over.store(true, Ordering::Relaxed);
        [0, 1].map(|thread| (after[thread] - before[thread]) as f64 / elapsed)
    });
    let stats = pager.stats();
    Ok(Run { speeds, stats })
}

/// Accesses pages until the end: sums the words of each, and writes one.
fn access(bytes: &mut [u8], order: Order, count: &AtomicU64, is_over: &AtomicBool) {
    let pages = (bytes.len() / PAGE) as u64;
    let mut x = 0x2545_F491_4F6C_DD1D_u64;
    let mut number = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        let page = match order {
            Order::Random => {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                ((u128::from(x) * u128::from(pages)) >> 64) as u64
            }
            // A prime that divides no number of pages here.
            Order::Scattered => number * 7919 % pages,
            Order::Sequential => number % pages,
        };
        let start = page as usize * PAGE;
        let (words, _) = bytes[start..start + PAGE].as_chunks_mut::<8>();
        let sum = words.iter().fold(0_u64, |sum, word| {
            sum.wrapping_mul(31).wrapping_add(u64::from_ne_bytes(*word))
        });
        words[511] = black_box(sum).to_ne_bytes();
        number += 1;
        count.store(number, Ordering::Relaxed);
    }
}

/// Contents that shrink to about a quarter.
fn fill(bytes: &mut [u8]) {
    let mut x = 0x9E37_79B9_7F4A_7C15_u64;
    for page in bytes.chunks_exact_mut(PAGE) {
        for word in page[..PAGE / 4].as_chunks_mut::<8>().0 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            *word = x.to_ne_bytes();
        }
    }
}

fn print(load: &Load, rule: &str, round: usize, run: &Run) {
    let stats = &run.stats;
    println!(
        "{},{rule},{round},{:.0},{:.0},{},{},{},{},{},{},{},{},{}",
        load.name,
        run.speeds[0],
        run.speeds[1],
        stats.refaults,
        stats.soft_faults,
        stats.stall_us,
        stats.throttled_us,
        stats.thrash_us.map(|us| us.to_string()).join(" "),
        stats.thrash_trials,
        stats.kept_trials,
        stats.active_pages,
        stats.standby_pages.iter().sum::<u64>()
    );
}

/// The median of some values, with the smallest and the largest.
fn interval(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let median = match values.len() {
        0 => return "-".to_owned(),
        length if length % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    };
    format!("{median:.2} ({:.2}-{:.2})", values[0], values[values.len() - 1])
}
