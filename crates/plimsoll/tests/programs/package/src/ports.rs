//! Ports, and the ways between them.

include!(concat!(env!("OUT_DIR"), "/ports.rs"));

/// The longest way between neighbours in the table.
pub fn longest_way() -> u64 {
    let ways = PORTS.windows(2).map(|pair| pair[0].1.abs_diff(pair[1].1));
    ways.max().unwrap_or(0)
}
