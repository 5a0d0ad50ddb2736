//! The slowdown of a scan of 64 MiB when 32 MiB stay in the working set, by the rule of trimming: `cargo run --release -p
//! plimsoll-pager --example trim_modes`.
//!
//! After B. Dawson, 32 MiB working sets on a 64 GiB machine, 2023: a working set with a hard limit, trimmed at each fault, made
//! scans 250 to 800 times slower; trimming once a second, as the balance-set manager does, would not. A scan writes one byte
//! of each page.
//!
//! | rule | meaning |
//! |---|---|
//! | without a limit | the kernel resolves all faults |
//! | once a second | 32 MiB leave the working set as often as scans without a limit take a second; their frames stay in RAM |
//! | maximum | the region's working set has a maximum, and RAM is left: trimmed pages stay in RAM |
//! | budget | the pager has no more RAM: trimmed pages are compressed, ahead of faults and in batches |
//! | per fault | as above, but each fault trims one page (`TrimMode::PerFault`) |

use std::error::Error;
use std::time::Duration;

use plimsoll_pager::{Pager, Stats, TrimMode, TrimTo};
use rustix::time::{ClockId, clock_gettime};

const MIB: usize = 1 << 20;
const SCANNED: usize = 64 * MIB;
const PAGE: usize = 4096;

/// A rule, and the budget that it is measured with.
struct Case {
    name: &'static str,
    ram: usize,
    mode: TrimMode,
    /// The maximum of the region's working set.
    maximum: Option<usize>,
    /// Scans between two trims of half of the region.
    trimmed_after: Option<u32>,
    scans: u32,
}

impl Case {
    fn new(name: &'static str, ram: usize, scans: u32) -> Case {
        Case {
            name,
            ram,
            mode: TrimMode::BalanceSet,
            maximum: None,
            trimmed_after: None,
            scans,
        }
    }
}

/// The measurement of a case.
struct Measured {
    /// CPU time of a scan, of all threads, in milliseconds.
    scan: f64,
    /// Faults of a scan.
    faults: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    const LIMIT: usize = 32 * MIB;
    const PLENTY: usize = 128 * MIB;
    println!("rule             ms a scan  faults a scan   slower");
    let unlimited = measure(&Case::new("without a limit", PLENTY, 500))?;
    let show = |case: &Case, measured: &Measured| {
        let slower = measured.scan / unlimited.scan;
        let Measured { scan, faults } = measured;
        println!("{:<16} {scan:>9.2} {faults:>14.2} {slower:>7.2}x", case.name);
    };
    show(&Case::new("without a limit", PLENTY, 0), &unlimited);
    let a_second = (1000.0 / unlimited.scan) as u32;
    let cases = [
        Case {
            trimmed_after: Some(a_second),
            ..Case::new("once a second", PLENTY, 3 * a_second)
        },
        Case {
            maximum: Some(LIMIT),
            ..Case::new("maximum", PLENTY, 50)
        },
        Case::new("budget", LIMIT, 20),
        Case {
            mode: TrimMode::PerFault,
            ..Case::new("per fault", LIMIT, 10)
        },
    ];
    for case in cases {
        show(&case, &measure(&case)?);
    }
    Ok(())
}

fn measure(case: &Case) -> Result<Measured, Box<dyn Error>> {
    let pager = Pager::builder().ram(case.ram as u64).build()?;
    pager.set_trim_mode(case.mode);
    let mut region = pager.map(SCANNED)?;
    if let Some(maximum) = case.maximum {
        region.set_working_set(0, maximum as u64)?;
    }
    // Contents that shrink to about a third.
    for (page, bytes) in region.bytes_mut().chunks_exact_mut(PAGE).enumerate() {
        let mut x = (page as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for word in bytes[..PAGE / 3].as_chunks_mut::<8>().0 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            *word = x.to_ne_bytes();
        }
    }
    scan(region.bytes_mut(), 0);
    let before = pager.stats();
    let start = cpu_time();
    for number in 1..=case.scans {
        if case.trimmed_after.is_some_and(|scans| number % scans == 0) {
            region.trim(SCANNED / 2.., TrimTo::Modified)?;
        }
        scan(region.bytes_mut(), number as u8);
    }
    let scans = f64::from(case.scans);
    let after = pager.stats();
    Ok(Measured {
        scan: (cpu_time() - start).as_secs_f64() * 1e3 / scans,
        faults: (faults(&after) - faults(&before)) as f64 / scans,
    })
}

fn faults(stats: &Stats) -> u64 {
    stats.zero_faults + stats.soft_faults + stats.hard_faults
}

/// Writes a byte of each page.
fn scan(bytes: &mut [u8], value: u8) {
    for page in bytes.chunks_exact_mut(PAGE) {
        page[PAGE - 1] = value;
    }
}

/// CPU time of this process so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
