//! Calibration: the memory speed of the idle machine, as the reference of a run.

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use plimsoll_os::{Advice, Errno, Mapping, page_size};
use xxhash_rust::xxh3::xxh3_64;

use super::fill::Stream;
use plimsoll_model::recording::model::Calibration;
use plimsoll_model::scenario::FillClass;

/// Bytes of the resident buffer: several times the last-level cache of most machines.
const RESIDENT: usize = 256 << 20;
/// Bytes of each mapping that is touched for the first time.
const FRESH: usize = 32 << 20;
/// Passes of each measurement; the best counts, since other programs only make a pass slower. Each pass reads or writes
/// another part of the memory, so that no cache still has it.
const PASSES: usize = 4;
/// Bytes of random data, of which the resident buffer holds copies: random enough for the addresses that are made of it.
const RANDOM: usize = 4 << 20;
/// Dependent loads of a pass.
const LOADS: usize = 25_000;
/// Clock readings of a pass.
const READINGS: u32 = 20_000;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// The memory to measure on cannot be had.
    #[error("cannot map {bytes} bytes to calibrate on: {errno}; free memory, or raise the limit (ulimit -v)")]
    Map { bytes: usize, errno: Errno },
}

/// Measures for about half a second, on 256 MiB of base pages (no huge ones, so that machines with other settings
/// compare). Each value is the best of several passes.
///
/// Run it in a worker, so that the runner stays small.
///
/// # Errors
/// [`CalibrationError::Map`] where the memory cannot be had.
pub fn calibrate() -> Result<Calibration, CalibrationError> {
    let (fault_ns, first_touch_gb_per_s) = first_touch()?;
    let mut memory = base_pages(RESIDENT)?;
    // An earlier kernel does not know this advice: the fill then faults each page in.
    let _ = memory.advise(Advice::PopulateWrite);
    let memory = memory.bytes_mut();
    memory.fill(1);
    let memset = best(|pass| {
        let part = &mut memory[part(pass, RESIDENT)];
        part.fill(black_box(pass as u8 | 1));
        black_box(&part);
    });
    let (from, to) = memory.split_at_mut(RESIDENT / 2);
    let memcpy = best(|pass| {
        let part = part(pass, RESIDENT / 2);
        to[part.clone()].copy_from_slice(&from[part]);
        black_box(&to);
    });
    fill_random(memory);
    let read = best(|pass| {
        black_box(xxh3_64(&memory[part(pass, RESIDENT)]));
    });
    let loads = best(|pass| chase(memory, pass as u64));
    let timer = best(|_| {
        for _ in 0..READINGS {
            black_box(Instant::now());
        }
    });
    Ok(Calibration {
        memset_gb_per_s: (RESIDENT / PASSES) as f64 / memset / 1e9,
        memcpy_gb_per_s: (RESIDENT / 2 / PASSES) as f64 / memcpy / 1e9,
        fault_ns,
        first_touch_gb_per_s,
        random_access_ns: loads * 1e9 / LOADS as f64,
        timer_ns: timer * 1e9 / f64::from(READINGS),
        read_gb_per_s: (RESIDENT / PASSES) as f64 / read / 1e9,
    })
}

/// The bytes of a pass, of `all`.
fn part(pass: usize, all: usize) -> Range<usize> {
    let bytes = all / PASSES;
    pass * bytes..(pass + 1) * bytes
}

/// Nanoseconds of a first touch of a page, one byte each, and GB/s of a memset of fresh memory.
fn first_touch() -> Result<(f64, f64), CalibrationError> {
    let (mut touch, mut memset) = (f64::INFINITY, f64::INFINITY);
    let page = page_size();
    for _ in 0..PASSES {
        let mut fresh = base_pages(FRESH)?;
        let bytes = fresh.bytes_mut();
        let seconds = timed(|| bytes.iter_mut().step_by(page).for_each(|byte| *byte = 1));
        black_box(&bytes);
        touch = touch.min(seconds);
        drop(fresh);

        let mut fresh = base_pages(FRESH)?;
        let bytes = fresh.bytes_mut();
        memset = memset.min(timed(|| bytes.fill(1)));
        black_box(&bytes);
    }
    let pages = FRESH / page;
    Ok((touch * 1e9 / pages as f64, FRESH as f64 / memset / 1e9))
}

fn base_pages(bytes: usize) -> Result<Mapping, CalibrationError> {
    let mapping = Mapping::anonymous(bytes).map_err(|errno| CalibrationError::Map { bytes, errno })?;
    match mapping.advise(Advice::NoHugePage) {
        // A kernel without transparent huge pages knows no such advice and needs none.
        Ok(()) | Err(Errno::INVAL) => Ok(mapping),
        Err(errno) => Err(CalibrationError::Map { bytes, errno }),
    }
}

fn fill_random(memory: &mut [u8]) {
    const _: () = assert!(RESIDENT.is_multiple_of(RANDOM));
    let (random, rest) = memory.split_at_mut(RANDOM);
    // Only a `file=F` stream can fail.
    if let Ok(mut stream) = Stream::new(&FillClass::Random, 1) {
        stream.write(0, random);
    }
    for copy in rest.chunks_exact_mut(RANDOM) {
        copy.copy_from_slice(random);
    }
}

/// Loads at random, each address made of the value loaded before and the number of the load: the processor can
/// neither overlap the loads nor run in a circle.
fn chase(memory: &[u8], pass: u64) {
    let (words, _) = memory.as_chunks::<8>();
    let mask = (words.len() - 1) as u64;
    const _: () = assert!((RESIDENT / 8).is_power_of_two());
    let mut value = pass;
    for load in 0..LOADS as u64 {
        let index = (value ^ load.wrapping_mul(0x9E37_79B9_7F4A_7C15)) & mask;
        value = u64::from_le_bytes(words[index as usize]);
    }
    black_box(value);
}

/// Seconds of the fastest pass.
fn best(mut work: impl FnMut(usize)) -> f64 {
    (0..PASSES)
        .map(|pass| timed(|| work(pass)))
        .fold(f64::INFINITY, f64::min)
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}
