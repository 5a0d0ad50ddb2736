//! Order of the rows in the list of processes or cgroups.

use std::path::PathBuf;

use crate::processes::{CgroupEntry, Entry, Identity};
use crate::watch::top::Top;

/// Contents of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    Processes,
    Cgroups,
}

/// Sort key of the list, in descending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Resident bytes of a process, charged bytes of a cgroup.
    Resident,
    Swap,
    /// Major faults of a process, then minor ones; refaults of a cgroup.
    Faults,
}

/// Identity of a row. It stays the same when the order changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowId {
    Process(Identity),
    /// Folder of a cgroup.
    Cgroup(PathBuf),
}

impl Sort {
    pub(super) fn next(self) -> Sort {
        match self {
            Sort::Resident => Sort::Swap,
            Sort::Swap => Sort::Faults,
            Sort::Faults => Sort::Resident,
        }
    }

    /// Key of a process; an unknown value comes after zero.
    fn of_process(self, entry: &Entry) -> (f64, f64) {
        let rates = entry.rates.as_ref();
        match self {
            Sort::Resident => (entry.wss as f64, 0.0),
            Sort::Swap => (known(entry.swap.map(|bytes| bytes as f64)), 0.0),
            Sort::Faults => (
                known(rates.map(|rates| rates.major_per_s)),
                known(rates.map(|rates| rates.minor_per_s)),
            ),
        }
    }

    fn of_cgroup(self, entry: &CgroupEntry) -> (f64, f64) {
        let key = match self {
            Sort::Resident => entry.usage.map(|bytes| bytes as f64),
            Sort::Swap => entry.swap.map(|bytes| bytes as f64),
            Sort::Faults => entry.refaults_per_s,
        };
        (known(key), 0.0)
    }
}

fn known(value: Option<f64>) -> f64 {
    value.unwrap_or(-1.0)
}

/// Indices of the listed entries of `top` in the order of the rows. Equal entries keep the order of their identities.
pub(super) fn ranked(top: &Top, listed: Listed, sort: Sort) -> Vec<usize> {
    let keys: Vec<(f64, f64)> = match listed {
        Listed::Processes => top.processes.iter().map(|entry| sort.of_process(entry)).collect(),
        Listed::Cgroups => top.cgroups.iter().map(|entry| sort.of_cgroup(entry)).collect(),
    };
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|&a, &b| {
        let ((first_a, then_a), (first_b, then_b)) = (keys[a], keys[b]);
        let larger = first_b.total_cmp(&first_a).then(then_b.total_cmp(&then_a));
        larger.then_with(|| match listed {
            Listed::Processes => top.processes[a].identity.cmp(&top.processes[b].identity),
            Listed::Cgroups => top.cgroups[a].folder.cmp(&top.cgroups[b].folder),
        })
    });
    order
}

/// Identity of the listed entry at an index.
pub(super) fn id_of(top: &Top, listed: Listed, index: usize) -> RowId {
    match listed {
        Listed::Processes => RowId::Process(top.processes[index].identity),
        Listed::Cgroups => RowId::Cgroup(top.cgroups[index].folder.clone()),
    }
}
