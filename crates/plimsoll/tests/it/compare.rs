//! Tests of comparisons: the statistics, the conditions, what is shown, and the command on recordings.

mod command;
mod shown;
mod statistics;
