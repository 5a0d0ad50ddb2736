//! Completion of command lines: [`complete`] finds candidates, [`reply`] prints them for a shell's script.
//!
//! The scripts call the hidden command `plimsoll complete` with the line up to the cursor. The definition of the
//! command line gives commands, options and their values; the placeholder of an argument (`RUN`, `PID`) selects the
//! source of its values.
//!
//! Invariant: completion reads names, `/proc` and the built-in scenarios. It opens no file that a user names, starts no
//! program, and expands nothing in the line. Checked by `completion_has_no_side_effect`.
//! Invariant: no candidate has a character that acts on a terminal, and none begins like an option unless it is one.
//! Checked by `hostile_names_are_never_offered_raw`.

mod line;
mod reply;
mod sources;
mod walk;

pub use line::Line;
pub use reply::{reply, script};
pub use sources::Source;
pub use walk::complete;

/// A possible continuation of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The whole word, unquoted.
    pub value: String,
    /// One line; may be empty.
    pub meaning: String,
}

impl Candidate {
    fn new(value: impl Into<String>, meaning: impl Into<String>) -> Candidate {
        Candidate {
            value: value.into(),
            meaning: meaning.into(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether file names fit too.
    pub files: bool,
    pub candidates: Vec<Candidate>,
}
