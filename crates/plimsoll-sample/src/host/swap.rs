//! The swap that is in use.

use super::mounts::unescape;
use super::tree::Tree;

/// A swap device or file that is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapDevice {
    /// Path of the device or file.
    pub path: String,
    /// `partition` or `file`.
    pub kind: String,
    /// Size in bytes.
    pub size: u64,
    /// Bytes in use.
    pub used: u64,
    /// Priority: the highest is filled first.
    pub priority: i32,
}

/// The lines of `/proc/swaps`. A space in a path is written `\040` there, and is given back here.
pub fn swap_devices(tree: &Tree) -> Vec<SwapDevice> {
    let text = tree.read("proc/swaps").unwrap_or_default();
    let parse = |line: &str| -> Option<SwapDevice> {
        let mut fields = line.split_whitespace();
        Some(SwapDevice {
            path: unescape(fields.next()?),
            kind: fields.next()?.to_owned(),
            size: fields.next()?.parse::<u64>().ok()? * 1024,
            used: fields.next()?.parse::<u64>().ok()? * 1024,
            priority: fields.next()?.parse().ok()?,
        })
    };
    text.lines().skip(1).filter_map(parse).collect()
}
