//! Overlays: help, text, questions, an input line, the list of targets.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

use super::action::HINTS;
use super::boxes::{boxed, columns_inside, row_of, rows_inside};
use super::numbers;
use super::snapshot::Snapshot;
use super::theme::{Ink, Theme};
use super::tree::draw_tree;
use super::view::{Overlay, Picker, Purpose};
use super::words::{put, wrapped};
use crate::cells::{fit_end, in_cells, padded};

pub(super) fn draw_overlay(buffer: &mut Buffer, theme: &Theme, overlay: &Overlay, snapshot: &Snapshot) {
    match overlay {
        Overlay::Help(top) => draw_help(buffer, theme, *top),
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
            let lines = first_of(lines, rows_inside(*buffer.area()));
            let titles = ("sure?", "y yes   n no");
            let inside = boxed(buffer, theme, titles, widest(&lines), lines.len() as u16);
            write_lines(buffer, theme, inside, &lines);
        }
        Overlay::Prompt(purpose, text) => draw_prompt(buffer, theme, *purpose, text),
        Overlay::Picker(picker) => draw_picker(buffer, theme, picker),
        Overlay::Tree(tree) => draw_tree(buffer, theme, tree, snapshot.cgroups.as_deref()),
    }
}

fn widest(lines: &[String]) -> u16 {
    lines.iter().map(|line| line.width()).max().unwrap_or(0) as u16
}

/// The lines that fit into `rows`, the last of which counts the others.
fn first_of(mut lines: Vec<String>, rows: usize) -> Vec<String> {
    if lines.len() > rows {
        let others = lines.len() - (rows.max(1) - 1);
        lines.truncate(rows.max(1) - 1);
        lines.push(format!("... and {others} more lines"));
    }
    lines
}

/// Wraps lines for a box.
fn lines_in(page: Rect, theme: &Theme, lines: &[String]) -> Vec<String> {
    let lines: Vec<String> = lines.iter().map(|line| in_cells(line, theme.unicode)).collect();
    wrapped(&lines, columns_inside(page))
}

fn write_lines(buffer: &mut Buffer, theme: &Theme, inside: Rect, lines: &[String]) {
    for (row, line) in lines.iter().take(usize::from(inside.height)).enumerate() {
        put(buffer, theme, row_of(inside, row as u16), line, Style::new());
    }
}

fn draw_help(buffer: &mut Buffer, theme: &Theme, top: usize) {
    const COLUMN: u16 = 36;
    const KEYS: u16 = 11;
    let page = *buffer.area();
    let columns = if page.width >= 2 * COLUMN + 6 { 2 } else { 1 };
    let rows = HINTS.len().div_ceil(columns);
    let visible = rows.min(rows_inside(page));
    let top = top.min(rows - visible);
    let below = match rows > visible {
        true => format!("{} of {rows}   Esc closes", top + visible),
        false => "Esc closes".to_owned(),
    };
    let width = columns as u16 * COLUMN;
    let inside = boxed(buffer, theme, ("keys", &below), width, visible as u16);
    let width = inside.width / columns as u16;
    for (place, hint) in HINTS.iter().enumerate() {
        let (column, row) = (place / rows, place % rows);
        if !(top..top + visible).contains(&row) {
            continue;
        }
        let (x, y) = (inside.x + column as u16 * width, inside.y + (row - top) as u16);
        let keys = if theme.unicode { hint.keys } else { hint.ascii };
        put(
            buffer,
            theme,
            Rect::new(x, y, KEYS - 1, 1),
            keys,
            theme.ink(Ink::Accent),
        );
        let text = Rect::new(x + KEYS, y, width - KEYS - 1, 1);
        put(buffer, theme, text, hint.long, Style::new());
    }
}

fn draw_prompt(buffer: &mut Buffer, theme: &Theme, purpose: Purpose, text: &str) {
    let title = match purpose {
        Purpose::Note => "note",
        Purpose::Record => "folder to record into (must not exist yet)",
    };
    let inside = boxed(buffer, theme, (title, "Enter: accept   Esc: cancel"), 56, 1);
    // Show the end of the line, where the user types.
    let room = usize::from(inside.width - 1);
    let shown = fit_end(&in_cells(text, theme.unicode), room, theme.unicode);
    let x = put(buffer, theme, row_of(inside, 0), &shown, Style::new());
    let cursor = Style::new().add_modifier(Modifier::REVERSED);
    buffer[(x, inside.y)].set_char(' ').set_style(cursor);
}

fn draw_picker(buffer: &mut Buffer, theme: &Theme, picker: &Picker) {
    let page = *buffer.area();
    let title = match picker.filter.is_empty() {
        true => "target: type to narrow".to_owned(),
        false => format!(
            "target: {}",
            crate::cells::fit(&in_cells(&picker.filter, theme.unicode), 30, theme.unicode)
        ),
    };
    let rows = page.height.saturating_sub(8).min(24);
    let inside = boxed(buffer, theme, (&title, "Enter: accept   Esc: cancel"), 50, rows);
    // The numbers have their place in every width, the name has the rest.
    let room = usize::from(inside.width.saturating_sub(26)).clamp(4, 24);
    let name_of = |name: &str| padded(&in_cells(name, theme.unicode), room, theme.unicode);
    let head = format!("{:>8}  {} {:>7} {:>7}", "pid", name_of("name"), "RSS", "swap");
    put(buffer, theme, row_of(inside, 0), &head, theme.ink(Ink::Dim));
    let visible = usize::from(inside.height) - 1;
    // Keep the selected row visible.
    let top = (picker.chosen + 1).saturating_sub(visible);
    for (row, (place, entry)) in picker.entries().enumerate().skip(top).take(visible).enumerate() {
        let text = match entry {
            None => format!("{:>8}  no target: the whole machine", "-"),
            Some(candidate) => {
                let name = name_of(&candidate.name);
                let (resident, swap) = (candidate.resident as f64, candidate.swap as f64);
                let (resident, swap) = (numbers::bytes(resident), numbers::bytes(swap));
                format!("{:>8}  {name} {resident:>7} {swap:>7}", candidate.pid)
            }
        };
        let place_of_row = row_of(inside, 1 + row as u16);
        let mut style = Style::new();
        if place == picker.chosen {
            style = style.add_modifier(Modifier::REVERSED);
            buffer.set_style(place_of_row, style);
        }
        put(buffer, theme, place_of_row, &text, style);
    }
}
