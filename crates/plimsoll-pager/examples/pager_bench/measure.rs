//! The cases.

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::contents::{Contents, PAGE, next};
use crate::{Memory, Options};

/// Names and values of a measurement.
pub(crate) type Values = Vec<(&'static str, f64)>;

/// Trim, sequential restore, random faults, density.
pub(crate) fn copies(options: &Options, contents: &Contents) -> Result<Values, Box<dyn Error>> {
    let bytes = options.mib << 20;
    // Pages and copies fit together: no trim but the measured one.
    let mut memory = Memory::new(options, bytes, 3 * bytes + (64 << 20))?;
    contents.fill(memory.bytes());
    // The first trim has the work of the first time: registered ranges, new segments, new pages of the device.
    memory.trim()?;
    contents.check(memory.bytes())?;
    let speed = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;

    let start = cpu_time();
    memory.trim()?;
    let trim = cpu_time() - start;
    let left = memory.pages()? as f64 / bytes as f64;
    if left > 0.01 {
        return Err(format!("the trim left {:.1} % of the pages in RAM", left * 100.0).into());
    }
    let (copies, metadata) = memory.copies()?;

    let start = cpu_time();
    read_each(memory.bytes());
    let restore = cpu_time() - start;
    contents.check(memory.bytes())?;

    memory.trim()?;
    let mut faults = random_faults(memory.bytes(), options.accesses);
    faults.sort_unstable();
    let quantile = |q: f64| faults[((faults.len() - 1) as f64 * q) as usize].as_secs_f64() * 1e6;
    contents.check(memory.bytes())?;

    Ok(vec![
        ("trim_gb_s", speed(trim)),
        ("restore_gb_s", speed(restore)),
        ("fault_p50_us", quantile(0.5)),
        ("fault_p99_us", quantile(0.99)),
        ("held", bytes as f64 / copies as f64),
        ("metadata_share", metadata as f64 / bytes as f64),
        ("metadata_bytes", metadata as f64),
    ])
}

/// CPU time of an access while the region is larger than the RAM, or not.
pub(crate) fn overcommit(options: &Options, contents: &Contents) -> Result<Values, Box<dyn Error>> {
    let ram = options.mib << 20;
    let bytes = (ram as f64 * options.load) as usize / PAGE * PAGE;
    let pages = (bytes / PAGE) as u64;
    let mut memory = Memory::new(options, bytes, ram)?;
    // Under pressure from the start: the limit follows the device.
    for eighth in 0..8 {
        let piece = pages as usize / 8 * PAGE;
        let from = eighth * piece;
        let to = if eighth == 7 { bytes } else { from + piece };
        contents.fill_part(memory.bytes(), from, to);
        memory.hold(ram as u64)?;
    }
    let is_uniform = options.case == "uniform";
    let (mut state, mut number) = (options.accesses as u64 | 1, 0);
    let mut access = |memory: &mut Memory, count: usize| {
        let region = memory.bytes();
        for _ in 0..count {
            state = next(state);
            number = match is_uniform {
                true => ((u128::from(state) * u128::from(pages)) >> 64) as usize,
                false => (number + 1) % pages as usize,
            };
            let word = &mut region[number * PAGE + 8..number * PAGE + 16];
            let count = u64::from_ne_bytes(word.try_into().unwrap_or_default());
            word.copy_from_slice(&(count + 1).to_ne_bytes());
            black_box(word);
        }
    };
    // Until the division between pages and copies is steady.
    let warm_up = (2 * pages as usize).max(options.accesses / 4);
    for _ in 0..8 {
        access(&mut memory, warm_up / 8);
        memory.hold(ram as u64)?;
    }
    let start = cpu_time();
    access(&mut memory, options.accesses);
    let time = cpu_time() - start;
    let resident = memory.pages()?;
    let (copies, _) = memory.copies()?;
    let mut values = vec![
        ("access_us", time.as_secs_f64() * 1e6 / options.accesses as f64),
        ("pages_mib", resident as f64 / (1 << 20) as f64),
        ("copies_mib", copies as f64 / (1 << 20) as f64),
    ];
    values.extend(memory.events());
    contents.check(memory.bytes())?;
    Ok(values)
}

/// Reads a word of each page, in order.
fn read_each(region: &[u8]) {
    for page in region.chunks_exact(PAGE) {
        black_box(page[PAGE / 2]);
    }
}

/// The times of reads of different pages in a random order, without neighbours one after another.
fn random_faults(region: &[u8], most: usize) -> Vec<Duration> {
    let pages = region.len() / PAGE;
    let mut order: Vec<usize> = (0..pages).collect();
    let mut state = 7;
    for at in (1..pages).rev() {
        state = next(state);
        order.swap(at, (state >> 33) as usize % (at + 1));
    }
    // A half at most: neighbours of restored pages stay absent.
    let wanted = most.min(pages / 2).max(1);
    let mut times = Vec::with_capacity(wanted);
    for page in &order[..wanted] {
        let start = Instant::now();
        black_box(region[page * PAGE + PAGE / 2]);
        times.push(start.elapsed());
    }
    times
}

/// CPU time of this process so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
