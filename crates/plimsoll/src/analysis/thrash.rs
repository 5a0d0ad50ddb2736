//! Metrics of the thrash scenario.

use std::collections::BTreeMap;

use super::metric::metrics;
use crate::recording::model::Trial;
use crate::scenario::Thrash;

metrics! {}

/// Computes the metrics of a trial. One that cannot be known is absent.
pub fn metrics(_trial: &Trial, _thrash: &Thrash) -> BTreeMap<String, f64> {
    BTreeMap::new()
}
