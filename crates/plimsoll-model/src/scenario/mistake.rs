//! A mistake in a text that a person wrote, shown with its place.

use std::collections::HashMap;
use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::sanitize::{sanitize, sanitize_lines, shorten};

/// Most letters of a message or a label, of the name of a text, and of help, which may list every key.
const WORDS_MAX: usize = 300;
const HELP_MAX: usize = 4000;
/// A line of more bytes than this is shown in part: at most so many of a place, and so many on either side of it.
const LINE_MAX: usize = 300;
const PLACE_MAX: usize = 80;
const BESIDE: usize = 60;

/// A mistake: a message with a stable code, the place in the text, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The stable code, such as `scenario::unknown-key`.
    pub code: &'static str,
    pub message: String,
    /// The text and the places in it, where the mistake is in a text.
    pub marked: Option<Marked>,
    pub help: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// The file, or another name of the text.
    pub name: Option<String>,
    pub text: Arc<str>,
    /// Ranges of bytes with their labels. The first is where the mistake is.
    pub places: Vec<(Range<usize>, String)>,
}

impl Mistake {
    /// The mistake in the layout of rustc. Nothing of the text acts on a terminal, and of a long line it has a part.
    pub fn render(&self, colour: bool) -> String {
        let words = |text: &str| sanitize_lines(&shorten(text, WORDS_MAX)).into_owned();
        let title = Level::ERROR.primary_title(words(&self.message)).id(self.code);
        let mut group = Group::with_title(title);
        let marked = self.marked.as_ref().map(|marked| marked.shown(words));
        if let Some(marked) = &marked {
            let places = marked.places.iter().enumerate().map(|(index, (range, label))| {
                let kind = match index {
                    0 => AnnotationKind::Primary,
                    _ => AnnotationKind::Context,
                };
                kind.span(range.clone()).label(label)
            });
            // The line before and the one after tell in which table of the file a place is.
            let around = marked.places.iter().flat_map(|(range, _)| marked.around(range));
            group = group.element(
                Snippet::source(&*marked.text)
                    .path(marked.name.as_deref())
                    .annotations(places)
                    .annotations(around.map(|range| AnnotationKind::Visible.span(range))),
            );
        }
        if let Some(help) = &self.help {
            let help = sanitize_lines(&shorten(help, HELP_MAX)).into_owned();
            group = group.element(Level::HELP.message(help));
        }
        let renderer = match colour {
            true => Renderer::styled(),
            false => Renderer::plain(),
        };
        renderer.render(&[group])
    }
}

impl Marked {
    /// The text as it is shown: sanitized, with an ellipsis for the ends of long lines, and the places where they are in
    /// that. `words` sanitizes a label.
    fn shown(&self, words: impl Fn(&str) -> String) -> Marked {
        let mut ends: Vec<usize> = self
            .places
            .iter()
            .flat_map(|(range, _)| [range.start, range.end])
            .collect();
        ends.sort_unstable();
        ends.dedup();
        let mut shown = Shown {
            text: String::with_capacity(self.text.len()),
            moved: HashMap::new(),
            ends: ends.into_iter().peekable(),
        };
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            shown.line(line, start, self.kept(line, start));
            start += line.len();
        }
        shown.pass(usize::MAX);
        let moved = |at: usize| shown.moved.get(&at).copied().unwrap_or(shown.text.len());
        Marked {
            name: self
                .name
                .as_deref()
                .map(|name| sanitize(&shorten(name, WORDS_MAX)).into_owned()),
            places: self
                .places
                .iter()
                .map(|(range, label)| (moved(range.start)..moved(range.end), words(label)))
                .collect(),
            text: shown.text.into(),
        }
    }

    /// The range of bytes of a line, which begins at `start` of the text, that is shown: all of it, or what is around
    /// the first place in it.
    fn kept(&self, line: &str, start: usize) -> Range<usize> {
        if line.len() <= LINE_MAX {
            return 0..line.len();
        }
        let here =
            |(range, _): &&(Range<usize>, String)| range.start < start + line.len() && range.end >= start;
        let place = self.places.iter().find(here);
        let (from, to) = place.map_or((0, LINE_MAX), |(range, _)| {
            let from = range.start.saturating_sub(start);
            (from, (range.end - start).min(from + PLACE_MAX))
        });
        let whole = |at: &usize| line.is_char_boundary(*at);
        let from = (0..=from.saturating_sub(BESIDE)).rev().find(whole);
        let to = ((to + BESIDE).min(line.len())..line.len()).find(whole);
        from.unwrap_or(0)..to.unwrap_or(line.len())
    }

    /// The line before that of `place` and the one after it, where there are such.
    fn around(&self, place: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        let line = |at: usize| {
            let start = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
            let length = self.text[at..].find('\n');
            start..length.map_or(self.text.len(), |length| at + length)
        };
        let here = line(place.start).start..line(place.end).end;
        let before = here.start.checked_sub(1).map(line);
        let after = (here.end + 1 < self.text.len()).then(|| line(here.end + 1));
        before.into_iter().chain(after)
    }
}

/// A text as it is shown, made line by line.
struct Shown {
    text: String,
    /// Where each end of a place is in `text`.
    moved: HashMap<usize, usize>,
    /// The ends that were not reached yet, in order.
    ends: Peekable<std::vec::IntoIter<usize>>,
}

impl Shown {
    /// Adds the range `kept` of a line that begins at `start` of the original.
    fn line(&mut self, line: &str, start: usize, kept: Range<usize>) {
        let content = line.trim_end_matches(['\r', '\n']).len();
        if kept.start > 0 {
            self.text.push('\u{2026}');
        }
        for (at, letter) in line[..content].char_indices() {
            self.pass(start + at);
            if kept.contains(&at) {
                self.text
                    .push_str(&sanitize_lines(letter.encode_utf8(&mut [0; 4])));
            }
        }
        if kept.end < content {
            self.text.push('\u{2026}');
        }
        self.pass(start + content);
        if line.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Notes the ends up to `at` of the original at the present end of the text.
    fn pass(&mut self, at: usize) {
        while let Some(end) = self.ends.next_if(|end| *end <= at) {
            self.moved.insert(end, self.text.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str, place: Range<usize>) -> Mistake {
        Mistake {
            code: "test::mistake",
            message: format!("wrong: {}", &text[place.clone()]),
            marked: Some(Marked {
                name: Some("a\u{1b}[2Jb".to_owned()),
                text: text.into(),
                places: vec![(place, "here".to_owned())],
            }),
            help: Some("first\nsecond\u{1b}]0;x\u{7}".to_owned()),
        }
    }

    #[test]
    fn a_hostile_text_is_shown_and_does_not_act() {
        let text = "[global]\r\n\tkey\u{1b}[2J = \u{202e}1\u{7}\nend\u{9b}3m";
        let at = text.find("key").expect("a key");
        let shown = mistake(text, at..at + 7).render(false);
        assert!(
            shown.chars().all(|letter| letter == '\n' || !letter.is_control()),
            "{shown:?}"
        );
        assert!(!shown.contains('\u{202e}'), "{shown:?}");
        let lines: Vec<&str> = shown.lines().collect();
        let code = lines
            .iter()
            .position(|line| line.contains("key\u{fffd}[2J ="))
            .expect("the line");
        // The carets stand below the key.
        let column = |line: &str, word: &str| line.split_once(word).map(|(before, _)| before.chars().count());
        assert_eq!(
            column(lines[code + 1], "^"),
            column(lines[code], "key"),
            "{shown}"
        );
        assert_eq!(lines[code + 1].matches('^').count(), 7, "{shown}");
    }

    #[test]
    fn of_a_long_line_the_part_around_the_place_is_shown() {
        let long = "x".repeat(200_000);
        for (text, place) in [
            (format!("{long} = 1"), 0..long.len()),
            (format!("{long}KEY{long}"), long.len()..long.len() + 3),
            (
                format!("a = 1\n{long}\nKEY = 2\n{long}"),
                6 + long.len() + 1..6 + long.len() + 4,
            ),
            (format!("{}\u{e9}{long}", "\u{e9}".repeat(999)), 1000..1002),
        ] {
            let shown = mistake(&text, place.clone()).render(false);
            assert!(shown.len() < 3000, "{} bytes", shown.len());
            assert!(shown.contains('^'), "{shown}");
            let short = place.len() == 3;
            assert!(
                !short || shown.lines().any(|line| line.contains("KEY")),
                "{shown}"
            );
        }
    }
}
