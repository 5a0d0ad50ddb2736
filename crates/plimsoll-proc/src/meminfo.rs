//! `/proc/meminfo` (`proc_meminfo(5)`): levels of the whole machine. Its lines are those of
//! [`KeyedLines`](super::fields::KeyedLines), with values in KiB.

use super::Tree;
use super::fields::value_of;

pub const PATH: &str = "/proc/meminfo";

/// Bytes of one KiB, in which every size stands.
pub const SCALE: i64 = 1024;

pub fn bytes(text: &[u8], key: &str) -> Option<u64> {
    value_of(text, key)?.checked_mul(SCALE as u64)
}

/// The bytes of a field of the machine whose files are `tree`.
pub fn read(tree: &Tree, key: &str) -> Option<u64> {
    bytes(&tree.bytes(PATH)?, key)
}
