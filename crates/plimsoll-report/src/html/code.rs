//! Texts with commands in backticks, as the terminal shows them.

use crate::drawing::svg::escape;

/// The text as HTML: escaped, with each part between two backticks as code.
pub(super) fn spans(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // A backtick without a partner stays: the part after it is no command.
    let paired = parts.len() - usize::from(parts.len().is_multiple_of(2));
    let mut html = String::with_capacity(text.len() + 16);
    for (place, part) in parts.iter().enumerate() {
        let part = escape(part);
        html += &match place {
            unpaired if unpaired >= paired => format!("`{part}"),
            code if code % 2 == 1 => format!("<code>{part}</code>"),
            _ => part,
        };
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_in_backticks_are_code_and_all_is_escaped() {
        for (text, html) in [
            ("plain & simple", "plain &amp; simple"),
            (
                "`echo off > state` turns it off",
                "<code>echo off &gt; state</code> turns it off",
            ),
            ("a `b` c `d`", "a <code>b</code> c <code>d</code>"),
            ("a ` b", "a ` b"),
            ("`a` ` <b>", "<code>a</code> ` &lt;b&gt;"),
            ("", ""),
            ("`", "`"),
        ] {
            assert_eq!(spans(text), html, "{text}");
        }
    }
}
