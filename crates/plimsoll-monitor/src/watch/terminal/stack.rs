//! Stacked layers in eighths of a cell.

use ratatui::style::{Color, Modifier, Style};

use super::theme::{Depth, TARGET, Theme};

/// Steps per cell.
const EIGHTHS: usize = 8;
const BLOCKS: [char; EIGHTHS + 1] = [
    ' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
];
/// ASCII form, for bars.
const ASCII_BLOCKS: [char; EIGHTHS + 1] = [' ', '.', '.', ':', ':', '+', '+', '#', '#'];

/// Heights of layers in a column of `full` eighths. They sum to `full`, or are all 0 if no layer is above 0.
///
/// A negative layer has height 0. A non-zero layer `seen` has at least one eighth, so that rounding never hides the
/// target.
pub fn heights(layers: &[i64], full: usize, seen: Option<usize>) -> Vec<usize> {
    let total: i128 = layers.iter().map(|&bytes| i128::from(bytes.max(0))).sum();
    if total == 0 {
        return vec![0; layers.len()];
    }
    let mut below = 0;
    let mut sum = 0_i128;
    let mut heights: Vec<usize> = layers
        .iter()
        .map(|&bytes| {
            sum += i128::from(bytes.max(0));
            // Round the edges, not the heights, so that errors do not accumulate.
            let edge = ((2 * sum * full as i128 + total) / (2 * total)) as usize;
            let height = edge - below;
            below = edge;
            height
        })
        .collect();
    if let Some(seen) = seen
        && layers.get(seen).is_some_and(|&bytes| bytes > 0)
        && heights[seen] == 0
        && let Some(tallest) = (0..heights.len()).max_by_key(|&layer| heights[layer])
        && heights[tallest] > 1
    {
        heights[tallest] -= 1;
        heights[seen] = 1;
    }
    heights
}

pub(super) type Glyph = (char, Style);

/// The cells of a column, from the bottom up, for layers of these heights.
pub(super) fn cells(heights: &[usize], rows: usize, theme: &Theme) -> Vec<Glyph> {
    let mut edges = Vec::with_capacity(heights.len());
    let mut top = 0;
    for height in heights {
        top += height;
        edges.push(top);
    }
    (0..rows).map(|row| cell(&edges, row * EIGHTHS, theme)).collect()
}

/// The cell whose lowest eighth is `bottom`. Of more than two layers, it shows the two largest, and the target first.
fn cell(edges: &[usize], bottom: usize, theme: &Theme) -> Glyph {
    let top = bottom + EIGHTHS;
    let mut from = 0;
    let mut first: Option<(usize, usize, usize)> = None;
    let mut second = None;
    for (layer, &edge) in edges.iter().enumerate() {
        let inside = edge.min(top).saturating_sub(from.max(bottom));
        from = edge;
        if inside == 0 {
            continue;
        }
        let weight = if layer == TARGET { inside + EIGHTHS } else { inside };
        let this = Some((weight, layer, edge));
        if first.is_none_or(|(most, ..)| weight > most) {
            second = first;
            first = this;
        } else if second.is_none_or(|(most, ..)| weight > most) {
            second = this;
        }
    }
    let Some((_, most, most_edge)) = first else {
        return (' ', Style::new());
    };
    if theme.depth == Depth::Mono {
        let style = if most == TARGET {
            Style::new().add_modifier(Modifier::BOLD)
        } else {
            Style::new()
        };
        return (theme.letter(most), style);
    }
    match second {
        Some((_, other, other_edge)) if theme.unicode => {
            let (lower, upper, edge) = if most < other {
                (most, other, most_edge)
            } else {
                (other, most, other_edge)
            };
            let eighths = edge.clamp(bottom + 1, top - 1) - bottom;
            let style = Style::new().fg(theme.layer(lower)).bg(theme.layer(upper));
            (BLOCKS[eighths], style)
        }
        _ => {
            let style = Style::new().fg(theme.hatch()).bg(theme.layer(most));
            (theme.fill(most), style)
        }
    }
}

/// A bar of `part` (0 to 1) in `rows` cells, from the bottom up. A value above 0 has at least an eighth.
pub(super) fn bar(part: f64, rows: usize, unicode: bool) -> Vec<char> {
    let full = rows * EIGHTHS;
    let least = usize::from(part > 0.0);
    let high = ((part * full as f64).round() as usize).clamp(least, full);
    let blocks = if unicode { &BLOCKS } else { &ASCII_BLOCKS };
    (0..rows)
        .map(|row| blocks[high.saturating_sub(row * EIGHTHS).min(EIGHTHS)])
        .collect()
}

/// The colours of layers, and their letters on a terminal without colours.
pub(super) struct Paints<'p> {
    pub(super) colour: &'p dyn Fn(usize) -> Color,
    pub(super) letter: &'p dyn Fn(usize) -> char,
}

/// A cell of a stack over an empty background, with `heights` from layer 0 on. Of more than two layers, it shows the lowest and
/// the largest of the others.
pub(super) fn stack_cell(heights: &[usize], row: usize, theme: &Theme, paints: &Paints<'_>) -> Glyph {
    let (bottom, top) = (row * EIGHTHS, (row + 1) * EIGHTHS);
    let mut from = 0;
    let mut lowest = None;
    let mut largest: Option<(usize, usize)> = None;
    for (layer, height) in heights.iter().enumerate() {
        let edge = from + height;
        let inside = edge.min(top).saturating_sub(from.max(bottom));
        from = edge;
        match lowest {
            _ if inside == 0 => {}
            None => lowest = Some((layer, edge.min(top) - bottom)),
            Some(_) if largest.is_none_or(|(_, most)| inside > most) => largest = Some((layer, inside)),
            Some(_) => {}
        }
    }
    let Some((lowest, edge)) = lowest else {
        return (' ', Style::new());
    };
    if theme.depth == Depth::Mono {
        return ((paints.letter)(lowest), Style::new());
    }
    let style = |layer| Style::new().fg((paints.colour)(layer));
    match largest {
        None => {
            let blocks = if theme.unicode { &BLOCKS } else { &ASCII_BLOCKS };
            (blocks[edge], style(lowest))
        }
        Some((upper, _)) if theme.unicode => (BLOCKS[edge], style(lowest).bg((paints.colour)(upper))),
        Some((upper, _)) => ('#', style(upper)),
    }
}
