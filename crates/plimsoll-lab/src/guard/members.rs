//! The processes of the scope, as one look finds them.

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use plimsoll_model::sanitize::sanitize;
use plimsoll_proc::cgroup::{Hierarchy, members};
use plimsoll_proc::{Folder, PidStat, PidStatFile, PidStatus, ProcessId, Tree, oom};

use super::error::GuardError;
use super::frozen::Frozen;
use super::groups::Groups;
use super::order::{GroupId, Target};
use super::policy::Candidate;
use super::protection::{self, Exemption, Own, Protection};
use super::scope::Scope;

/// Looks without CPU time and faults after which a process is idle.
const IDLE: u64 = 5;
/// Looks between two checks of a process whose exemption lasts, and between two readings of the memory of an exempt or idle
/// one.
const SELDOM: u64 = 30;

/// The processes at one time.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) candidates: Vec<Candidate>,
    pub(super) names: HashMap<ProcessId, String>,
    /// The names of processes that the look before had, and this one has not.
    pub(super) former: Vec<(ProcessId, String)>,
    /// Processes that another program has stopped.
    pub(super) foreign: Vec<ProcessId>,
    /// Bytes in RAM of the processes that are no candidates.
    pub(super) exempt_resident: u64,
    /// The cgroups that may be throttled: below the scope, without an exempt process other than idle ones. Empty except for
    /// the policy `throttle`.
    pub(super) groups: BTreeSet<GroupId>,
}

impl Look {
    /// The name of a process, also if it has left the scope since the look before.
    pub(super) fn name(&self, process: ProcessId) -> String {
        let former = || {
            self.former
                .iter()
                .find(|(id, _)| *id == process)
                .map(|(_, name)| name)
        };
        self.names
            .get(&process)
            .or_else(former)
            .cloned()
            .unwrap_or_default()
    }
}

/// The last look at a process.
#[derive(Debug, Clone)]
struct Known {
    id: ProcessId,
    lasting: Option<Exemption>,
    name: String,
    /// Look of the last activity.
    active: u64,
    cpu_us: u64,
    faults: u64,
    anon: u64,
    swap: u64,
    oom_adjustment: i64,
    uid: Option<u32>,
    is_traced: bool,
    /// Its state was seen as stopped since the guard stopped it.
    seen_stopped: bool,
    /// Another program continued it after the guard had stopped it, or the kernel refused its stop.
    spared: bool,
}

/// The processes and cgroups that the guard holds back.
#[derive(Debug, Clone, Copy)]
struct Held<'a> {
    stopped: &'a BTreeSet<ProcessId>,
    throttled: &'a BTreeSet<GroupId>,
}

#[derive(Debug)]
pub(super) struct Members {
    scope: Scope,
    protection: Protection,
    own: Own,
    known: HashMap<u32, Known>,
    looks: u64,
    /// Folders of the protected cgroups.
    protected: Vec<PathBuf>,
    frozen: Frozen,
    /// `None` except for the policy `throttle`.
    groups: Option<Groups>,
    buffer: Vec<u8>,
}

impl Members {
    pub(super) fn new(scope: Scope, protection: Protection, groups: Option<Groups>) -> Members {
        let hierarchy = Hierarchy::of_this_process().ok();
        // A cgroup that does not exist yet is looked for in each look.
        let folder = |path: &PathBuf| match &hierarchy {
            Some(hierarchy) => hierarchy.named(path),
            None => path.clone(),
        };
        Members {
            protected: protection.cgroups.iter().map(folder).collect(),
            frozen: Frozen::find(&Tree::live()),
            scope,
            protection,
            own: Own::find(),
            known: HashMap::new(),
            looks: 0,
            groups,
            buffer: Vec::new(),
        }
    }

    pub(super) fn scope_name(&self) -> String {
        self.scope.name()
    }

    pub(super) fn check_scope(&mut self) -> Result<(), GuardError> {
        self.scope.check()
    }

    /// The protected cgroups that do not exist.
    pub(super) fn missing_protections(&self) -> Vec<String> {
        let missing = self.protected.iter().filter(|folder| members(folder).is_err());
        missing
            .map(|folder| sanitize(&folder.to_string_lossy()).into_owned())
            .collect()
    }

    /// Name of a process of the last look.
    pub(super) fn known_name(&self, process: ProcessId) -> String {
        let known = self.known.get(&process.pid);
        known
            .filter(|known| known.id == process)
            .map_or_else(String::new, |known| sanitize(&known.name).into_owned())
    }

    #[cfg(test)]
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// Takes in that the guard has stopped a process.
    pub(super) fn stopped_again(&mut self, process: ProcessId) {
        if let Some(known) = self
            .known
            .get_mut(&process.pid)
            .filter(|known| known.id == process)
        {
            known.seen_stopped = false;
        }
    }

    /// Spares a process or a cgroup for good.
    pub(super) fn spare(&mut self, target: Target) {
        match (target, &mut self.groups) {
            (Target::Process(process), _) => {
                let known = self.known.get_mut(&process.pid);
                if let Some(known) = known.filter(|known| known.id == process) {
                    known.spared = true;
                }
            }
            (Target::Group(id), Some(groups)) => groups.spare(id),
            (Target::Group(_), None) => {}
        }
    }

    /// Folder of a cgroup of the last look.
    pub(super) fn group_folder(&self, id: GroupId) -> Option<&Path> {
        self.groups.as_ref().and_then(|groups| groups.folder(id))
    }

    /// Name of a process or a cgroup of the last look or the one before.
    pub(super) fn name(&self, target: Target, look: &Look) -> String {
        match (target, &self.groups) {
            (Target::Process(process), _) => look.name(process),
            (Target::Group(id), Some(groups)) => groups.name(id),
            (Target::Group(_), None) => String::new(),
        }
    }

    /// Looks at all processes; at those of a tree that the last check of the scope found. `stopped` are those that the guard has
    /// stopped, `throttled` the cgroups that it has throttled.
    pub(super) fn look(
        &mut self,
        stopped: &BTreeSet<ProcessId>,
        throttled: &BTreeSet<GroupId>,
    ) -> Result<Look, GuardError> {
        self.looks += 1;
        self.frozen.begin();
        if let Some(groups) = &mut self.groups {
            groups.begin();
        }
        let pids = self.scope.pids()?;
        // Ascending, each.
        let sheltered: Vec<Vec<u32>> = self
            .protected
            .iter()
            .filter_map(|folder| members(folder).ok())
            .collect();
        let mut look = Look::default();
        let mut now = HashMap::with_capacity(pids.len());
        for pid in pids {
            let is_seldom = (self.looks + u64::from(pid)).is_multiple_of(SELDOM);
            let before = self.known.get(&pid).cloned();
            let before = match before {
                Some(known) if known.lasting.is_some() && !is_seldom => {
                    look.exempt_resident += known.anon;
                    self.exempt_group(pid, &known);
                    now.insert(pid, known);
                    continue;
                }
                before => before,
            };
            let held = Held { stopped, throttled };
            if let Some(known) = self.one(pid, before, held, &sheltered, &mut look) {
                now.insert(pid, known);
            }
        }
        let before = std::mem::replace(&mut self.known, now).into_values();
        let is_known = |id: ProcessId| self.known.get(&id.pid).is_some_and(|known| known.id == id);
        look.former = before
            .filter(|known| !is_known(known.id))
            .map(|known| (known.id, sanitize(&known.name).into_owned()))
            .collect();
        if let Some(groups) = &self.groups {
            look.groups = groups.free();
        }
        Ok(look)
    }

    /// Takes in that a process is exempt, and its cgroup with it.
    fn exempt_group(&mut self, pid: u32, known: &Known) {
        let is_in_root = known.lasting == Some(Exemption::KernelThread);
        if let Some(groups) = self.groups.as_mut().filter(|_| !is_in_root)
            && let Ok(folder) = Folder::open(pid)
            && let Some(id) = groups.of(&folder, &mut self.buffer)
        {
            groups.exempt(id);
        }
    }

    /// Looks at a process. None if it has ended.
    fn one(
        &mut self,
        pid: u32,
        before: Option<Known>,
        held: Held<'_>,
        sheltered: &[Vec<u32>],
        look: &mut Look,
    ) -> Option<Known> {
        let file = PidStatFile::open(pid).ok()?;
        // Opened at its first use: most idle and exempt processes need none.
        let folder = LazyCell::new(|| file.folder().ok());
        let mut buffer = std::mem::take(&mut self.buffer);
        let stat = file.read(&mut buffer).ok().filter(PidStat::is_alive)?;
        let id = ProcessId {
            pid,
            start_ticks: stat.start_ticks,
        };
        if !self.scope.has(id) {
            return None;
        }
        let exemption = protection::by_stat(pid, &stat, &self.own, &self.protection, self.scope.is_machine());
        let (cpu_us, user_us, faults) = (stat.user_us + stat.system_us, stat.user_us, stat.major_faults);
        let (is_stopped, waits) = (stat.is_stopped(), stat.state == 'D');
        let (name, parent) = (stat.name_text().into_owned(), stat.parent);
        let before = before.filter(|known| known.id == id);
        let is_new = before.is_none();
        let mut known = before.unwrap_or_else(|| Known::new(id));
        let is_own_stop = held.stopped.contains(&id);
        known.see(is_own_stop, is_stopped);
        if known.name != name {
            // A name may change by exec.
            known.name = name;
        }
        known.lasting = exemption.filter(|why| why.is_lasting());
        let group = self
            .groups
            .as_mut()
            .and_then(|groups| groups.of(folder.as_ref()?, &mut buffer));
        let is_held = is_own_stop || group.is_some_and(|group| held.throttled.contains(&group));
        let works = known.cpu_us != cpu_us || known.faults != faults;
        // A frozen process does nothing, and its state is D (v1) or S (v2). An idle one in S is exempt anyway.
        let may_be_frozen = !works && (waits || known.active + IDLE >= self.looks);
        let is_frozen = !is_new
            && !is_own_stop
            && exemption.is_none()
            && may_be_frozen
            && folder
                .as_ref()
                .is_some_and(|folder| self.frozen.holds(folder, &mut buffer));
        if !is_new && (works || waits && !is_frozen) || is_held {
            known.active = self.looks;
        }
        (known.cpu_us, known.faults) = (cpu_us, faults);
        let is_seldom = is_new || (self.looks + u64::from(pid)).is_multiple_of(SELDOM);
        let is_idle = known.active + IDLE < self.looks || known.active == 0;
        let has_memory = exemption != Some(Exemption::KernelThread);
        if has_memory && (is_seldom || (exemption.is_none() && !is_idle)) {
            // Without a folder, the next look takes it for a new process: it must know `oom_score_adj`.
            known.read_memory(folder.as_ref()?, &mut buffer, is_seldom);
        }
        self.buffer = buffer;
        let foreign = is_stopped && !is_own_stop;
        if foreign {
            look.foreign.push(id);
        }
        let exempt = exemption.is_some()
            || foreign
            || is_frozen
            || known.spared
            || known.is_traced
            || self.protection.pids.contains(&parent)
            || sheltered.iter().any(|pids| pids.binary_search(&pid).is_ok())
            || protection::by_adjustment(known.oom_adjustment)
            || !may_signal(known.uid);
        if let (Some(groups), Some(group), true) = (&mut self.groups, group, exempt) {
            groups.exempt(group);
        }
        look.names.insert(id, sanitize(&known.name).into_owned());
        if exempt || is_idle {
            look.exempt_resident += known.anon;
        } else {
            look.candidates.push(Candidate {
                id,
                demand: known.anon + known.swap,
                resident: known.anon,
                user_us,
                cpu_us,
                faults,
                oom_adjustment: known.oom_adjustment,
                group,
            });
        }
        Some(known)
    }

    /// Whether the process, whose pidfd the caller has open, may be stopped now.
    pub(super) fn may_stop(&self, process: ProcessId) -> bool {
        let mut buffer = Vec::new();
        let Ok(folder) = Folder::open(process.pid) else {
            return false;
        };
        let Some(stat) = folder.read("stat", &mut buffer).ok().and_then(PidStat::parse) else {
            return false;
        };
        let is_machine = self.scope.is_machine();
        let is_free = stat.start_ticks == process.start_ticks
            && stat.is_alive()
            && !stat.is_stopped()
            && protection::by_stat(process.pid, &stat, &self.own, &self.protection, is_machine).is_none();
        // As it is now: the look may have read the state earlier.
        is_free && !self.frozen.holds_now(&folder, &mut buffer)
    }
}

impl Known {
    fn new(id: ProcessId) -> Known {
        Known {
            id,
            lasting: None,
            name: String::new(),
            active: 0,
            cpu_us: 0,
            faults: 0,
            anon: 0,
            swap: 0,
            oom_adjustment: 0,
            uid: None,
            is_traced: false,
            seen_stopped: false,
            spared: false,
        }
    }

    /// Takes in whether it is stopped. A task that waits for a page stops only afterwards.
    fn see(&mut self, by_guard: bool, is_stopped: bool) {
        if by_guard && self.seen_stopped && !is_stopped {
            self.spared = true;
        }
        self.seen_stopped = by_guard && is_stopped;
    }

    fn read_memory(&mut self, folder: &Folder, buffer: &mut Vec<u8>, with_adjustment: bool) {
        if let Ok(text) = folder.read("status", buffer) {
            let status = PidStatus::parse(text);
            self.anon = status.anon.unwrap_or(0) + status.shmem.unwrap_or(0);
            self.swap = status.swap.unwrap_or(0);
            self.uid = status.uid;
            self.is_traced = status.is_traced;
        }
        if with_adjustment && let Ok(text) = folder.read("oom_score_adj", buffer) {
            self.oom_adjustment = oom::adjustment(text).unwrap_or(0);
        }
    }
}

/// This user, if it may send signals to its own processes alone.
pub(super) fn only_user() -> Option<u32> {
    let own = rustix::process::geteuid();
    (!own.is_root()).then(|| own.as_raw())
}

/// Whether this user may send signals to a process of that user.
fn may_signal(uid: Option<u32>) -> bool {
    only_user().is_none_or(|own| uid == Some(own))
}

#[cfg(test)]
mod tests;
