//! Files of keyed lines, and the columns that they feed.

use plimsoll_proc::RepeatedLines;
use plimsoll_proc::fields::KeyedLines;

use plimsoll_model::columns::{COLUMNS, Row, Unit};

/// The keys that [`COLUMNS`] names with `file` as their source, each value times `scale` of its column's unit. Several
/// keys may feed one column, which then holds their sum.
pub(crate) fn keys_of<const KEYS: usize>(
    file: &'static str,
    scale: impl Fn(Unit) -> i64,
) -> RepeatedLines<KEYS> {
    let mut lines = KeyedLines::new();
    for (index, column) in COLUMNS.iter().enumerate() {
        if let Some((source, keys)) = column.source.split_once(' ')
            && source == file
        {
            for key in keys.split(" + ") {
                lines.insert(key, index, scale(column.unit));
            }
        }
    }
    RepeatedLines::new(lines)
}

/// Adds the value of every wanted line of `text` to its column of `row`.
pub(crate) fn read_into<const KEYS: usize>(lines: &mut RepeatedLines<KEYS>, text: &[u8], row: &mut Row) {
    lines.parse(text, |column, value| row.add(column, value));
}
