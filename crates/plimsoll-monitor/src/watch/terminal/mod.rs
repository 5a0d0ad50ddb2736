//! The terminal page: a stacked timeline of all RAM, swap, moving pages and pressure on one time axis.
//!
//! ```text
//! bytes -> Key -> Action -> View, or Order -> Monitor
//! State -> Snapshot (under the state's lock, short) -> draw(View, Snapshot) -> Buffer -> what changed -> terminal
//! ```
//!
//! Invariants:
//! - [`draw`] is pure: the same view and snapshot give the same cells.
//! - A frame is drawn when the one before it has left for the terminal: none is ever queued. Sampling does not wait.
//! - However the program ends, the terminal is as it was.

mod action;
mod chart;
mod figures;
mod keys;
mod layout;
mod legend;
mod link;
mod overlay;
mod pace;
mod page;
mod screen;
mod snapshot;
mod stack;
mod strip;
mod strips;
mod theme;
mod ui;
mod view;
mod words;

use std::io;
use std::time::Duration;

pub use action::{Action, Mode, action_of};
pub use keys::{Key, decode};
pub use layout::LEAST;
pub use pace::Pace;
pub use page::{columns_in, draw};
pub use snapshot::Snapshot;
pub use stack::heights;
pub use theme::{Colours, Depth, Theme};
pub use view::{Order, Overlay, Picker, Purpose, View};

use super::monitor::Monitor;
use plimsoll_sample::stop::Stop;

/// How to draw.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TerminalOptions {
    /// Which colours to use.
    pub colours: Colours,
    /// End after this long.
    pub duration: Option<Duration>,
    /// Address of the served page, if one is served.
    pub page: Option<String>,
}

/// Why the page was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The user wanted it.
    Quit,
    /// There will be no more frames, or the time is over.
    Over,
    /// A signal.
    Stopped,
    /// The terminal went away.
    Gone,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TerminalError {
    /// There is nobody to look at it.
    #[error("cannot draw: standard output is not a terminal; use --headless, or --serve for a browser")]
    NoTerminal,
    /// The terminal cannot place text.
    #[error(
        "cannot draw on a terminal of type `{term}`, which cannot place text; use --headless, or set TERM to the \
         terminal's type"
    )]
    Dumb {
        /// What TERM says.
        term: String,
    },
    /// The terminal refuses.
    #[error("cannot {what} the terminal: {source}; use --headless to go without it")]
    Terminal {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A part of the program failed, and gave the terminal back.
    #[error("a thread of the monitor failed; the message above says where")]
    Panicked,
}

/// Draws the monitor until the user quits, it is over, or a signal asks for an end. The terminal is given back as it was.
///
/// # Errors
/// When there is no terminal that can be drawn on.
pub fn run(monitor: &Monitor, options: &TerminalOptions, stop: &Stop) -> Result<End, TerminalError> {
    ui::run(monitor, options, stop)
}
