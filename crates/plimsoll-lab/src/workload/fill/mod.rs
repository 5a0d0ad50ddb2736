//! Fill data: an endless stream of bytes for each class and seed.
//!
//! Any part of a stream can be written again without the parts before it, so that a restored fill is checked byte
//! for byte without keeping a copy.

mod file;
mod random;
mod ratio;
mod runs20;
mod speed;

use std::path::PathBuf;

use plimsoll_model::scenario::FillClass;

pub(crate) use random::mix;
pub use speed::{FillSpeed, SpeedError, Spread, fill_speed};

/// A clone writes the same bytes, for another thread.
#[derive(Debug, Clone)]
pub struct Stream(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Random(random::Source),
    Runs20(random::Source),
    Constant(u8),
    Ratio(ratio::Pages),
    File(file::Contents),
}

/// Why a stream cannot be had. Only `file=F` streams fail.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    #[error("cannot read {} to fill memory with it: {source}; name a file that this user may read", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("cannot fill memory with {}: the file is empty; name one with at least one byte", path.display())]
    Empty { path: PathBuf },
}

impl Stream {
    /// The stream of `class` and `seed`. For `file=F` the file is read here, once, at most its first
    /// [`FILE_LIMIT`] bytes.
    ///
    /// # Errors
    /// [`StreamError`] where the file of a `file=F` is empty or cannot be read.
    pub fn new(class: &FillClass, seed: u64) -> Result<Stream, StreamError> {
        Ok(Stream(match class {
            FillClass::Random => Kind::Random(random::Source::new(seed)),
            FillClass::Runs20 => Kind::Runs20(random::Source::new(seed)),
            FillClass::Constant => Kind::Constant(constant(seed)),
            FillClass::Ratio(ratio) => Kind::Ratio(ratio::Pages::new(*ratio, seed)),
            FillClass::File(path) => Kind::File(file::Contents::read(path)?),
        }))
    }

    /// Writes the bytes of the stream from `offset` on into all of `target`.
    pub fn write(&mut self, offset: u64, target: &mut [u8]) {
        match &mut self.0 {
            Kind::Random(source) => source.write(offset, target),
            Kind::Runs20(source) => runs20::write(source, offset, target),
            Kind::Constant(value) => target.fill(*value),
            Kind::Ratio(pages) => pages.write(offset, target),
            Kind::File(contents) => contents.write(offset, target),
        }
    }
}

/// Bytes of a file that a `file=F` stream repeats at most: the copy takes memory beside the fill.
pub const FILE_LIMIT: u64 = file::LIMIT;

/// The byte of a constant fill: never zero, since a zero page may stay the kernel's shared one.
fn constant(seed: u64) -> u8 {
    let value = random::mix(seed) % 255 + 1;
    // 1 to 255 by the line above.
    value as u8
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use proptest::prelude::*;

    /// Long enough for several blocks of the generator and runs that cross their borders.
    const LENGTH: usize = 3 * random::BLOCK + 1234;

    fn sequential(class: &FillClass, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; LENGTH];
        Stream::new(class, seed).unwrap().write(0, &mut bytes);
        bytes
    }

    fn file_of(bytes: &[u8]) -> (tempfile::NamedTempFile, FillClass) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let class = FillClass::File(file.path().to_owned());
        (file, class)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn any_part_equals_the_same_part_of_the_whole(
            seed: u64,
            ratio in 1.0..100.0,
            parts in prop::collection::vec((0..LENGTH, 0..LENGTH), 1..6),
        ) {
            let (_file, file) = file_of(b"a line of text, 31 bytes long.\n");
            for class in [FillClass::Random, FillClass::Runs20, FillClass::Constant, FillClass::Ratio(ratio), file] {
                let whole = sequential(&class, seed);
                let mut stream = Stream::new(&class, seed).unwrap();
                for &(a, b) in &parts {
                    let (from, to) = (a.min(b), a.max(b));
                    let mut part = vec![0; to - from];
                    stream.write(from as u64, &mut part);
                    prop_assert!(part == whole[from..to], "{} from {} to {}", class, from, to);
                }
            }
        }

        #[test]
        fn another_seed_is_another_stream(seed: u64, other: u64) {
            prop_assume!(seed != other);
            for class in [FillClass::Random, FillClass::Runs20, FillClass::Ratio(3.0)] {
                let (one, two) = (sequential(&class, seed), sequential(&class, other));
                let equal = one.chunks(4096).zip(two.chunks(4096)).filter(|(a, b)| a == b).count();
                prop_assert_eq!(equal, 0, "{}: pages alike under two seeds", class);
            }
        }
    }

    #[test]
    fn runs_are_20_bytes_each_with_every_value() {
        let bytes = sequential(&FillClass::Runs20, 7);
        let mut seen = [0u32; 256];
        for run in bytes.chunks(20) {
            assert!(run.iter().all(|byte| *byte == run[0]), "{run:?}");
            seen[usize::from(run[0])] += 1;
        }
        assert!(seen.iter().all(|count| *count > 0));
    }

    #[test]
    fn random_bytes_are_evenly_spread_and_do_not_compress() {
        let mut bytes = vec![0; 1 << 20];
        Stream::new(&FillClass::Random, 1).unwrap().write(0, &mut bytes);
        let mut counts = [0u32; 256];
        for byte in &bytes {
            counts[usize::from(*byte)] += 1;
        }
        // Chi-squared with 255 degrees of freedom: mean 255, deviation 22.6. Six deviations either way.
        let expected = bytes.len() as f64 / 256.0;
        let chi: f64 = counts
            .iter()
            .map(|n| (f64::from(*n) - expected).powi(2) / expected)
            .sum();
        assert!((120.0..390.0).contains(&chi), "chi-squared {chi}");
        assert!(zstd::bulk::compress(&bytes, 3).unwrap().len() >= bytes.len());
    }

    #[test]
    fn constant_is_one_value_and_never_zero() {
        for seed in 0..2000 {
            let mut bytes = [0; 64];
            Stream::new(&FillClass::Constant, seed)
                .unwrap()
                .write(5, &mut bytes);
            assert!(bytes[0] != 0 && bytes.iter().all(|byte| *byte == bytes[0]));
        }
    }

    #[test]
    fn a_file_is_repeated_without_a_seam() {
        let contents: Vec<u8> = (0..=250).collect();
        let (_file, class) = file_of(&contents);
        let bytes = sequential(&class, 0);
        assert!(
            bytes
                .iter()
                .enumerate()
                .all(|(at, byte)| *byte == contents[at % contents.len()])
        );
    }

    #[test]
    fn an_unreadable_or_empty_file_is_named() {
        let (file, empty) = file_of(b"");
        let error = Stream::new(&empty, 0).unwrap_err();
        assert!(
            matches!(&error, StreamError::Empty { path } if path == file.path()),
            "{error:?}"
        );
        let missing = Path::new("/no/such/file");
        let error = Stream::new(&FillClass::File(missing.to_owned()), 0).unwrap_err();
        assert!(
            matches!(&error, StreamError::Unreadable { path, source }
                if path == missing && source.kind() == std::io::ErrorKind::NotFound),
            "{error:?}"
        );
    }
}
