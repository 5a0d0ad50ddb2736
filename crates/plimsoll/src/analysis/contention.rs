//! Metrics of the contention scenario.

use std::collections::BTreeMap;

use super::metric::metrics;
use crate::recording::model::Trial;
use crate::scenario::Contention;

metrics! {}

/// Computes the metrics of a trial. One that cannot be known is absent.
pub fn metrics(_trial: &Trial, _contention: &Contention) -> BTreeMap<String, f64> {
    BTreeMap::new()
}
