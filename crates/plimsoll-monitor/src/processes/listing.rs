//! Two snapshots made into a list of processes with their rates: what `plimsoll ps` shows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_proc::resource_limits::Limit;
use serde::Serialize;

use super::cgroup::Cap;
use super::compression::Compressed;
use super::identity::Identity;
use super::process::Process;
use super::rates::Rates;
use super::snapshot::Snapshot;
use super::storm::{Storm, storms};
use super::users::Users;

/// Version of [`Listing`] as a JSON document: it grows when a field changes its meaning or goes away.
pub const LISTING_SCHEMA: u32 = 1;

/// Processes with what they did between two snapshots.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listing {
    /// [`LISTING_SCHEMA`].
    pub schema: u32,
    /// Seconds between the snapshots.
    pub interval_s: f64,
    /// Pages of the whole machine that were reclaimed and came back, a second (`/proc/vmstat`).
    pub refaults_per_s: Option<f64>,
    /// What measuring the proportional sets cost, where it was asked for.
    pub pss_cost: Option<PssCost>,
    /// The processes, by number until they are sorted.
    pub processes: Vec<Entry>,
    /// Fault storms, the most expensive first.
    pub storms: Vec<Storm>,
    /// What is not in the list, and why.
    pub notes: Vec<String>,
}

/// A process of a [`Listing`]. What is None is not known: see the notes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Which one.
    #[serde(flatten)]
    pub identity: Identity,
    /// Process id of its parent.
    pub parent: u32,
    /// Number of its effective user.
    pub uid: Option<u32>,
    /// Name of that user, or the number.
    pub user: Option<String>,
    /// Its name, at most 15 bytes, as it is.
    pub name: String,
    /// Arguments apart by spaces, as they are; empty where there are none.
    pub command: Option<String>,
    /// State letter.
    pub state: char,
    /// Working set: resident bytes.
    pub wss: u64,
    /// The part of it that is anonymous.
    pub anon: Option<u64>,
    /// The part of it that is files.
    pub file: Option<u64>,
    /// The part of it that is shared memory.
    pub shmem: Option<u64>,
    /// Proportional set in bytes, where it was asked for.
    pub pss: Option<u64>,
    /// Bytes swapped out.
    pub swap: Option<u64>,
    /// The compressed share of them, where it is known.
    pub compressed: Option<Compressed>,
    /// What it did each second; None for a process that came between the snapshots.
    pub rates: Option<Rates>,
    /// Pages a second that its cgroup reclaimed and got back.
    pub cgroup_refaults_per_s: Option<f64>,
    /// What the OOM killer thinks of it.
    pub oom_score: Option<u64>,
    /// What was set for that.
    pub oom_score_adj: Option<i64>,
    /// Its memory cgroup.
    pub cgroup: Option<PathBuf>,
    /// The caps of its cgroup and of those above it, the tightest first.
    pub caps: Vec<Cap>,
    /// Its own limits (`ulimit`) that are set.
    pub limits: Vec<OwnLimit>,
    /// Whether it is in a fault storm.
    pub storm: bool,
}

/// What measuring proportional sets cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PssCost {
    /// Processes whose page tables were walked.
    pub processes: usize,
    /// Their working sets in bytes.
    pub wss: u64,
    /// Seconds that it took.
    pub seconds: f64,
}

/// A limit of a process's own on memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnLimit {
    /// As in `ulimit -v`, `-d`, `-l`, `-m`.
    pub option: &'static str,
    /// Bytes allowed.
    pub bytes: u64,
    /// Bytes that count.
    pub usage: Option<u64>,
}

impl Listing {
    /// What happened between `before` and `after`, of which the latter has the details.
    pub fn between(before: &Snapshot, after: &Snapshot, users: &Users) -> Listing {
        let seconds = after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let storms = storms(before, after);
        let rate = |before: Option<u64>, after: Option<u64>| {
            let (before, after) = before.zip(after).filter(|_| seconds > 0.0)?;
            Some(after.saturating_sub(before) as f64 / seconds)
        };
        let cgroup_rates: BTreeMap<&PathBuf, Option<f64>> = after
            .cgroups
            .iter()
            .map(|(folder, cgroup)| {
                let earlier = before.cgroups.get(folder).and_then(|cgroup| cgroup.refaults());
                (folder, rate(earlier, cgroup.refaults()))
            })
            .collect();
        let processes = after.processes.iter().map(|process| {
            let mut entry = Entry::new(process, after, users);
            let earlier = before.process(process.identity.pid).filter(|_| seconds > 0.0);
            entry.rates = earlier
                .filter(|earlier| earlier.identity == process.identity)
                .map(|earlier| Rates::between(earlier, process, seconds));
            entry.cgroup_refaults_per_s = entry
                .cgroup
                .as_ref()
                .and_then(|cgroup| *cgroup_rates.get(cgroup)?);
            entry.storm = storms.iter().any(|storm| {
                storm
                    .processes
                    .iter()
                    .any(|part| part.identity == process.identity)
            });
            entry
        });
        Listing {
            schema: LISTING_SCHEMA,
            interval_s: seconds,
            refaults_per_s: rate(before.refaults, after.refaults),
            pss_cost: pss_cost(after),
            processes: processes.collect(),
            storms,
            notes: notes(after),
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

/// The limits that are set, those that count first.
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

/// What is missing, and why.
fn notes(snapshot: &Snapshot) -> Vec<String> {
    let mut notes = Vec::new();
    if snapshot.denied > 0 {
        notes.push(format!(
            "{} processes of other users are left out: /proc does not show them to this user (hidepid); run as root \
             to see them",
            snapshot.denied
        ));
    }
    let mut denied: BTreeMap<&str, u32> = BTreeMap::new();
    for detail in snapshot
        .processes
        .iter()
        .filter_map(|process| process.detail.as_ref())
    {
        for name in &detail.denied {
            *denied.entry(name).or_default() += 1;
        }
    }
    for (name, count) in denied {
        notes.push(format!(
            "{} of {count} processes of other users may not be read by this user: shown as -; run as root to see it",
            what_is_in(name)
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

fn what_is_in(file: &str) -> &'static str {
    match file {
        "smaps_rollup" => "the proportional set",
        "cmdline" => "the command line",
        "status" => "user, working set by kind and swap",
        "limits" => "ulimits",
        _ => "the OOM score",
    }
}
