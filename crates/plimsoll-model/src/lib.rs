//! The nouns and file formats of Plimsoll: scenarios and plans, recordings, the columns of samples, units.

pub mod categories;
pub mod columns;
pub mod exit;
pub mod latency;
pub mod quantity;
pub mod recording;
pub mod sanitize;
pub mod scenario;
pub mod trust;
