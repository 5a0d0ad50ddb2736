//! The monitor and its faces.

mod terminal;
