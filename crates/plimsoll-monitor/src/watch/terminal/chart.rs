//! The layers of RAM over time, the time axis, and the vertical lines of marks and cursor.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::layout::{AXIS_WIDTH, Layout};
use super::marks::mark_ink;
use super::numbers;
use super::snapshot::Snapshot;
use super::stack::{cells, heights};
use super::strips::label;
use super::theme::{Depth, FREE, Ink, TARGET, Theme};
use super::view::View;
use super::words::put;
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
        for (row, (symbol, style)) in cells(&heights, rows, theme).into_iter().enumerate() {
            let cell = &mut buffer[(area.x + column as u16, area.bottom() - 1 - row as u16)];
            cell.set_char(symbol).set_style(style);
        }
    }
    let total = snapshot.facts.mem_total as f64;
    let text = |part: f64| match view.share {
        true => numbers::percent(100.0 * part),
        false => numbers::bytes(total * part),
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
            put(
                buffer,
                theme,
                Rect::new(area.x - AXIS_WIDTH, y, AXIS_WIDTH - 1, 1),
                &words,
                dim,
            );
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

/// Draws the time axis: times and missed ticks. Marks and the cursor have a row of their own.
pub(super) fn draw_axis(buffer: &mut Buffer, theme: &Theme, layout: &Layout, snapshot: &Snapshot) {
    let area = layout.axis;
    let dim = theme.ink(Ink::Dim);
    let (line, corner, missed) = match theme.unicode {
        true => ('\u{2500}', '\u{253c}', '\u{254c}'),
        false => ('-', '+', '~'),
    };
    buffer[(area.x - 1, area.y)].set_char(corner).set_style(dim);
    for x in area.x..area.right() {
        buffer[(x, area.y)].set_char(line).set_style(dim);
    }
    for (column, bucket) in snapshot.columns.iter().enumerate() {
        let late = bucket
            .as_ref()
            .and_then(|bucket| bucket.max(gauge::MISSED))
            .is_some_and(|missed| missed > 0.0);
        if late {
            let style = theme.ink(Ink::Warning);
            buffer[(area.x + column as u16, area.y)]
                .set_char(missed)
                .set_style(style);
        }
    }
    draw_times(buffer, theme, layout, snapshot);
}

/// Distances between two times of the axis, in milliseconds.
const TIME_STEPS_MS: [u64; 25] = [
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    1_200_000,
    1_800_000,
    3_600_000,
    7_200_000,
    10_800_000,
    21_600_000,
    43_200_000,
    86_400_000,
    604_800_000,
];

/// The smallest distance of at least `columns` columns.
fn time_step(column_ns: u64, columns: u64) -> u64 {
    let least = column_ns.saturating_mul(columns);
    TIME_STEPS_MS
        .into_iter()
        .map(|ms| ms * 1_000_000)
        .find(|&step| step >= least)
        .unwrap_or(least)
}

/// Draws round times before the newest sample, each at the right of its tick, and the newest one.
fn draw_times(buffer: &mut Buffer, theme: &Theme, layout: &Layout, snapshot: &Snapshot) {
    let area = layout.axis;
    let every = if area.width >= 100 { 20 } else { 10 };
    let dim = theme.ink(Ink::Dim);
    let column_ns = snapshot.column_ns.max(1);
    let step = time_step(column_ns, every);
    let columns = snapshot.columns.len() as i64;
    // Column of the newest sample, right of the chart in a scrolled view.
    let newest = super::snapshot::column_number(snapshot.edge_ns, column_ns) - snapshot.first;
    let column_at = |ago: u64| newest - i64::try_from((ago + column_ns / 2) / column_ns).unwrap_or(i64::MAX);
    let hidden = u64::try_from(newest - (columns - 1)).unwrap_or(0);
    let mut ago = (hidden.saturating_mul(column_ns) / step).max(1) * step;
    let here = if snapshot.status.replay { "end" } else { "now" };
    let mut right = area.right();
    if newest == columns - 1 && columns > 4 {
        right -= here.len() as u16;
        put(
            buffer,
            theme,
            Rect::new(right, area.y, here.len() as u16, 1),
            here,
            dim,
        );
    }
    let tick = if theme.unicode { '\u{2534}' } else { '+' };
    loop {
        let column = column_at(ago);
        if column < 0 {
            return;
        }
        let x = area.x + column.min(columns) as u16;
        if column < columns && x < right {
            buffer[(x, area.y)].set_char(tick).set_style(dim);
            let text = format!("-{}", numbers::duration(ago));
            // A part of a number would be another number.
            if x + 1 + text.len() as u16 <= right {
                let place = Rect::new(x + 1, area.y, text.len() as u16, 1);
                put(buffer, theme, place, &text, dim);
            }
            right = x;
        }
        ago = ago.saturating_add(step);
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
        let areas = [layout.chart, layout.swap].into_iter().chain(layout.pagers);
        for area in areas.chain(strips) {
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
        .is_some_and(|symbol| symbol.is_ascii_alphanumeric());
    if empty || letter {
        cell.set_char(if theme.unicode { '\u{250a}' } else { '|' });
        if let Some(colour) = style.fg {
            cell.set_fg(colour);
        }
    }
}
