//! Text on the screen, including untrusted text such as process names: the one place that writes it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::theme::Theme;
use crate::cells::{fit, in_cells};

/// Writes `text` into the first row of `area`, which the screen bounds. A text that does not fit ends with an ellipsis.
/// Returns the column after the text.
///
/// Invariant: all text of the terminal goes through this function, so none is clipped without an ellipsis. Checked by
/// `every_text_stands_whole_or_ends_with_an_ellipsis` and `only_one_function_writes_text`.
pub(super) fn put(buffer: &mut Buffer, theme: &Theme, area: Rect, text: &str, style: Style) -> u16 {
    let area = area.intersection(*buffer.area());
    if area.is_empty() {
        return area.x;
    }
    let text = in_cells(text, theme.unicode);
    let shown = fit(&text, usize::from(area.width), theme.unicode);
    #[cfg(test)]
    super::tests::wrote(area, &text);
    buffer
        .set_stringn(area.x, area.y, shown, usize::from(area.width), style)
        .0
}

/// Wraps lines at spaces to `width` cells and indents continuations. Splits words that are longer than a line.
pub(super) fn wrapped(lines: &[String], width: u16) -> Vec<String> {
    const INDENT: &str = "  ";
    let width = usize::from(width).max(INDENT.len() + 2);
    let mut wrapped = Vec::new();
    for line in lines {
        let mut row = String::new();
        let mut empty = true;
        for word in line.split(' ') {
            if !empty && row.width() + 1 + word.width() > width {
                wrapped.push(std::mem::replace(&mut row, INDENT.to_owned()));
            } else if !empty {
                row.push(' ');
            }
            for letter in word.chars() {
                if row.width() + letter.width().unwrap_or(0) > width {
                    wrapped.push(std::mem::replace(&mut row, INDENT.to_owned()));
                }
                row.push(letter);
            }
            empty = false;
        }
        wrapped.push(row);
    }
    wrapped
}
