//! The row of marks below the time axis: their symbols, their labels, and the cursor.
//!
//! Each mark has the column of its time, and its label the cells up to the next mark: neither overwrites a time of the
//! axis, nor another mark or label.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::layout::Layout;
use super::snapshot::Snapshot;
use super::theme::{Ink, Theme};
use super::view::View;
use super::words::put;
use crate::watch::state::{Mark, MarkKind};

/// Least width of a label: shorter ones say nothing.
const LEAST_LABEL: u16 = 3;
/// Greatest width of a label: the status line has the whole text of a mark at the cursor.
const MOST_LABEL: u16 = 32;

/// The marks of one column.
#[derive(Debug, PartialEq)]
struct Place<'a> {
    column: usize,
    /// The first of the marks in the order of [`rank`]; None for the cursor alone.
    mark: Option<&'a Mark>,
    /// Number of other marks in this column.
    others: usize,
}

/// Draws the marks, and the cursor, below the columns of their times.
pub(super) fn draw_marks(
    buffer: &mut Buffer,
    theme: &Theme,
    layout: &Layout,
    view: &View,
    snapshot: &Snapshot,
) {
    let area = layout.marks;
    let cursor = view.cursor.and_then(|cursor| snapshot.column_of(cursor));
    let places = places(snapshot, cursor);
    for (index, place) in places.iter().enumerate() {
        let x = area.x + place.column as u16;
        let end = places
            .get(index + 1)
            .map_or(area.right(), |next| area.x + next.column as u16 - 1);
        let at_cursor = cursor == Some(place.column);
        let (symbol, ink) = match place.mark {
            Some(mark) => (mark.kind.symbol(), mark_ink(mark.kind)),
            None => (if theme.unicode { '\u{25b2}' } else { '^' }, Ink::Accent),
        };
        let ink = if at_cursor { Ink::Accent } else { ink };
        buffer[(x, area.y)].set_char(symbol).set_style(theme.ink(ink));
        let width = end.saturating_sub(x + 2).min(MOST_LABEL);
        if width >= LEAST_LABEL {
            let label = Rect::new(x + 2, area.y, width, 1);
            put(buffer, theme, label, &label_of(place), theme.ink(Ink::Dim));
        }
    }
}

fn label_of(place: &Place<'_>) -> String {
    let text = place.mark.map_or("", |mark| mark.text.as_str());
    match place.others {
        0 => text.to_owned(),
        others => format!("{text} +{others}").trim_start().to_owned(),
    }
}

/// The occupied columns from left to right.
fn places(snapshot: &Snapshot, cursor: Option<usize>) -> Vec<Place<'_>> {
    let mut places: Vec<Place<'_>> = Vec::new();
    for mark in &snapshot.marks {
        let Some(column) = snapshot.column_of(mark.t_ns) else {
            continue;
        };
        match places.last_mut() {
            Some(place) if place.column == column => {
                place.others += 1;
                let first = place.mark.is_none_or(|first| rank(mark.kind) < rank(first.kind));
                if first {
                    place.mark = Some(mark);
                }
            }
            _ => places.push(Place {
                column,
                mark: Some(mark),
                others: 0,
            }),
        }
    }
    if let Some(column) = cursor
        && let Err(at) = places.binary_search_by_key(&column, |place| place.column)
    {
        let mark = None;
        places.insert(
            at,
            Place {
                column,
                mark,
                others: 0,
            },
        );
    }
    places
}

/// Order of the marks of one column: the user's own and the phases of a run first.
fn rank(kind: MarkKind) -> u8 {
    match kind {
        MarkKind::Number(_) | MarkKind::Note | MarkKind::Trim | MarkKind::Release => 0,
        MarkKind::FaultStorm => 1,
        MarkKind::Target | MarkKind::PageFlags => 2,
        MarkKind::Event => 3,
    }
}

pub(super) fn mark_ink(kind: MarkKind) -> Ink {
    match kind {
        MarkKind::Number(_) | MarkKind::Note | MarkKind::PageFlags => Ink::Accent,
        MarkKind::Trim | MarkKind::Release | MarkKind::Target => Ink::Warning,
        MarkKind::FaultStorm | MarkKind::Event => Ink::Alarm,
    }
}
