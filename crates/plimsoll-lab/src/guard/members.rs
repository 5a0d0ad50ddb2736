//! The processes of the scope, as one look finds them.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use plimsoll_model::sanitize::sanitize;
use plimsoll_proc::cgroup::{Hierarchy, members};
use plimsoll_proc::{Folder, PidStat, PidStatus, ProcessId, oom};

use super::error::GuardError;
use super::policy::Candidate;
use super::protection::{self, Exemption, Own, PROTECTED_ADJUSTMENT, Protection};
use super::scope::Scope;

/// Looks without CPU time and faults after which a process is idle.
const IDLE: u64 = 5;
/// Looks between two checks of a process whose exemption lasts, and between two readings of the memory of a stopped one.
const SELDOM: u64 = 30;

/// The processes at one time.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) candidates: Vec<Candidate>,
    pub(super) names: HashMap<ProcessId, String>,
    /// Processes that another program has stopped.
    pub(super) foreign: Vec<ProcessId>,
    /// Bytes in RAM of the processes that are no candidates.
    pub(super) exempt_resident: u64,
}

/// The last look at a process.
#[derive(Debug, Clone)]
struct Known {
    id: ProcessId,
    lasting: Option<Exemption>,
    name: String,
    /// Look of the last activity, and of the last reading of its memory.
    active: u64,
    read: u64,
    cpu_us: u64,
    faults: u64,
    anon: u64,
    swap: u64,
    oom_adjustment: i64,
    uid: Option<u32>,
    /// Its state was seen as stopped since the guard stopped it.
    seen_stopped: bool,
    /// Another program continued it after the guard had stopped it, or the kernel refused its stop.
    spared: bool,
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
    buffer: Vec<u8>,
}

impl Members {
    pub(super) fn new(scope: Scope, protection: Protection) -> Members {
        let hierarchy = Hierarchy::of_this_process().ok();
        // A cgroup that does not exist yet is looked for in each look.
        let folder = |path: &PathBuf| match &hierarchy {
            Some(hierarchy) => match path.starts_with(&hierarchy.mount) {
                true => path.clone(),
                false => hierarchy.mount.join(path.strip_prefix("/").unwrap_or(path)),
            },
            None => path.clone(),
        };
        Members {
            protected: protection.cgroups.iter().map(folder).collect(),
            scope,
            protection,
            own: Own::find(),
            known: HashMap::new(),
            looks: 0,
            buffer: Vec::new(),
        }
    }

    pub(super) fn scope_name(&self) -> String {
        self.scope.name()
    }

    pub(super) fn check_scope(&self) -> Result<(), GuardError> {
        self.scope.check()
    }

    /// Spares a process for good.
    pub(super) fn spare(&mut self, process: ProcessId) {
        if let Some(known) = self.known.get_mut(&process.pid).filter(|known| known.id == process) {
            known.spared = true;
        }
    }

    /// Looks at all processes. `stopped` are those that the guard has stopped.
    pub(super) fn look(&mut self, stopped: &BTreeSet<ProcessId>) -> Result<Look, GuardError> {
        self.looks += 1;
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
            if let Some(known) = before
                .clone()
                .filter(|known| known.lasting.is_some() && !(self.looks + u64::from(pid)).is_multiple_of(SELDOM))
            {
                look.exempt_resident += known.anon;
                now.insert(pid, known);
                continue;
            }
            if let Some(known) = self.one(pid, before, stopped, &sheltered, &mut look) {
                now.insert(pid, known);
            }
        }
        self.known = now;
        Ok(look)
    }

    /// Looks at a process. None if it has ended.
    fn one(
        &mut self,
        pid: u32,
        before: Option<Known>,
        stopped: &BTreeSet<ProcessId>,
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
        let name = stat.name_text().into_owned();
        let before = before.filter(|known| known.id == id);
        let is_new = before.is_none();
        let mut known = before.unwrap_or_else(|| Known::new(id));
        let is_own_stop = stopped.contains(&id);
        known.see(is_own_stop, is_stopped);
        if known.name != name {
            // A name may change by exec.
            known.name = name;
        }
        known.lasting = exemption.filter(|why| why.is_lasting());
        if !is_new && (known.cpu_us != cpu_us || known.faults != faults || waits) || is_own_stop {
            known.active = self.looks;
        }
        (known.cpu_us, known.faults) = (cpu_us, faults);
        let is_due = !is_own_stop || self.looks >= known.read + SELDOM;
        if !stat_is_of_kernel(exemption) && (is_due || is_new) {
            let is_seldom = known.read == 0 || (self.looks + u64::from(pid)).is_multiple_of(SELDOM);
            known.read_memory(&folder, &mut buffer, is_seldom);
            known.read = self.looks;
        }
        self.buffer = buffer;
        let is_idle = known.active + IDLE < self.looks || known.active == 0;
        let foreign = is_stopped && !is_own_stop;
        if foreign {
            look.foreign.push(id);
        }
        let exempt = exemption.is_some()
            || foreign
            || known.spared
            || is_idle
            || sheltered.iter().any(|pids| pids.binary_search(&pid).is_ok())
            || known.oom_adjustment <= PROTECTED_ADJUSTMENT
            || !may_signal(known.uid);
        look.names.insert(id, sanitize(&known.name).into_owned());
        if exempt {
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
            read: 0,
            cpu_us: 0,
            faults: 0,
            anon: 0,
            swap: 0,
            oom_adjustment: 0,
            uid: None,
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
        }
        if with_adjustment
            && let Ok(text) = folder.read("oom_score_adj", buffer)
        {
            self.oom_adjustment = oom::adjustment(text).unwrap_or(0);
        }
    }
}

fn stat_is_of_kernel(exemption: Option<Exemption>) -> bool {
    exemption == Some(Exemption::KernelThread)
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
        let mut known = Known::new(ProcessId { pid: 1, start_ticks: 1 });
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

    /// The look after the first: a process is active once its CPU time or its faults have grown.
    fn candidates_of(command: &str, protection: Protection) -> (Vec<String>, usize) {
        let mut child = plimsoll_testkit::command("sh").args(["-c", command]).spawn().unwrap();
        let scope = Scope::find(&ScopeChoice::Tree(child.id())).unwrap();
        let mut members = Members::new(scope, protection);
        let mut names = Vec::new();
        let mut foreign = 0;
        for _ in 0..100 {
            let look = members.look(&BTreeSet::new()).unwrap();
            foreign = look.foreign.len();
            names = look.candidates.iter().map(|one| look.names[&one.id].clone()).collect();
            if !names.is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        (names, foreign)
    }

    const SPINS: &str = "while :; do :; done";

    #[test]
    fn active_processes_without_protection_are_candidates() {
        let free = Protection {
            own_session_is_free: true,
            ..Protection::default()
        };
        assert_eq!(candidates_of(SPINS, free.clone()), (vec!["sh".to_owned()], 0));
        assert_eq!(candidates_of("sleep 60", free.clone()).0, Vec::<String>::new());
        assert_eq!(candidates_of("kill -STOP $$", free.clone()), (Vec::new(), 1));
        let named = Protection {
            names: vec!["sh".to_owned()],
            ..free.clone()
        };
        assert_eq!(candidates_of(SPINS, named).0, Vec::<String>::new());
        assert_eq!(candidates_of(SPINS, Protection::default()).0, Vec::<String>::new(), "own session");
        let adjusted = format!("echo -500 > /proc/$$/oom_score_adj && {SPINS}");
        if rustix::process::geteuid().is_root() {
            assert_eq!(candidates_of(&adjusted, free).0, Vec::<String>::new());
        }
    }
}
