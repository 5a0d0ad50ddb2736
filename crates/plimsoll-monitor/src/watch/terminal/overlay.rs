//! Overlays: help, text, questions, an input line, the list of targets.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

use super::action::HINTS;
use super::figures;
use super::theme::{Ink, Theme};
use super::view::{Overlay, Picker, Purpose};
use super::words::{fit, in_cells, wrapped};

pub(super) fn draw_overlay(buffer: &mut Buffer, theme: &Theme, overlay: &Overlay) {
    match overlay {
        Overlay::Help => draw_help(buffer, theme),
        Overlay::Text(title, lines, top) => {
            let lines = lines_in(*buffer.area(), theme, lines);
            let rows = rows_inside(*buffer.area()).min(lines.len());
            let top = (*top).min(lines.len() - rows);
            let below = match lines.len() > rows {
                true => format!("{} of {}   Esc closes", top + rows, lines.len()),
                false => "Esc closes".to_owned(),
            };
            let inside = boxed(buffer, theme, (title, &below), widest(&lines), rows as u16);
            write_lines(buffer, theme, inside, &lines[top..]);
        }
        Overlay::Question(_, lines) => {
            let lines = lines_in(*buffer.area(), theme, lines);
            let titles = ("sure?", "y yes   n no");
            let inside = boxed(buffer, theme, titles, widest(&lines), lines.len() as u16);
            write_lines(buffer, theme, inside, &lines);
        }
        Overlay::Prompt(purpose, text) => draw_prompt(buffer, theme, *purpose, text),
        Overlay::Picker(picker) => draw_picker(buffer, theme, picker),
    }
}

fn widest(lines: &[String]) -> u16 {
    lines.iter().map(|line| line.width()).max().unwrap_or(0) as u16
}

/// Rows of text that fit into a box.
pub(super) fn rows_inside(page: Rect) -> usize {
    usize::from(page.height.saturating_sub(4))
}

/// Wraps lines for a box.
fn lines_in(page: Rect, theme: &Theme, lines: &[String]) -> Vec<String> {
    let lines: Vec<String> = lines.iter().map(|line| in_cells(line, theme.unicode)).collect();
    wrapped(&lines, page.width.saturating_sub(6))
}

fn write_lines(buffer: &mut Buffer, theme: &Theme, inside: Rect, lines: &[String]) {
    for (row, line) in lines.iter().take(usize::from(inside.height)).enumerate() {
        let text = fit(line, usize::from(inside.width), theme.unicode);
        buffer.set_string(inside.x, inside.y + row as u16, text, Style::new());
    }
}

/// Clears a centred box, draws its border with the titles above and below, and returns its inner area.
fn boxed(buffer: &mut Buffer, theme: &Theme, (title, below): (&str, &str), width: u16, height: u16) -> Rect {
    let page = *buffer.area();
    let width = width
        .max(title.width().max(below.width()) as u16 + 2)
        .min(page.width - 6);
    let height = height.min(page.height - 4);
    let outer = Rect::new(
        page.x + (page.width - width - 4) / 2,
        page.y + (page.height - height - 2) / 2,
        width + 4,
        height + 2,
    );
    let [across, down, corners @ ..] = match theme.unicode {
        true => [
            "\u{2500}", "\u{2502}", "\u{256d}", "\u{256e}", "\u{2570}", "\u{256f}",
        ],
        false => ["-", "|", "+", "+", "+", "+"],
    };
    let frame = theme.ink(Ink::Accent);
    for y in outer.y..outer.bottom() {
        for x in outer.x..outer.right() {
            buffer[(x, y)].reset();
            let edge_y = y == outer.y || y == outer.bottom() - 1;
            let edge_x = x == outer.x || x == outer.right() - 1;
            if edge_y || edge_x {
                buffer.set_string(x, y, if edge_y { across } else { down }, frame);
            }
        }
    }
    let (right, bottom) = (outer.right() - 1, outer.bottom() - 1);
    let places = [
        (outer.x, outer.y),
        (right, outer.y),
        (outer.x, bottom),
        (right, bottom),
    ];
    for ((x, y), corner) in places.into_iter().zip(corners) {
        buffer.set_string(x, y, corner, frame);
    }
    buffer.set_string(outer.x + 2, outer.y, format!(" {title} "), frame);
    buffer.set_string(outer.x + 2, bottom, format!(" {below} "), theme.ink(Ink::Dim));
    Rect::new(outer.x + 2, outer.y + 1, width, height)
}

fn draw_help(buffer: &mut Buffer, theme: &Theme) {
    const COLUMN: u16 = 36;
    let page = *buffer.area();
    let columns = if page.width >= 2 * COLUMN + 6 { 2 } else { 1 };
    let rows = HINTS.len().div_ceil(columns);
    let title = "keys";
    let below = "Esc closes";
    let inside = boxed(
        buffer,
        theme,
        (title, below),
        columns as u16 * COLUMN,
        rows as u16,
    );
    for (place, hint) in HINTS.iter().enumerate() {
        let (column, row) = (place / rows, (place % rows) as u16);
        if row >= inside.height {
            continue;
        }
        let (x, y) = (inside.x + column as u16 * COLUMN, inside.y + row);
        let keys = if theme.unicode { hint.keys } else { hint.ascii };
        buffer.set_stringn(x, y, keys, 10, theme.ink(Ink::Accent));
        buffer.set_stringn(x + 11, y, hint.long, usize::from(COLUMN) - 12, Style::new());
    }
}

fn draw_prompt(buffer: &mut Buffer, theme: &Theme, purpose: Purpose, text: &str) {
    let title = match purpose {
        Purpose::Note => "note",
        Purpose::Record => "folder to record into (must not exist yet)",
    };
    let inside = boxed(buffer, theme, (title, "Enter: accept   Esc: cancel"), 56, 1);
    // Show the end of the line, where the user types.
    let mut shown = in_cells(text, theme.unicode);
    while shown.width() + 1 > usize::from(inside.width) {
        shown.remove(0);
    }
    let (x, _) = buffer.set_stringn(inside.x, inside.y, shown, usize::from(inside.width), Style::new());
    let cursor = Style::new().add_modifier(Modifier::REVERSED);
    buffer.set_stringn(x, inside.y, " ", 1, cursor);
}

fn draw_picker(buffer: &mut Buffer, theme: &Theme, picker: &Picker) {
    let page = *buffer.area();
    let title = match picker.filter.is_empty() {
        true => "target: type to narrow".to_owned(),
        false => format!(
            "target: {}",
            fit(&in_cells(&picker.filter, theme.unicode), 30, theme.unicode)
        ),
    };
    let rows = page.height.saturating_sub(8).min(24);
    let inside = boxed(buffer, theme, (&title, "Enter: accept   Esc: cancel"), 50, rows);
    let head = format!("{:>8}  {:<24} {:>7} {:>7}", "pid", "name", "RSS", "swap");
    buffer.set_stringn(
        inside.x,
        inside.y,
        head,
        usize::from(inside.width),
        theme.ink(Ink::Dim),
    );
    let visible = usize::from(inside.height) - 1;
    // Keep the selected row visible.
    let top = (picker.chosen + 1).saturating_sub(visible);
    for (row, (place, entry)) in picker.entries().enumerate().skip(top).take(visible).enumerate() {
        let text = match entry {
            None => format!("{:>8}  {:<24}", "-", "no target: the whole machine"),
            Some(candidate) => {
                let name = fit(&in_cells(&candidate.name, theme.unicode), 24, theme.unicode);
                let pad = " ".repeat(24_usize.saturating_sub(name.width()));
                let (resident, swap) = (candidate.resident as f64, candidate.swap as f64);
                let (resident, swap) = (figures::bytes(resident), figures::bytes(swap));
                format!("{:>8}  {name}{pad} {resident:>7} {swap:>7}", candidate.pid)
            }
        };
        let y = inside.y + 1 + row as u16;
        let mut style = Style::new();
        if place == picker.chosen {
            style = style.add_modifier(Modifier::REVERSED);
            buffer.set_string(inside.x, y, " ".repeat(usize::from(inside.width)), style);
        }
        buffer.set_stringn(inside.x, y, text, usize::from(inside.width), style);
    }
}
