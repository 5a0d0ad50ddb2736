//! The layers of RAM over time, the time axis, and the vertical lines of marks and cursor.

use ratatui::buffer::Buffer;
use ratatui::style::Style;

use super::figures;
use super::layout::{AXIS_WIDTH, Layout};
use super::snapshot::Snapshot;
use super::stack::{cells, heights};
use super::strips::label;
use super::theme::{Depth, FREE, Ink, TARGET, Theme};
use super::view::View;
use crate::watch::state::MarkKind;
use plimsoll_model::categories::CATEGORIES;
use plimsoll_report::analysis::gauges::gauge;

/// The visible layers of a frame: all, or only used memory.
pub(super) fn shown(layers: &[i64; CATEGORIES.len()], share: bool) -> [i64; CATEGORIES.len()] {
    let mut shown = *layers;
    if share {
        shown[FREE] = 0;
        shown[CATEGORIES.len() - 1] = shown[CATEGORIES.len() - 1].max(0);
    }
    shown
}

/// Draws the layers, one column per interval. A gap stays empty.
pub(super) fn draw_chart(
    buffer: &mut Buffer,
    theme: &Theme,
    layout: &Layout,
    view: &View,
    snapshot: &Snapshot,
) {
    let area = layout.chart;
    let rows = usize::from(area.height);
    for (column, bucket) in snapshot.columns.iter().enumerate() {
        let Some(layers) = bucket.as_ref().and_then(|bucket| bucket.mean.layers) else {
            continue;
        };
        let heights = heights(&shown(&layers, view.share), rows * 8, Some(TARGET));
        for (row, (sign, style)) in cells(&heights, rows, theme).into_iter().enumerate() {
            let cell = &mut buffer[(area.x + column as u16, area.bottom() - 1 - row as u16)];
            cell.set_char(sign).set_style(style);
        }
    }
    let total = snapshot.facts.mem_total as f64;
    let text = |part: f64| match view.share {
        true => figures::percent(100.0 * part),
        false => figures::bytes(total * part),
    };
    label(buffer, theme, area, "0", &text(1.0));
    let dim = theme.ink(Ink::Dim);
    let top = if view.share { 100.0 } else { total / GIB };
    let step = round_step(top, area.height);
    let mut height = step;
    while height < top {
        // The number goes into the row that holds its height.
        let row = (height / top * f64::from(area.height)) as u16;
        let y = area.bottom() - 1 - row.min(area.height - 1);
        if y > area.y + 1 && y < area.bottom() - 1 {
            let words = format!("{:>5}", text(height / top));
            buffer.set_string(area.x - AXIS_WIDTH, y, words, dim);
        }
        height += step;
    }
}

const GIB: f64 = (1_u64 << 30) as f64;

/// A round step for the numbers of an axis that ends at `top`, about one number per five rows.
fn round_step(top: f64, rows: u16) -> f64 {
    let least = top * 4.0 / f64::from(rows.max(1));
    let decade = 10_f64.powf(least.max(1e-6).log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|step| step * decade)
        .find(|&step| step >= least)
        .unwrap_or(10.0 * decade)
}

/// Draws the time axis: times, marks, missed ticks, and the cursor.
pub(super) fn draw_axis(
    buffer: &mut Buffer,
    theme: &Theme,
    layout: &Layout,
    view: &View,
    snapshot: &Snapshot,
) {
    let area = layout.axis;
    let dim = theme.ink(Ink::Dim);
    let (line, corner, missed) = match theme.unicode {
        true => ("\u{2500}", "\u{253c}", "\u{254c}"),
        false => ("-", "+", "~"),
    };
    buffer.set_string(area.x - 1, area.y, corner, dim);
    for x in area.x..area.right() {
        buffer.set_string(x, area.y, line, dim);
    }
    for (column, bucket) in snapshot.columns.iter().enumerate() {
        let late = bucket
            .as_ref()
            .and_then(|bucket| bucket.max(gauge::MISSED))
            .is_some_and(|missed| missed > 0.0);
        if late {
            let style = theme.ink(Ink::Warning);
            buffer.set_string(area.x + column as u16, area.y, missed, style);
        }
    }
    let signs = snapshot.marks.iter().map(|mark| mark.t_ns).chain(view.cursor);
    let signs: Vec<usize> = signs.filter_map(|t_ns| snapshot.column_of(t_ns)).collect();
    draw_times(buffer, theme, layout, snapshot, &signs);
    for mark in &snapshot.marks {
        if let Some(column) = snapshot.column_of(mark.t_ns) {
            let cell = &mut buffer[(area.x + column as u16, area.y)];
            cell.set_char(mark.kind.symbol())
                .set_style(theme.ink(mark_ink(mark.kind)));
        }
    }
    if let Some(column) = view.cursor.and_then(|cursor| snapshot.column_of(cursor)) {
        let cell = &mut buffer[(area.x + column as u16, area.y)];
        if !snapshot
            .marks
            .iter()
            .any(|mark| snapshot.column_of(mark.t_ns) == Some(column))
        {
            cell.set_char(if theme.unicode { '\u{25b2}' } else { '^' });
        }
        cell.set_style(theme.ink(Ink::Accent));
    }
}

fn mark_ink(kind: MarkKind) -> Ink {
    match kind {
        MarkKind::Number(_) | MarkKind::Note | MarkKind::PageFlags => Ink::Accent,
        MarkKind::Trim | MarkKind::Release | MarkKind::Target => Ink::Warning,
        MarkKind::FaultStorm | MarkKind::Event => Ink::Alarm,
    }
}

/// Draws times at regular distances from the right edge. A time that a sign would overlap goes to the left of its tick,
/// or is omitted if a sign is there too: a partly hidden number would be wrong.
fn draw_times(buffer: &mut Buffer, theme: &Theme, layout: &Layout, snapshot: &Snapshot, signs: &[usize]) {
    let area = layout.axis;
    let columns = snapshot.columns.len();
    let every = if area.width >= 100 { 20 } else { 10 };
    let dim = theme.ink(Ink::Dim);
    let Some(right) = columns.checked_sub(1).and_then(|last| snapshot.time_of(last)) else {
        return;
    };
    let behind = (snapshot.edge_ns / snapshot.column_ns * snapshot.column_ns).saturating_sub(right);
    let mut steps = every;
    while steps < columns {
        let ago = behind + steps as u64 * snapshot.column_ns;
        let text = format!("-{}", figures::duration(ago));
        let column = columns - 1 - steps;
        let tick = if theme.unicode { "\u{2534}" } else { "+" };
        buffer.set_string(area.x + column as u16, area.y, tick, dim);
        let length = text.len();
        let free = |from: usize| !signs.iter().any(|sign| (from..from + length).contains(sign));
        let place = Some(column + 1)
            .filter(|&from| free(from))
            .or_else(|| column.checked_sub(length).filter(|&from| free(from)));
        if let Some(place) = place.filter(|_| 2 * length + 1 < every) {
            buffer.set_string(area.x + place as u16, area.y, text, dim);
        }
        steps += every;
    }
    if behind == 0 && columns > 4 && !signs.iter().any(|&sign| sign + 3 >= columns) {
        buffer.set_string(area.right() - 3, area.y, "now", dim);
    }
}

/// Draws a vertical line through the charts at each mark and at the cursor.
pub(super) fn draw_lines(
    buffer: &mut Buffer,
    theme: &Theme,
    layout: &Layout,
    view: &View,
    snapshot: &Snapshot,
) {
    let marks = snapshot.marks.iter().map(|mark| (mark.t_ns, mark_ink(mark.kind)));
    let cursor = view.cursor.map(|t_ns| (t_ns, Ink::Strong));
    for (t_ns, ink) in marks.chain(cursor) {
        let Some(column) = snapshot.column_of(t_ns) else {
            continue;
        };
        let strips = layout.strips.iter().map(|(_, area)| *area);
        for area in [layout.chart, layout.swap].into_iter().chain(strips) {
            for y in area.y..area.bottom() {
                draw_line_through(buffer, theme, (area.x + column as u16, y), theme.ink(ink));
            }
        }
    }
}

/// Draws a line in empty cells only: the edge between two layers, or the height of a bar, matters more.
fn draw_line_through(buffer: &mut Buffer, theme: &Theme, at: (u16, u16), style: Style) {
    let cell = &mut buffer[at];
    let empty = matches!(cell.symbol(), " " | "\u{2571}" | "/");
    if !empty && theme.depth != Depth::Mono {
        return;
    }
    let letter = cell
        .symbol()
        .chars()
        .next()
        .is_some_and(|sign| sign.is_ascii_alphanumeric());
    if empty || letter {
        cell.set_char(if theme.unicode { '\u{250a}' } else { '|' });
        if let Some(colour) = style.fg {
            cell.set_fg(colour);
        }
    }
}
