//! Text in terminal cells, of the list of processes and of the monitor: the one place that cuts text.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use plimsoll_model::sanitize::sanitize;

/// [`sanitize`]s `text` and removes zero-width characters: a terminal may draw an accent over a neighbouring cell, or a
/// variant wider than reported. Without `unicode`, each non-ASCII character becomes a question mark.
pub(crate) fn in_cells(text: &str, unicode: bool) -> String {
    let letters = sanitize(text);
    let letters = letters.chars().filter(|letter| letter.width() != Some(0));
    letters
        .map(|letter| if unicode || letter.is_ascii() { letter } else { '?' })
        .collect()
}

/// The mark of a cut.
pub(crate) fn ellipsis(unicode: bool) -> char {
    if unicode { '\u{2026}' } else { '~' }
}

/// `text` in at most `width` cells, with a mark at its end in place of a part that does not fit.
pub(crate) fn fit(text: &str, width: usize, unicode: bool) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
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
        fitted.push(ellipsis(unicode));
    }
    fitted
}

/// The end of `text` in at most `width` cells, with a mark at its start in place of a part that does not fit.
pub(crate) fn fit_end(text: &str, width: usize, unicode: bool) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut rest = text.chars();
    while rest.as_str().width() + 1 > width && rest.next().is_some() {}
    if width == 0 {
        return String::new();
    }
    format!("{}{}", ellipsis(unicode), rest.as_str())
}

/// `text` in exactly `width` cells: cut as by [`fit`], or filled with spaces.
pub(crate) fn padded(text: &str, width: usize, unicode: bool) -> String {
    let mut padded = fit(text, width, unicode);
    padded.extend(std::iter::repeat_n(' ', width.saturating_sub(padded.width())));
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_never_splits_a_double_width_character_and_always_leaves_a_mark() {
        assert_eq!(fit("\u{4e2d}\u{6587}", 4, true), "\u{4e2d}\u{6587}");
        assert_eq!(fit("\u{4e2d}\u{6587}", 3, true), "\u{4e2d}\u{2026}");
        assert_eq!(fit("\u{4e2d}\u{6587}", 2, true), "\u{2026}");
        assert_eq!(fit("\u{4e2d}\u{6587}", 0, true), "");
        assert_eq!(fit("redis", 3, false), "re~");
        assert_eq!(fit_end("\u{4e2d}\u{6587}", 3, true), "\u{2026}\u{6587}");
        assert_eq!(fit_end("/var/tmp/night", 6, true), "\u{2026}night");
        assert_eq!(fit_end("redis", 0, true), "");
        assert_eq!(padded("\u{4e2d}", 4, true), "\u{4e2d}  ");
        assert_eq!(padded("\u{4e2d}\u{6587}", 3, true).width(), 3);
    }
}
