//! Boxes over the main screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

use super::theme::{Ink, Theme};
use super::words::put;

/// Rows of text that fit into a box.
pub(super) fn rows_inside(page: Rect) -> usize {
    usize::from(page.height.saturating_sub(4))
}

/// Cells of a row of text in a box.
pub(super) fn columns_inside(page: Rect) -> u16 {
    page.width.saturating_sub(6)
}

/// A row of a box or panel.
pub(super) fn row_of(area: Rect, row: u16) -> Rect {
    Rect::new(area.x, area.y + row, area.width, 1)
}

/// Clears a centred box, draws its border with the titles above and below, and returns its inner area.
pub(super) fn boxed(
    buffer: &mut Buffer,
    theme: &Theme,
    (title, below): (&str, &str),
    width: u16,
    height: u16,
) -> Rect {
    let page = *buffer.area();
    let width = width
        .max(title.width().max(below.width()) as u16 + 2)
        .min(page.width - 6);
    let height = height.min(page.height - 4);
    #[cfg(test)]
    super::tests::covered();
    let outer = Rect::new(
        page.x + (page.width - width - 4) / 2,
        page.y + (page.height - height - 2) / 2,
        width + 4,
        height + 2,
    );
    let [across, down, corners @ ..] = match theme.unicode {
        true => [
            '\u{2500}', '\u{2502}', '\u{256d}', '\u{256e}', '\u{2570}', '\u{256f}',
        ],
        false => ['-', '|', '+', '+', '+', '+'],
    };
    let frame = theme.ink(Ink::Accent);
    for y in outer.y..outer.bottom() {
        for x in outer.x..outer.right() {
            buffer[(x, y)].reset();
            let edge_y = y == outer.y || y == outer.bottom() - 1;
            let edge_x = x == outer.x || x == outer.right() - 1;
            if edge_y || edge_x {
                let symbol = if edge_y { across } else { down };
                buffer[(x, y)].set_char(symbol).set_style(frame);
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
        buffer[(x, y)].set_char(corner).set_style(frame);
    }
    // The space at the end is not part of the text: an ellipsis stands before it.
    let mut on_edge = |y: u16, text: &str, style: Style| {
        buffer[(outer.x + 2, y)].set_char(' ');
        let room = Rect::new(outer.x + 3, y, outer.width - 6, 1);
        let end = put(buffer, theme, room, text, style);
        buffer[(end, y)].set_char(' ');
    };
    on_edge(outer.y, title, frame);
    on_edge(bottom, below, theme.ink(Ink::Dim));
    Rect::new(outer.x + 2, outer.y + 1, width, height)
}
