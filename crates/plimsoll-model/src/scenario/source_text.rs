//! The text of a scenario, with the name that errors show.

use std::sync::Arc;

/// A named text. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Source(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    text: Arc<str>,
    origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Origin {
    File,
    BuiltIn,
    Argument,
}

impl PartialEq for Source {
    /// Sources are the same when they are the same text in memory: two `--set` arguments are two sources.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Source {
    /// A text under the name that errors show (a path, or `compression (built in)`).
    pub fn new(name: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        Self::with(name.into(), text.into(), Origin::File)
    }

    /// A scenario that the binary carries.
    pub(super) fn built_in(name: &str, text: &str) -> Self {
        Self::with(format!("{name} (built in)"), text.into(), Origin::BuiltIn)
    }

    /// An argument of the command line: the option's name and its value.
    pub(super) fn argument(option: &str, text: &str) -> Self {
        Self::with(option.to_owned(), text.into(), Origin::Argument)
    }

    fn with(name: String, text: Arc<str>, origin: Origin) -> Self {
        Source(Arc::new(Inner { name, text, origin }))
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// True for an argument of the command line.
    pub(super) fn is_argument(&self) -> bool {
        self.0.origin == Origin::Argument
    }

    /// True for a scenario that the binary carries.
    pub(super) fn is_built_in(&self) -> bool {
        self.0.origin == Origin::BuiltIn
    }
}
