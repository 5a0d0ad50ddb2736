//! Tests of comparisons: the statistics, the conditions, what is shown.

mod shown;
mod statistics;
