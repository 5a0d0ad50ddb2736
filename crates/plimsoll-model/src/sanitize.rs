//! Text of others (names, command lines) made harmless to show.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` with U+FFFD for every character that a terminal would obey rather than show: control characters (escape
/// sequences begin with one), line and paragraph separators, and those that are invisible or turn the direction of
/// writing. The result is one line.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if text.chars().any(acts) {
        let safe = |letter| if acts(letter) { '\u{fffd}' } else { letter };
        Cow::Owned(text.chars().map(safe).collect())
    } else {
        Cow::Borrowed(text)
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
