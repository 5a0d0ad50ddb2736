//! Order of the rows in the list of processes or cgroups.

use std::path::PathBuf;

use plimsoll_proc::ProcessId;

use super::snapshot::Snapshot;
use crate::processes::{CgroupRow, Entry};
use crate::watch::state::TargetState;

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
    Process(ProcessId),
    /// Folder of a cgroup.
    Cgroup(PathBuf),
}

/// The listed processes or cgroups, in no particular order.
pub(super) enum Rows<'a> {
    Processes(&'a [Entry]),
    Cgroups(Vec<&'a CgroupRow>),
}

impl<'a> Rows<'a> {
    /// The rows of a list; None before the first reading. Of a target cgroup, those in it.
    pub(super) fn of(listed: Listed, snapshot: &'a Snapshot) -> Option<Rows<'a>> {
        match listed {
            Listed::Processes => Some(Rows::Processes(&snapshot.top.as_ref()?.processes)),
            Listed::Cgroups => {
                let scope = snapshot.target.as_ref().and_then(TargetState::scope);
                let inside = |row: &&CgroupRow| scope.is_none_or(|scope| row.folder.starts_with(scope));
                let rows = snapshot.cgroups.as_ref()?.cgroups.iter();
                Some(Rows::Cgroups(rows.filter(inside).collect()))
            }
        }
    }
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

    fn of_cgroup(self, entry: &CgroupRow) -> (f64, f64) {
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

/// Indices of the rows in their order. Equal ones keep the order of their identities.
pub(super) fn ranked(rows: &Rows<'_>, sort: Sort) -> Vec<usize> {
    let keys: Vec<(f64, f64)> = match rows {
        Rows::Processes(entries) => entries.iter().map(|entry| sort.of_process(entry)).collect(),
        Rows::Cgroups(cgroups) => cgroups.iter().map(|cgroup| sort.of_cgroup(cgroup)).collect(),
    };
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|&a, &b| {
        let ((first_a, then_a), (first_b, then_b)) = (keys[a], keys[b]);
        let larger = first_b.total_cmp(&first_a).then(then_b.total_cmp(&then_a));
        larger.then_with(|| match rows {
            Rows::Processes(entries) => entries[a].identity.cmp(&entries[b].identity),
            Rows::Cgroups(cgroups) => cgroups[a].folder.cmp(&cgroups[b].folder),
        })
    });
    order
}

/// Identity of the row at an index.
pub(super) fn id_of(rows: &Rows<'_>, index: usize) -> RowId {
    match rows {
        Rows::Processes(entries) => RowId::Process(entries[index].identity),
        Rows::Cgroups(cgroups) => RowId::Cgroup(cgroups[index].folder.clone()),
    }
}
