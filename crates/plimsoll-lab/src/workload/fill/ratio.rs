//! Pages that lz4 compresses R:1: each begins with random bytes and ends with one byte repeated.

use super::random::Source;

/// Bytes of a page for lz4, independent of the system's page size.
const PAGE: usize = 4096;

/// A stream of such pages.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    source: Source,
    /// Random bytes at the start of each page, 1 to [`PAGE`]: never none, so that pages are unlike one another and no
    /// store takes them for pages of one repeated word.
    random: usize,
}

impl Pages {
    /// Pages that compress `ratio`:1 (1 to 100).
    pub(super) fn new(ratio: f64, seed: u64) -> Pages {
        let wanted = PAGE as f64 / ratio;
        let distance = |random: &usize| (lz4_size(*random) as f64 - wanted).abs();
        // The range is not empty, so there is a minimum; one random byte is the smallest page that can be had.
        let random = (1..=PAGE)
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
            .unwrap_or(1);
        Pages {
            source: Source::new(seed),
            random,
        }
    }

    /// Writes the stream from `offset` on into all of `target`.
    pub(super) fn write(&mut self, offset: u64, target: &mut [u8]) {
        let mut page = offset / PAGE as u64;
        let mut within = (offset % PAGE as u64) as usize;
        let mut rest = target;
        while !rest.is_empty() {
            let length = (PAGE - within).min(rest.len());
            let (part, after) = rest.split_at_mut(length);
            self.write_part(page, within, part);
            (page, within, rest) = (page + 1, 0, after);
        }
    }

    /// Writes the bytes of `page` from `within` on. The random bytes of all pages are one random stream.
    fn write_part(&mut self, page: u64, within: usize, part: &mut [u8]) {
        let start = page * self.random as u64;
        let random = self.random.saturating_sub(within).min(part.len());
        let (head, tail) = part.split_at_mut(random);
        self.source.write(start + within as u64, head);
        if !tail.is_empty() {
            let last = self.source.at(start + self.random as u64 - 1)[0];
            tail.fill(last);
        }
    }
}

/// Compressed size (lz4) of a page with `random` random bytes of which the last is repeated to the end.
///
/// From the block format: one sequence of a token, the literals with their length in steps of 255, a two-byte offset
/// and the match length in steps of 255; then, as the format demands, a token and the last five bytes.
/// <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>
fn lz4_size(random: usize) -> usize {
    const LAST_LITERALS: usize = 5;
    /// No match begins in the last 12 bytes of a block.
    const NO_MATCH: usize = 12;
    const SHORTEST_MATCH: usize = 4;
    let length_bytes = |length: usize| if length < 15 { 0 } else { 1 + (length - 15) / 255 };
    if random + NO_MATCH > PAGE {
        return 1 + length_bytes(PAGE) + PAGE;
    }
    let matched = PAGE - LAST_LITERALS - random;
    let first = 1 + length_bytes(random) + random + 2 + length_bytes(matched - SHORTEST_MATCH);
    first + 1 + LAST_LITERALS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ratio that the reference lz4 reaches page by page.
    fn measured(ratio: f64) -> f64 {
        let mut bytes = vec![0; 64 * PAGE];
        Pages::new(ratio, 99).write(0, &mut bytes);
        let compressed: usize = bytes
            .chunks(PAGE)
            .map(|page| lz4::block::compress(page, None, false).unwrap().len())
            .sum();
        bytes.len() as f64 / compressed as f64
    }

    #[test]
    fn lz4_reaches_the_ratio_at_both_ends() {
        for ratio in [1.0, 1.01, 1.1, 50.0] {
            let measured = measured(ratio);
            assert!(
                (measured / ratio - 1.0).abs() < 0.05,
                "asked {ratio}, lz4 makes {measured:.3}"
            );
        }
    }

    proptest! {
        #[test]
        fn lz4_reaches_any_ratio_within_5_percent(ratio in 1.1..50.0) {
            let measured = measured(ratio);
            prop_assert!((measured / ratio - 1.0).abs() < 0.05, "asked {}, lz4 makes {:.3}", ratio, measured);
        }
    }

    #[test]
    fn pages_differ_and_none_repeats_one_word() {
        let mut bytes = vec![0; 256 * PAGE];
        Pages::new(50.0, 5).write(0, &mut bytes);
        let pages: std::collections::HashSet<_> = bytes.chunks(PAGE).collect();
        assert_eq!(pages.len(), 256);
        assert!(pages.iter().all(|page| page[..8] != page[8..16]));
    }
}
