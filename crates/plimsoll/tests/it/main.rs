//! Integration tests of the laboratory, one file a topic.

mod doctor;
mod environment;
#[allow(dead_code)]
mod require;
mod recording;
mod report;
mod sample;
mod scenario;
mod workload;
