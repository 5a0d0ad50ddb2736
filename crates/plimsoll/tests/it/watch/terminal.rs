//! The terminal: its screen, its keys, and its state after the end.

mod cells;
mod drawn;
mod keys;
mod panels;
mod panels_live;
pub(crate) mod pseudo_terminal;
mod seen;
