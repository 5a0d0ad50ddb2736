//! The terminal page: what is drawn, what keys mean, and what becomes of the terminal.

mod cells;
mod drawn;
mod keys;
mod panels;
mod panels_live;
pub(crate) mod pseudo_terminal;
mod seen;
