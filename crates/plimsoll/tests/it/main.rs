//! Integration tests of the command and its libraries, one file per topic.

mod analysis;
mod architecture;
mod callers;
mod command;
mod compare;
mod docs;
mod doctor;
mod environment;
mod export;
mod foreign;
mod heap;
mod heap_damage;
mod heap_mistakes;
mod heap_stat;
mod machine;
mod processes;
pub(crate) mod recording;
mod report;
mod run;
mod sample;
mod scenario;
mod trim;
mod watch;
mod workload;
mod workspace;
