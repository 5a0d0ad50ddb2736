//! The columns of the tables of a comparison: the same on the terminal, in HTML and in Markdown.

use comfy_table::Color;

use super::words;
use crate::comparison::{Comparison, Row, Side, Verdict};
use crate::drawing::xy::value;

#[derive(Clone, Copy)]
pub(super) struct Column {
    /// Column head in HTML.
    pub(super) title: &'static str,
    /// A narrow terminal drops the columns with the lowest rank above 0 first. It never drops columns with rank 0.
    pub(super) rank: usize,
    /// Whether the terminal and Markdown align the column to the right.
    pub(super) numeric: bool,
    pub(super) content: Content,
}

#[derive(Clone, Copy)]
pub(super) enum Content {
    Words(fn(&Comparison, &Row) -> String),
    /// The sort key in HTML, and the text of the cell.
    Number(fn(&Row) -> (Option<f64>, String)),
    Verdict,
}

const BASELINE: &str = "Baseline";
const OTHER: &str = "Run's median";

/// All columns in their order, with the run and the group of a row first.
pub(super) static COLUMNS: [Column; 12] = [
    plain("Run", |comparison, row| comparison.runs[row.run].letter.clone()),
    plain("Group", |comparison, row| comparison.label(&row.group).to_owned()),
    plain("Metric", |_, row| row.metric.clone()),
    Column {
        rank: 1,
        numeric: true,
        ..plain("n", |_, row| {
            format!("{}/{}", row.baseline.values.len(), row.other.values.len())
        })
    },
    number(BASELINE, 0, |row| median(row, &row.baseline)),
    number(OTHER, 0, |row| median(row, &row.other)),
    number("Change", 0, |row| (row.change, words::change(row.change))),
    number("95% interval", 0, |row| {
        (row.interval.map(|ends| ends.0), words::interval(row.interval))
    }),
    number("p", 2, |row| (row.p, words::probability(row.p))),
    number("p (Holm)", 3, |row| (row.p_holm, words::probability(row.p_holm))),
    number("Calibrated", 4, |row| {
        let change = row.normalised.as_ref().map(|one| one.change);
        (change, words::change(change))
    }),
    Column {
        title: "Verdict",
        rank: 0,
        numeric: false,
        content: Content::Verdict,
    },
];

/// The columns of a table for one run and one group, without those two columns.
pub(super) fn of_group() -> &'static [Column] {
    &COLUMNS[2..]
}

const fn plain(title: &'static str, text: fn(&Comparison, &Row) -> String) -> Column {
    Column {
        title,
        rank: 0,
        numeric: false,
        content: Content::Words(text),
    }
}

const fn number(title: &'static str, rank: usize, number: fn(&Row) -> (Option<f64>, String)) -> Column {
    Column {
        title,
        rank,
        numeric: true,
        content: Content::Number(number),
    }
}

fn median(row: &Row, side: &Side) -> (Option<f64>, String) {
    (Some(side.median), value(row.unit, side.median))
}

impl Column {
    /// Column head on the terminal and in Markdown. `sides` are the heads of the two median columns.
    pub(super) fn head(&self, sides: [&str; 2]) -> String {
        match self.title {
            BASELINE => sides[0].to_owned(),
            OTHER => sides[1].to_owned(),
            title => title[..1].to_ascii_lowercase() + &title[1..],
        }
    }

    pub(super) fn text(&self, comparison: &Comparison, row: &Row) -> String {
        match self.content {
            Content::Words(text) => text(comparison, row),
            Content::Number(number) => number(row).1,
            Content::Verdict => {
                let (symbol, word) = words::verdict(row.verdict);
                format!("{symbol} {word}")
            }
        }
    }
}

/// HTML class and terminal colour of a verdict; `None` if the verdict needs no attention.
pub(super) fn paint(verdict: Verdict) -> Option<(&'static str, Color)> {
    match verdict {
        Verdict::Worse => Some(("bad", Color::Red)),
        Verdict::Better => Some(("good", Color::Green)),
        Verdict::Changed => Some(("doubt", Color::Yellow)),
        Verdict::Same | Verdict::Unclear => None,
    }
}
