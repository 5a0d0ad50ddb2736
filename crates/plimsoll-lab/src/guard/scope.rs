//! The scope of a guard: the machine, a cgroup or a tree of processes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;

use plimsoll_model::sanitize::sanitize;
use plimsoll_proc::cgroup::{Hierarchy, MemoryCgroup, members};
use plimsoll_proc::{ProcessId, Tree, meminfo, pids};

use super::ScopeChoice;
use super::error::GuardError;

#[derive(Debug)]
pub(super) enum Scope {
    Machine,
    Cgroup {
        group: MemoryCgroup,
        name: String,
    },
    Tree {
        root: ProcessId,
        /// Processes of the tree that were seen, by their numbers: they stay in it when their parent ends.
        known: BTreeMap<u32, ProcessId>,
        /// The cgroup of the root, where it limits the tree.
        group: Option<MemoryCgroup>,
    },
}

impl Scope {
    pub(super) fn find(choice: &ScopeChoice) -> Result<Scope, GuardError> {
        match choice {
            ScopeChoice::Machine => Ok(Scope::Machine),
            ScopeChoice::Cgroup(path) => {
                let hierarchy = Hierarchy::of_this_process().map_err(GuardError::NoHierarchy)?;
                let (group, name) = hierarchy.find(path).map_err(GuardError::NoCgroup)?;
                let name = sanitize(&name).into_owned();
                match group.is_root_of_machine() {
                    true => Ok(Scope::Machine),
                    false => Ok(Scope::Cgroup { group, name }),
                }
            }
            ScopeChoice::Tree(pid) => {
                let root = ProcessId::of(*pid).map_err(|_| GuardError::NoProcess { pid: *pid })?;
                Ok(Scope::Tree {
                    root,
                    known: BTreeMap::from([(root.pid, root)]),
                    group: limiting_group(*pid),
                })
            }
        }
    }

    /// The cgroup whose pressure and room count; `None` for those of the machine.
    pub(super) fn group(&self) -> Option<&MemoryCgroup> {
        match self {
            Scope::Machine => None,
            Scope::Cgroup { group, .. } => Some(group),
            Scope::Tree { group, .. } => group.as_ref(),
        }
    }

    pub(super) fn is_machine(&self) -> bool {
        matches!(self, Scope::Machine)
    }

    pub(super) fn is_tree(&self) -> bool {
        matches!(self, Scope::Tree { .. })
    }

    pub(super) fn name(&self) -> String {
        match self {
            Scope::Machine => "the machine".to_owned(),
            Scope::Cgroup { name, .. } => format!("the cgroup {name}"),
            Scope::Tree { root, .. } => format!("process {} and its descendants", root.pid),
        }
    }

    /// Checks that the scope exists, and finds the processes of a tree. They stay in it when their parent ends after this call.
    pub(super) fn check(&mut self) -> Result<(), GuardError> {
        match self {
            Scope::Machine => Ok(()),
            Scope::Cgroup { group, .. } if group.path().exists() => Ok(()),
            Scope::Cgroup { name, .. } => Err(GuardError::CgroupRemoved { name: name.clone() }),
            Scope::Tree { root, known, .. } => {
                grow(known);
                match known.is_empty() {
                    true => Err(GuardError::TreeEnded { pid: root.pid }),
                    false => Ok(()),
                }
            }
        }
    }

    /// Numbers of the processes in it; those of a tree as the last [`Scope::check`] found them.
    pub(super) fn pids(&self) -> Result<Vec<u32>, GuardError> {
        match self {
            Scope::Machine => pids::all().map_err(GuardError::Processes),
            Scope::Cgroup { group, name } => {
                members(group.path()).map_err(|_| GuardError::CgroupRemoved { name: name.clone() })
            }
            Scope::Tree { known, .. } => Ok(known.keys().copied().collect()),
        }
    }

    /// Whether a process with a number of [`Scope::pids`] is in it: that of a tree may be a later process's by now.
    pub(super) fn has(&self, process: ProcessId) -> bool {
        match self {
            Scope::Machine | Scope::Cgroup { .. } => true,
            Scope::Tree { known, .. } => known.get(&process.pid) == Some(&process),
        }
    }
}

/// Adds the descendants of known processes, and drops ended ones.
fn grow(known: &mut BTreeMap<u32, ProcessId>) {
    known.retain(|_, process| process.is_alive());
    let mut next: Vec<u32> = known.keys().copied().collect();
    while let Some(parent) = next.pop() {
        // A process that has ended meanwhile has no children.
        for pid in pids::children(parent).unwrap_or_default() {
            // The start of a known one was compared above. If it has ended since, the next check finds a later process with
            // its number, if the parent of that one still runs then.
            if let Entry::Vacant(place) = known.entry(pid)
                && let Ok(child) = ProcessId::of(pid)
            {
                place.insert(child);
                next.push(pid);
            }
        }
    }
}

/// The cgroup of a process, if it or one above it has a limit below RAM.
fn limiting_group(pid: u32) -> Option<MemoryCgroup> {
    let hierarchy = Hierarchy::of_process(pid).ok()?;
    let ram = meminfo::read(&Tree::live(), "MemTotal")?;
    let folder = hierarchy.ancestors().find(|path| {
        let limit = MemoryCgroup::new(*path, hierarchy.version).limit().ok().flatten();
        limit.is_some_and(|limit| limit < ram)
    })?;
    Some(MemoryCgroup::new(PathBuf::from(folder), hierarchy.version))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Stdio;

    use super::*;

    /// A shell that starts a process and prints its number, once its standard input ends.
    fn shell() -> std::process::Child {
        plimsoll_testkit::command("sh")
            .args(["-c", "read go; sleep 60 & echo $!; wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Ends the standard input of a shell. Returns the process that it starts.
    fn start(shell: &mut std::process::Child) -> ProcessId {
        drop(shell.stdin.take());
        let pid = plimsoll_testkit::next_line(shell).parse().unwrap();
        ProcessId::of(pid).unwrap()
    }

    fn kill(pid: u32) {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }

    /// A look after the check read all files of the tree again.
    #[test]
    fn the_check_alone_reads_a_tree() {
        let mut shell = shell();
        let mut scope = Scope::find(&ScopeChoice::Tree(shell.id())).unwrap();
        scope.check().unwrap();
        let sleeper = start(&mut shell);
        let before = scope.pids().unwrap();
        scope.check().unwrap();
        let after: BTreeSet<u32> = scope.pids().unwrap().into_iter().collect();
        let later = ProcessId {
            start_ticks: sleeper.start_ticks + 1,
            ..sleeper
        };
        let (has_it, has_later) = (scope.has(sleeper), scope.has(later));
        kill(sleeper.pid);
        shell.wait().unwrap();
        assert_eq!(before, [shell.id()]);
        assert_eq!(after, [shell.id(), sleeper.pid].into());
        assert!(has_it && !has_later, "the number is a later process's");
    }

    /// The files of a child that is known are not read a second time.
    #[test]
    fn a_later_child_with_the_number_of_an_ended_one_is_in_the_tree() {
        let mut shell = shell();
        let sleeper = start(&mut shell);
        let mut scope = Scope::find(&ScopeChoice::Tree(shell.id())).unwrap();
        scope.check().unwrap();
        let ended = ProcessId {
            start_ticks: sleeper.start_ticks - 1,
            ..sleeper
        };
        if let Scope::Tree { known, .. } = &mut scope {
            known.insert(sleeper.pid, ended);
        }
        let had_ended = scope.has(ended) && !scope.has(sleeper);
        scope.check().unwrap();
        let has_later = scope.has(sleeper) && !scope.has(ended);
        kill(sleeper.pid);
        shell.wait().unwrap();
        assert!(had_ended && has_later);
    }

    /// A child of init is no descendant any more.
    #[test]
    fn a_process_whose_parent_has_ended_stays_in_the_tree() {
        let mut shell = plimsoll_testkit::command("sh")
            .args(["-c", "exec 3<&0; sh -c 'sleep 60 & echo $!; read go' <&3 & wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let sleeper: u32 = plimsoll_testkit::next_line(&mut shell).parse().unwrap();
        let mut scope = Scope::find(&ScopeChoice::Tree(shell.id())).unwrap();
        // A calm guard does not list the processes: it ended with the root, and left the descendants.
        scope.check().unwrap();
        // Standard input ends: the inner shell, the parent of the sleeper, ends with it.
        drop(shell.stdin.take());
        shell.wait().unwrap();
        scope.check().unwrap();
        assert_eq!(scope.pids().unwrap(), [sleeper]);
        kill(sleeper);
        while scope.check().is_ok() {
            std::thread::yield_now();
        }
        assert!(matches!(scope.check(), Err(GuardError::TreeEnded { .. })));
    }
}
