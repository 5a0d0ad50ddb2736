//! The slowdown of a scan of 64 MiB when 32 MiB stay in RAM, by the rule of trimming: `cargo run --release -p plimsoll-pager
//! --example trim_modes`.
//!
//! After B. Dawson, 32 MiB working sets on a 64 GiB machine, 2023: a working set with a hard limit, trimmed at each fault, made
//! scans 250 to 800 times slower. A scan writes one byte of each page.

use std::error::Error;
use std::time::Duration;

use plimsoll_pager::{Pager, Stats, TrimMode};
use rustix::time::{ClockId, clock_gettime};

const MIB: usize = 1 << 20;
const SCANNED: usize = 64 * MIB;
const PAGE: usize = 4096;

/// A rule, and the budget that it is measured with.
struct Case {
    name: &'static str,
    ram: usize,
    mode: TrimMode,
    scans: u32,
}

/// The measurement of a case.
struct Measured {
    /// CPU time of a scan, of all threads.
    scan: Duration,
    before: Stats,
    after: Stats,
}

fn main() -> Result<(), Box<dyn Error>> {
    let cases = [
        Case {
            name: "without a limit",
            ram: 128 * MIB,
            mode: TrimMode::BalanceSet,
            scans: 500,
        },
        Case {
            name: "32 MiB, balance-set",
            ram: 32 * MIB,
            mode: TrimMode::BalanceSet,
            scans: 20,
        },
        Case {
            name: "32 MiB, per fault",
            ram: 32 * MIB,
            mode: TrimMode::PerFault,
            scans: 10,
        },
    ];
    println!("rule                 ms a scan  faults a scan  slower");
    let mut fastest = None;
    for case in cases {
        let measured = measure(&case)?;
        let (after, before) = (measured.after, measured.before);
        let faults = |stats: &Stats| stats.zero_faults + stats.soft_faults + stats.hard_faults;
        let faults = (faults(&after) - faults(&before)) / u64::from(case.scans);
        let scan = measured.scan.as_secs_f64() * 1e3;
        let fastest = *fastest.get_or_insert(scan);
        println!(
            "{:<20} {scan:>9.2} {faults:>14} {:>6.0}x",
            case.name,
            scan / fastest
        );
    }
    Ok(())
}

fn measure(case: &Case) -> Result<Measured, Box<dyn Error>> {
    let pager = Pager::builder().ram(case.ram as u64).build()?;
    pager.set_trim_mode(case.mode);
    let mut region = pager.map(SCANNED)?;
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
    let bytes = region.bytes_mut();
    scan(bytes, 0);
    let before = pager.stats();
    let start = cpu_time();
    for number in 1..=case.scans {
        scan(bytes, number as u8);
    }
    let scan = (cpu_time() - start) / case.scans;
    Ok(Measured {
        scan,
        before,
        after: pager.stats(),
    })
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
