//! Settings of Kubernetes and systemd that give a program or a service its memory.
//!
//! The soft setting is the measured need. The hard one, at which the kernel kills, adds headroom.

pub(crate) const MIB: u64 = 1 << 20;
/// The least headroom, as a divisor of the need: for inputs, load and versions that the measurement did not see.
const HEADROOM_DIVISOR: u64 = 4;

/// The least headroom of a need, in bytes.
pub(crate) fn headroom(need: u64) -> u64 {
    need.div_ceil(HEADROOM_DIVISOR)
}

/// In whole MiB, rounded up.
pub(crate) fn whole(bytes: u64) -> u64 {
    bytes.div_ceil(MIB).saturating_mul(MIB)
}

/// Lines of the container of a pod.
pub(crate) fn kubernetes(soft: u64, hard: u64) -> Vec<String> {
    vec![
        "resources:".to_owned(),
        "  requests:".to_owned(),
        format!("    memory: {}Mi", soft / MIB),
        "  limits:".to_owned(),
        format!("    memory: {}Mi", hard / MIB),
    ]
}

/// Lines of a unit file.
pub(crate) fn systemd(soft: u64, hard: u64, no_swap: bool) -> Vec<String> {
    let mut lines = vec!["[Service]".to_owned()];
    lines.extend(properties(soft, hard, no_swap));
    lines
}

pub(crate) fn properties(soft: u64, hard: u64, no_swap: bool) -> Vec<String> {
    let swap = no_swap.then(|| "MemorySwapMax=0".to_owned());
    let memory = [
        format!("MemoryHigh={}M", soft / MIB),
        format!("MemoryMax={}M", hard / MIB),
    ];
    memory.into_iter().chain(swap).collect()
}
