//! The output of a program, in bounded memory: its hash and length, its last lines, and the number that it prints.

use plimsoll_model::scenario::workloads::command::MetricPattern;
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a line that are searched at once: of a longer one, each part of this length counts as a line.
const LONGEST_LINE: usize = 64 << 10;
/// Bytes of the end that are kept.
const TAIL: usize = 2 << 10;

/// Everything that was written to one stream.
pub(super) struct Output {
    hash: Xxh3,
    bytes: u64,
    tail: Vec<u8>,
    /// The last line, as far as it has come, if there is a pattern to search it for.
    line: Vec<u8>,
    pattern: Option<MetricPattern>,
    metric: Option<f64>,
}

/// Length and hash of a stream, which say whether two are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) bytes: u64,
    hash: u128,
}

impl Output {
    pub(super) fn new(pattern: Option<&MetricPattern>) -> Output {
        Output {
            hash: Xxh3::new(),
            bytes: 0,
            tail: Vec::new(),
            line: Vec::new(),
            pattern: pattern.cloned(),
            metric: None,
        }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.tail
            .extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
        let surplus = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..surplus);
        if self.pattern.is_none() {
            return;
        }
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.lengthen(&rest[..end]);
            self.end_line();
            rest = &rest[end + 1..];
        }
        self.lengthen(rest);
    }

    /// Adds to the line, in parts that are not too long.
    fn lengthen(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = LONGEST_LINE - self.line.len();
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.line.extend_from_slice(now);
            if self.line.len() == LONGEST_LINE {
                self.end_line();
            }
            rest = later;
        }
    }

    fn end_line(&mut self) {
        let found = self.pattern.as_ref().and_then(|pattern| pattern.find(&self.line));
        self.metric = found.or(self.metric);
        self.line.clear();
    }

    /// The number of the last line that has one, the unfinished line included.
    pub(super) fn metric(&mut self) -> Option<f64> {
        self.end_line();
        self.metric
    }

    pub(super) fn content(&self) -> Content {
        Content {
            bytes: self.bytes,
            hash: self.hash.digest128(),
        }
    }

    /// The end of it as text.
    pub(super) fn tail(&self) -> String {
        String::from_utf8_lossy(&self.tail).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn output(pieces: &[&[u8]]) -> Output {
        let mut output = Output::new(Some(&MetricPattern::new("ops: ([0-9]+)").unwrap()));
        for piece in pieces {
            output.take(piece);
        }
        output
    }

    #[test]
    fn the_last_number_counts_also_without_a_line_feed() {
        assert_eq!(output(&[b"ops: 1\nops: 22\nend\n"]).metric(), Some(22.0));
        assert_eq!(output(&[b"ops: 1\nop", b"s: 3", b"33"]).metric(), Some(333.0));
        assert_eq!(output(&[b"nothing\n"]).metric(), None);
    }

    /// A program that prints without an end, and without a line feed.
    #[test]
    fn endless_output_takes_bounded_memory() {
        let piece = [b'x'; 100_000];
        let mut output = output(&[]);
        for _ in 0..100 {
            output.take(&piece);
        }
        assert_eq!(output.content().bytes, 10_000_000);
        assert!(output.line.capacity() <= 2 * LONGEST_LINE);
        assert!(output.tail.len() == TAIL && output.tail.capacity() <= 4 * TAIL);
    }

    #[test]
    fn the_tail_is_the_end() {
        let mut long = vec![b'.'; 5000];
        long.extend_from_slice(b"cannot open the file\n");
        let tail = output(&[&long]).tail();
        assert!(tail.ends_with("cannot open the file") && tail.len() <= TAIL);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(text in prop::collection::vec(any::<u8>(), 0..300), cut in 0usize..300) {
            let cut = cut.min(text.len());
            let (whole, parts) = (output(&[&text]), output(&[&text[..cut], &text[cut..]]));
            prop_assert_eq!(whole.content(), parts.content());
            prop_assert_eq!(whole.tail(), parts.tail());
        }
    }
}
