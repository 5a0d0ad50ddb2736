//! Integration tests of the laboratory, one file a topic.

mod doctor;
mod environment;
mod recording;
mod report;
#[allow(dead_code)]
mod require;
mod sample;
mod scenario;
mod workload;
