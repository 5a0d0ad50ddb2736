//! Draws the changes within the visible time: levels, then flows.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::change::{FlowChange, Level, LevelChange, flows, in_cells_of, levels, span_ns};
use super::legend::NAMES;
use super::numbers;
use super::snapshot::Snapshot;
use super::stack::bar;
use super::theme::{Depth, Ink, Theme};
use super::words::put;

/// From this width on, levels and flows stand side by side.
const SIDE_BY_SIDE: u16 = 76;
/// From this width on, a table has its second number.
const TWO_NUMBERS: u16 = 46;
/// Width of the names, with the symbol in front of them and the space behind.
const NAME: u16 = 16;
/// Width of a number with the space behind it.
const NUMBER: u16 = 8;
/// Part of a cell that a level at its smallest value fills, so that a flat one is no gap.
const BASELINE: f64 = 0.125;

/// A row: symbol, name, two numbers and bars.
struct Line {
    /// Colour of the symbol, and the letter of a layer without colours.
    symbol: (char, Style),
    name: &'static str,
    numbers: [String; 2],
    heights: Vec<Option<f64>>,
    bars: Style,
}

pub(super) fn draw_changes(buffer: &mut Buffer, theme: &Theme, area: Rect, snapshot: &Snapshot) {
    let levels: Vec<Line> = levels(snapshot)
        .into_iter()
        .map(|change| line_of_level(change, theme))
        .collect();
    let flows: Vec<Line> = flows(snapshot)
        .into_iter()
        .map(|change| line_of_flow(change, theme))
        .collect();
    let span = span_ns(snapshot);
    if levels.is_empty() && flows.is_empty() {
        put(buffer, theme, area, "no samples in view", theme.ink(Ink::Dim));
        return;
    }
    let span = numbers::duration(span);
    let (changes, flows_title) = (format!("changes, {span}"), format!("flows, {span}"));
    let (upper, lower) = parts(area, levels.len(), flows.len());
    table(buffer, theme, upper, (&changes, ["change", "range"]), &levels);
    table(buffer, theme, lower, (&flows_title, ["total", "max/s"]), &flows);
}

/// Areas of the tables of this many rows, each with one row more for its heading.
fn parts(area: Rect, levels: usize, flows: usize) -> (Rect, Rect) {
    if area.width >= SIDE_BY_SIDE {
        let left = area.width / 2 - 1;
        let right = Rect::new(area.x + left + 2, area.y, area.width - left - 2, area.height);
        return (Rect::new(area.x, area.y, left, area.height), right);
    }
    let (levels, flows) = (levels as u16 + 1, flows as u16 + 1);
    // Each has half, or all that the other leaves.
    let half = area.height / 2;
    let upper = levels.min(half.max(area.height.saturating_sub(flows)));
    let lower = Rect::new(area.x, area.y + upper, area.width, area.height - upper);
    (Rect::new(area.x, area.y, area.width, upper), lower)
}

fn line_of_level(change: LevelChange, theme: &Theme) -> Line {
    let signed = match change.change {
        change if change > 0.0 => format!("+{}", numbers::bytes(change)),
        change => numbers::bytes(change),
    };
    let (symbol, name, bars) = match change.level {
        Level::Layer(layer) if theme.depth == Depth::Mono => (
            (theme.letter(layer), theme.ink(Ink::Strong)),
            NAMES[layer],
            Style::new(),
        ),
        Level::Layer(layer) => {
            let symbol = Style::new().fg(theme.hatch()).bg(theme.layer(layer));
            let bars = Style::new().fg(theme.layer(layer));
            ((theme.fill(layer), symbol), NAMES[layer], bars)
        }
        Level::SwapUsed => ((' ', Style::new()), "swap used", theme.ink(Ink::Plain)),
    };
    let raised = |height: f64| BASELINE + (1.0 - BASELINE) * height;
    Line {
        symbol,
        name,
        numbers: [signed, numbers::bytes(change.range)],
        heights: change
            .heights
            .into_iter()
            .map(|height| height.map(raised))
            .collect(),
        bars,
    }
}

fn line_of_flow(change: FlowChange, theme: &Theme) -> Line {
    let text = |value: f64| match change.flow.is_in_bytes() {
        true => numbers::bytes(value),
        false => numbers::count(value),
    };
    Line {
        symbol: (' ', Style::new()),
        name: change.flow.title,
        numbers: [text(change.total), text(change.greatest)],
        heights: change.heights,
        bars: theme.ink(change.flow.ink),
    }
}

/// Draws a heading and as many rows as fit.
fn table(buffer: &mut Buffer, theme: &Theme, area: Rect, (title, heads): (&str, [&str; 2]), lines: &[Line]) {
    if area.height < 2 || lines.is_empty() {
        return;
    }
    let numbers = if area.width >= TWO_NUMBERS { 2 } else { 1 };
    let number = usize::from(NUMBER) - 1;
    let cell = |place: usize, y: u16| Rect::new(area.x + NAME + place as u16 * NUMBER, y, NUMBER - 1, 1);
    let room = Rect::new(area.x, area.y, NAME - 1, 1);
    put(buffer, theme, room, title, theme.ink(Ink::Strong));
    for (place, head) in heads.iter().take(numbers).enumerate() {
        let head = format!("{head:>number$}");
        put(buffer, theme, cell(place, area.y), &head, theme.ink(Ink::Dim));
    }
    let bars_x = area.x + NAME + numbers as u16 * NUMBER;
    let width = usize::from(area.right().saturating_sub(bars_x));
    for (row, line) in lines.iter().take(usize::from(area.height) - 1).enumerate() {
        let y = area.y + 1 + row as u16;
        let (symbol, style) = line.symbol;
        buffer[(area.x, y)].set_char(symbol).set_style(style);
        let name = Rect::new(area.x + 2, y, NAME - 3, 1);
        put(buffer, theme, name, line.name, Style::new());
        for (place, text) in line.numbers.iter().take(numbers).enumerate() {
            let text = format!("{text:>number$}");
            put(buffer, theme, cell(place, y), &text, Style::new());
        }
        for (column, height) in in_cells_of(&line.heights, width).into_iter().enumerate() {
            let Some(height) = height else { continue };
            let cell = &mut buffer[(bars_x + column as u16, y)];
            cell.set_char(bar(height, 1, theme.unicode)[0])
                .set_style(line.bars);
        }
    }
}
