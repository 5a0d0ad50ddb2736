//! Keyed lines of a file that is read again and again: their order is learned from the first text.
//!
//! The kernel writes `/proc/meminfo` and `/proc/vmstat` from constant tables, so every read has the same keys in the same
//! order. Later texts need neither a hash of each key nor the hash table, which is not in the CPU's cache after 100 ms of
//! other work: a line costs the search for its end, and a wanted line the comparison of its key.

use super::fields::{Key, KeyedLines, after_key};

/// A wanted line of the learned order.
#[derive(Clone, Copy)]
struct Expected {
    /// Lines to skip before it.
    skipped: usize,
    key: Key,
}

/// [`KeyedLines`] whose text has the same keys in the same order in every read.
///
/// Invariant: values are those of [`KeyedLines::parse`] if the keys of the lines are those of the learned text, whatever
/// the values, and if a wanted line is not at its learned place or behind the last one (the order is then learned again). Checked by
/// `later_texts_of_the_same_lines_have_the_same_values` and `a_line_out_of_its_place_is_found_and_learned`.
pub struct RepeatedLines<const KEYS: usize> {
    keys: KeyedLines<KEYS>,
    expected: [Option<Expected>; KEYS],
    learned: bool,
}

impl<const KEYS: usize> RepeatedLines<KEYS> {
    /// Those of `keys`, with no order learned.
    pub const fn new(keys: KeyedLines<KEYS>) -> Self {
        RepeatedLines {
            keys,
            expected: [None; KEYS],
            learned: false,
        }
    }

    /// Calls `found` with the slot and the scaled value of every wanted line of `text`, as [`KeyedLines::parse`] does.
    pub fn parse(&mut self, text: &[u8], mut found: impl FnMut(usize, i64)) {
        if !self.learned {
            self.learn(text, found);
            return;
        }
        // Begins behind the last line that was at its place.
        let mut rest = text;
        for expected in self.expected.iter().map_while(Option::as_ref) {
            let after = after_lines(rest, expected.skipped).strip_prefix(expected.key.name);
            let Some(after) = after.filter(|after| matches!(after.first(), None | Some(b' ' | b':' | b'\n')))
            else {
                self.learned = false;
                self.keys.parse(rest, found);
                return;
            };
            // The number ends before the end of the line, or there is none.
            if let Some(value) = after_key(after).and_then(|value| value.checked_mul(expected.key.scale)) {
                found(expected.key.slot, value);
            }
            rest = after_lines(after, 1);
        }
        // The learned text may have been cut short: another key behind its last one makes the order stale.
        self.keys.parse(rest, |slot, value| {
            self.learned = false;
            found(slot, value);
        });
    }

    /// Parses by hash, and remembers which lines have wanted keys.
    fn learn(&mut self, text: &[u8], mut found: impl FnMut(usize, i64)) {
        self.expected = [None; KEYS];
        let (mut count, mut next_line) = (0, 0);
        self.keys.wanted_lines(text, |line, key, value| {
            if let Some(place) = self.expected.get_mut(count) {
                *place = Some(Expected {
                    skipped: line - next_line,
                    key: *key,
                });
            }
            count += 1;
            next_line = line + 1;
            if let Some(value) = value {
                found(key.slot, value);
            }
        });
        self.learned = count <= KEYS;
    }
}

/// `text` without its first `count` lines.
#[inline]
fn after_lines(text: &[u8], count: usize) -> &[u8] {
    let mut rest = text;
    for _ in 0..count {
        match rest.iter().position(|&byte| byte == b'\n') {
            Some(end) => rest = &rest[end + 1..],
            None => return &[],
        }
    }
    rest
}
