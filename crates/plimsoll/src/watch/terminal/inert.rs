//! Text of others, such as names of processes, that must not act on the terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// `text` with everything replaced that a terminal could take for more than a sign: control characters, what turns the
/// direction of writing, what has no width. Where `unicode` is false, all that is not ASCII too.
pub(super) fn inert(text: &str, unicode: bool) -> String {
    text.chars()
        .map(|letter| match letter {
            ' '..='~' => letter,
            _ if !unicode => '?',
            _ if letter.is_control() || letter.width().unwrap_or(0) == 0 => '\u{fffd}',
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            _ => letter,
        })
        .collect()
}

/// `text` in at most `width` cells; what is cut off is shown to be.
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
