//! Actions of the mouse, by the part of the screen under it.

use ratatui::layout::{Position, Rect};

use super::action::{Action, Mode};
use super::list::{Part, part_at};
use super::mouse::{Gesture, Mouse};
use super::place::Place;
use super::snapshot::Snapshot;
use super::view::View;

/// Rows of a list that a step of the wheel moves.
const WHEEL: i16 = 3;

/// The action of a mouse event on a screen of `area` that shows `snapshot`.
pub fn pointed(mouse: Mouse, area: Rect, view: &View, snapshot: &Snapshot) -> Option<Action> {
    match view.mode() {
        Mode::Page => {}
        Mode::Reading | Mode::Picking | Mode::Tree => {
            return match mouse.gesture {
                Gesture::WheelUp => Some(Action::Up),
                Gesture::WheelDown => Some(Action::Down),
                _ => None,
            };
        }
        Mode::Asking | Mode::Typing => return None,
    }
    let place = Place::of(area, &view.panels)?;
    let at = Position::new(mouse.column, mouse.row);
    if let Some(list) = place.list.filter(|list| list.contains(at)) {
        return on_list(mouse, list, view, snapshot);
    }
    let chart = place.layout.chart;
    let charts = [chart, place.layout.axis, place.layout.marks, place.layout.swap];
    let strips = place.layout.strips.iter().map(|(_, strip)| *strip);
    if !charts.into_iter().chain(strips).any(|area| area.contains(at)) {
        return None;
    }
    Some(match mouse.gesture {
        Gesture::Press | Gesture::Drag => Action::CursorTo(usize::from(mouse.column - chart.x)),
        Gesture::WheelUp => Action::ZoomIn,
        Gesture::WheelDown => Action::ZoomOut,
        Gesture::WheelLeft => Action::Back,
        Gesture::WheelRight => Action::Forward,
    })
}

fn on_list(mouse: Mouse, list: Rect, view: &View, snapshot: &Snapshot) -> Option<Action> {
    match mouse.gesture {
        Gesture::WheelUp => Some(Action::MoveRow(-WHEEL)),
        Gesture::WheelDown => Some(Action::MoveRow(WHEEL)),
        Gesture::Press => Some(
            match part_at(list, &view.panels, snapshot, mouse.column, mouse.row)? {
                Part::Row(_, true) => Action::WatchRow,
                Part::Row(place, false) => Action::SelectRow(place),
                Part::Heading(sort) => Action::SortBy(sort),
            },
        ),
        Gesture::Drag | Gesture::WheelLeft | Gesture::WheelRight => None,
    }
}
