//! Undoing: at the end of a trial, and for runs that died before they could.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_proc::{ProcessId, TrustedFolder};
use serde::Serialize;

use super::cap::CapError;
use super::change::Change;
use super::error::EnvironmentError;
use super::journal::{DamagedLine, Journal, Opened};
use super::lock::MachineLock;
use super::state::{self, Lock, StateFolder};
use super::undo::{Left, LeftCause, UndoError, UndoReport, Undone};
use super::{cap, cgroup, confine, oom_killer, process, stopped, swap_device, swap_file, sysctl, zram};

/// A signal ends a cleanup at once: there is nothing to restore first.
static NEVER: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Clone, Default, Serialize)]
pub struct CleanupReport {
    /// Newest run first.
    pub runs: Vec<RunCleanup>,
}

impl CleanupReport {
    /// Whether no dead run has anything left on this machine.
    pub fn is_clean(&self) -> bool {
        self.runs.iter().all(|run| run.left.is_empty())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunCleanup {
    pub run: String,
    pub journal: PathBuf,
    pub state: RunState,
    pub undone: Vec<String>,
    /// Changes that another program has overwritten since; cleanup does not touch them.
    pub left_alone: Vec<Left>,
    /// Changes that cleanup cannot undo.
    pub left: Vec<Left>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// The run is alive: nothing of it was touched.
    Live,
    /// Everything is undone and the journal is removed.
    Undone,
    /// Cleanup could not undo everything, and keeps the journal.
    Kept,
}

/// Undoes the changes of all runs whose process is dead, newest run first. Does not touch live runs; waits up to
/// `wait` for a live run that holds the machine.
///
/// # Errors
/// When the state folder cannot be read, or another user could have written to it. A change that cannot be undone is in the report.
pub fn cleanup(wait: Option<Duration>) -> Result<CleanupReport, EnvironmentError> {
    cleanup_in(&state::path()?, wait)
}

/// As [`cleanup`], for the runs whose journals are in the folder `state`.
///
/// # Errors
/// As [`cleanup`].
pub fn cleanup_in(state: &Path, wait: Option<Duration>) -> Result<CleanupReport, EnvironmentError> {
    let Some((state, runs)) = find_runs(state)? else {
        return Ok(CleanupReport::default());
    };
    cleanup_found(&state, &runs, wait, None)
}

/// Selects journals by the command line in their header.
type IsOf<'a> = &'a dyn Fn(&[String]) -> bool;

/// As [`cleanup`], for the dead runs whose command lines `of` selects. Does not wait if there are none.
///
/// # Errors
/// As [`cleanup`].
pub fn cleanup_of(of: IsOf<'_>, wait: Option<Duration>) -> Result<CleanupReport, EnvironmentError> {
    let Some((state, runs)) = find_runs(&state::path()?)? else {
        return Ok(CleanupReport::default());
    };
    for name in journals(&runs)? {
        if let Opened::Dead(journal) = open(&runs, &name)?
            && of(&journal.header().command)
        {
            // Another process may undo it as soon as it is closed.
            drop(journal);
            return cleanup_found(&state, &runs, wait, Some(of));
        }
    }
    Ok(CleanupReport::default())
}

fn cleanup_found(
    state: &StateFolder,
    runs: &TrustedFolder,
    wait: Option<Duration>,
    of: Option<IsOf<'_>>,
) -> Result<CleanupReport, EnvironmentError> {
    let names = journals(runs)?;
    if names.is_empty() {
        return Ok(CleanupReport::default());
    }
    // A live run may rely on a dead run's change, so cleanup undoes only those of guards while a run holds the machine.
    let holder = match MachineLock::acquire(state, Lock::Machine, "cleanup", wait, &NEVER) {
        Ok(lock) => Ok(lock),
        Err(EnvironmentError::Busy { holder, .. }) => Err(holder),
        Err(error) => return Err(error),
    };
    let boot = plimsoll_proc::sysctl::boot_id()?;
    let mut found = Vec::new();
    let mut report = CleanupReport::default();
    for name in names {
        let path = runs.path().join(&name);
        match open(runs, &name)? {
            Opened::Dead(journal) if of.is_some_and(|of| !of(&journal.header().command)) => {}
            Opened::Dead(journal) => found.push(*journal),
            Opened::Live | Opened::Unreadable(_) if of.is_some() => {}
            Opened::Live => report.runs.push(untouched(&path, RunState::Live, None)),
            Opened::Empty => {}
            Opened::Unreadable(defect) => {
                let why = format!("{defect}; check this machine by hand, then remove the file");
                let left = Some((defect.cause(), why));
                report.runs.push(untouched(&path, RunState::Kept, left));
            }
        }
    }
    found.sort_by_key(|journal| std::cmp::Reverse(journal.header().started_ns));
    for journal in found {
        report.runs.push(match &holder {
            Ok(_) => clean_run(journal, &boot),
            Err(_) if is_of_guard(&journal) => clean_run(journal, &boot),
            Err(holder) => {
                let why = format!("{holder} is under way; run `plimsoll cleanup` when it has ended");
                let left = Some((LeftCause::of_holder(holder), why));
                untouched(journal.path(), RunState::Kept, left)
            }
        });
    }
    Ok(report)
}

/// Whether a dead guard left it: no run relies on a process that is stopped, or on a cgroup that is throttled.
fn is_of_guard(journal: &Journal) -> bool {
    let left = journal.outstanding_since(0);
    let is_hold = |change: &Change| matches!(change, Change::Stopped { .. } | Change::Cap { .. });
    let is_guard = journal.run().starts_with(stopped::KIND);
    is_guard && left.iter().all(|(_, change)| is_hold(change))
}

/// Undoes the stops and throttles of dead guards. Returns the undone changes.
pub(super) fn undo_guards(state: &StateFolder) -> Result<Vec<String>, EnvironmentError> {
    let mut undone = Vec::new();
    let Some(runs) = state.runs()? else {
        return Ok(undone);
    };
    let boot = plimsoll_proc::sysctl::boot_id()?;
    for name in journals(&runs)? {
        if let Opened::Dead(journal) = open(&runs, &name)?
            && is_of_guard(&journal)
        {
            undone.extend(clean_run(*journal, &boot).undone);
        }
    }
    Ok(undone)
}

/// Names of the runs under `state` that died and left a journal behind.
pub(super) fn dead_runs(state: &Path) -> Result<Vec<String>, EnvironmentError> {
    let mut names = Vec::new();
    let Some((_, runs)) = find_runs(state)? else {
        return Ok(names);
    };
    for name in journals(&runs)? {
        match open(&runs, &name)? {
            Opened::Dead(_) | Opened::Unreadable(_) => names.push(run_name(Path::new(&name))),
            Opened::Live | Opened::Empty => {}
        }
    }
    Ok(names)
}

/// Checks that no dead run has left the cap or the OOM killer of the cgroup with this inode number changed: the values
/// of such a cgroup are not the user's.
pub(super) fn check_uncapped(state: &Path, cgroup: &Path, inode: u64) -> Result<(), CapError> {
    match dead_run_with_cap(state, cgroup, inode)? {
        Some(run) => Err(CapError::KilledRun {
            run,
            cgroup: cgroup.to_owned(),
        }),
        None => Ok(()),
    }
}

fn dead_run_with_cap(state: &Path, cgroup: &Path, inode: u64) -> Result<Option<String>, EnvironmentError> {
    let Some((_, runs)) = find_runs(state)? else {
        return Ok(None);
    };
    let boot = plimsoll_proc::sysctl::boot_id()?;
    let is_its_cap = |change: &Change| match change {
        Change::Cap {
            path, inode: capped, ..
        }
        | Change::OomKiller { path, inode: capped } => {
            path.parent() == Some(cgroup) && capped.is_none_or(|capped| capped == inode)
        }
        _ => false,
    };
    for name in journals(&runs)? {
        if let Opened::Dead(journal) = open(&runs, &name)?
            && journal.header().boot_id == boot
            && journal.find(is_its_cap).is_some()
        {
            return Ok(Some(run_name(Path::new(&name))));
        }
    }
    Ok(None)
}

/// The state folder at `path` and its folder of journals, if both exist.
fn find_runs(path: &Path) -> Result<Option<(StateFolder, TrustedFolder)>, EnvironmentError> {
    let Some(state) = StateFolder::find(path)? else {
        return Ok(None);
    };
    Ok(state.runs()?.map(|runs| (state, runs)))
}

fn open(runs: &TrustedFolder, name: &OsStr) -> Result<Opened, EnvironmentError> {
    Journal::open_dead(runs, name).map_err(|source| {
        let path = runs.path().join(name);
        EnvironmentError::system(format!("open the journal {}", path.display()), source)
    })
}

/// The names of the journals in a runs folder.
fn journals(runs: &TrustedFolder) -> Result<Vec<OsString>, EnvironmentError> {
    let names = runs.names_in();
    let mut names = names.map_err(|source| EnvironmentError::reading(runs.path(), source))?;
    names.retain(|name| {
        Path::new(name)
            .extension()
            .is_some_and(|extension| extension == "jsonl")
    });
    names.sort();
    Ok(names)
}

fn run_name(journal: &Path) -> String {
    journal
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn untouched(journal: &Path, state: RunState, left: Option<(LeftCause, String)>) -> RunCleanup {
    let left = left.map(|(cause, why)| Left {
        what: format!("journal {}", journal.display()),
        why,
        cause,
    });
    RunCleanup {
        run: run_name(journal),
        journal: journal.to_owned(),
        state,
        undone: Vec::new(),
        left_alone: Vec::new(),
        left: left.into_iter().collect(),
    }
}

fn clean_run(mut journal: Journal, boot: &str) -> RunCleanup {
    let same_boot = journal.header().boot_id == boot;
    let mut done = undo_changes(&mut journal, 0, |change| same_boot || change.survives_reboot());
    let path = journal.path().to_owned();
    for DamagedLine { line, reason } in journal.damage() {
        done.left.push(Left {
            what: format!("journal {}", path.display()),
            why: format!("line {line} {reason}; check this machine by hand, then remove the file"),
            cause: LeftCause::JournalLine { line: *line },
        });
    }
    let run = journal.header().run.clone();
    if done.left.is_empty()
        && let Err(error) = journal.close()
    {
        done.left.push(Left {
            what: format!("journal {}", path.display()),
            why: error.to_string(),
            cause: LeftCause::NotRecorded,
        });
    }
    let state = if done.left.is_empty() {
        RunState::Undone
    } else {
        RunState::Kept
    };
    let UndoReport { undone, left_alone } = done.report;
    RunCleanup {
        run,
        journal: path,
        state,
        undone,
        left_alone,
        left: done.left,
    }
}

/// Result of [`undo_changes`].
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) report: UndoReport,
    pub(super) left: Vec<Left>,
}

/// Undoes the outstanding changes from number `from` on, newest first, and writes each undoing down. A change that
/// does not `count` (it went with a reboot) is recorded as undone without a check.
pub(super) fn undo_changes(journal: &mut Journal, from: u32, count: impl Fn(&Change) -> bool) -> Done {
    let run = journal.run().to_owned();
    let mut done = Done::default();
    for (_, change) in journal.outstanding_since(from) {
        if count(&change) {
            end_processes(&change);
        }
    }
    for (number, change) in journal.outstanding_since(from) {
        let what = change.to_string();
        let result = if count(&change) {
            undo(&change, &run)
        } else {
            Ok(Undone::Gone)
        };
        let result = result.map_err(|error| (LeftCause::UndoFailed, error.to_string()));
        let written = result.and_then(|undone| match journal.record_undone(number) {
            Ok(()) => Ok(undone),
            Err(error) => Err((
                LeftCause::NotRecorded,
                format!("undone, but not recorded: {error}"),
            )),
        });
        match written {
            Ok(Undone::Gone) => done.report.undone.push(what),
            Ok(Undone::NotOurs(why)) => done.report.left_alone.push(Left {
                what,
                why,
                cause: LeftCause::ChangedSince,
            }),
            Err((cause, why)) => done.left.push(Left { what, why, cause }),
        }
    }
    done
}

/// Ends the processes of a cgroup that are all the run's. Before anything else: their swapped memory would have to return
/// to the cgroup's limit before its swap device is off.
fn end_processes(change: &Change) {
    if let Change::Cgroup { path, kill: true } = change
        && confine::check(change).is_ok()
    {
        cgroup::end_processes(path);
    }
}

/// Undoes one change of the run if it is still as it was left, and verifies that it is gone. Doing so twice does no
/// harm.
fn undo(change: &Change, run: &str) -> Result<Undone, UndoError> {
    confine::check(change)?;
    match change {
        Change::Module { name } => zram::undo_module(name),
        Change::ZramAdd { before } => zram::undo_add(before),
        Change::Zram {
            id,
            added,
            disksize,
            uuid,
        } => zram::undo(*id, *added, *disksize, uuid),
        Change::ZramAlgorithm { id, before } => zram::undo_algorithm(*id, before),
        Change::SwapOn { path, uuid } => swap_device::undo(path, uuid),
        Change::File { path, uuid } => swap_file::undo(path, uuid),
        Change::Value { path, before, wrote } => sysctl::undo(path, before, wrote),
        Change::Cap {
            path,
            before,
            wrote,
            inode,
        } => cap::undo(path, before, wrote, *inode),
        Change::OomKiller { path, inode } => oom_killer::undo(path, *inode),
        Change::Cgroup { path, kill } => cgroup::undo(path, *kill),
        Change::MemoryController { cgroup } => cgroup::undo_controller(cgroup),
        Change::Process { pid, start_time } => process::undo(*pid, *start_time, run),
        Change::Stopped {
            pid,
            start_time,
            parent,
        } => {
            let id = |(pid, start_ticks)| ProcessId { pid, start_ticks };
            stopped::undo(id((*pid, *start_time)), parent.map(id))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a `kill -9` and a restart of the service, `size` and `throttle` refused the new cgroup with the same path.
    #[test]
    fn a_dead_run_has_capped_only_the_cgroup_with_the_same_inode() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let made = StateFolder::make(&state).unwrap();
        let cgroup = Path::new("/sys/fs/cgroup/a");
        for (inode, is_refused) in [(Some(7), true), (Some(8), false), (None, true)] {
            let cap = Change::Cap {
                path: cgroup.join("memory.high"),
                before: "max".to_owned(),
                wrote: ["max", "4096"].map(str::to_owned),
                inode,
            };
            let killer = Change::OomKiller {
                path: cgroup.join("memory.oom_control"),
                inode,
            };
            for change in [cap, killer] {
                let mut journal = Journal::create_for(&made, "test", &[]).unwrap();
                journal.record(change.clone()).unwrap();
                let path = journal.path().to_owned();
                // As after a kill, the lock is free, and the journal stays.
                drop(journal);
                let checked = check_uncapped(&state, cgroup, 7);
                match is_refused {
                    true => assert!(
                        matches!(checked, Err(CapError::KilledRun { .. })),
                        "{change:?}: {checked:?}"
                    ),
                    false => assert!(checked.is_ok(), "{change:?}: {checked:?}"),
                }
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}
