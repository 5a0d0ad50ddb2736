//! Plimsoll: see where memory is, measure what happens when it runs short, and stretch it.
//!
//! The rooms follow the way of an experiment: a [`scenario`] is asked, a [`workload`] is done by workers in an
//! [`environment`], the system is [`sample`]d, a [`recording`] is kept, [`analysis`] makes numbers of it and
//! [`report`] shows them. ARCHITECTURE.md draws the house.

pub mod analysis;
pub mod cli;
pub mod command;
pub mod doctor;
pub mod environment;
pub mod exit;
pub mod export;
pub mod heap;
pub mod inert;
pub mod latency;
pub mod processes;
mod progress;
pub mod quantity;
pub mod recording;
pub mod report;
pub mod run;
pub mod sample;
pub mod scenario;
pub mod stop;
pub mod trim;
pub mod watch;
pub mod workload;
