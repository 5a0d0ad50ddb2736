//! `/proc/vmstat`: counters of faults, reclaim, refaults and swap. Its lines are those of
//! [`KeyedLines`](super::fields::KeyedLines).

use super::Tree;
use super::fields::value_of;

pub const PATH: &str = "/proc/vmstat";

pub fn value(text: &[u8], key: &str) -> Option<u64> {
    value_of(text, key)
}

/// Pages of the whole machine that were reclaimed and came back, anonymous and of files.
pub fn refaults(tree: &Tree) -> Option<u64> {
    let text = tree.bytes(PATH)?;
    let kinds = ["workingset_refault_anon", "workingset_refault_file"];
    let found: Vec<u64> = kinds.iter().filter_map(|key| value(&text, key)).collect();
    (!found.is_empty()).then(|| found.iter().sum())
}
