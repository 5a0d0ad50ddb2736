//! The main screen: draws a snapshot with the user's view. Pure.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

use super::boxes::{columns_inside, rows_inside};
use super::changes::draw_changes;
use super::chart::{draw_axis, draw_chart, draw_lines};
use super::layout::{LEAST, Layout};
use super::legend::draw_legend;
use super::list::{draw_list, rows_in};
use super::marks::draw_marks;
use super::overlay::draw_overlay;
use super::pagers::{draw_pagers, with_pagers};
use super::place::{self, Place};
use super::snapshot::Snapshot;
use super::strips::{draw_strip, draw_swap};
use super::theme::{Ink, Theme};
use super::view::View;
use super::words::put;
use super::{action, numbers};
use crate::cells::{ellipsis, fit, in_cells};
use crate::watch::state::Level;
use plimsoll_report::analysis::frame::Frame;
use plimsoll_report::analysis::gauges::gauge;

/// Columns of the chart in `area`, beside the panels of `view`; None if it is too small.
pub fn columns_in(area: Rect, view: &View) -> Option<usize> {
    Place::of(area, &view.panels).map(|place| usize::from(place.layout.chart.width))
}

/// Adapts the view to a screen of `area`, before a frame and the actions on it.
pub fn settle(view: &mut View, area: Rect) {
    view.rows_of_text = rows_inside(area);
    view.columns_of_text = columns_inside(area);
    view.panels.fits = place::fits(area);
    let Some(place) = Place::of(area, &view.panels) else {
        return;
    };
    view.width = usize::from(place.layout.chart.width);
    if let Some(list) = place.list {
        view.panels.rows = rows_in(list);
    }
}

/// Draws the main screen into the whole of `buffer`.
pub fn draw(buffer: &mut Buffer, theme: &Theme, view: &View, snapshot: &Snapshot) {
    let area = *buffer.area();
    let Some(place) = Place::of(area, &view.panels) else {
        draw_too_small(buffer, theme, area);
        return;
    };
    let layout = with_pagers(place.layout, snapshot);
    let displayed = frame_of(view, snapshot);
    let displayed = displayed.as_ref();
    draw_header(buffer, theme, &layout, view, snapshot, displayed);
    draw_chart(buffer, theme, &layout, view, snapshot);
    draw_pagers(buffer, theme, &layout, snapshot, displayed);
    draw_swap(buffer, theme, &layout, snapshot, displayed);
    for &(strip, area) in &layout.strips {
        draw_strip(buffer, theme, &layout, (strip, area), snapshot, displayed);
    }
    draw_axis(buffer, theme, &layout, snapshot);
    draw_marks(buffer, theme, &layout, view, snapshot);
    draw_lines(buffer, theme, &layout, view, snapshot);
    draw_legend(buffer, theme, &layout, view, snapshot, displayed);
    if let Some(area) = place.list {
        let past = view.cursor.is_some() || (view.anchor.is_some() && !view.frozen);
        draw_list(buffer, theme, area, &view.panels, snapshot, past);
    }
    if let Some(area) = place.changes {
        draw_changes(buffer, theme, area, snapshot);
    }
    draw_status(buffer, theme, &layout, view, snapshot);
    draw_keys(buffer, theme, layout.keys);
    if let Some(overlay) = &view.overlay {
        draw_overlay(buffer, theme, overlay, snapshot);
    }
}

/// The frame of the displayed values: at the cursor, at the right edge of a scrolled view, or the newest.
fn frame_of(view: &View, snapshot: &Snapshot) -> Option<Frame> {
    let Some(at) = view.cursor.or(view.anchor) else {
        return snapshot.newest;
    };
    let place = snapshot.column_of(at)?;
    snapshot.columns[place].map(|bucket| bucket.mean)
}

fn draw_too_small(buffer: &mut Buffer, theme: &Theme, area: Rect) {
    let (width, height) = LEAST;
    let text = format!(
        "terminal too small ({}x{}), needs {width}x{height}",
        area.width, area.height
    );
    // On very narrow screens it continues in the next line.
    let letters: Vec<char> = text.chars().collect();
    for (row, line) in letters.chunks(usize::from(area.width.max(1))).enumerate() {
        if row < usize::from(area.height) {
            let line: String = line.iter().collect();
            let place = Rect::new(area.x, area.y + row as u16, area.width, 1);
            put(buffer, theme, place, &line, Style::new());
        }
    }
}

/// Part of a line: text, style, and rank for omission if the line is too long (the greatest first).
type Piece = (String, Style, u8);

/// Draws as many pieces as fit, two cells apart.
fn draw_pieces(buffer: &mut Buffer, theme: &Theme, area: Rect, mut pieces: Vec<Piece>) {
    let width = |pieces: &[Piece]| -> usize { pieces.iter().map(|(text, ..)| text.width() + 2).sum() };
    while width(&pieces) > usize::from(area.width) + 1 {
        let last = pieces.iter().map(|(.., order)| *order).max().unwrap_or(0);
        if last == 0 {
            break;
        }
        // Omit the rightmost of the pieces with the greatest rank.
        if let Some(place) = pieces.iter().rposition(|(.., order)| *order == last) {
            pieces.remove(place);
        }
    }
    let mut x = area.x;
    for (text, style, _) in pieces {
        let left = Rect::new(x, area.y, area.right().saturating_sub(x), 1);
        x = put(buffer, theme, left, &text, style).saturating_add(2);
    }
}

fn draw_header(
    buffer: &mut Buffer,
    theme: &Theme,
    layout: &Layout,
    view: &View,
    snapshot: &Snapshot,
    displayed: Option<&Frame>,
) {
    let plain = Style::new();
    let gauge = |index| displayed.and_then(|frame| frame.gauge(index));
    let mut pieces: Vec<Piece> = vec![("plimsoll".to_owned(), theme.ink(Ink::Strong), 6)];
    let room = usize::from(layout.header.width / 3);
    let (title, style) = match &snapshot.target {
        None => ("all processes".to_owned(), theme.ink(Ink::Dim)),
        Some(target) => {
            let mut words = in_cells(&target.title, theme.unicode);
            let more = match &target.ended {
                Some(ended) => format!(
                    " ({})",
                    fit(&in_cells(ended, theme.unicode), room / 2, theme.unicode)
                ),
                None if target.unread > 0 => format!(" (+{} unread)", target.unread),
                None => String::new(),
            };
            // A long name must not cut off how the target ended.
            words = fit(&words, room.saturating_sub(more.width()), theme.unicode) + &more;
            let ink = if target.ended.is_some() {
                Ink::Warning
            } else {
                Ink::Strong
            };
            (words, theme.ink(ink))
        }
    };
    pieces.push((title, style, 0));
    let symbol = if theme.unicode { "\u{b1}" } else { "+-" };
    let late = snapshot.late_ms.filter(|_| view.cursor.or(view.anchor).is_none());
    let late = late.map_or_else(String::new, |late| format!(" {symbol}{late:.1}ms"));
    pieces.push((format!("{} Hz{late}", snapshot.facts.hz), plain, 2));
    if let Some(own) = gauge(gauge::SELF_CPU) {
        pieces.push((format!("self {}", numbers::share_of_cpu(own)), plain, 4));
    }
    pieces.extend(states(theme, view, snapshot));
    if let Some(some) = gauge(gauge::MEMORY_SOME) {
        let full = gauge(gauge::MEMORY_FULL).unwrap_or(0.0);
        let ink = match some {
            ..1.0 => Ink::Plain,
            1.0..10.0 => Ink::Warning,
            _ => Ink::Alarm,
        };
        let words = format!(
            "PSI mem some {} full {}",
            numbers::percent(some),
            numbers::percent(full)
        );
        pieces.push((words, theme.ink(ink), 1));
    }
    let column = numbers::duration(snapshot.column_ns);
    pieces.push((format!("{column}/col"), theme.ink(Ink::Dim), 3));
    draw_pieces(buffer, theme, layout.header, pieces);
}

/// Source of the frames, state of the recording, and whether the view moves.
fn states(theme: &Theme, view: &View, snapshot: &Snapshot) -> Vec<Piece> {
    let status = &snapshot.status;
    let mut pieces = Vec::new();
    let dot = if theme.unicode { "\u{25cf} " } else { "" };
    match (status.replay, &status.recording) {
        (true, _) => pieces.push(("REPLAY".to_owned(), theme.ink(Ink::Accent), 0)),
        (_, Some(_)) => pieces.push((format!("{dot}REC"), theme.ink(Ink::Alarm), 0)),
        _ => pieces.push(("LIVE".to_owned(), theme.ink(Ink::Accent), 0)),
    }
    if status.ended.is_some() && !status.replay {
        pieces.push(("ENDED".to_owned(), theme.ink(Ink::Warning), 0));
    }
    if view.frozen {
        pieces.push(("FROZEN".to_owned(), theme.ink(Ink::Warning), 0));
    }
    if let Some(anchor) = view.anchor {
        let ago = snapshot.edge_ns.saturating_sub(anchor) / 1_000_000_000 * 1_000_000_000;
        if ago > 0 {
            pieces.push((format!("-{}", numbers::duration(ago)), theme.ink(Ink::Warning), 0));
        }
    }
    if !view.mouse {
        pieces.push(("mouse off".to_owned(), theme.ink(Ink::Dim), 5));
    }
    if view.share {
        pieces.push(("SHARE".to_owned(), theme.ink(Ink::Accent), 5));
    }
    pieces
}

fn draw_status(buffer: &mut Buffer, theme: &Theme, layout: &Layout, view: &View, snapshot: &Snapshot) {
    let (text, ink) = status_line(view, snapshot);
    put(buffer, theme, layout.status, &text, theme.ink(ink));
}

/// The most important status: cursor position, running request, error, or last message.
fn status_line(view: &View, snapshot: &Snapshot) -> (String, Ink) {
    if let Some(cursor) = view.cursor {
        let ago = snapshot.edge_ns.saturating_sub(cursor);
        let column = snapshot.column_of(cursor);
        let marks = snapshot
            .marks
            .iter()
            .filter(|mark| snapshot.column_of(mark.t_ns) == column);
        let marks: Vec<String> = marks
            .map(|mark| {
                format!("{} {}", mark.kind.symbol(), mark.text)
                    .trim_end()
                    .to_owned()
            })
            .collect();
        let marks = if marks.is_empty() {
            String::new()
        } else {
            format!(": {}", marks.join("; "))
        };
        let at = format!(
            "{} ago{marks}   (Esc: back to now)",
            numbers::duration(ago / 100_000_000 * 100_000_000)
        );
        return (at, Ink::Accent);
    }
    if let Some(busy) = &snapshot.status.busy {
        return (format!("{busy} ..."), Ink::Accent);
    }
    if let Some(message) = &snapshot.message {
        let ink = match message.level {
            Level::Info => Ink::Plain,
            Level::Warning => Ink::Warning,
            Level::Error => Ink::Alarm,
        };
        return (message.text.clone(), ink);
    }
    if let Some(error) = snapshot.target.as_ref().and_then(|target| target.error.clone()) {
        return (error, Ink::Warning);
    }
    if let Some(unlocked) = &snapshot.status.unlocked {
        return (unlocked.clone(), Ink::Warning);
    }
    if snapshot.span.is_none() {
        return ("waiting for the first sample ...".to_owned(), Ink::Dim);
    }
    (String::new(), Ink::Plain)
}

/// Draws the keys that fit, always with help and quit; an ellipsis stands for the others, which `?` lists.
fn draw_keys(buffer: &mut Buffer, theme: &Theme, area: Rect) {
    let keys_of = |hint: &action::Hint| if theme.unicode { hint.keys } else { hint.ascii };
    let hints: Vec<(&str, &str)> = action::HINTS
        .iter()
        .filter(|hint| !hint.short.is_empty())
        .map(|hint| (keys_of(hint), hint.short))
        .collect();
    let width = |(keys, short): &(&str, &str)| (keys.width() + 1 + short.width()) as u16;
    let mut x = area.x;
    for (place, hint) in hints.iter().enumerate() {
        let (keys, short) = hint;
        // Room for the ellipsis, unless this is the last one.
        let more = if place + 1 < hints.len() { 3 } else { 0 };
        if area.right().saturating_sub(x) < width(hint) + more {
            let symbol = ellipsis(theme.unicode).to_string();
            put(
                buffer,
                theme,
                Rect::new(x, area.y, 1, 1),
                &symbol,
                theme.ink(Ink::Dim),
            );
            return;
        }
        let accent = theme.ink(Ink::Accent).add_modifier(Modifier::BOLD);
        let rest = |x: u16| Rect::new(x, area.y, area.right().saturating_sub(x), 1);
        x = put(buffer, theme, rest(x), keys, accent) + 1;
        x = put(buffer, theme, rest(x), short, theme.ink(Ink::Dim)) + 2;
    }
}
