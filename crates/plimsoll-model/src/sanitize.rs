//! Text of others (names, command lines) made harmless to show.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` with U+FFFD for every character that a terminal would obey rather than show: control characters (escape
/// sequences begin with one), line and paragraph separators, and those that are invisible or turn the direction of
/// writing. The result is one line.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    sanitize_but(text, |_| false)
}

/// As [`sanitize`], for a text of several lines: line feeds and tabs stay.
pub fn sanitize_lines(text: &str) -> Cow<'_, str> {
    sanitize_but(text, |letter| matches!(letter, '\n' | '\t'))
}

fn sanitize_but(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let replaced = |letter: char| acts(letter) && !stays(letter);
    if !text.chars().any(replaced) {
        return Cow::Borrowed(text);
    }
    let safe = |letter| if replaced(letter) { '\u{fffd}' } else { letter };
    Cow::Owned(text.chars().map(safe).collect())
}

/// As [`sanitize_lines`], for a text with colours of our own: escape sequences that choose a colour or a weight
/// (`ESC [ 1;31 m`) stay as well. The texts of others in it must have been sanitized before the colours were added.
pub fn sanitize_styled(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return sanitize_lines(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        safe.push_str(&sanitize_lines(&rest[..at]));
        rest = &rest[at..];
        let length = style_length(rest);
        match length {
            0 => safe.push('\u{fffd}'),
            length => safe.push_str(&rest[..length]),
        }
        rest = &rest[length.max(1)..];
    }
    safe.push_str(&sanitize_lines(rest));
    Cow::Owned(safe)
}

/// Bytes of the style sequence that `text` begins with; 0 if it begins with none.
fn style_length(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let end = parameters.find(|letter: char| !letter.is_ascii_digit() && letter != ';');
    match end {
        Some(end) if parameters[end..].starts_with('m') => "\u{1b}[".len() + end + 1,
        _ => 0,
    }
}

/// The first `most` characters of a text, with an ellipsis in place of the rest.
pub fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}\u{2026}", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// A JSON document in which no character acts on a terminal. Such characters stand in strings only, where an escape
/// means the same; those below U+0020 every writer of JSON has escaped already.
pub fn sanitize_json(json: &str) -> Cow<'_, str> {
    let laid_out = |letter| matches!(letter, '\n' | '\t' | '\r');
    if !json.chars().any(|letter| acts(letter) && !laid_out(letter)) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if acts(letter) && !laid_out(letter) {
            // Beyond the first plane a character is two escapes in JSON.
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(letter);
        }
    }
    Cow::Owned(safe)
}

/// Whether a character is obeyed, or takes part without being seen. Marks that belong to a letter, such as accents and
/// vowel signs, and the choice of a letter's variant are writing, and stay.
fn acts(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_controls_are_replaced() {
        assert_eq!(sanitize("redis-server *:6379"), "redis-server *:6379");
        assert!(matches!(sanitize("größe 大"), Cow::Borrowed(_)));
        assert_eq!(
            sanitize("a\x1b[2Jb\r\n\u{9b}31mc\x7f"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}\u{fffd}31mc\u{fffd}"
        );
        assert_eq!(
            sanitize("a\u{115f}\u{e0041}e\u{301}"),
            "a\u{fffd}\u{fffd}e\u{301}"
        );
        assert_eq!(sanitize("a\u{202e}gpj.exe\u{2028}"), "a\u{fffd}gpj.exe\u{fffd}");
    }

    #[test]
    fn lines_and_our_own_styles_stay() {
        assert_eq!(sanitize_lines("a\tb\n\x1b[1m\r"), "a\tb\n\u{fffd}[1m\u{fffd}");
        assert!(matches!(sanitize_lines("a\tb\n"), Cow::Borrowed(_)));
        assert_eq!(
            sanitize_styled("\x1b[1;31mred\x1b[0m\n"),
            "\x1b[1;31mred\x1b[0m\n"
        );
        for hostile in [
            "\x1b[2J",
            "\x1b]0;title\x07",
            "\x1b[1;3",
            "\x1b",
            "\x1b[?25l",
            "\u{9b}1m",
            "\x1b[1\x1b[2Jm",
        ] {
            let safe = sanitize_styled(hostile);
            assert!(!safe.chars().any(acts), "{hostile:?}: {safe:?}");
        }
    }

    #[test]
    fn long_texts_end_with_an_ellipsis() {
        assert_eq!(shorten("\u{e9}\u{e9}\u{e9}", 2), "\u{e9}\u{e9}\u{2026}");
        assert!(matches!(shorten("\u{e9}\u{e9}", 2), Cow::Borrowed(_)));
    }

    #[test]
    fn escaped_json_keeps_its_meaning() {
        let text = "a\x1b\u{9b}\u{202e}\u{feff}\u{e0041}\x7f\n\"\\";
        let json = serde_json::to_string_pretty(&[text]).unwrap();
        let safe = sanitize_json(&json);
        assert!(
            safe.chars().all(|letter| letter == '\n' || !acts(letter)),
            "{safe:?}"
        );
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), [text]);
        assert!(matches!(sanitize_json("{\n\t\"a\": 1\n}"), Cow::Borrowed(_)));
    }
}
