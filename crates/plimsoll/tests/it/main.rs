//! Integration tests of the command and its libraries, one file per topic.

mod architecture;
mod callers;
mod command;
mod compare;
mod completion;
mod docs;
mod doctor;
mod environment;
mod export;
mod foreign;
mod heap;
mod heap_damage;
mod heap_mistakes;
mod heap_stat;
mod hostile;
mod machine;
mod manual;
mod processes;
pub(crate) mod recording;
mod recordings;
mod report;
mod run;
mod sample;
mod trim;
mod watch;
mod workload;
mod workspace;
