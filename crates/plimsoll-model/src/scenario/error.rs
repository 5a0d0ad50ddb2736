//! Mistakes in scenarios, shown with their place.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::mistake::{Marked, Mistake};
use super::source_text::Source;

/// Why a scenario was not found, read, understood or resolved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    #[error("cannot find scenario `{name}`: neither a built-in scenario nor a file has this name")]
    NotFound { name: String, help: String },
    #[error("cannot read scenario {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The path is not a regular file's.
    #[error("cannot read scenario {}: it is {what}", path.display())]
    NotAFile {
        path: PathBuf,
        /// `a folder`, `a pipe`, `a device`.
        what: &'static str,
    },
    /// The file is larger than a scenario can sensibly be.
    #[error("cannot read scenario {}: it has {bytes} bytes, more than {max}", path.display())]
    TooLarge {
        path: PathBuf,
        bytes: u64,
        /// [`super::MAX_FILE_BYTES`].
        max: u64,
    },
    #[error("cannot read scenario {}: it is not UTF-8 at byte {offset}", path.display())]
    NotText {
        path: PathBuf,
        /// Offset of the first byte that is wrong.
        offset: usize,
    },
    /// The text says something that is not valid.
    #[error(transparent)]
    Invalid(#[from] Box<Invalid>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    Syntax,
    /// Something that must be there is not.
    Missing,
    /// A name with characters or a length that names cannot have.
    BadName,
    UnknownKey,
    /// A section that does not exist (on the command line), or that looks like a mistyped one.
    UnknownSection,
    /// A key where it cannot stand.
    Misplaced,
    /// A value of another type than the key's.
    WrongType,
    /// A value of the right type that means nothing.
    BadValue,
    OutOfRange,
    /// A list without values, or where there cannot be one.
    BadList,
    /// The same value twice in a sweep.
    Duplicate,
    /// More trials than a run may have.
    TooManyTrials,
    /// Values that are made from each other.
    Cycle,
}

impl Problem {
    /// The stable code, such as `scenario::unknown-key`.
    fn code(self) -> &'static str {
        match self {
            Problem::Syntax => "scenario::syntax",
            Problem::Missing => "scenario::missing",
            Problem::BadName => "scenario::bad-name",
            Problem::UnknownKey => "scenario::unknown-key",
            Problem::UnknownSection => "scenario::unknown-section",
            Problem::Misplaced => "scenario::misplaced",
            Problem::WrongType => "scenario::wrong-type",
            Problem::BadValue => "scenario::bad-value",
            Problem::OutOfRange => "scenario::out-of-range",
            Problem::BadList => "scenario::bad-list",
            Problem::Duplicate => "scenario::duplicate",
            Problem::TooManyTrials => "scenario::too-many-trials",
            Problem::Cycle => "scenario::cycle",
        }
    }
}

/// A mistake in a text, with its place.
#[derive(Debug)]
pub struct Invalid {
    pub problem: Problem,
    message: String,
    help: Option<String>,
    source: Source,
    places: Vec<(Range<usize>, String)>,
}

impl Invalid {
    /// Points at a second place, where that is in the same text.
    pub(super) fn and(mut self: Box<Self>, place: &Place, label: impl Into<String>) -> Box<Self> {
        if place.source == self.source {
            self.places.push((place.span.clone(), label.into()));
        }
        self
    }

    pub(super) fn help(mut self: Box<Self>, help: impl Into<String>) -> Box<Self> {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Invalid {}

/// A place in a text that errors point at.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) source: Source,
    pub(super) span: Range<usize>,
}

impl Place {
    /// A mistake at this place: the message, and the label of the place.
    pub(super) fn error(
        &self,
        problem: Problem,
        message: impl Into<String>,
        label: impl Into<String>,
    ) -> Box<Invalid> {
        Box::new(Invalid {
            problem,
            message: message.into(),
            help: None,
            source: self.source.clone(),
            places: vec![(self.span.clone(), label.into())],
        })
    }
}

impl ScenarioError {
    /// The error as it is shown with its place.
    pub fn mistake(&self) -> Mistake {
        let (code, help) = match self {
            ScenarioError::NotFound { help, .. } => ("scenario::not-found", Some(help.as_str())),
            ScenarioError::Unreadable { .. } => (
                "scenario::unreadable",
                Some("check that the file exists and that you may read it"),
            ),
            ScenarioError::NotAFile { .. } => (
                "scenario::not-a-file",
                Some("name a built-in scenario (see `plimsoll list`) or a TOML file"),
            ),
            ScenarioError::TooLarge { .. } => ("scenario::too-large", Some(SHORT_TEXT)),
            ScenarioError::NotText { .. } => ("scenario::not-text", Some(SHORT_TEXT)),
            ScenarioError::Invalid(invalid) => (invalid.problem.code(), invalid.help.as_deref()),
        };
        let marked = match self {
            ScenarioError::Invalid(invalid) => Some(Marked {
                name: Some(invalid.source.name().to_string()),
                text: Arc::from(invalid.source.text()),
                places: invalid.places.clone(),
            }),
            _ => None,
        };
        Mistake {
            code,
            message: self.to_string(),
            marked,
            help: help.map(str::to_owned),
        }
    }
}

const SHORT_TEXT: &str = "a scenario is a short TOML text; see `plimsoll show compression` for one";
