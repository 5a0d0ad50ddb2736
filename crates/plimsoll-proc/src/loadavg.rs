//! `/proc/loadavg`: how many tasks want to run.

use super::Tree;

/// The average of the last minute.
pub fn last_minute(tree: &Tree) -> Option<f64> {
    tree.read("proc/loadavg")?.split_whitespace().next()?.parse().ok()
}
