//! The fault-storm detector: memory pinned at a cap while it refaults.
//!
//! A cap that is smaller than a working set does not make the program use less. It makes every scan of the memory a
//! row of faults, each of which takes out another page that will be needed soon. From outside that is a busy program;
//! this tells it from one that works.
//!
//! Computing only: two snapshots in, storms out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::cgroup::{Cap, CapKind, Cgroup};
use super::identity::Identity;
use super::process::Process;
use super::rates::Rates;
use super::snapshot::Snapshot;
use crate::inert::inert;
use crate::quantity;

/// A cgroup is pinned at a cap when it uses at least this share of it in both snapshots. The kernel charges in
/// batches of 64 pages a CPU and reclaims 32 or more at once, and a huge page that does not fit leaves 2 MiB: with a
/// cap of 64 MiB that is 3%.
pub const PINNED_SHARE: f64 = 0.95;

/// Refaults a second from which on they count. What fits its cap has a few a second; 100 are 0.4 MiB/s, which a slow
/// disk (10 ms a fault) can just bring.
pub const REFAULTS_PER_S: f64 = 100.0;

/// Percent of a core of system time from which on the refaults cost something. The clock that processes are charged
/// by has steps of 10 ms: over a second, 10% are ten steps.
pub const SYSTEM_PERCENT: f64 = 10.0;

/// Most system time that a refault can be blamed for, in microseconds. From zram, reclaim included, it is 5 to 200;
/// a program that has more system time than this a refault spends it on something else.
pub const MOST_US_PER_REFAULT: f64 = 1000.0;

/// Percent of the time in which a task of the cgroup waited for memory (PSI) that counts as much as system time:
/// with a slow disk behind swap, a storm waits rather than computes.
pub const STALLED_PERCENT: f64 = 10.0;

/// A process takes part with at least this share of the major faults, or of the system time, of its cgroup.
const PART: f64 = 0.05;

/// A cap that makes what is under it refault.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Storm {
    /// What caps it. The usage is that of the later snapshot.
    pub cap: Cap,
    /// The cgroup that is capped.
    pub cgroup: PathBuf,
    /// Bytes that it used in the earlier snapshot.
    pub usage_before: u64,
    /// Those that take part, the one with the most system time first.
    pub processes: Vec<StormProcess>,
    /// Pages a second that were reclaimed and came back, in the cgroup.
    pub refaults_per_s: f64,
    /// The part of them that are anonymous pages, from swap; the rest are of files.
    pub anon_per_s: f64,
    /// System time of the processes that take part, in percent of one core.
    pub system_percent: f64,
    /// All their CPU time, in percent of one core.
    pub cpu_percent: f64,
    /// Percent of the time in which a task of the cgroup waited for memory, where the kernel says (v2).
    pub stalled_percent: Option<f64>,
    /// What to do, in a sentence.
    pub advice: String,
}

/// A process in a storm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StormProcess {
    /// Which one.
    #[serde(flatten)]
    pub identity: Identity,
    /// Its name, as it is.
    pub name: String,
    /// Resident bytes.
    pub wss: u64,
    /// What it did each second.
    #[serde(flatten)]
    pub rates: Rates,
}

impl Storm {
    /// What is going on, in a sentence without what to do.
    pub fn sentence(&self) -> String {
        let bytes = |bytes: u64| quantity::bytes(bytes as f64);
        let first = &self.processes[0];
        let others = match self.processes.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let stalled = self.stalled_percent.map_or_else(String::new, |percent| {
            format!(", waits for memory {percent:.0}% of the time")
        });
        format!(
            "{} {}{others} is pinned at {} ({} of {}) by {} and refaults {} pages/s; that costs {:.0}% of a core \
             in the kernel{stalled}",
            first.identity.pid,
            inert(&first.name),
            bytes(first.wss),
            bytes(self.cap.usage.unwrap_or(0)),
            bytes(self.cap.bytes),
            inert(&self.cap.file.display().to_string()),
            quantity::count(self.refaults_per_s as u64),
            self.system_percent,
        )
    }
}

/// The storms between two snapshots; none when they are not apart in time. A process is in one storm at most: that of
/// the innermost cap.
pub fn storms(before: &Snapshot, after: &Snapshot) -> Vec<Storm> {
    let seconds = after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
    if seconds <= 0.0 {
        return Vec::new();
    }
    let mut members: BTreeMap<&Path, Vec<StormProcess>> = BTreeMap::new();
    for process in &after.processes {
        let Some(part) = part_of(before, process, seconds) else {
            continue;
        };
        for folder in after.cgroups_of(process) {
            members.entry(folder).or_default().push(part.clone());
        }
    }
    // A folder is longer than those above it.
    let mut folders: Vec<_> = members.into_iter().collect();
    folders.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.as_os_str().len()));
    let mut taken = BTreeSet::new();
    let mut found = Vec::new();
    for (folder, mut processes) in folders {
        processes.retain(|process| !taken.contains(&process.identity));
        let (Some(old), Some(new)) = (before.cgroups.get(folder), after.cgroups.get(folder)) else {
            continue;
        };
        if let Some(storm) = storm_of(folder, old, new, processes, seconds) {
            taken.extend(storm.processes.iter().map(|process| process.identity));
            found.push(storm);
        }
    }
    found.sort_by(|a, b| b.system_percent.total_cmp(&a.system_percent));
    found
}

/// What a process did between the snapshots; None for one that is not in both.
fn part_of(before: &Snapshot, process: &Process, seconds: f64) -> Option<StormProcess> {
    let earlier = before.process(process.identity.pid)?;
    (earlier.identity == process.identity).then(|| StormProcess {
        identity: process.identity,
        name: process.name.clone(),
        wss: process.wss(),
        rates: Rates::between(earlier, process, seconds),
    })
}

fn storm_of(
    folder: &Path,
    before: &Cgroup,
    after: &Cgroup,
    mut processes: Vec<StormProcess>,
    seconds: f64,
) -> Option<Storm> {
    let usage_before = before.usage?;
    let cap = pinning_cap(after, usage_before)?;
    let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
    let anon_per_s = rate(before.refaults_anon?, after.refaults_anon?);
    let refaults_per_s = anon_per_s + rate(before.refaults_file?, after.refaults_file?);
    keep_those_that_take_part(&mut processes);
    let system_percent = processes.iter().map(|process| process.rates.system_percent).sum();
    let user_percent: f64 = processes.iter().map(|process| process.rates.user_percent).sum();
    // A microsecond a second is a ten-thousandth of a percent.
    let stalled_percent = before
        .stalled_us
        .zip(after.stalled_us)
        .map(|(before, after)| rate(before, after) / 1e4);
    let costs = costs_cpu(system_percent, refaults_per_s)
        || stalled_percent.is_some_and(|percent| percent >= STALLED_PERCENT);
    if processes.is_empty() || refaults_per_s < REFAULTS_PER_S || !costs {
        return None;
    }
    Some(Storm {
        advice: advice(cap, anon_per_s >= refaults_per_s / 2.0),
        cap: cap.clone(),
        cgroup: folder.to_owned(),
        usage_before,
        processes,
        refaults_per_s,
        anon_per_s,
        system_percent,
        cpu_percent: system_percent + user_percent,
        stalled_percent,
    })
}

/// Whether the refaults cost CPU, and the CPU can be theirs.
fn costs_cpu(system_percent: f64, refaults_per_s: f64) -> bool {
    let us_per_s = system_percent * 1e4;
    system_percent >= SYSTEM_PERCENT && us_per_s <= refaults_per_s * MOST_US_PER_REFAULT
}

/// The smallest cap that the cgroup was and is at. A soft limit does not hold anybody.
fn pinning_cap(cgroup: &Cgroup, usage_before: u64) -> Option<&Cap> {
    let least = cgroup.usage?.min(usage_before) as f64;
    cgroup
        .caps
        .iter()
        .filter(|cap| cap.kind != CapKind::Soft && least >= cap.bytes as f64 * PINNED_SHARE)
        .min_by_key(|cap| cap.bytes)
}

/// Leaves those with a share of the faults or of the system time worth naming, the most expensive first.
fn keep_those_that_take_part(processes: &mut Vec<StormProcess>) {
    let sum = |of: fn(&Rates) -> f64| processes.iter().map(|process| of(&process.rates)).sum::<f64>();
    let (major, system) = (sum(|rates| rates.major_per_s), sum(|rates| rates.system_percent));
    processes.retain(|process| {
        let rates = &process.rates;
        // A process that reads a file takes no fault for a page that is gone: its system time tells.
        (rates.major_per_s > 0.0 && rates.major_per_s >= major * PART)
            || (rates.system_percent > 0.0 && rates.system_percent >= system * PART)
    });
    processes.sort_by(|a, b| {
        let by = |process: &StormProcess| process.rates.system_percent;
        by(b).total_cmp(&by(a)).then(a.identity.cmp(&b.identity))
    });
}

fn advice(cap: &Cap, mostly_anon: bool) -> String {
    let file = inert(&cap.file.display().to_string()).into_owned();
    let what = if mostly_anon {
        "its working set with what it has in swap"
    } else {
        "its memory with the files it reads again and again"
    };
    format!(
        "raise {file} above {what}, or make it touch less at once: below that the cap costs time, and saves only what is touched again"
    )
}
