//! The legend: names and values of the layers.

use ratatui::buffer::Buffer;
use ratatui::style::Style;

use super::chart::shown;
use super::layout::{Detail, Layout};
use super::numbers;
use super::snapshot::Snapshot;
use super::theme::{Depth, Ink, TARGET, Theme};
use super::view::View;
use super::words::put;
use plimsoll_model::categories::CATEGORIES;
use plimsoll_report::analysis::frame::Frame;
use plimsoll_report::analysis::gauges::gauge;

/// Short names of the layers.
pub(super) const NAMES: [&str; CATEGORIES.len()] = [
    "kernel",
    "target",
    "other",
    "compressed",
    "swap cache",
    "dirty/wb",
    "page cache",
    "recl. slab",
    "free",
    "unaccount.",
];

/// Index of compressed memory among the layers.
const COMPRESSED: usize = 3;

/// Draws the legend beside the chart, in the order of the layers, from top to bottom. If there are fewer rows than
/// layers, the smallest layers share a row, except the target.
pub(super) fn draw_legend(
    buffer: &mut Buffer,
    theme: &Theme,
    layout: &Layout,
    view: &View,
    snapshot: &Snapshot,
    displayed: Option<&Frame>,
) {
    let Some((frame, layers)) = displayed.and_then(|frame| Some((frame, frame.layers?))) else {
        let text = snapshot.span.map_or("", |_| "no sample here");
        let first = layout.legend_row(layout.chart.y, 0);
        put(buffer, theme, first, text, theme.ink(Ink::Dim));
        return;
    };
    let rows = usize::from(layout.chart.height);
    let total: i64 = shown(&layers, view.share).iter().sum();
    let listed = listed(&layers, rows);
    let left_out = layers.len() - listed.len();
    let mut y = layout.chart.y;
    for layer in &listed {
        let values = (frame, &layers, total, view.share);
        draw_entry(buffer, theme, layout, (*layer, y), snapshot, values);
        y += 1;
    }
    let sum = |name: &str, bytes: i64| format!("  {name:<10} {:>6}", numbers::bytes(bytes as f64));
    let all: i64 = layers.iter().sum();
    let spare = rows.saturating_sub(listed.len());
    if left_out > 0 {
        let rest = all - listed.iter().map(|&layer| layers[layer]).sum::<i64>();
        let text = sum(&format!("{left_out} smaller"), rest);
        put(buffer, theme, layout.legend_row(y, 0), &text, theme.ink(Ink::Dim));
    } else if spare >= 2 {
        let text = sum("RAM", all);
        put(
            buffer,
            theme,
            layout.legend_row(y + 1, 0),
            &text,
            theme.ink(Ink::Strong),
        );
        let lines = target_lines(layout, snapshot, frame, spare - 2);
        for (row, text) in (y + 3..).zip(lines) {
            put(buffer, theme, layout.legend_row(row, 2), &text, Style::new());
        }
    }
}

/// The layers that get a row of their own, from top to bottom: all, or the target and the largest, with a row left for
/// the others.
fn listed(layers: &[i64; CATEGORIES.len()], rows: usize) -> Vec<usize> {
    let mut listed: Vec<usize> = (0..CATEGORIES.len()).rev().collect();
    if rows < listed.len() {
        let mut by_size = listed.clone();
        by_size.sort_by_key(|&layer| (layer != TARGET, -layers[layer].abs()));
        by_size.truncate(rows.saturating_sub(1));
        listed.retain(|layer| by_size.contains(layer));
    }
    listed
}

/// Further values of the target, if there is room below the layers.
fn target_lines(layout: &Layout, snapshot: &Snapshot, frame: &Frame, rows: usize) -> Vec<String> {
    let Some(resident) = frame
        .gauge(gauge::TARGET_RESIDENT)
        .filter(|_| snapshot.target.is_some())
    else {
        return Vec::new();
    };
    let known = |index| frame.gauge(index).unwrap_or(0.0);
    let mut lines = vec![
        "target".to_owned(),
        format!("resident {:>8}", numbers::bytes(resident)),
        format!("swapped  {:>8}", numbers::bytes(known(gauge::TARGET_SWAP))),
        format!("minor    {:>8}", numbers::events(known(gauge::TARGET_MINOR))),
        format!("major    {:>8}", numbers::events(known(gauge::TARGET_MAJOR))),
        format!("CPU{:>14}", numbers::cpus(known(gauge::TARGET_CPU))),
        format!("processes{:>8}", known(gauge::TARGET_PROCESSES)),
    ];
    if let Some(usage) = frame.gauge(gauge::CGROUP_USAGE) {
        lines.push(format!("cgroup   {:>8}", numbers::bytes(usage)));
    }
    let is_stacked = layout.pagers.is_some();
    let states = [
        ("active", gauge::PAGER_ACTIVE),
        ("modified", gauge::PAGER_MODIFIED),
        ("standby", gauge::PAGER_STANDBY),
        ("low stby.", gauge::PAGER_STANDBY_LOW),
        ("zipped", gauge::PAGER_COMPRESSED),
        ("file", gauge::PAGER_PAGE_FILE),
        ("metadata", gauge::PAGER_METADATA),
    ];
    let states = states.into_iter().filter(|_| !is_stacked);
    for (name, index) in states.chain([("store", gauge::PAGER_STORE)]) {
        if let Some(bytes) = frame.gauge(index) {
            lines.push(format!("{name:<9}{:>8}", numbers::bytes(bytes)));
        }
    }
    lines.truncate(rows.saturating_sub(1));
    if lines.len() < 3 { Vec::new() } else { lines }
}

type Whole<'a> = (&'a Frame, &'a [i64; CATEGORIES.len()], i64, bool);

fn draw_entry(
    buffer: &mut Buffer,
    theme: &Theme,
    layout: &Layout,
    (layer, y): (usize, u16),
    snapshot: &Snapshot,
    (frame, layers, total, share): Whole<'_>,
) {
    let x = layout.legend_x;
    let key = &mut buffer[(x, y)];
    if theme.depth == Depth::Mono {
        key.set_char(theme.letter(layer))
            .set_style(theme.ink(Ink::Strong));
    } else {
        let style = Style::new().fg(theme.hatch()).bg(theme.layer(layer));
        key.set_char(theme.fill(layer)).set_style(style);
    }
    let bytes = layers[layer];
    let part = plimsoll_report::analysis::ratio(100.0 * bytes as f64, total as f64).unwrap_or(0.0);
    let free = share && layer == super::theme::FREE;
    let part = if free {
        "   -".to_owned()
    } else {
        format!("{:>4}", numbers::percent(part))
    };
    let mut text = format!("{:<10} {:>6}", NAMES[layer], numbers::bytes(bytes as f64));
    if layout.detail != Detail::Least {
        text += &format!(" {part}");
    }
    let mut style = Style::new();
    if layer == TARGET {
        if snapshot.target.is_some() {
            style = theme.ink(Ink::Strong);
        } else {
            text = format!("{:<10} {:>6}", NAMES[layer], "none");
            style = theme.ink(Ink::Dim);
        }
    }
    text += &behind(layer, layout.detail, frame, bytes);
    put(buffer, theme, layout.legend_row(y, 2), &text, style);
}

/// Explanation of a layer's bytes: contents of compressed memory, swapped memory of the target.
fn behind(layer: usize, detail: Detail, frame: &Frame, bytes: i64) -> String {
    let known = |index| frame.gauge(index).filter(|&value| value > 0.0);
    match (layer, detail) {
        (_, Detail::Least | Detail::Bare) => String::new(),
        (TARGET, _) => match (known(gauge::TARGET_SWAP), detail) {
            (Some(swap), Detail::Full) => format!("  (swapped {})", numbers::bytes(swap)),
            (Some(swap), _) => format!(" sw {}", numbers::bytes(swap)),
            (None, _) => String::new(),
        },
        (COMPRESSED, _) => {
            let Some(holds) = known(gauge::COMPRESSED_HOLDS) else {
                return String::new();
            };
            let held = numbers::bytes(holds);
            let ratio = plimsoll_report::analysis::ratio(holds, bytes as f64);
            match (ratio, detail) {
                (Some(ratio), Detail::Full) => format!("  (holds {held}, {ratio:.1}x)"),
                (None, Detail::Full) => format!("  (holds {held})"),
                (Some(ratio), _) => format!(" ={held} {ratio:.1}x"),
                (None, _) => format!(" ={held}"),
            }
        }
        _ => String::new(),
    }
}
