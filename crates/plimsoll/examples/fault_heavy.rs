//! A program that does little but fault, which a monitor that walks page tables or takes locks would slow down.
//!
//! Maps 64 MiB, touches every page and unmaps it, again and again, for as many seconds as it is told, and prints the
//! faults a second of wall time and of its own CPU time: `fault_heavy 5`.

use std::time::{Duration, Instant};

use plimsoll_os::{Mapping, UsageScope, resource_usage};

const SIZE: usize = 64 << 20;

fn main() {
    let seconds: f64 = std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(5.0);
    let page = plimsoll_os::page_size();
    let before = resource_usage(UsageScope::Process);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs_f64(seconds) {
        let mut memory = Mapping::anonymous(SIZE).expect("64 MiB of address space");
        for byte in memory.bytes_mut().iter_mut().step_by(page) {
            *byte = 1;
        }
    }
    let wall = start.elapsed().as_secs_f64();
    let after = resource_usage(UsageScope::Process);
    let faults = (after.minor_faults - before.minor_faults) as f64;
    let cpu = (after.user_us + after.system_us - before.user_us - before.system_us) as f64 / 1e6;
    println!("{:.0} {:.0}", faults / wall, faults / cpu);
}
