//! Numbers, words and keyed lines, read from bytes: nothing here allocates or asks whether the bytes are text.

/// Reads the decimal number at the start of `bytes`; a space, a line end or nothing must follow.
#[inline]
pub fn number(bytes: &[u8]) -> Option<i64> {
    let mut value: i64 = 0;
    let mut digits = 0;
    for &byte in bytes {
        match byte {
            b'0'..=b'9' => {
                value = value.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
                digits += 1;
            }
            b' ' | b'\t' | b'\n' => break,
            _ => return None,
        }
    }
    (digits > 0).then_some(value)
}

/// The words of `bytes`, split at spaces, tabs and line ends.
#[inline]
pub fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| matches!(byte, b' ' | b'\t' | b'\n'))
        .filter(|word| !word.is_empty())
}

/// The lines of `bytes`, without their ends.
#[inline]
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|&byte| byte == b'\n')
}

/// The first word as a number that is not negative.
pub fn first_number(bytes: &[u8]) -> Option<u64> {
    words(bytes).next().and_then(number).map(i64::unsigned_abs)
}

/// The bytes that `n kB` stands for.
pub fn kib(bytes: &[u8]) -> Option<u64> {
    first_number(bytes)?.checked_mul(1024)
}

/// The value in the line of `key` in a file of `key value` or `key: value unit` lines: the lines of [`KeyedLines`].
pub fn value_of(text: &[u8], key: &str) -> Option<u64> {
    lines(text)
        .find_map(|line| {
            let rest = line.strip_prefix(key.as_bytes())?;
            matches!(rest.first(), Some(b' ' | b':')).then(|| after_key(rest))?
        })
        .map(i64::unsigned_abs)
}

/// A key of a file, the slot that its value goes to, and the factor of its unit.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static [u8],
    pub(crate) slot: usize,
    pub(crate) scale: i64,
}

/// The wanted keys of a file of `key value` or `key: value unit` lines, found by hash: the order of the lines and
/// other lines cost only the comparison of their key. Several keys may feed one slot.
///
/// Invariant: at most half of `KEYS`, a power of two, is in use, so that a search ends.
pub struct KeyedLines<const KEYS: usize> {
    keys: [Option<Key>; KEYS],
    used: usize,
}

impl<const KEYS: usize> Default for KeyedLines<KEYS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const KEYS: usize> KeyedLines<KEYS> {
    pub const fn new() -> Self {
        KeyedLines {
            keys: [None; KEYS],
            used: 0,
        }
    }

    /// Adds a key, whose values go to `slot` (a number that means something to the caller) times `scale`.
    ///
    /// # Panics
    /// When half of the places are in use: the keys come from constant tables, so the first open shows it.
    pub fn insert(&mut self, name: &'static str, slot: usize, scale: i64) {
        assert!(self.used < KEYS / 2, "more keys than KeyedLines<{KEYS}> takes");
        let hash = name.bytes().fold(HASH_START, hash_step);
        let mut place = hash as usize & (KEYS - 1);
        while self.keys[place].is_some() {
            place = (place + 1) & (KEYS - 1);
        }
        self.keys[place] = Some(Key {
            name: name.as_bytes(),
            slot,
            scale,
        });
        self.used += 1;
    }

    /// Calls `found` with the slot and the scaled value of every wanted line of `text`. A line without a number is
    /// passed over.
    #[inline]
    pub fn parse(&self, text: &[u8], mut found: impl FnMut(usize, i64)) {
        self.wanted_lines(text, |_, key, value| {
            if let Some(value) = value {
                found(key.slot, value);
            }
        });
    }

    /// Calls `found` with the number of every line that has a wanted key, from 0, the key, and the scaled value, if the
    /// line has one.
    #[inline]
    pub(crate) fn wanted_lines(&self, text: &[u8], mut found: impl FnMut(usize, &Key, Option<i64>)) {
        let mut rest = text;
        let mut line = 0;
        while !rest.is_empty() {
            let mut hash = HASH_START;
            let mut end = 0;
            while end < rest.len() && !matches!(rest[end], b' ' | b':' | b'\n') {
                hash = hash_step(hash, rest[end]);
                end += 1;
            }
            let (name, after) = rest.split_at(end);
            let line_end = after
                .iter()
                .position(|&byte| byte == b'\n')
                .unwrap_or(after.len());
            if let Some(key) = self.find(hash, name) {
                let value = after_key(&after[..line_end]).and_then(|value| value.checked_mul(key.scale));
                found(line, key, value);
            }
            rest = after.get(line_end + 1..).unwrap_or_default();
            line += 1;
        }
    }

    fn find(&self, hash: u32, name: &[u8]) -> Option<&Key> {
        let mut place = hash as usize & (KEYS - 1);
        loop {
            let key = self.keys[place].as_ref()?;
            if key.name == name {
                return Some(key);
            }
            place = (place + 1) & (KEYS - 1);
        }
    }
}

/// The number behind a key: at most one colon, then spaces, then digits.
#[inline]
pub(crate) fn after_key(bytes: &[u8]) -> Option<i64> {
    let bytes = bytes.strip_prefix(b":").unwrap_or(bytes);
    let start = bytes.iter().position(|&byte| byte != b' ')?;
    number(&bytes[start..])
}

/// FNV-1a, 32 bits.
const HASH_START: u32 = 0x811c_9dc5;

#[inline]
fn hash_step(hash: u32, byte: u8) -> u32 {
    (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
}

/// Undoes the octal escapes of mount tables and `/proc/swaps` (`\040` is a space).
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|digits| first == b'\\' && digits.iter().all(|byte| (b'0'..=b'7').contains(byte)));
        match octal {
            Some(digits) => {
                let value = digits
                    .iter()
                    .fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
                bytes.push(value as u8);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_escapes() {
        assert_eq!(unescape(br"/a\040b\134c"), br"/a b\c");
        assert_eq!(unescape(br"\04"), br"\04");
        assert_eq!(unescape(br"\\040"), br"\ ");
    }

    #[test]
    fn a_key_is_the_whole_word_at_the_start_of_a_line() {
        let text = b"pswpin_x 1\n pswpin 2\npswpin: 3 kB\npswpin 4\n";
        assert_eq!(value_of(text, "pswpin"), Some(3));
        assert_eq!(value_of(text, "pswp"), None);
        assert_eq!(value_of(b"pswpin\n", "pswpin"), None);
    }
}
