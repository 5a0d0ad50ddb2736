//! The processes that a guard never touches.

use std::collections::BTreeSet;
use std::path::PathBuf;

use plimsoll_proc::PidStat;

/// The user's and the caller's protections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protection {
    /// Names of processes. The kernel keeps 15 bytes of a name, and so much is compared.
    pub names: Vec<String>,
    /// Cgroups, with those below them: folders, or paths below the mount.
    pub cgroups: Vec<PathBuf>,
    /// Processes by number.
    pub pids: Vec<u32>,
    /// Whether the sessions of the guard and of its ancestors are candidates too.
    pub own_session_is_free: bool,
}

/// Value of `oom_score_adj` from which on down a process is protected, as the OOM killer hardly takes it.
const PROTECTED_ADJUSTMENT: i64 = -500;

pub(super) fn by_adjustment(adjustment: i64) -> bool {
    adjustment <= PROTECTED_ADJUSTMENT
}

/// Why a process is no candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exemption {
    /// The guard itself, one of its ancestors, or init.
    Own,
    /// Of the session of the guard, or of one of its ancestors.
    Session,
    KernelThread,
    Name,
    Pid,
    /// A user waits for it at a terminal.
    Foreground,
}

impl Exemption {
    /// Whether it holds for the life of the process: it need not be looked at again.
    pub(super) fn is_lasting(self) -> bool {
        match self {
            Exemption::Own | Exemption::KernelThread | Exemption::Pid => true,
            Exemption::Session | Exemption::Name | Exemption::Foreground => false,
        }
    }
}

/// The guard's own bonds, found once.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// The guard, its ancestors, and init.
    pids: BTreeSet<u32>,
    /// Their sessions; without that of init, which may be that of everything.
    pub(super) sessions: BTreeSet<u32>,
}

impl Own {
    pub(super) fn find() -> Own {
        let mut own = Own::default();
        let mut next = std::process::id();
        let mut buffer = Vec::new();
        // A chain of ancestors: a number that is reused meanwhile must not make a circle of it.
        while next > 1 && own.pids.insert(next) {
            match PidStat::read(next, &mut buffer) {
                Ok(stat) => {
                    // Sessions of leaders outside of the pid namespace all show as 0.
                    if stat.session > 1 {
                        own.sessions.insert(stat.session);
                    }
                    next = stat.parent;
                }
                Err(_) => break,
            }
        }
        own.pids.insert(1);
        own
    }
}

/// The first reason for which the stat file of a process exempts it.
pub(super) fn by_stat(
    pid: u32,
    stat: &PidStat<'_>,
    own: &Own,
    protection: &Protection,
    is_machine: bool,
) -> Option<Exemption> {
    let checks = [
        (own.pids.contains(&pid), Exemption::Own),
        (stat.kernel_thread, Exemption::KernelThread),
        (protection.pids.contains(&pid), Exemption::Pid),
        (
            !protection.own_session_is_free && own.sessions.contains(&stat.session),
            Exemption::Session,
        ),
        (
            protection.names.iter().any(|name| is_name(name, stat.name)),
            Exemption::Name,
        ),
        // A named cgroup or tree has the processes that its user means.
        (is_machine && stat.in_foreground, Exemption::Foreground),
    ];
    checks.into_iter().find_map(|(holds, why)| holds.then_some(why))
}

/// Bytes of a name that the kernel keeps.
const NAME: usize = 15;

fn is_name(name: &str, found: &[u8]) -> bool {
    let name = name.as_bytes();
    name.get(..NAME).unwrap_or(name) == found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, session: u32, foreground: bool, flags: u32) -> String {
        let terminal = if foreground { 34816 } else { 0 };
        format!("70 ({name}) S 1 70 {session} {terminal} 70 {flags} 1 0 0 0 0 0 0 0 20 0 1 0 5511 1 1")
    }

    #[test]
    fn each_bond_protects() {
        let own = Own {
            pids: [1, 50].into(),
            sessions: [50].into(),
        };
        let protection = Protection {
            names: vec!["sshd".to_owned(), "systemd-journald".to_owned()],
            pids: vec![99],
            ..Protection::default()
        };
        let found = |pid, text: String, is_machine| {
            let stat = PidStat::parse(text.as_bytes()).unwrap();
            by_stat(pid, &stat, &own, &protection, is_machine)
        };
        assert_eq!(found(70, stat("a", 70, false, 0), true), None);
        assert_eq!(found(1, stat("init", 1, false, 0), true), Some(Exemption::Own));
        assert_eq!(found(50, stat("a", 70, false, 0), false), Some(Exemption::Own));
        assert_eq!(
            found(70, stat("a", 50, false, 0), false),
            Some(Exemption::Session)
        );
        assert_eq!(
            found(70, stat("sshd", 70, false, 0), false),
            Some(Exemption::Name)
        );
        assert_eq!(found(70, stat("sshd2", 70, false, 0), false), None);
        let journal = stat("systemd-journal", 70, false, 0);
        assert_eq!(
            found(70, journal, false),
            Some(Exemption::Name),
            "the kernel cuts names"
        );
        assert_eq!(found(99, stat("a", 70, false, 0), false), Some(Exemption::Pid));
        let thread = stat("kswapd0", 0, false, 0x0020_0000);
        assert_eq!(found(70, thread, true), Some(Exemption::KernelThread));
        let foreground = stat("vi", 70, true, 0);
        assert_eq!(found(70, foreground.clone(), true), Some(Exemption::Foreground));
        assert_eq!(found(70, foreground, false), None, "a cgroup was named");
        let free = Protection {
            own_session_is_free: true,
            ..Protection::default()
        };
        let text = stat("a", 50, false, 0);
        let stat = PidStat::parse(text.as_bytes()).unwrap();
        assert_eq!(by_stat(70, &stat, &own, &free, false), None);
    }

    #[test]
    fn the_own_bonds_have_this_process_and_its_parents() {
        let own = Own::find();
        let parent = PidStat::read(std::process::id(), &mut Vec::new()).unwrap().parent;
        assert!(own.pids.contains(&std::process::id()) && own.pids.contains(&1));
        assert!(parent == 0 || own.pids.contains(&parent));
        assert!(!own.sessions.contains(&0) && !own.sessions.contains(&1));
    }
}
