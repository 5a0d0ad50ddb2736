//! The loads, tiny. One file a topic.

mod command;
mod counts;
mod figures;
mod sizes;
mod verification;
