//! Analysis against known answers, and against slow and obvious ways to get them.

mod confounders;
mod timeline;
mod trust;
mod values;
