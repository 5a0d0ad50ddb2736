//! Text in terminal cells, including untrusted text such as process names.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use plimsoll_model::sanitize::sanitize;

/// [`sanitize`]s `text` and removes zero-width characters: a terminal may draw an accent over a neighbouring cell, or a
/// variant wider than reported. Without `unicode`, each non-ASCII character becomes a question mark.
pub(super) fn in_cells(text: &str, unicode: bool) -> String {
    let letters = sanitize(text);
    let letters = letters.chars().filter(|letter| letter.width() != Some(0));
    letters
        .map(|letter| if unicode || letter.is_ascii() { letter } else { '?' })
        .collect()
}

/// `text` in at most `width` cells, with a mark for a cut.
pub(super) fn fit(text: &str, width: usize, unicode: bool) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let sign = if unicode { '\u{2026}' } else { '~' };
    let mut fitted = String::new();
    let mut used = 1;
    for letter in text.chars() {
        used += letter.width().unwrap_or(0);
        if used > width {
            break;
        }
        fitted.push(letter);
    }
    if width > 0 {
        fitted.push(sign);
    }
    fitted
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
