//! The settings that a working set supports.

use crate::memory_settings::{headroom, kubernetes, systemd, whole};
use plimsoll_model::quantity::bytes;
use plimsoll_model::recording::service::WorkingSet;
use plimsoll_model::recording::size::{SizeAdvice, SizedSystem};

/// The settings of Kubernetes and systemd for a service with this working set over time, and this much anonymous memory, in
/// RAM and in swap.
///
/// The soft setting holds the largest working set. The hard one, beyond which the kernel kills, adds a quarter, or the
/// spread of the working set over time if that is more. On Kubernetes, whose nodes have no swap by default, all anonymous
/// memory has to stay in RAM.
pub fn advice(set: &WorkingSet, anonymous_bytes: Option<u64>) -> Vec<SizeAdvice> {
    let spread = set.max_bytes.saturating_sub(set.p50_bytes);
    let hard = |soft: u64| whole(soft.saturating_add(headroom(soft).max(spread)));
    let unswapped = anonymous_bytes.unwrap_or(0);
    let resident = whole(set.max_bytes.max(unswapped));
    let container = SizeAdvice {
        system: SizedSystem::Kubernetes,
        soft_bytes: resident,
        hard_bytes: hard(resident),
        lines: kubernetes(resident, hard(resident)),
        premise: match anonymous_bytes {
            Some(anonymous) if anonymous > set.max_bytes => format!(
                "Without swap, as nodes are by default, all {} of anonymous memory stay in RAM.",
                bytes(anonymous as f64)
            ),
            _ => "The working set holds all anonymous memory, so that the node needs no swap.".to_owned(),
        },
    };
    let soft = whole(set.max_bytes);
    let unit = SizeAdvice {
        system: SizedSystem::Systemd,
        soft_bytes: soft,
        hard_bytes: hard(soft),
        lines: systemd(soft, hard(soft), false),
        premise: match unswapped.saturating_sub(soft) {
            0 => "The settings hold with swap and without.".to_owned(),
            swapped => format!(
                "They need swap or zram for the {} of anonymous memory outside of the working set.",
                bytes(swapped as f64)
            ),
        },
    };
    vec![container, unit]
}
