//! Numbers to terminal, HTML, JSON, CSV and Markdown. Computes nothing that analysis could.

pub mod csv;
pub mod json;
pub mod markdown;
