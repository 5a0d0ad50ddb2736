//! Integration tests of analysis, reports, comparisons and exports, one file a topic.

mod analysis;
mod compare;
mod export;
mod report;
