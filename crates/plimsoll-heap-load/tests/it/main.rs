//! The loads, tiny. One file a topic.

mod command;
mod counts;
mod sizes;
mod values;
mod verification;
