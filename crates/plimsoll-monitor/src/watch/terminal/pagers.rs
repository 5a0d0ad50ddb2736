//! The pages of the target's pagers by state, stacked, between the marks and swap.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::layout::Layout;
use super::numbers;
use super::snapshot::Snapshot;
use super::stack::{Paints, heights, stack_cell};
use super::strips::label;
use super::theme::{Depth, Theme};
use super::words::put;
use plimsoll_report::analysis::frame::Frame;
use plimsoll_report::analysis::gauges::{GAUGES, gauge};

/// A layer of the stack: its gauge, name, and letter on a terminal without colours.
struct Layer {
    gauge: usize,
    name: &'static str,
    letter: char,
}

const fn layer(gauge: usize, name: &'static str, letter: char) -> Layer {
    Layer { gauge, name, letter }
}

/// The layers from the bottom up.
const LAYERS: [Layer; 7] = [
    layer(gauge::PAGER_ACTIVE, "act", 'a'),
    layer(gauge::PAGER_MODIFIED, "mod", 'm'),
    layer(gauge::PAGER_STANDBY, "stby", 's'),
    layer(gauge::PAGER_STANDBY_LOW, "low", 'l'),
    layer(gauge::PAGER_COMPRESSED, "zip", 'z'),
    layer(gauge::PAGER_PAGE_FILE, "file", 'f'),
    layer(gauge::PAGER_METADATA, "meta", 'x'),
];

/// Cells of a name and its bytes in the legend, and of the letter before it.
const ENTRY: usize = 11;
const LETTER: usize = 2;

/// The layout with room for the stack, taken from the chart, if the chart is high enough and a pager is visible.
pub(super) fn with_pagers(mut layout: Layout, snapshot: &Snapshot) -> Layout {
    let is_visible = snapshot
        .columns
        .iter()
        .flatten()
        .any(|bucket| bucket.mean.gauge(gauge::PAGER_ACTIVE).is_some());
    let height = match layout.chart.height {
        _ if !is_visible => 0,
        ..14 => 0,
        14..30 => 3,
        30.. => 5,
    };
    if height > 0 {
        layout.chart.height -= height;
        layout.axis.y -= height;
        layout.marks.y -= height;
        layout.pagers = Some(Rect {
            y: layout.marks.y + 1,
            height,
            ..layout.chart
        });
    }
    layout
}

/// Draws the stack, if the layout has room for it, and its legend.
pub(super) fn draw_pagers(
    buffer: &mut Buffer,
    theme: &Theme,
    layout: &Layout,
    snapshot: &Snapshot,
    displayed: Option<&Frame>,
) {
    let Some(area) = layout.pagers else { return };
    let bytes = |frame: &Frame| LAYERS.map(|layer| frame.gauge(layer.gauge).unwrap_or(0.0) as i64);
    let sums = snapshot
        .columns
        .iter()
        .flatten()
        .map(|bucket| bytes(&bucket.mean).iter().sum());
    let most: i64 = sums.max().unwrap_or(0);
    label(buffer, theme, area, "pager", &numbers::bytes(most as f64));
    let full = usize::from(area.height) * 8;
    for (column, bucket) in snapshot.columns.iter().enumerate() {
        let Some(bucket) = bucket else { continue };
        let mut layers = bytes(&bucket.mean).to_vec();
        layers.push(most - layers.iter().sum::<i64>());
        let heights = heights(&layers, full, None);
        for row in 0..area.height {
            let (symbol, style) = stack_cell(
                &heights[..LAYERS.len()],
                usize::from(row),
                theme,
                &Paints {
                    colour: &|layer| theme.series(GAUGES[LAYERS[layer].gauge].key),
                    letter: &|layer| LAYERS[layer].letter,
                },
            );
            let cell = &mut buffer[(area.x + column as u16, area.bottom() - 1 - row)];
            cell.set_char(symbol).set_style(style);
        }
    }
    let Some(frame) = displayed else { return };
    let is_mono = theme.depth == Depth::Mono;
    let width = ENTRY + if is_mono { LETTER } else { 0 };
    let in_a_row = ((usize::from(layout.legend_width) + 1) / (width + 1)).max(1);
    let known = LAYERS
        .iter()
        .filter_map(|layer| Some((layer, frame.gauge(layer.gauge)?)));
    for (place, (layer, bytes)) in known.take(in_a_row * usize::from(area.height)).enumerate() {
        let (row, column) = (place / in_a_row, place % in_a_row);
        let indent = column * (width + 1);
        let mut place = layout.legend_row(area.y + row as u16, indent as u16);
        place.width = place.width.min(width as u16);
        let letter = match is_mono {
            true => format!("{} ", layer.letter),
            false => String::new(),
        };
        let text = format!("{letter}{:<4} {:>6}", layer.name, numbers::bytes(bytes));
        let style = match is_mono {
            true => Style::new(),
            false => Style::new()
                .fg(theme.series(GAUGES[layer.gauge].key))
                .add_modifier(Modifier::BOLD),
        };
        put(buffer, theme, place, &text, style);
    }
}
