//! A command line, split as a shell does, without any expansion.

/// The words of a line up to the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The words before the current one, unquoted; the first is the program.
    pub words: Vec<String>,
    /// The word at the cursor, unquoted; empty after a space.
    pub current: String,
    /// The same as it stands in the line, without the open quote.
    pub raw: String,
    /// The quote that is open at the cursor.
    pub quote: Option<char>,
}

impl Line {
    pub fn split(text: &str) -> Line {
        let mut line = Line {
            words: Vec::new(),
            current: String::new(),
            raw: String::new(),
            quote: None,
        };
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match (line.quote, letter) {
                (None, ' ' | '\t' | '\n') => {
                    // A line begins with its program; an empty word has quotes.
                    if !line.raw.is_empty() {
                        line.words.push(std::mem::take(&mut line.current));
                        line.raw.clear();
                    }
                    continue;
                }
                (None, '\'' | '"') => {
                    line.quote = Some(letter);
                    if line.raw.is_empty() {
                        continue;
                    }
                }
                (Some(open), _) if open == letter => line.quote = None,
                (None | Some('"'), '\\') => {
                    line.raw.push(letter);
                    let Some(next) = letters.next() else { break };
                    line.current.push(next);
                    line.raw.push(next);
                    continue;
                }
                _ => line.current.push(letter),
            }
            line.raw.push(letter);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_spaces_outside_quotes() {
        let line = Line::split("plimsoll  run 'a b' c\\ d \"e\\\"f\" --set subj");
        assert_eq!(line.words, ["plimsoll", "run", "a b", "c d", "e\"f", "--set"]);
        assert_eq!(
            (line.current.as_str(), line.raw.as_str(), line.quote),
            ("subj", "subj", None)
        );
    }

    #[test]
    fn an_open_quote_and_a_space_at_the_end_are_seen() {
        let open = Line::split("plimsoll run --set 'subject=z");
        assert_eq!(
            (open.current.as_str(), open.raw.as_str(), open.quote),
            ("subject=z", "subject=z", Some('\''))
        );
        let next = Line::split("plimsoll run ");
        assert_eq!((next.words.len(), next.current.as_str()), (2, ""));
        // Nothing is expanded.
        let text = Line::split("plimsoll report $(touch x) `y` ~ *");
        assert_eq!(text.words, ["plimsoll", "report", "$(touch", "x)", "`y`", "~"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_splits(text in "\\PC{0,40}|[ '\"\\\\a=]{0,20}") {
            let line = Line::split(&text);
            proptest::prop_assert!(line.raw.len() <= text.len());
        }
    }
}
