//! The words of a chart: its legend, the names at the ends of lines, marks, values.

use std::fmt::Write;

use super::scale::{Scale, usable};
use super::{Axis, Line};
use crate::analysis::MetricUnit;
use crate::drawing::names::{cut, shortened};
use crate::drawing::{palette, svg};
use plimsoll_model::quantity;

/// Width of a letter, on average, at the size of a chart's text.
const LETTER: f64 = 6.5;
const ROW: f64 = 14.0;
/// Letters of a name that are shown: in the legend, at the end of a line, at a mark.
const LEGEND_LETTERS: usize = 60;
const END_LETTERS: usize = 24;
const MARK_LETTERS: usize = 48;
/// Room at most for names beside the ends of lines; longer ones end at the edge, and the legend has them in full.
const MOST_MARGIN: f64 = 230.0;
/// Rows of words above the plot. Marks that find no room in them are lines without words.
const MARK_ROWS: usize = 4;

pub(crate) fn value(unit: MetricUnit, value: f64) -> String {
    quantity::metric(unit.ending(), value)
}

/// A value of an axis: without decimals that say nothing.
pub(crate) fn tick(unit: MetricUnit, value: f64) -> String {
    let text = self::value(unit, value);
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.' && letter != '-')
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    match number.contains('.') {
        true => format!("{}{rest}", number.trim_end_matches('0').trim_end_matches('.')),
        false => text,
    }
}

/// The labels of lines as they are shown, with at most so many letters.
fn labels(lines: &[Line], letters: usize) -> Vec<String> {
    let names: Vec<&str> = lines.iter().map(|line| line.label.as_str()).collect();
    shortened(&names, letters)
}

fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// The legend, in rows of this width, and its height; nothing where one line has no name.
pub(crate) fn legend(lines: &[Line], room: f64) -> (String, f64) {
    const SAMPLE: f64 = 28.0;
    const GAP: f64 = 16.0;
    let labels = labels(lines, LEGEND_LETTERS);
    let named: Vec<(&Line, String)> = lines
        .iter()
        .zip(labels)
        .filter(|(line, _)| !line.label.is_empty())
        .collect();
    if named.is_empty() {
        return (String::new(), 0.0);
    }
    let mut out = String::new();
    let (mut x, mut y) = (4.0, 11.0);
    for (line, label) in named {
        let wide = SAMPLE + width(&label) + GAP;
        if x > 4.0 && x + wide > room {
            (x, y) = (4.0, y + ROW);
        }
        let (key, dash) = palette::line(line.ink);
        let _ = write!(
            out,
            r#"<path class="line" stroke="var(--{key})" stroke-dasharray="{}" d="M{} {}h22"/>"#,
            svg::dashes(dash),
            svg::coordinate(x),
            svg::coordinate(y - 4.0)
        );
        if line.dots {
            let _ = write!(
                out,
                r#"<circle class="dot" fill="var(--{key})" cx="{}" cy="{}" r="3"/>"#,
                svg::coordinate(x + 11.0),
                svg::coordinate(y - 4.0)
            );
        }
        out += &svg::text(x + SAMPLE, y, "tick", &label);
        x += wide;
    }
    (out, y + 5.0)
}

/// Room that the names at the ends of the lines need, to the right of the plot.
pub(crate) fn margin(lines: &[Line]) -> f64 {
    if lines.len() < 2 {
        return 0.0;
    }
    let widest = labels(lines, END_LETTERS)
        .iter()
        .map(|label| width(label).min(MOST_MARGIN))
        .fold(0.0, f64::max);
    if widest > 0.0 { widest + 22.0 } else { 0.0 }
}

/// The name of each line beside its end, moved apart where they would overlap. A single line has none: its name is
/// in the legend.
pub(crate) fn ends(
    out: &mut String,
    lines: &[Line],
    ends: &[Option<(f64, f64)>],
    (top, base): (f64, f64),
    right: f64,
) {
    if lines.len() < 2 {
        return;
    }
    let mut names: Vec<(&Line, String, (f64, f64))> = lines
        .iter()
        .zip(labels(lines, END_LETTERS))
        .zip(ends)
        .filter(|((line, _), _)| !line.label.is_empty())
        .filter_map(|((line, label), end)| Some((line, label, (*end)?)))
        .collect();
    names.sort_by(|a, b| a.2.1.total_cmp(&b.2.1));
    // More names than rows of text: the legend has them all.
    if names.len() as f64 * ROW > base - top {
        return;
    }
    let wanted: Vec<f64> = names.iter().map(|(.., (_, y))| *y).collect();
    for ((line, label, (x, y)), at) in names.iter().zip(apart(&wanted, top, base)) {
        let (key, _) = palette::line(line.ink);
        let _ = write!(
            out,
            r#"<path class="leader" stroke="var(--{key})" d="M{} {}L{} {}h6"/>"#,
            svg::coordinate(*x + 2.0),
            svg::coordinate(*y),
            svg::coordinate(right + 6.0),
            svg::coordinate(at)
        );
        *out += &svg::text(right + 15.0, at + 4.0, "on", label);
    }
}

/// Heights at least a row apart and inside the plot, near those wanted (which are in order). There is room for all.
fn apart(wanted: &[f64], top: f64, base: f64) -> Vec<f64> {
    let mut placed: Vec<f64> = Vec::with_capacity(wanted.len());
    for at in wanted {
        let least = placed.last().map_or(top, |last| last + ROW);
        placed.push(at.max(least));
    }
    let mut most = base;
    for at in placed.iter_mut().rev() {
        *at = at.min(most);
        most = *at - ROW;
    }
    placed
}

/// A marked place on the horizontal axis.
pub(crate) struct Mark {
    x: f64,
    /// Row of its words above the plot, from 0 on top; none where there is no room.
    row: Option<usize>,
    words: String,
    full: String,
    /// Whether the words stand to the left of the line.
    leftwards: bool,
}

/// Marks with a row of words for each, as far as there is room, and the height of the rows.
pub(crate) fn marks(marks: &[(f64, String)], axis: &Axis, scale: &Scale, right: f64) -> (Vec<Mark>, f64) {
    let mut placed: Vec<(f64, &String)> = marks
        .iter()
        .filter_map(|(x, words)| Some((scale.place(usable(axis, *x)?)?, words)))
        .collect();
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free_from = [f64::NEG_INFINITY; MARK_ROWS];
    let mut drawn = Vec::new();
    let mut rows = 0;
    for (x, full) in placed {
        let words = cut(full, MARK_LETTERS);
        let wide = width(&words) + 8.0;
        let leftwards = x + wide > right + 60.0;
        let (from, to) = if leftwards {
            (x - wide, x + 4.0)
        } else {
            (x - 4.0, x + wide)
        };
        let row = free_from.iter().position(|free| *free <= from);
        if let Some(row) = row.filter(|_| !words.is_empty()) {
            free_from[row] = to;
            rows = rows.max(row + 1);
        }
        let full = full.clone();
        drawn.push(Mark {
            x,
            row,
            words,
            full,
            leftwards,
        });
    }
    (drawn, rows as f64 * ROW)
}

impl Mark {
    /// Draws it: `head` is where the rows of words begin, `top` and `base` are the ends of the plot.
    pub(crate) fn draw(&self, out: &mut String, head: f64, top: f64, base: f64) {
        let row = |row: usize| head + row as f64 * ROW;
        let _ = write!(
            out,
            r#"<path class="mark" d="M{} {}V{}"><title>{}</title></path>"#,
            svg::coordinate(self.x),
            svg::coordinate(self.row.map_or(top, row)),
            svg::coordinate(base),
            svg::escape(&self.full)
        );
        if let Some(at) = self.row {
            let (x, class) = match self.leftwards {
                true => (self.x - 4.0, "on end"),
                false => (self.x + 4.0, "on"),
            };
            *out += &svg::text(x, row(at) + 10.0, class, &self.words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_no_empty_decimals() {
        for (unit, value, text) in [
            (MetricUnit::Seconds, 20.0, "20 s"),
            (MetricUnit::Seconds, 0.0005, "500 \u{b5}s"),
            (MetricUnit::Seconds, 2e-9, "2 ns"),
            (MetricUnit::Bytes, 1048576.0, "1 MiB"),
            (MetricUnit::Ratio, 2.5, "2.5\u{d7}"),
            (MetricUnit::Percent, 50.0, "50%"),
            (MetricUnit::PerSecond, 20_000.0, "20k/s"),
            (MetricUnit::GbPerS, 0.5, "0.5 GB/s"),
            (MetricUnit::Count, 12_000.0, "12\u{202f}000"),
            (MetricUnit::Count, 0.0, "0"),
        ] {
            assert_eq!(tick(unit, value), text);
        }
    }

    #[test]
    fn names_do_not_overlap_and_stay_inside() {
        let placed = apart(&[10.0, 11.0, 12.0, 95.0, 99.0], 0.0, 100.0);
        assert!(
            placed.windows(2).all(|pair| pair[1] - pair[0] >= ROW - 1e-9),
            "{placed:?}"
        );
        assert!(placed[0] >= 0.0 && placed[4] <= 100.0, "{placed:?}");
    }
}
