//! LZ4 blocks of a few matches: those of pages that are random but for some patterns, as a buffer that is filled in part.
//!
//! The library copies a match near the end of a block eight bytes at a time, and each copy waits for the one before: 1.6 us
//! for a page that is random in its first 1.6 KiB. Doubling takes a tenth.

/// Literals at the end of a block, and bytes from the last match to the end, at least: rules of the format.
const LAST_LITERALS: usize = 5;
const LAST_MATCH: usize = 12;
/// Bytes of a block behind literals that are not the last ones, at least.
const LEAST_END: usize = 8;
/// A length with this value goes on in the bytes that follow.
const LONG: usize = 15;
const LEAST_MATCH: usize = 4;
/// The most matches of a block that is read here.
const MOST_MATCHES: usize = 3;

/// Decompresses `body` into all of `target` if it is such a block. Returns false if not: `target` is unchanged.
pub(super) fn decompress(body: &[u8], target: &mut [u8]) -> bool {
    match Block::parse(body, target.len()) {
        Some(block) => {
            block.write(target);
            true
        }
        None => false,
    }
}

/// Literals, and a match behind them.
#[derive(Debug, Clone, Copy, Default)]
struct Sequence<'b> {
    literals: &'b [u8],
    offset: usize,
    length: usize,
}

/// The sequences of a block.
///
/// Invariant: together with the last literals they fill the page; an offset is 1 to the number of bytes before the match.
struct Block<'b> {
    sequences: [Sequence<'b>; MOST_MATCHES],
    count: usize,
    last: &'b [u8],
}

impl<'b> Block<'b> {
    fn parse(body: &'b [u8], plain: usize) -> Option<Block<'b>> {
        let mut block = Block {
            sequences: [Sequence::default(); MOST_MATCHES],
            count: 0,
            last: &[],
        };
        let (mut rest, mut end) = (body, 0);
        loop {
            let (token, behind) = rest.split_first()?;
            let (count, behind) = length(token >> 4, behind)?;
            end += count;
            if behind.len() == count {
                block.last = behind;
                return (count >= LAST_LITERALS && end == plain).then_some(block);
            }
            let (literals, behind) = behind.split_at_checked(count)?;
            let sequence = block.sequences.get_mut(block.count)?;
            if behind.len() < LEAST_END || end + LAST_MATCH > plain {
                return None;
            }
            let (offset, behind) = behind.split_first_chunk()?;
            let offset = usize::from(u16::from_le_bytes(*offset));
            let (more, behind) = length(token & 15, behind)?;
            let length = more + LEAST_MATCH;
            if !(1..=end).contains(&offset) {
                return None;
            }
            *sequence = Sequence {
                literals,
                offset,
                length,
            };
            block.count += 1;
            end += length;
            rest = behind;
        }
    }

    fn write(&self, target: &mut [u8]) {
        let mut end = 0;
        for sequence in &self.sequences[..self.count] {
            let literals = sequence.literals.len();
            target[end..end + literals].copy_from_slice(sequence.literals);
            end += literals;
            let (start, stop) = (end - sequence.offset, end + sequence.length);
            // Whole periods, so that each copy continues the pattern.
            while end < stop {
                let count = (end - start).min(stop - end);
                target.copy_within(start..start + count, end);
                end += count;
            }
        }
        target[end..].copy_from_slice(self.last);
    }
}

/// A length, of which a token has `nibble`, and the bytes behind it.
fn length(nibble: u8, mut rest: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = usize::from(nibble);
    if length == LONG {
        loop {
            let (more, behind) = rest.split_first()?;
            rest = behind;
            length += usize::from(*more);
            if *more != u8::MAX {
                break;
            }
        }
    }
    Some((length, rest))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::lz4::{Lz4State, decompress_by_library};
    use super::decompress;
    use crate::store::units::{LONGEST_BODY, PAGE};
    use proptest::prelude::*;

    /// A page that begins with some zeros, has random bytes up to `random`, and repeats the last `period` bytes behind them.
    fn page(zeros: usize, random: usize, period: usize, seed: u64) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        let mut state = seed | 1;
        for byte in &mut page[zeros..random] {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        for at in random..PAGE {
            page[at] = page[at - period];
        }
        page
    }

    /// The compressed page; none if it is too long for an entry. Behind almost 2,900 random bytes, the compressor looks so seldom
    /// for a match that it may find the run too late.
    fn body(page: &[u8; PAGE]) -> Option<Vec<u8>> {
        let mut state = Box::new(Lz4State::new());
        let mut body = vec![0; LONGEST_BODY];
        let length = state.compress(page, &mut body)?;
        body.truncate(length);
        Some(body)
    }

    #[test]
    fn pages_that_end_in_a_pattern_are_restored_without_the_library() {
        for random in [16, 17, 100, 269, 270, 1605, 2900] {
            for (period, zeros) in [(1, 0), (2, 12), (3, 0), (4, 9), (7, 0), (8, 16), (13, 0), (16, 0)] {
                let page = page(zeros, random, period, random as u64);
                let mut target = [0xa5; PAGE];
                assert!(
                    decompress(&body(&page).expect("it has a run"), &mut target),
                    "{random} bytes, period {period}"
                );
                assert!(target == page, "{random} bytes, period {period}");
            }
        }
    }

    proptest! {
        /// The parser accepts nothing that the library refuses, and reads nothing else than it does.
        #[test]
        fn changed_blocks_are_read_as_the_library_reads_them(
            zeros in 0usize..16,
            random in 16usize..2900,
            period in 1usize..20,
            seed in any::<u64>(),
            is_at_end in any::<bool>(),
            changes in prop::collection::vec((0usize..40, any::<u8>()), 0..4),
            cut in 0usize..4,
        ) {
            let body = body(&page(zeros, random, period.min(random), seed));
            prop_assume!(body.is_some());
            let mut body = body.unwrap_or_default();
            for (at, byte) in changes {
                let at = at.min(body.len() - 1);
                let at = if is_at_end { body.len() - 1 - at } else { at };
                body[at] = byte;
            }
            body.truncate(body.len() - cut);
            let (mut ours, mut theirs) = ([0xa5; PAGE], [0xa5; PAGE]);
            if decompress(&body, &mut ours) {
                prop_assert!(decompress_by_library(&body, &mut theirs));
                prop_assert!(ours == theirs);
            } else {
                prop_assert!(ours == [0xa5; PAGE]);
            }
        }
    }
}
