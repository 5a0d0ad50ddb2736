//! A mistake in a text that a person wrote, shown with its place.

use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

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
    /// The mistake in the layout of rustc.
    pub fn render(&self, colour: bool) -> String {
        let title = Level::ERROR.primary_title(&self.message).id(self.code);
        let mut group = Group::with_title(title);
        if let Some(marked) = &self.marked {
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
