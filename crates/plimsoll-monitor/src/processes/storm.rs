//! The fault-storm detector: a cgroup that stays at its cap and refaults.
//!
//! A cap below a program's working set does not make the program use less memory. Each scan of the memory then causes a
//! row of faults, and for each fault the kernel reclaims another page that the program needs soon. From outside the program
//! looks busy; this module tells it from one that makes progress.
//!
//! Pure: takes two snapshots and returns storms.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use plimsoll_proc::ProcessId;
use serde::Serialize;

use super::cgroup::{Cap, CapKind, Cgroup};
use super::process::Process;
use super::rates::Rates;
use super::snapshot::Snapshot;
use plimsoll_model::quantity;
use plimsoll_model::sanitize::sanitize;

/// A cgroup is pinned at a cap if it uses at least this share of the cap in both snapshots. The kernel charges in
/// batches of 64 pages for each CPU and reclaims 32 or more at once, and a huge page that does not fit leaves 2 MiB: 3%
/// of a cap of 64 MiB.
pub const PINNED_SHARE: f64 = 0.95;

/// Bytes below a small cap that still count as pinned, at most an eighth of the cap. Readahead charges and frees
/// several pieces of some hundred KiB at a time: 16 MiB caps were seen with up to 1 MiB free. Above 30 MiB, the share
/// is the larger margin.
pub const PINNED_SLACK: u64 = 3 << 19;

/// Least refaults per second of a storm. A program that fits its cap has a few per second. 100 are 0.4 MiB/s, about the
/// most that a slow disk (10 ms per fault) can serve.
pub const REFAULTS_PER_S: f64 = 100.0;

/// Least system time of a storm, in percent of a core. The clock of process times has steps of 10 ms: 5% over a second
/// is five steps, too many for chance.
pub const SYSTEM_PERCENT: f64 = 5.0;

/// Most system time for one refault, in microseconds. A refault from zram costs 5 to 100 with its reclaim. A program
/// with more spends its system time on something else.
pub const MOST_US_PER_REFAULT: f64 = 250.0;

/// Least share of the time, in percent, in which a task of the cgroup waits for memory (PSI). An alternative to system
/// time: with a slow disk behind swap, a storm waits rather than computes.
pub const STALLED_PERCENT: f64 = 10.0;

/// Least share of the cgroup's major faults, or of its system time, for a process to be part of a storm.
const PART: f64 = 0.05;

/// A cap that makes the processes below it refault.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Storm {
    /// The cap, with the usage of the later snapshot.
    pub cap: Cap,
    pub cgroup: PathBuf,
    /// Usage of the cgroup in the earlier snapshot, in bytes.
    pub usage_before: u64,
    /// Processes of the storm, the one with the most system time first.
    pub processes: Vec<StormProcess>,
    /// Refaulted pages of the cgroup per second.
    pub refaults_per_s: f64,
    /// Anonymous part of the refaults, read from swap.
    pub anon_per_s: f64,
    /// System time of the processes of the storm, in percent of one core.
    pub system_percent: f64,
    /// CPU time of these processes, in percent of one core.
    pub cpu_percent: f64,
    /// Percent of the time in which a task of the cgroup waited for memory, if the kernel reports it (v2).
    pub stalled_percent: Option<f64>,
    /// Recommended action, one sentence.
    pub advice: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StormProcess {
    #[serde(flatten)]
    pub identity: ProcessId,
    /// Name, not sanitized.
    pub name: String,
    pub wss: u64,
    #[serde(flatten)]
    pub rates: Rates,
}

impl Storm {
    /// Description of the storm in one sentence, without the recommended action.
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
            "{} {} (working set {}){others} is pinned at {} of {} by {} and refaults {} pages/s; that costs {} \
             in the kernel{stalled}",
            first.identity.pid,
            sanitize(&first.name),
            bytes(first.wss),
            bytes(self.cap.usage.unwrap_or(0)),
            bytes(self.cap.bytes),
            sanitize(&self.cap.file.display().to_string()),
            quantity::count(self.refaults_per_s as u64),
            quantity::cpu_share(self.system_percent, 0),
        )
    }
}

/// The storms between two snapshots; none if both have the same time. A process belongs to at most one storm, that of
/// the innermost cap.
pub fn storms(before: &Snapshot, after: &Snapshot) -> Vec<Storm> {
    let seconds = after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
    if seconds <= 0.0 {
        return Vec::new();
    }
    let mut members: BTreeMap<&Path, Vec<StormProcess>> = BTreeMap::new();
    for process in &after.processes {
        let Some(part) = part_of(before, process, after.cpus) else {
            continue;
        };
        for folder in after.cgroups_of(process) {
            members.entry(folder).or_default().push(part.clone());
        }
    }
    // The path of a folder is longer than those of its ancestors.
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

/// Rates of a process between the snapshots; None if it is not in both.
fn part_of(before: &Snapshot, process: &Process, cpus: u32) -> Option<StormProcess> {
    let earlier = before.process(process.identity.pid)?;
    if earlier.identity != process.identity {
        return None;
    }
    Some(StormProcess {
        identity: process.identity,
        name: process.name.clone(),
        wss: process.wss(),
        rates: Rates::between(earlier, process, cpus)?,
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
    keep_participants(&mut processes);
    let system_percent = processes.iter().map(|process| process.rates.system_percent).sum();
    let user_percent: f64 = processes.iter().map(|process| process.rates.user_percent).sum();
    // One microsecond per second is a ten-thousandth of a percent.
    let stalled_percent = before
        .stalled_us
        .zip(after.stalled_us)
        // The files are read a little apart: a second can seem to hold more than its time.
        .map(|(before, after)| (rate(before, after) / 1e4).min(100.0));
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

/// Whether the refaults plausibly account for the CPU time.
fn costs_cpu(system_percent: f64, refaults_per_s: f64) -> bool {
    let us_per_s = system_percent * 1e4;
    system_percent >= SYSTEM_PERCENT && us_per_s <= refaults_per_s * MOST_US_PER_REFAULT
}

/// The smallest cap that the cgroup is pinned at in both snapshots. A soft limit limits no process.
fn pinning_cap(cgroup: &Cgroup, usage_before: u64) -> Option<&Cap> {
    let least = cgroup.usage?.min(usage_before) as f64;
    cgroup
        .caps
        .iter()
        .filter(|cap| cap.kind != CapKind::Soft && least >= pinned_from(cap.bytes))
        .min_by_key(|cap| cap.bytes)
}

/// Least usage in bytes of a cgroup that is pinned at a cap of `cap` bytes.
pub fn pinned_from(cap: u64) -> f64 {
    let slack = PINNED_SLACK.min(cap / 8) as f64;
    (cap as f64 * PINNED_SHARE).min(cap as f64 - slack)
}

/// Drops processes with too small a share of the faults and of the system time, and sorts the rest.
fn keep_participants(processes: &mut Vec<StormProcess>) {
    let sum = |of: fn(&Rates) -> f64| processes.iter().map(|process| of(&process.rates)).sum::<f64>();
    let (major, system) = (sum(|rates| rates.major_per_s), sum(|rates| rates.system_percent));
    processes.retain(|process| {
        let rates = &process.rates;
        // A process that reads a file takes no fault for an evicted page: only its system time shows it.
        (rates.major_per_s > 0.0 && rates.major_per_s >= major * PART)
            || (rates.system_percent > 0.0 && rates.system_percent >= system * PART)
    });
    processes.sort_by(|a, b| {
        let by = |process: &StormProcess| process.rates.system_percent;
        by(b).total_cmp(&by(a)).then(a.identity.cmp(&b.identity))
    });
}

fn advice(cap: &Cap, mostly_anon: bool) -> String {
    let file = sanitize(&cap.file.display().to_string()).into_owned();
    let what = if mostly_anon {
        "the working set plus the swap"
    } else {
        "the memory plus the reread files"
    };
    format!(
        "raise {file} above {what} of the cgroup, or reduce the working set: a lower cap costs time, and frees only \
         memory that the programs need again at once"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn process(pid: u32, major_faults: u64, system_us: u64) -> Process {
        Process {
            identity: ProcessId { pid, start_ticks: 7 },
            read_ns: 0,
            threads: 1,
            parent: 1,
            name: "scan".to_owned(),
            state: 'R',
            kernel_thread: false,
            minor_faults: 0,
            major_faults,
            user_us: 0,
            system_us,
            resident: 31 * MIB,
            cgroups: Some("0::/a\n".to_owned()),
            detail: None,
        }
    }

    fn cgroup(kind: CapKind, usage: u64, refaults: u64) -> Cgroup {
        let cap = Cap {
            kind,
            bytes: 32 * MIB,
            usage: Some(usage),
            file: PathBuf::from("/cg/a/memory.max"),
        };
        Cgroup {
            caps: vec![cap],
            usage: Some(usage),
            refaults_anon: Some(refaults),
            refaults_file: Some(0),
            ..Cgroup::default()
        }
    }

    /// Storms of a second with this usage before and after, refaults and system time.
    fn second(kind: CapKind, usage: [u64; 2], refaults: u64, system_us: u64) -> Vec<Storm> {
        let at = |at_ns, usage, refaults, system_us| {
            let processes = vec![process(5, refaults, system_us)];
            Snapshot::made_up(at_ns, processes, vec![("/cg/a", cgroup(kind, usage, refaults))])
        };
        storms(
            &at(0, usage[0], 0, 0),
            &at(1_000_000_000, usage[1], refaults, system_us),
        )
    }

    #[test]
    fn a_storm_needs_every_condition() {
        let full = [32 * MIB, 31 * MIB];
        let found = second(CapKind::Limit, full, 10_000, 500_000);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].refaults_per_s, found[0].system_percent),
            (10_000.0, 50.0)
        );
        assert_eq!(second(CapKind::High, full, 10_000, 500_000).len(), 1);
        assert_eq!(
            second(CapKind::Soft, full, 10_000, 500_000),
            [],
            "a soft limit limits no process"
        );
        assert_eq!(
            second(CapKind::Limit, [30 * MIB, 32 * MIB], 10_000, 500_000),
            [],
            "still growing"
        );
        assert_eq!(second(CapKind::Limit, full, 99, 90_000), [], "too few refaults");
        assert_eq!(second(CapKind::Limit, full, 10_000, 40_000), [], "no cost");
        assert_eq!(
            second(CapKind::Limit, full, 200, 500_000),
            [],
            "the time goes elsewhere"
        );
    }

    #[test]
    fn waiting_for_memory_counts_like_system_time() {
        let mut before = cgroup(CapKind::Limit, 32 * MIB, 0);
        let mut after = cgroup(CapKind::Limit, 32 * MIB, 150);
        (before.stalled_us, after.stalled_us) = (Some(0), Some(300_000));
        let before = Snapshot::made_up(0, vec![process(5, 0, 0)], vec![("/cg/a", before)]);
        let after = Snapshot::made_up(1_000_000_000, vec![process(5, 150, 0)], vec![("/cg/a", after)]);
        let found = storms(&before, &after);
        assert_eq!(found[0].stalled_percent, Some(30.0));
        assert_eq!(
            found[0].sentence(),
            "5 scan (working set 31.0 MiB) is pinned at 32.0 MiB of 32.0 MiB by /cg/a/memory.max and refaults 150 pages/s; \
             that costs 0% of a core in the kernel, waits for memory 30% of the time"
        );
    }

    #[test]
    fn a_storm_names_the_innermost_cap_and_only_its_processes() {
        let nested = |refaults| {
            let group = || cgroup(CapKind::Limit, 32 * MIB, refaults);
            vec![("/cg/a", group()), ("/cg", group())]
        };
        let before = vec![process(5, 0, 0), process(6, 0, 0), process(9, 0, 0)];
        let after = vec![
            process(5, 9_000, 100_000),
            process(6, 9_000, 300_000),
            process(9, 1, 10_000),
        ];
        let found = storms(
            &Snapshot::made_up(0, before, nested(0)),
            &Snapshot::made_up(1_000_000_000, after, nested(18_000)),
        );
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].cgroup, PathBuf::from("/cg/a"));
        let pids: Vec<u32> = found[0].processes.iter().map(|part| part.identity.pid).collect();
        assert_eq!(pids, [6, 5], "the most expensive first, the idle one left out");
    }

    #[test]
    fn a_reused_pid_or_equal_times_give_no_storm() {
        let group = |refaults| vec![("/cg/a", cgroup(CapKind::Limit, 32 * MIB, refaults))];
        let before = Snapshot::made_up(5, vec![process(5, 0, 0)], group(0));
        let mut other = process(5, 10_000, 500_000);
        other.identity.start_ticks = 8;
        assert_eq!(
            storms(
                &before,
                &Snapshot::made_up(1_000_000_005, vec![other], group(10_000))
            ),
            []
        );
        let now = Snapshot::made_up(5, vec![process(5, 10_000, 500_000)], group(10_000));
        assert_eq!(storms(&before, &now), []);
    }
}
