//! List of processes with rates between two snapshots: the output of `plimsoll ps`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plimsoll_proc::ProcessId;
use plimsoll_proc::resource_limits::Limit;
use serde::Serialize;

use super::cgroup::Cap;
use super::compression::Compressed;
use super::pager::Paged;
use super::process::Process;
use super::rates::Rates;
use super::snapshot::Snapshot;
use super::storm::{Storm, storms};
use super::users::Users;

/// Schema version of [`Listing`] in JSON. A removed field or a changed meaning raises it.
pub const LISTING_SCHEMA: u32 = 1;

/// Processes with their rates between two snapshots.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listing {
    pub schema: u32,
    pub interval_s: f64,
    /// Refaulted pages of the whole machine per second (`/proc/vmstat`).
    pub refaults_per_s: Option<f64>,
    /// Cost of measuring PSS, if it was measured.
    pub pss_cost: Option<PssCost>,
    /// Processes, by pid until they are sorted.
    pub processes: Vec<Entry>,
    /// Fault storms, the most expensive first.
    pub storms: Vec<Storm>,
    /// Number of processes of other users by the file of `/proc/PID` that this user cannot read.
    pub denied: BTreeMap<String, u32>,
    /// Missing processes and values, with the reason.
    pub notes: Vec<String>,
}

/// A process of a [`Listing`]. None means unknown: see the notes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    #[serde(flatten)]
    pub identity: ProcessId,
    /// Parent pid.
    pub parent: u32,
    /// Effective uid.
    pub uid: Option<u32>,
    /// User name, or the uid if it has no name.
    pub user: Option<String>,
    /// Name, at most 15 bytes, not sanitized.
    pub name: String,
    /// Arguments separated by spaces, not sanitized; empty if there are none.
    pub command: Option<String>,
    pub state: char,
    /// Working set: resident bytes.
    pub wss: u64,
    pub anon: Option<u64>,
    pub file: Option<u64>,
    pub shmem: Option<u64>,
    /// Proportional set size in bytes, if it was measured.
    pub pss: Option<u64>,
    pub swap: Option<u64>,
    /// Compressed share of the swapped bytes, if known.
    pub compressed: Option<Compressed>,
    /// Its pagers, if it has some that this user may read.
    pub pager: Option<Paged>,
    /// Rates; None for a process that started between the snapshots.
    pub rates: Option<Rates>,
    /// Refaulted pages of its cgroup per second.
    pub cgroup_refaults_per_s: Option<f64>,
    /// Badness for the OOM killer, 0 to 2000.
    pub oom_score: Option<u64>,
    /// Adjustment of the badness, -1000 to 1000.
    pub oom_score_adj: Option<i64>,
    pub cgroup: Option<PathBuf>,
    /// Caps of its cgroup and of the cgroup's ancestors, the tightest first.
    pub caps: Vec<Cap>,
    /// Resource limits of the process (`ulimit`), without unlimited ones.
    pub limits: Vec<OwnLimit>,
    /// Whether the process takes part in a fault storm.
    pub storm: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PssCost {
    /// Processes whose page tables the kernel walked.
    pub processes: usize,
    /// Sum of their working sets in bytes.
    pub wss: u64,
    pub seconds: f64,
}

/// A resource limit on the memory of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnLimit {
    /// Option of `ulimit`: `-v`, `-d`, `-l`, `-m`.
    pub option: &'static str,
    pub bytes: u64,
    /// Bytes in use that count towards the limit.
    pub usage: Option<u64>,
}

impl Listing {
    /// The activity between `before` and `after`. `after` has the details.
    pub fn between(before: &Snapshot, after: &Snapshot, users: &Users) -> Listing {
        let seconds = after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let storms = storms(before, after);
        let rate = |before: Option<u64>, after: Option<u64>| {
            let (before, after) = before.zip(after).filter(|_| seconds > 0.0)?;
            Some(after.saturating_sub(before) as f64 / seconds)
        };
        let refaults = |snapshot: &Snapshot, folder: &Path| snapshot.cgroups.get(folder)?.refaults();
        let processes = after.processes.iter().map(|process| {
            let mut entry = Entry::new(process, after, users);
            let earlier = before.process(process.identity.pid).filter(|_| seconds > 0.0);
            entry.rates = earlier
                .filter(|earlier| earlier.identity == process.identity)
                .and_then(|earlier| Rates::between(earlier, process, after.cpus));
            entry.cgroup_refaults_per_s = entry
                .cgroup
                .as_ref()
                .and_then(|folder| rate(refaults(before, folder), refaults(after, folder)));
            entry.storm = storms.iter().any(|storm| {
                storm
                    .processes
                    .iter()
                    .any(|part| part.identity == process.identity)
            });
            entry
        });
        let denied = denied(after);
        Listing {
            schema: LISTING_SCHEMA,
            interval_s: seconds,
            refaults_per_s: rate(before.refaults, after.refaults),
            pss_cost: pss_cost(after),
            processes: processes.collect(),
            storms,
            notes: notes(after, &denied),
            denied,
        }
    }
}

impl Entry {
    fn new(process: &Process, snapshot: &Snapshot, users: &Users) -> Entry {
        let detail = process.detail.as_ref();
        let status = detail.map(|detail| &detail.status);
        let uid = status.and_then(|status| status.uid);
        let cgroup = snapshot.cgroups_of(process).first();
        Entry {
            identity: process.identity,
            parent: process.parent,
            uid,
            user: uid.map(|uid| users.name(uid)),
            name: process.name.clone(),
            command: detail.and_then(|detail| detail.command.clone()),
            state: process.state,
            wss: process.wss(),
            anon: status.and_then(|status| status.anon),
            file: status.and_then(|status| status.file),
            shmem: status.and_then(|status| status.shmem),
            pss: detail.and_then(|detail| Some(detail.pss?.bytes)),
            swap: process.swap(),
            compressed: process.swap().and_then(|swap| {
                let cgroup = cgroup.and_then(|folder| snapshot.cgroups.get(folder));
                snapshot.swap_store.compressed(swap, cgroup)
            }),
            pager: detail.and_then(|detail| detail.pager),
            rates: None,
            cgroup_refaults_per_s: None,
            oom_score: detail.and_then(|detail| detail.oom_score),
            oom_score_adj: detail.and_then(|detail| detail.oom_score_adj),
            cgroup: cgroup.cloned(),
            caps: snapshot.caps_of(process).into_iter().cloned().collect(),
            limits: own_limits(process),
            storm: false,
        }
    }
}

/// The finite limits, the effective ones first.
fn own_limits(process: &Process) -> Vec<OwnLimit> {
    let Some(detail) = &process.detail else {
        return Vec::new();
    };
    let (limits, status) = (&detail.limits, &detail.status);
    [
        (
            "-v",
            limits.address_space.and_then(Limit::bytes),
            status.address_space,
        ),
        ("-d", limits.data.and_then(Limit::bytes), status.data),
        ("-l", limits.locked.and_then(Limit::bytes), status.locked),
        ("-m", limits.resident.and_then(Limit::bytes), status.wss()),
    ]
    .into_iter()
    .filter_map(|(option, bytes, usage)| {
        Some(OwnLimit {
            option,
            bytes: bytes?,
            usage,
        })
    })
    .collect()
}

fn pss_cost(snapshot: &Snapshot) -> Option<PssCost> {
    let mut cost = PssCost {
        processes: 0,
        wss: 0,
        seconds: 0.0,
    };
    for process in &snapshot.processes {
        if let Some(pss) = process.detail.as_ref().and_then(|detail| detail.pss) {
            cost.processes += 1;
            cost.wss += process.wss();
            cost.seconds += pss.took_us as f64 / 1e6;
        }
    }
    (cost.processes > 0).then_some(cost)
}

/// Number of processes by the file that this user cannot read.
fn denied(snapshot: &Snapshot) -> BTreeMap<String, u32> {
    let details = snapshot.processes.iter();
    let details = details.filter_map(|process| process.detail.as_ref());
    let mut denied: BTreeMap<String, u32> = BTreeMap::new();
    for name in details.flat_map(|detail| &detail.denied) {
        *denied.entry((*name).to_owned()).or_default() += 1;
    }
    denied
}

/// Missing processes and values, with the reason.
fn notes(snapshot: &Snapshot, denied: &BTreeMap<String, u32>) -> Vec<String> {
    let mut notes = Vec::new();
    if snapshot.denied > 0 {
        notes.push(format!(
            "cannot list {} processes of other users: /proc hides them (hidepid); run as root to see them",
            snapshot.denied
        ));
    }
    for (name, count) in denied {
        notes.push(format!(
            "cannot read {} of {count} processes of other users: shown as -; run as root to see it",
            content_of(name)
        ));
    }
    if snapshot.hides {
        notes.push(
            "/proc is mounted with hidepid: processes of other users may be missing; run as root to see them"
                .to_owned(),
        );
    }
    notes
}

fn content_of(file: &str) -> &'static str {
    match file {
        "smaps_rollup" => "the proportional set",
        "cmdline" => "the command line",
        "status" => "user, working set by kind and swap",
        "limits" => "ulimits",
        _ => "the OOM score",
    }
}
