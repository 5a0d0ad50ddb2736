//! Watches the target for fault storms.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::shared::Shared;
use super::state::{Level, MarkKind};
use crate::processes::{Depth, Observer, REFAULTS_PER_S, Snapshot, Storm, storms};
use plimsoll_model::columns::{Row, col};

/// The last check of the target, and the current storms.
#[derive(Default)]
pub(super) struct StormWatch {
    observer: Option<Observer>,
    before: Option<Snapshot>,
    /// Time and refaults of the whole machine at the last check.
    refaults: Option<(u64, i64)>,
    /// Cgroups in a storm. The flag is whether the last check still found it: a storm pauses for a second now and then.
    going_on: BTreeSet<(PathBuf, bool)>,
}

impl StormWatch {
    /// Checks the processes `pids`, and sets a mark when a storm begins. `latest` is the machine's last sample: if it
    /// refaults too little for any storm, the check reads no process.
    pub(super) fn look(&mut self, pids: &[u32], latest: &Row, shared: &Shared) {
        if pids.is_empty() || !self.may_storm(latest) {
            self.before = None;
            return;
        }
        let observer = match &mut self.observer {
            Some(observer) => observer,
            // Without `/proc` there is no sampler either.
            none => match Observer::new() {
                Ok(observer) => none.insert(observer),
                Err(_) => return,
            },
        };
        let now = observer.snapshot_of(pids, Depth::Counters);
        if let Some(before) = &self.before {
            for storm in self.begun(storms(before, &now)) {
                let text = format!("fault storm: {}. {}", storm.sentence(), storm.advice);
                shared.mark(MarkKind::FaultStorm, text.clone());
                // The recording already has the mark.
                shared.say(Level::Warning, text);
            }
        }
        self.before = Some(now);
    }

    fn may_storm(&mut self, latest: &Row) -> bool {
        let columns = [col::WORKINGSET_REFAULT_ANON, col::WORKINGSET_REFAULT_FILE];
        let refaults = columns.iter().filter_map(|column| latest.get(*column)).sum();
        let before = self.refaults.replace((latest.t_ns, refaults));
        let Some((t_ns, count)) = before else {
            return false;
        };
        let seconds = latest.t_ns.saturating_sub(t_ns) as f64 / 1e9;
        // Two checks are not exactly a second apart.
        (refaults - count) as f64 >= 0.5 * REFAULTS_PER_S * seconds
    }

    /// The storms of `found` that neither of the last two checks found.
    fn begun(&mut self, found: Vec<Storm>) -> Vec<Storm> {
        let known = |folder: &PathBuf| {
            self.going_on.contains(&(folder.clone(), true))
                || self.going_on.contains(&(folder.clone(), false))
        };
        let now: BTreeSet<PathBuf> = found.iter().map(|storm| storm.cgroup.clone()).collect();
        let begun = found.into_iter().filter(|storm| !known(&storm.cgroup)).collect();
        let paused = self
            .going_on
            .iter()
            .filter(|(folder, seen)| *seen && !now.contains(folder))
            .map(|(folder, _)| (folder.clone(), false));
        self.going_on = paused
            .chain(now.iter().map(|folder| (folder.clone(), true)))
            .collect();
        begun
    }
}
