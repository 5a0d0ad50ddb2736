//! Integration tests of the laboratory, one file a topic.

mod analysis;
mod doctor;
mod environment;
pub(crate) mod recording;
mod report;
#[allow(dead_code)]
mod require;
mod sample;
mod scenario;
mod workload;
