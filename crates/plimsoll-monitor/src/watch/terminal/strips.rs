//! Draws the strips below the chart, and swap by device.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::layout::{Detail, Layout};
use super::numbers;
use super::snapshot::Snapshot;
use super::stack::{Paints, bar, heights, stack_cell};
use super::strip::Strip;
use super::theme::{Ink, Theme};
use super::words::put;
use crate::cells::{fit, in_cells, padded};
use plimsoll_report::analysis::frame::Frame;
use plimsoll_report::analysis::gauges::gauge;

/// Gauges of the swap devices, by slot.
const DEVICES: [usize; 4] = [gauge::SWAP0, gauge::SWAP1, gauge::SWAP2, gauge::SWAP3];

/// Draws a strip: its bars, and the values of `displayed`, the frame of the legend.
pub(super) fn draw_strip(
    buffer: &mut Buffer,
    theme: &Theme,
    layout: &Layout,
    (strip, area): (&Strip, Rect),
    snapshot: &Snapshot,
    displayed: Option<&Frame>,
) {
    label(buffer, theme, area, strip.label, "");
    let known = || snapshot.columns.iter().flatten();
    let greatest = known()
        .filter_map(|bucket| strip.greatest(bucket))
        .fold(0.0, f64::max);
    let means = known().filter_map(|bucket| strip.value(&bucket.mean));
    let full = strip.full(means.fold(0.0, f64::max));
    let style = theme.ink(strip.ink);
    for (column, bucket) in snapshot.columns.iter().enumerate() {
        let value = bucket.as_ref().and_then(|bucket| strip.value(&bucket.mean));
        let Some(value) = value else { continue };
        let bar = bar(value / full, usize::from(area.height), theme.unicode);
        for (row, symbol) in bar.into_iter().enumerate() {
            let cell = &mut buffer[(area.x + column as u16, area.bottom() - 1 - row as u16)];
            cell.set_char(symbol).set_style(style);
        }
    }
    let now = displayed.and_then(|frame| strip.value(frame));
    let value = now.map_or_else(|| "-".to_owned(), |value| strip.text(value));
    let mut text = format!("{:<9} {value:>7}", strip.title);
    if layout.detail.explains() {
        let beside = strip
            .beside
            .and_then(|(title, index)| Some((title, displayed?.gauge(index)?)));
        match beside {
            Some((title, value)) => {
                text += &format!(" {title} {:<4}", numbers::percent(value));
                if layout.detail == Detail::Full {
                    text += &format!(" max {}", strip.text(greatest));
                }
            }
            None => text += &format!(" max {}", strip.text(greatest)),
        }
    }
    let style = if now.is_some() {
        Style::new()
    } else {
        theme.ink(Ink::Dim)
    };
    put(
        buffer,
        theme,
        layout.legend_row(area.bottom() - 1, 0),
        &text,
        style,
    );
}

/// Draws used swap by device, and swap size.
pub(super) fn draw_swap(
    buffer: &mut Buffer,
    theme: &Theme,
    layout: &Layout,
    snapshot: &Snapshot,
    displayed: Option<&Frame>,
) {
    let area = layout.swap;
    let sizes = snapshot.columns.iter().flatten();
    let sizes = sizes.filter_map(|bucket| bucket.mean.gauge(gauge::SWAP_TOTAL));
    let size = sizes.fold(0.0, f64::max);
    let top = if size > 0.0 {
        numbers::bytes(size)
    } else {
        String::new()
    };
    label(buffer, theme, area, "swap", &top);
    let full = usize::from(area.height) * 8;
    for (column, bucket) in snapshot.columns.iter().enumerate() {
        let Some(bucket) = bucket else { continue };
        let used = DEVICES.map(|index| bucket.mean.gauge(index).unwrap_or(0.0) as i64);
        let free = size as i64 - used.iter().sum::<i64>();
        let layers = [used[0], used[1], used[2], used[3], free];
        // The first used device is always visible, however large swap is.
        let seen = used.iter().position(|&bytes| bytes > 0);
        let heights = heights(&layers, full, seen);
        for row in 0..area.height {
            let paints = Paints {
                colour: &|slot| theme.device(slot),
                letter: &|slot| char::from(b'0' + slot as u8),
            };
            let (symbol, style) = stack_cell(&heights[..DEVICES.len()], usize::from(row), theme, &paints);
            let cell = &mut buffer[(area.x + column as u16, area.bottom() - 1 - row)];
            cell.set_char(symbol).set_style(style);
        }
    }
    for (row, (text, style)) in swap_lines(theme, layout, snapshot, displayed)
        .into_iter()
        .enumerate()
    {
        let y = area.y + row as u16;
        if y < area.bottom() {
            put(buffer, theme, layout.legend_row(y, 0), &text, style);
        }
    }
}

/// Legend of swap: the sum, then each device; with one row, only the sum.
fn swap_lines(
    theme: &Theme,
    layout: &Layout,
    snapshot: &Snapshot,
    displayed: Option<&Frame>,
) -> Vec<(String, Style)> {
    let gauge_of = |index| displayed.and_then(|frame| frame.gauge(index));
    let size = gauge_of(gauge::SWAP_TOTAL).unwrap_or(0.0);
    if size == 0.0 {
        return vec![("no swap".to_owned(), theme.ink(Ink::Dim))];
    }
    let used: Vec<(usize, f64)> = DEVICES
        .iter()
        .enumerate()
        .filter_map(|(slot, &index)| Some((slot, gauge_of(index)?)))
        .collect();
    let total: f64 = used.iter().map(|(_, bytes)| bytes).sum();
    let mut lines = vec![(
        format!("used {:>6} of {}", numbers::bytes(total), numbers::bytes(size)),
        Style::new(),
    )];
    let rows = usize::from(layout.swap.height).saturating_sub(1);
    let name = |slot: usize| {
        let name = snapshot.swap_devices.get(slot).map_or("device", String::as_str);
        let name = name.trim_start_matches("/dev/");
        in_cells(name, theme.unicode)
    };
    let mono = theme.depth == super::theme::Depth::Mono;
    if rows < used.len() {
        // Too few rows for one device each: list as many devices in one row as fit.
        let texts = used.iter().map(|(slot, bytes)| {
            let key = if mono { format!("{slot} ") } else { String::new() };
            format!(
                "{key}{} {}",
                fit(&name(*slot), 12, theme.unicode),
                numbers::bytes(*bytes)
            )
        });
        let style = match used.first() {
            Some((slot, _)) if used.len() == 1 && !mono => Style::new().fg(theme.device(*slot)),
            _ => Style::new(),
        };
        lines.push((texts.collect::<Vec<_>>().join(" "), style));
        return lines;
    }
    for (slot, bytes) in used {
        let key = if mono { format!("{slot} ") } else { String::new() };
        let room = usize::from(layout.legend_width.saturating_sub(9)).clamp(4, 16);
        let name = padded(&name(slot), room, theme.unicode);
        let style = match mono {
            true => Style::new(),
            false => Style::new().fg(theme.device(slot)).add_modifier(Modifier::BOLD),
        };
        lines.push((format!("{key}{name} {:>6}", numbers::bytes(bytes)), style));
    }
    lines
}

/// The labels and the line on the left of a chart.
pub(super) fn label(buffer: &mut Buffer, theme: &Theme, area: Rect, bottom: &str, top: &str) {
    let dim = theme.ink(Ink::Dim);
    let line = if theme.unicode { '\u{2502}' } else { '|' };
    let left = area.x - super::layout::AXIS_WIDTH;
    for y in area.y..area.bottom() {
        buffer[(area.x - 1, y)].set_char(line).set_style(dim);
    }
    let mut words = |y: u16, text: &str| {
        let place = Rect::new(left, y, super::layout::AXIS_WIDTH - 1, 1);
        put(buffer, theme, place, &format!("{text:>5}"), dim);
    };
    if area.height > 1 {
        words(area.y, top);
    }
    words(area.bottom() - 1, bottom);
}
