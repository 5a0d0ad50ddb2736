//! How fast each class writes memory that is already there, beside memset.

use std::hint::black_box;
use std::time::Instant;

use plimsoll_os::{Errno, Mapping};

use super::{Stream, StreamError};
use serde::Serialize;

use plimsoll_model::scenario::FillClass;

/// Speeds of repeated passes, in GB/s (1e9 bytes a second).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FillSpeed {
    pub class: FillClass,
    pub bytes: u64,
    /// Passes of the fill, and as many of memset.
    pub repeats: usize,
    /// Speed of the fill in GB/s.
    pub fill: Spread,
    /// Speed of memset in GB/s.
    pub memset: Spread,
    /// Median over the passes of fill speed over the speed of the memset just before it.
    pub ratio: f64,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpeedError {
    #[error("cannot map {bytes} bytes to fill: {errno}; ask for fewer")]
    Map { bytes: usize, errno: Errno },
    #[error(transparent)]
    Stream(#[from] StreamError),
}

/// Fills `bytes` bytes of resident memory with `class`, `repeats` times (at least once), a memset before each fill.
///
/// # Errors
/// [`SpeedError`] where the memory or the stream cannot be had.
pub fn fill_speed(class: &FillClass, bytes: usize, repeats: usize) -> Result<FillSpeed, SpeedError> {
    let repeats = repeats.max(1);
    let mut stream = Stream::new(class, 1)?;
    let mut memory = Mapping::anonymous(bytes).map_err(|errno| SpeedError::Map { bytes, errno })?;
    let target = memory.bytes_mut();
    target.fill(1);
    let (mut fills, mut memsets) = (Vec::with_capacity(repeats), Vec::with_capacity(repeats));
    for repeat in 0..repeats {
        memsets.push(gb_per_s(target, |target| {
            target.fill(black_box(repeat as u8 | 1))
        }));
        fills.push(gb_per_s(target, |target| stream.write(0, target)));
    }
    let ratios = fills
        .iter()
        .zip(&memsets)
        .map(|(fill, memset)| fill / memset)
        .collect();
    Ok(FillSpeed {
        class: class.clone(),
        bytes: bytes as u64,
        repeats,
        ratio: spread(ratios).median,
        fill: spread(fills),
        memset: spread(memsets),
    })
}

fn gb_per_s(target: &mut [u8], mut work: impl FnMut(&mut [u8])) -> f64 {
    let start = Instant::now();
    work(target);
    let seconds = start.elapsed().as_secs_f64();
    black_box(&target);
    target.len() as f64 / seconds / 1e9
}

/// Expects at least one value.
fn spread(mut values: Vec<f64>) -> Spread {
    values.sort_by(f64::total_cmp);
    Spread {
        min: values[0],
        median: values[values.len() / 2],
        max: values[values.len() - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_ordered_and_a_failed_mapping_is_an_error() {
        let speed = fill_speed(&FillClass::Runs20, 1 << 20, 5).unwrap();
        for spread in [speed.fill, speed.memset] {
            assert!(0.0 < spread.min && spread.min <= spread.median && spread.median <= spread.max);
        }
        assert!(speed.ratio > 0.0 && speed.bytes == 1 << 20 && speed.repeats == 5);
        let error = fill_speed(&FillClass::Random, usize::MAX, 1).unwrap_err();
        assert!(matches!(error, SpeedError::Map { .. }), "{error}");
    }
}
