//! Layout of the main screen.

use ratatui::layout::Rect;

use super::strip::{STRIPS, Strip};

/// Smallest screen: columns, rows.
pub const LEAST: (u16, u16) = (40, 16);

/// Width of the numbers on the y axis, with the line beside them.
pub(super) const AXIS_WIDTH: u16 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Names and numbers, without shares.
    Least,
    Bare,
    /// Also the explanation of a number, abbreviated.
    Short,
    /// Also the explanation of a number.
    Full,
}

impl Detail {
    /// Width of the legend in cells.
    fn width(self) -> u16 {
        match self {
            Detail::Least => 20,
            Detail::Bare => 24,
            Detail::Short => 35,
            Detail::Full => 46,
        }
    }

    pub(super) fn explains(self) -> bool {
        matches!(self, Detail::Short | Detail::Full)
    }
}

/// Areas of the main screen. Chart, axis, marks, swap and strips have the same columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    /// Target and state.
    pub(super) header: Rect,
    pub(super) chart: Rect,
    pub(super) axis: Rect,
    /// Marks and the cursor, with their labels.
    pub(super) marks: Rect,
    /// Pages of pagers by state, if there is a pager and room.
    pub(super) pagers: Option<Rect>,
    pub(super) swap: Rect,
    /// Strips that fit.
    pub(super) strips: Vec<(&'static Strip, Rect)>,
    pub(super) status: Rect,
    pub(super) keys: Rect,
    /// First column of the legend.
    pub(super) legend_x: u16,
    /// Width of the legend in cells.
    pub(super) legend_width: u16,
    pub(super) detail: Detail,
}

impl Layout {
    /// The layout of `area`; None if it is too small.
    pub(super) fn of(area: Rect) -> Option<Layout> {
        if area.width < LEAST.0 || area.height < LEAST.1 {
            return None;
        }
        let detail = match area.width {
            ..60 => Detail::Least,
            60..76 => Detail::Bare,
            76..110 => Detail::Short,
            110.. => Detail::Full,
        };
        let width = area.width - AXIS_WIDTH - detail.width() - 1;
        let swap_height = match area.height {
            ..20 => 1,
            20..30 => 2,
            30..45 => 3,
            45.. => 5,
        };
        let shown: Vec<&Strip> = STRIPS
            .iter()
            .filter(|strip| area.height >= strip.from_height)
            .collect();
        let strip_height = if area.height >= 50 { 2 } else { 1 };
        let fixed = 5 + swap_height + strip_height * shown.len() as u16;
        let mut y = area.y;
        let mut rows = |height: u16| {
            let row = Rect::new(area.x, y, area.width, height);
            y += height;
            row
        };
        let columns = |row: Rect| Rect::new(row.x + AXIS_WIDTH, row.y, width, row.height);
        Some(Layout {
            header: rows(1),
            chart: columns(rows(area.height - fixed)),
            axis: columns(rows(1)),
            marks: columns(rows(1)),
            pagers: None,
            swap: columns(rows(swap_height)),
            strips: shown
                .into_iter()
                .map(|strip| (strip, columns(rows(strip_height))))
                .collect(),
            status: rows(1),
            keys: rows(1),
            legend_x: area.x + AXIS_WIDTH + width + 1,
            legend_width: detail.width(),
            detail,
        })
    }

    /// The row of the legend at `y`, without its first `indent` cells.
    pub(super) fn legend_row(&self, y: u16, indent: u16) -> Rect {
        Rect::new(
            self.legend_x + indent,
            y,
            self.legend_width.saturating_sub(indent),
            1,
        )
    }
}
