//! `plimsoll fleet` and `run --task`: a file for each command, and one for each engine.

mod collect;
mod commands;
mod kubernetes;
mod plan;
mod report;
mod slurm;
mod ssh;
mod task;
