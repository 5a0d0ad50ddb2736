//! Numbers to terminal and HTML. Computes nothing that analysis could, and reads no recording.
//!
//! A [`Page`] holds everything that is shown; [`html::render`] makes one self-contained file of it and
//! [`terminal::summary`] a table. Both say the same [`verdict::sentence`].

pub mod html;
mod page;
pub mod quantity;
pub mod terminal;
pub mod verdict;

pub use page::{Estimate, Group, Mark, Page, Series, Timeline};
