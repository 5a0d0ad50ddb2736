//! The values of a point: from the counters of the system, and from several findings of the worker.

use super::cpu_time::crowding;
use crate::run::phase::Snapshot;
use crate::workload::{Cost, Findings};
use plimsoll_model::columns::col;
use plimsoll_model::scenario::workloads::finding::{PAGER_HARD_FAULTS, PAGER_STORE};
use plimsoll_model::scenario::workloads::loadline::finding::{
    CPU_PER_VISIT, CPU_SYSTEM, CPU_USER, FILE_REFAULTS, FILE_SIZE, HARD_FAULTS, NET, PSI_FULL, PSI_SOME,
    RAM_LOAD, RESIDENT, STORE, SWAP_IN, SWAP_OUT, SWAPPED, VISITS,
};
use plimsoll_model::scenario::{Loadline, Subject};

/// The measured interval of a point.
pub(super) struct Stretch<'s> {
    pub(super) before: &'s Snapshot,
    pub(super) after: &'s Snapshot,
    /// Visited bytes.
    pub(super) size: u64,
    /// Of them, those of the file.
    pub(super) file_size: u64,
    pub(super) limit: u64,
    /// RAM of the compressed store after it, without that of others before the trial.
    pub(super) store: i64,
    /// Pages of files that the cgroup had read again before it and after it; `None` where the kernel does not count them.
    pub(super) file_refaults: [Option<u64>; 2],
}

/// System metrics of the measured interval.
pub(super) fn set(findings: &mut Findings, cost: Cost, stretch: &Stretch<'_>) {
    let Stretch {
        before,
        after,
        size,
        limit,
        store,
        ..
    } = *stretch;
    let seconds = cost.seconds;
    // The kernel counts the signals of a pager as no major faults.
    let of_pager = findings.values.get(PAGER_HARD_FAULTS).copied();
    findings.set(
        HARD_FAULTS,
        of_pager.unwrap_or(cost.major_faults as f64) / seconds,
    );
    findings.set(CPU_USER, 100.0 * cost.cpu_user_s / seconds);
    findings.set(CPU_SYSTEM, 100.0 * cost.cpu_system_s / seconds);
    // The store of a pager is in the limit.
    let own_store = findings.values.get(PAGER_STORE).copied();
    findings.set(STORE, own_store.unwrap_or(store as f64));
    findings.set(RAM_LOAD, size as f64 / (limit as f64 + store as f64));
    if let Some(&visits) = findings.values.get("visits") {
        findings.set(CPU_PER_VISIT, (cost.cpu_user_s + cost.cpu_system_s) / visits);
    }
    for (name, column) in [(RESIDENT, col::TARGET_ANON), (SWAPPED, col::TARGET_SWAP)] {
        if let Some(bytes) = after.row.get(column) {
            findings.set(name, bytes as f64);
        }
    }
    let elapsed_us = after.row.t_ns.saturating_sub(before.row.t_ns) as f64 / 1e3;
    for (name, percent) in [PSI_SOME, PSI_FULL].into_iter().zip(after.pressure_since(before)) {
        if let Some(percent) = percent {
            findings.set(name, percent);
        }
    }
    let mut rate = |name: &str, from: Option<i64>, to: Option<i64>| {
        if let (Some(from), Some(to)) = (from, to) {
            findings.set(name, (to - from) as f64 / elapsed_us * 1e6);
        }
    };
    rate(
        SWAP_OUT,
        before.row.get(col::PSWPOUT),
        after.row.get(col::PSWPOUT),
    );
    if stretch.file_size > 0 {
        rate(SWAP_IN, before.row.get(col::PSWPIN), after.row.get(col::PSWPIN));
        let [from, to] = stretch.file_refaults.map(|pages| i64::try_from(pages?).ok());
        rate(FILE_REFAULTS, from, to);
        findings.set(FILE_SIZE, stretch.file_size as f64);
    }
}

/// Time of a visit without choice, clock and computing. Visits at a rate wait for their time, which is none of theirs.
pub(super) fn net(findings: &mut Findings, loadline: &Loadline) {
    let value = |name: &str| findings.values.get(name).copied().filter(|&found| found > 0.0);
    if let (Some(visits_per_s), Some(own), None) = (value(VISITS), value("own_s"), loadline.rate) {
        let own = own * crowding(loadline.threads);
        findings.set(NET, f64::from(loadline.threads) / visits_per_s - own);
    }
}

/// RAM that the subject's compressed store takes.
pub(super) fn store_bytes(subject: &Subject, snapshot: &Snapshot) -> i64 {
    let column = match subject {
        Subject::Zram(_) => col::ZRAM_MEM_USED_TOTAL,
        Subject::Zswap(_) => col::ZSWAP_POOL,
        Subject::SwapFile | Subject::NoSwap | Subject::Pager(_) | Subject::Allocator(_) => return 0,
    };
    snapshot.row.get(column).unwrap_or(0)
}
