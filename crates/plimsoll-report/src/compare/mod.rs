//! A comparison as text for a terminal, as HTML, Markdown and CSV. All contain [`words::sentence`].

mod columns;
pub mod csv;
mod data;
pub mod html;
mod intervals;
pub mod markdown;
mod multiples;
pub mod terminal;
pub mod words;
