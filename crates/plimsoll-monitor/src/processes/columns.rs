//! Columns of text over entries, as many as fit.

use unicode_width::UnicodeWidthStr;

use crate::cells::{fit, padded};

/// Least width of the last column; other columns are dropped instead.
const LEAST_LAST: usize = 16;

/// A column: heading, rank, alignment and text. A narrow terminal drops the highest rank first, and never rank 0.
pub(super) struct Column<T> {
    pub(super) heading: &'static str,
    pub(super) rank: u8,
    pub(super) left: bool,
    pub(super) cell: fn(&T) -> String,
}

pub(super) const fn right<T>(heading: &'static str, rank: u8, cell: fn(&T) -> String) -> Column<T> {
    Column {
        heading,
        rank,
        left: false,
        cell,
    }
}

/// A line for the headings, and one for each entry. The last column takes the rest of `width`.
pub(super) fn lines<'a, T>(
    columns: impl Iterator<Item = &'a Column<T>>,
    entries: &'a [T],
    (heading, last): (&str, impl Fn(&T) -> String),
    width: usize,
) -> Vec<(String, Option<&'a T>)> {
    // The cells of each column, the heading first.
    let mut columns: Vec<(&Column<T>, Vec<String>, usize)> = columns
        .map(|column| {
            let heading = std::iter::once(column.heading.to_owned());
            let cells: Vec<String> = heading.chain(entries.iter().map(column.cell)).collect();
            let widest = cells.iter().map(|cell| cell.width()).max().unwrap_or(0);
            (column, cells, widest)
        })
        .collect();
    let taken = |columns: &[(&Column<T>, Vec<String>, usize)]| -> usize {
        columns.iter().map(|(_, _, width)| width + 1).sum()
    };
    while taken(&columns) + LEAST_LAST > width {
        let highest = columns.iter().map(|(column, ..)| column.rank).max().unwrap_or(0);
        if highest == 0 {
            break;
        }
        columns.retain(|(column, ..)| column.rank != highest);
    }
    let room = width.saturating_sub(taken(&columns)).max(1);
    let mut lines = Vec::with_capacity(entries.len() + 1);
    for row in 0..=entries.len() {
        let mut line = String::new();
        for (column, cells, width) in &columns {
            if column.left {
                line += &padded(&cells[row], *width, true);
            } else {
                line.extend(std::iter::repeat_n(' ', width - cells[row].width()));
                line += &cells[row];
            }
            line.push(' ');
        }
        let entry = row.checked_sub(1).map(|row| &entries[row]);
        let text = entry.map_or_else(|| heading.to_owned(), &last);
        line += &fit(&text, room, true);
        line.truncate(line.trim_end().len());
        lines.push((line, entry));
    }
    lines
}

/// A number in at most five columns.
pub(super) fn rate(value: Option<f64>) -> String {
    known(value.map(|value| match value {
        value if value < 0.05 => "0".to_owned(),
        value if value < 9.95 => format!("{value:.1}"),
        value if value < 9_999.5 => format!("{value:.0}"),
        value if value < 999_500.0 => format!("{:.0}k", value / 1e3),
        value => format!("{:.1}M", value / 1e6),
    }))
}

pub(super) fn known(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
