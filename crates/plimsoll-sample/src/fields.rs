//! Numbers and keyed lines, read from bytes: nothing here allocates or asks whether the bytes are text.

use plimsoll_model::columns::{COLUMNS, Row, Unit};

/// Reads the decimal number at the start of `bytes`; what follows it must be a space, a line end or nothing.
pub(crate) fn number(bytes: &[u8]) -> Option<i64> {
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
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| matches!(byte, b' ' | b'\t' | b'\n'))
        .filter(|word| !word.is_empty())
}

/// A key of a file and the column it feeds.
#[derive(Clone, Copy)]
struct Key {
    name: &'static [u8],
    column: usize,
    scale: i64,
}

/// The wanted keys of a file of `key value` or `key: value unit` lines, found by hash: the order of the lines and
/// lines that nobody asked for cost nothing but the reading of their key. Several keys may feed one column, which
/// then holds their sum.
///
/// Invariant: at most half of `SLOTS`, a power of two, is in use, so that a search ends.
pub(crate) struct KeyedLines<const SLOTS: usize> {
    slots: [Option<Key>; SLOTS],
    used: usize,
}

impl<const SLOTS: usize> KeyedLines<SLOTS> {
    /// No key yet.
    pub(crate) fn new() -> Self {
        KeyedLines {
            slots: [None; SLOTS],
            used: 0,
        }
    }

    /// The keys that [`COLUMNS`] names with `file` as their source, each value times `scale` of its column's unit.
    pub(crate) fn of_file(file: &str, scale: impl Fn(Unit) -> i64) -> Self {
        let mut lines = Self::new();
        for (index, column) in COLUMNS.iter().enumerate() {
            if let Some((source, keys)) = column.source.split_once(' ')
                && source == file
            {
                for key in keys.split(" + ") {
                    lines.insert(key, index, scale(column.unit));
                }
            }
        }
        lines
    }

    /// Adds a key.
    ///
    /// # Panics
    /// When half of the slots are in use: the keys come from constant tables, so the first open shows it.
    pub(crate) fn insert(&mut self, name: &'static str, column: usize, scale: i64) {
        assert!(self.used < SLOTS / 2, "more keys than KeyedLines<{SLOTS}> takes");
        let hash = name.bytes().fold(HASH_START, hash_step);
        let mut slot = hash as usize & (SLOTS - 1);
        while self.slots[slot].is_some() {
            slot = (slot + 1) & (SLOTS - 1);
        }
        self.slots[slot] = Some(Key {
            name: name.as_bytes(),
            column,
            scale,
        });
        self.used += 1;
    }

    /// Adds the value of every wanted line of `text` to its column of `row`. A line without a number is passed over.
    pub(crate) fn parse(&self, text: &[u8], row: &mut Row) {
        let mut rest = text;
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
            if let Some(key) = self.find(hash, name)
                && let Some(value) =
                    after_key(&after[..line_end]).and_then(|value| value.checked_mul(key.scale))
            {
                row.add(key.column, value);
            }
            rest = after.get(line_end + 1..).unwrap_or_default();
        }
    }

    fn find(&self, hash: u32, name: &[u8]) -> Option<&Key> {
        let mut slot = hash as usize & (SLOTS - 1);
        loop {
            let key = self.slots[slot].as_ref()?;
            if key.name == name {
                return Some(key);
            }
            slot = (slot + 1) & (SLOTS - 1);
        }
    }
}

/// The number behind a key: at most one colon, then spaces, then digits.
fn after_key(bytes: &[u8]) -> Option<i64> {
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
