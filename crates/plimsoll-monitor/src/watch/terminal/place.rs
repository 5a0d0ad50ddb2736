//! Places of the panels on the screen: beside the chart on a wide one, below it on others.

use ratatui::layout::Rect;

use super::layout::{LEAST, Layout};
use super::panels::Panels;

/// From this width on, panels stand beside the chart.
const BESIDE: u16 = 150;
/// Widths of the panels beside the chart.
const WIDTHS: std::ops::RangeInclusive<u16> = 50..=72;
/// Heights of the panels below the chart.
const HEIGHTS: std::ops::RangeInclusive<u16> = 6..=18;
/// From this width on, two panels below the chart stand side by side.
const TWO_BELOW: u16 = 120;
/// From this height on, two panels beside the chart stand one above the other.
const TWO_BESIDE: u16 = 18;
/// Smallest screen on which `watch` shows the list of processes from its start.
const ROOMY: (u16, u16) = (110, 32);

/// Smallest screen with a panel.
pub(super) const LEAST_WITH_PANEL: (u16, u16) = (LEAST.0, LEAST.1 + *HEIGHTS.start());

/// The layout of a screen with panels.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub(super) layout: Layout,
    pub(super) list: Option<Rect>,
    pub(super) changes: Option<Rect>,
}

/// Whether a panel fits beside or below the chart.
pub(super) fn fits(area: Rect) -> bool {
    area.width >= LEAST_WITH_PANEL.0 && area.height >= LEAST_WITH_PANEL.1
}

/// Whether a panel leaves enough of the chart to be shown from the start.
pub(super) fn is_roomy(area: Rect) -> bool {
    area.width >= ROOMY.0 && area.height >= ROOMY.1
}

impl Place {
    /// The places on `area`; None if it is too small for the chart. A panel that does not fit has no place; of two
    /// panels where one fits, the changes have it, as the key that hides them is their own.
    pub(super) fn of(area: Rect, panels: &Panels) -> Option<Place> {
        let whole = Layout::of(area)?;
        let without = |layout| Place {
            layout,
            list: None,
            changes: None,
        };
        if !panels.any() || !fits(area) {
            return Some(without(whole));
        }
        let (inner, panel) = split(area);
        let mut layout = Layout::of(inner)?;
        // These lines keep the width and the last rows of the screen.
        (layout.header, layout.status, layout.keys) = (whole.header, whole.status, whole.keys);
        let mut place = without(layout);
        match (panels.list.is_some(), panels.changes) {
            (true, true) => {
                let (list, changes) = halves(panel, area.width >= BESIDE);
                (place.list, place.changes) = (list, Some(changes));
            }
            (true, false) => place.list = Some(panel),
            (false, _) => place.changes = Some(panel),
        }
        Some(place)
    }
}

/// Divides the screen into the chart with its lines, and the panels.
fn split(area: Rect) -> (Rect, Rect) {
    if area.width >= BESIDE {
        let width = (area.width / 3).clamp(*WIDTHS.start(), *WIDTHS.end());
        let inner = Rect::new(area.x, area.y, area.width - width - 2, area.height);
        // Between the header and the two last lines.
        let panel = Rect::new(area.right() - width, area.y + 1, width, area.height - 3);
        return (inner, panel);
    }
    let height = (area.height / 3).clamp(*HEIGHTS.start(), *HEIGHTS.end());
    let height = height.min(area.height - LEAST.1);
    let inner = Rect::new(area.x, area.y, area.width, area.height - height);
    let panel = Rect::new(area.x, inner.bottom() - 2, area.width, height);
    (inner, panel)
}

/// Divides the panels' area for the list and the changes. None for the list if only one fits.
fn halves(area: Rect, beside: bool) -> (Option<Rect>, Rect) {
    if beside && area.height >= TWO_BESIDE {
        let upper = area.height / 2;
        let list = Rect::new(area.x, area.y, area.width, upper);
        let changes = Rect::new(area.x, area.y + upper + 1, area.width, area.height - upper - 1);
        return (Some(list), changes);
    }
    if !beside && area.width >= TWO_BELOW {
        let left = area.width / 2;
        let list = Rect::new(area.x, area.y, left, area.height);
        let changes = Rect::new(area.x + left + 2, area.y, area.width - left - 2, area.height);
        return (Some(list), changes);
    }
    (None, area)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::terminal::ranking::Listed;

    /// On every size the parts of the screen are inside it and do not overlap.
    #[test]
    fn parts_are_on_the_screen_and_apart_at_every_size() {
        for (width, height) in (40..260).flat_map(|width| (10..80).map(move |height| (width, height))) {
            for (list, changes) in [
                (None, true),
                (Some(Listed::Processes), false),
                (Some(Listed::Cgroups), true),
            ] {
                let mut panels = Panels::default();
                (panels.list, panels.changes) = (list, changes);
                let area = Rect::new(0, 0, width, height);
                let Some(place) = Place::of(area, &panels) else {
                    assert!(width < LEAST.0 || height < LEAST.1);
                    continue;
                };
                let layout = &place.layout;
                let mut parts = vec![
                    layout.header,
                    layout.chart,
                    layout.axis,
                    layout.marks,
                    layout.swap,
                    layout.status,
                ];
                parts.extend(layout.strips.iter().map(|(_, area)| *area));
                parts.push(layout.keys);
                parts.push(Rect::new(layout.legend_x, layout.chart.y, layout.legend_width, 1));
                parts.extend(place.list.into_iter().chain(place.changes));
                for (index, part) in parts.iter().enumerate() {
                    assert_eq!(part.intersection(area), *part, "{width}x{height}: inside");
                    for other in &parts[index + 1..] {
                        assert!(!part.intersects(*other), "{width}x{height}: {part:?} {other:?}");
                    }
                }
                assert_eq!(place.list.is_some() || place.changes.is_some(), fits(area));
            }
        }
    }
}
