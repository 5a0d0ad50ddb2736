//! Numbers to terminal, HTML, JSON, CSV and Markdown. Computes nothing that analysis could.
//!
//! A [`Page`] holds everything that is shown of a run; [`html::render`] makes one self-contained file of it and
//! [`terminal::summary`] a table. Both say the same [`verdict::sentence`].

pub mod compare;
pub mod csv;
pub mod html;
pub mod json;
pub mod markdown;
pub mod page;
pub mod terminal;
pub mod verdict;

pub use page::{Mark, MemoryUse, Page, Series, Timeline};
