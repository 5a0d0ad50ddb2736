//! The terminal interface: a stacked timeline of all RAM, swap, page movement and pressure on one time axis.
//!
//! ```text
//! bytes -> Key -> Action -> View, or Order -> Monitor
//!          Mouse -> pointed()
//! State -> Snapshot (under the state's lock, short) -> draw(View, Snapshot) -> Buffer -> changed cells -> terminal
//! ```
//!
//! Invariants:
//!
//! - [`draw`] is pure: the same view and snapshot give the same cells.
//!
//! - A frame is drawn only after the terminal has taken the last one: no frames are queued, and sampling does not wait.
//!
//! - However `watch` ends, it restores the terminal. Checked by `a_signal_ends_watch_and_restores_the_terminal` and
//!   `a_panic_restores_the_terminal_before_its_message`.

mod action;
mod boxes;
mod change;
mod changes;
mod chart;
mod keys;
mod layout;
mod legend;
mod link;
mod list;
mod marks;
mod mouse;
mod numbers;
mod overlay;
mod pace;
mod page;
mod pagers;
mod panels;
mod place;
mod pointer;
mod ranking;
mod screen;
mod snapshot;
mod stack;
mod strip;
mod strips;
#[cfg(test)]
mod tests;
mod theme;
mod tree;
mod ui;
mod view;
mod words;

use std::io;
use std::time::Duration;

pub use action::{Action, Mode, action_of};
pub use keys::{Key, decode};
pub use layout::LEAST;
pub use mouse::{Gesture, Mouse};
pub use pace::Pace;
pub use page::{columns_in, draw, settle};
pub use pointer::pointed;
pub use ranking::{Listed, Sort};
pub use snapshot::Snapshot;
pub use stack::heights;
pub use theme::{Colours, Depth, Theme};
pub use tree::TreeView;
pub use view::{Order, Overlay, Picker, Purpose, View};

use super::monitor::Monitor;
use plimsoll_sample::stop::Stop;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TerminalOptions {
    pub colours: Colours,
    pub duration: Option<Duration>,
    /// Address of the live page, if it is served.
    pub page: Option<String>,
}

/// Reason for the end of the terminal interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Quit,
    /// The frames ended, or the time limit was reached.
    Over,
    /// A signal arrived.
    Stopped,
    /// The terminal disappeared.
    Gone,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TerminalError {
    #[error("cannot draw: standard output is not a terminal; use --headless, or --serve for a browser")]
    NoTerminal,
    #[error(
        "cannot draw on a terminal of type `{term}`, which cannot position text; use --headless, or set TERM to the \
         terminal's type"
    )]
    Dumb { term: String },
    #[error("cannot {what} the terminal: {source}; use --headless to do without it")]
    Terminal {
        /// Verb: `read keys from`.
        what: &'static str,
        source: io::Error,
    },
    /// A thread panicked and restored the terminal.
    #[error("cannot continue: a thread of the monitor panicked; see the message above")]
    Panicked,
}

/// Draws the monitor until the user quits, the frames or the time limit end, or a signal arrives. Restores the
/// terminal.
///
/// # Errors
///
/// If there is no suitable terminal.
pub fn run(monitor: &Monitor, options: &TerminalOptions, stop: &Stop) -> Result<End, TerminalError> {
    ui::run(monitor, options, stop)
}
