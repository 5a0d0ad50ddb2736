//! Reads the state of thrash control from the counters of a pager while two threads thrash: `cargo run --release -p
//! plimsoll-pager --example thrash_state -- 10` for 10 s.
//!
//! The counters that tell it: `thrash_step`, the step now; `thrash_us`, the time in each step; `throttled_us`, the waits of
//! throttled threads; `worst_faulter_percent`, the share of the thread with the most faults; `thrash_trials` and `kept_trials`.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_pager::{Pager, ThrashControl, ThrashStep};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let pager = Pager::builder()
        .ram(32 * MIB as u64)
        .thrash_control(ThrashControl::On)
        .build()?;
    // Half more memory than fits, in random order.
    let mut regions = [pager.map(24 * MIB)?, pager.map(24 * MIB)?];
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        for (seed, region) in (1..).zip(&mut regions) {
            let end = &end;
            scope.spawn(move || write_at_random(region.bytes_mut(), seed, end));
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(seconds) {
            thread::sleep(Duration::from_millis(500));
            let stats = pager.stats();
            println!(
                "{:5.1} s  {:?}: worst thread {}%, {} trials, {} kept, throttled {} ms",
                start.elapsed().as_secs_f64(),
                stats.thrash_step,
                stats.worst_faulter_percent,
                stats.thrash_trials,
                stats.kept_trials,
                stats.throttled_us / 1000,
            );
        }
        end.store(true, Ordering::Relaxed);
    });
    let stats = pager.stats();
    for (step, us) in ThrashStep::ALL.into_iter().zip(stats.thrash_us) {
        println!("{step:?}: {} ms", us / 1000);
    }
    Ok(())
}

/// Writes noise to random pages until `end`.
fn write_at_random(bytes: &mut [u8], seed: u64, end: &AtomicBool) {
    let mut random = seed;
    let pages = bytes.len() / PAGE;
    while !end.load(Ordering::Relaxed) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let start = random as usize % pages * PAGE;
        let (words, _) = bytes[start..start + PAGE].as_chunks_mut::<8>();
        // A third of each page is noise.
        for (number, word) in (0_u64..).zip(&mut words[..PAGE / 8 / 3]) {
            *word = (random ^ number)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .to_ne_bytes();
        }
    }
}
