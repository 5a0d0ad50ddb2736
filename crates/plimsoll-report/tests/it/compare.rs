//! Tests of comparisons: the statistics, the conditions, the output.

mod shown;
mod statistics;
