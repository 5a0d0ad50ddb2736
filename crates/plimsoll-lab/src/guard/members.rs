//! The processes of the scope, as one look finds them.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use plimsoll_model::sanitize::sanitize;
use plimsoll_proc::cgroup::{Hierarchy, members};
use plimsoll_proc::{Folder, PidStat, PidStatus, ProcessId, oom};

use super::error::GuardError;
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
    /// The names of processes that the look before had.
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

    /// Number of looks so far.
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

    /// Looks at all processes. `stopped` are those that the guard has stopped, `throttled` the cgroups that it has throttled.
    pub(super) fn look(
        &mut self,
        stopped: &BTreeSet<ProcessId>,
        throttled: &BTreeSet<GroupId>,
    ) -> Result<Look, GuardError> {
        self.looks += 1;
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
            let before = self.known.remove(&pid);
            if let Some(known) = before.clone().filter(|known| {
                known.lasting.is_some() && !(self.looks + u64::from(pid)).is_multiple_of(SELDOM)
            }) {
                look.exempt_resident += known.anon;
                self.exempt_group(pid, &known);
                now.insert(pid, known);
                continue;
            }
            let held = Held { stopped, throttled };
            if let Some(known) = self.one(pid, before, held, &sheltered, &mut look) {
                now.insert(pid, known);
            }
        }
        let gone = std::mem::replace(&mut self.known, now).into_values();
        look.former = gone
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
        let folder = Folder::open(pid).ok()?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let stat = PidStat::parse(folder.read("stat", &mut buffer).ok()?).filter(PidStat::is_alive)?;
        let id = ProcessId {
            pid,
            start_ticks: stat.start_ticks,
        };
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
            .and_then(|groups| groups.of(&folder, &mut buffer));
        let is_held = is_own_stop || group.is_some_and(|group| held.throttled.contains(&group));
        if !is_new && (known.cpu_us != cpu_us || known.faults != faults || waits) || is_held {
            known.active = self.looks;
        }
        (known.cpu_us, known.faults) = (cpu_us, faults);
        let is_seldom = is_new || (self.looks + u64::from(pid)).is_multiple_of(SELDOM);
        let is_idle = known.active + IDLE < self.looks || known.active == 0;
        if exemption != Some(Exemption::KernelThread) && (is_seldom || (exemption.is_none() && !is_idle)) {
            known.read_memory(&folder, &mut buffer, is_seldom);
        }
        self.buffer = buffer;
        let foreign = is_stopped && !is_own_stop;
        if foreign {
            look.foreign.push(id);
        }
        let exempt = exemption.is_some()
            || foreign
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
        let Ok(stat) = PidStat::read(process.pid, &mut buffer) else {
            return false;
        };
        let is_machine = self.scope.is_machine();
        stat.start_ticks == process.start_ticks
            && stat.is_alive()
            && !stat.is_stopped()
            && protection::by_stat(process.pid, &stat, &self.own, &self.protection, is_machine).is_none()
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

/// Whether this user may send signals to a process of that user.
fn may_signal(uid: Option<u32>) -> bool {
    let own = rustix::process::geteuid();
    own.is_root() || uid == Some(own.as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::ScopeChoice;

    #[test]
    fn a_process_that_another_program_continues_is_spared() {
        let mut known = Known::new(ProcessId {
            pid: 1,
            start_ticks: 1,
        });
        known.see(true, false);
        assert!(!known.spared, "it waits for a page");
        known.see(true, true);
        known.see(true, true);
        assert!(!known.spared);
        known.see(false, false);
        assert!(!known.spared, "the guard continued it");
        known.see(true, true);
        known.see(true, false);
        assert!(known.spared);
    }

    /// A shell that says when it has prepared itself, then goes on.
    fn shell(prepare: &str, then: &str) -> std::process::Child {
        let script = format!("{prepare} echo ready; {then}");
        // The session of the tests may be one of which nothing is known: init's, or one from outside of the pid namespace.
        let mut child = plimsoll_testkit::command("setsid")
            .args(["sh", "-c", &script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(plimsoll_testkit::next_line(&mut child), "ready");
        child
    }

    /// Looks at a tree until `done` or for so many looks. A process is active once its CPU time or its faults have grown.
    fn look_at(
        mut child: std::process::Child,
        protection: Protection,
        looks: u32,
        done: impl Fn(&Look) -> bool,
    ) -> bool {
        let scope = Scope::find(&ScopeChoice::Tree(child.id())).unwrap();
        let mut members = Members::new(scope, protection, None);
        members.own.sessions.insert(child.id());
        let found = (0..looks).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            done(&members.look(&BTreeSet::new(), &BTreeSet::new()).unwrap())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        found
    }

    /// More looks than a process takes to become a candidate on a busy machine, and some looks that suffice on a quiet one.
    const MANY: u32 = 1500;
    const SOME: u32 = 40;
    const SPINS: &str = "while :; do :; done";

    fn free() -> Protection {
        Protection {
            own_session_is_free: true,
            ..Protection::default()
        }
    }

    fn has_candidates(look: &Look) -> bool {
        !look.candidates.is_empty()
    }

    #[test]
    fn active_processes_without_protection_are_candidates() {
        let is_shell = |look: &Look| look.candidates.iter().any(|one| look.names[&one.id] == "sh");
        assert!(look_at(shell("", SPINS), free(), MANY, is_shell));
        assert!(
            !look_at(shell("", SPINS), Protection::default(), SOME, has_candidates),
            "a session of the guard"
        );
        let named = Protection {
            names: vec!["sh".to_owned()],
            ..free()
        };
        assert!(!look_at(shell("", SPINS), named, SOME, has_candidates));
        let child = shell("", SPINS);
        let numbered = Protection {
            pids: vec![child.id()],
            ..free()
        };
        assert!(!look_at(child, numbered, SOME, has_candidates));
        // Only CAP_SYS_RESOURCE may lower it.
        let is_adjusted = |look: &Look| look.candidates.iter().any(|one| one.oom_adjustment == 300);
        let adjusted = shell("echo 300 > /proc/$$/oom_score_adj;", SPINS);
        assert!(look_at(adjusted, free(), MANY, is_adjusted));
        assert!(protection::by_adjustment(-500) && !protection::by_adjustment(-499));
    }

    #[test]
    fn processes_that_another_program_stopped_are_none() {
        let is_foreign = |look: &Look| !look.foreign.is_empty() && look.candidates.is_empty();
        assert!(look_at(shell("", "kill -STOP $$"), free(), MANY, is_foreign));
    }
}
