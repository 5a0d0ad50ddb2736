//! A comparison as text for a terminal, Markdown, CSV, and one document of JSON. All say what [`words::sentence`] says.

pub mod csv;
pub mod markdown;
pub mod terminal;
pub mod words;
