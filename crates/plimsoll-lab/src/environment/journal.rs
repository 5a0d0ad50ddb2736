//! The journal of a run: its changes of this machine, each on the disk before it happens.
//!
//! One JSON document a line: a [`Header`], then `change` and `undone` lines. The owner holds an exclusive lock
//! ([`LockedFile`]) on the file for its life, so that a journal which can be locked belongs to a dead run. The lock ends with the
//! process, also after a SIGKILL.
//!
//! A later change of a cap does not wait for the disk: tasks of a service may wait meanwhile, and a cap that the disk does not
//! know ends with the machine. So does the stop of a process.
//!
//! Invariant: a change that is not yet undone has a `change` line and no `undone` line of its number. Checked by
//! `a_journal_torn_anywhere_undoes_its_whole_lines`.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use plimsoll_proc::{Distrust, TrustedFolder};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::error::EnvironmentError;
use super::locked_file::{LockedFile, TryLock};
use super::state::StateFolder;
use super::undo::LeftCause;

pub(super) const JOURNAL_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) journal: u32,
    pub(super) run: String,
    pub(super) command: Vec<String>,
    pub(super) pid: u32,
    /// Boot that the changes belong to: after another one only files on disk are left of them.
    pub(super) boot_id: String,
    /// When the run began, in nanoseconds since the epoch: later runs are undone first.
    pub(super) started_ns: u64,
}

impl Header {
    /// The header of a run of this process that begins now.
    pub(super) fn new(run: &str, command: &[String]) -> Result<Header, EnvironmentError> {
        Ok(Header {
            journal: JOURNAL_VERSION,
            run: run.to_owned(),
            command: command.to_vec(),
            pid: std::process::id(),
            boot_id: plimsoll_proc::sysctl::boot_id()?,
            started_ns: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |d| d.as_nanos() as u64),
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Header(Header),
    Change { number: u32, change: Change },
    Undone { number: u32 },
}

/// A journal that this process owns: its file is open, locked and appended to.
#[derive(Debug)]
pub(super) struct Journal {
    /// The runs folder, in which no other user can replace the file.
    folder: TrustedFolder,
    name: OsString,
    path: PathBuf,
    file: LockedFile,
    /// Bytes of its whole lines.
    length: u64,
    /// Bytes of its first line.
    header_length: u64,
    header: Header,
    next: u32,
    outstanding: Vec<(u32, Change)>,
    /// Unreadable lines with the cause. Their changes are unknown, so the journal stays.
    damage: Vec<DamagedLine>,
}

/// A line of a journal that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DamagedLine {
    /// Line, from 1.
    pub(super) line: usize,
    pub(super) reason: String,
}

/// State of another run's journal.
#[derive(Debug)]
pub(super) enum Opened {
    /// The owner is dead; this process now owns the journal.
    Dead(Box<Journal>),
    Live,
    /// It was removed meanwhile, or holds not even a whole first line.
    Empty,
    /// Its first line cannot be read, so nothing in it can be relied on.
    Unreadable(Unreadable),
}

impl Journal {
    /// Creates the journal in the runs folder.
    pub(super) fn create(folder: TrustedFolder, header: Header) -> io::Result<Journal> {
        // The file gets its name after the lock and the header, so that no other process takes it for a dead run's.
        let name = OsString::from(format!(".{}.new", header.run));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
        let file = folder.own_file(&name, flags, 0o600).map_err(io::Error::other)?;
        let TryLock::Locked(file) = LockedFile::try_lock(file)? else {
            return Err(rustix::io::Errno::WOULDBLOCK.into());
        };
        file.set_len(0)?;
        let mut journal = Journal {
            path: folder.path().join(&name),
            folder,
            name,
            file,
            length: 0,
            header_length: 0,
            header: header.clone(),
            next: 1,
            outstanding: Vec::new(),
            damage: Vec::new(),
        };
        journal.append(&Line::Header(header), true)?;
        journal.header_length = journal.length;
        journal.name = rename_unique(&journal.folder, &journal.name, &journal.header.run)?;
        journal.path = journal.folder.path().join(&journal.name);
        journal.folder.sync()?;
        Ok(journal)
    }

    /// Creates a journal of a unique name in the state folder, for a command that does not hold the machine: nothing keeps
    /// two of them from making theirs at once.
    pub(super) fn create_for(
        state: &StateFolder,
        kind: &str,
        command: &[String],
    ) -> Result<Journal, EnvironmentError> {
        let unnamed = Header::new("", command)?;
        let header = Header {
            run: format!("{kind}-{}-{:x}", unnamed.pid, unnamed.started_ns),
            ..unnamed
        };
        let runs = state.make_runs()?;
        let path = runs.path().to_owned();
        Journal::create(runs, header).map_err(|source| {
            EnvironmentError::system(format!("make a journal in {}", path.display()), source)
        })
    }

    /// A journal in a temporary folder.
    #[cfg(test)]
    pub(super) fn for_test(folder: &Path) -> Journal {
        let header = Header {
            journal: JOURNAL_VERSION,
            run: "test".to_owned(),
            command: Vec::new(),
            pid: std::process::id(),
            boot_id: String::new(),
            started_ns: 0,
        };
        Journal::create(TrustedFolder::own(folder).unwrap(), header).unwrap()
    }

    /// Opens the journal `name` of the runs folder if its owner is dead, and owns it from then on.
    pub(super) fn open_dead(folder: &TrustedFolder, name: &OsStr) -> io::Result<Opened> {
        let file = match folder.own_file(name, OFlags::RDWR | OFlags::APPEND, 0) {
            Ok(file) => file,
            Err(defect) if defect.is_not_found() => return Ok(Opened::Empty),
            Err(Distrust::Io { source, .. }) => return Err(source),
            Err(defect) => return Ok(Opened::Unreadable(Unreadable::Untrusted(defect))),
        };
        let TryLock::Locked(mut file) = LockedFile::try_lock(file)? else {
            return Ok(Opened::Live);
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        // A line that was torn by the owner's death has no newline; its change had not been made yet.
        let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64)?;
        }
        if whole == 0 {
            folder.remove_file(name)?;
            return Ok(Opened::Empty);
        }
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        Ok(match parse(&text) {
            Ok(parsed) => Opened::Dead(Box::new(Journal {
                path: folder.path().join(name),
                folder: folder.clone(),
                name: name.to_owned(),
                file,
                length: whole as u64,
                header_length: text.find('\n').map_or(0, |at| at as u64 + 1),
                header: parsed.header,
                next: parsed.next,
                outstanding: parsed.outstanding,
                damage: parsed.damage,
            })),
            Err(why) => Opened::Unreadable(why),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    pub(super) fn damage(&self) -> &[DamagedLine] {
        &self.damage
    }

    /// Name of the run, as it stands in names of cgroups and files.
    pub(super) fn run(&self) -> &str {
        &self.header.run
    }

    pub(super) fn next_number(&self) -> u32 {
        self.next
    }

    /// Writes down a change that is about to be made; it is on the disk when this returns, unless it changes a cap
    /// again or stops a process.
    pub(super) fn record(&mut self, change: Change) -> Result<u32, EnvironmentError> {
        let number = self.next;
        let line = Line::Change {
            number,
            change: change.clone(),
        };
        self.append(&line, self.is_for_disk(number, &change))
            .map_err(|source| self.cannot_write(source))?;
        self.next += 1;
        self.outstanding.push((number, change));
        Ok(number)
    }

    /// Writes down that a change is undone, or was never made.
    pub(super) fn record_undone(&mut self, number: u32) -> Result<(), EnvironmentError> {
        let mut changes = self.outstanding.iter();
        let synced = changes
            .find(|(other, _)| *other == number)
            .is_none_or(|(_, change)| self.is_for_disk(number, change));
        self.outstanding.retain(|(other, _)| *other != number);
        self.append(&Line::Undone { number }, synced)
            .map_err(|source| self.cannot_write(source))
    }

    /// Cuts the file to its header if every change in it is undone.
    pub(super) fn forget_undone(&mut self) -> Result<(), EnvironmentError> {
        if !self.outstanding.is_empty() || !self.damage.is_empty() {
            return Ok(());
        }
        let cut = self.file.set_len(self.header_length);
        cut.map_err(|source| self.cannot_write(source))?;
        self.length = self.header_length;
        Ok(())
    }

    /// Whether a change, or its undoing, is written to the disk at once.
    fn is_for_disk(&self, number: u32, change: &Change) -> bool {
        !matches!(change, Change::Stopped { .. }) && !self.is_cap_again(number, change)
    }

    /// Whether a change is that of a cap, and the journal has another one that is not undone.
    fn is_cap_again(&self, number: u32, change: &Change) -> bool {
        let is_cap = |change: &Change| matches!(change, Change::Cap { .. });
        let mut others = self.outstanding.iter().filter(|(other, _)| *other != number);
        is_cap(change) && others.any(|(_, other)| is_cap(other))
    }

    fn cannot_write(&self, source: io::Error) -> EnvironmentError {
        EnvironmentError::system(format!("write the journal {}", self.path.display()), source)
    }

    /// Changes with number `from` or later that are not undone, newest first.
    pub(super) fn outstanding_since(&self, from: u32) -> Vec<(u32, Change)> {
        self.outstanding
            .iter()
            .rev()
            .filter(|(number, _)| *number >= from)
            .cloned()
            .collect()
    }

    /// Number of the outstanding change that `matches`.
    pub(super) fn find(&self, matches: impl Fn(&Change) -> bool) -> Option<u32> {
        self.outstanding
            .iter()
            .find(|(_, change)| matches(change))
            .map(|(number, _)| *number)
    }

    /// Removes the file: everything in it is undone.
    pub(super) fn close(self) -> io::Result<()> {
        self.folder.remove_file(&self.name)
    }

    /// Appends a whole line, or nothing: half a line would make one damaged line of itself and the next. Waits for the disk
    /// if `synced`.
    fn append(&mut self, line: &Line, synced: bool) -> io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let written = self.file.write_all(text.as_bytes()).and_then(|()| match synced {
            true => self.file.sync_data(),
            false => Ok(()),
        });
        match written {
            Ok(()) => self.length += text.len() as u64,
            // Shrinking needs no disk space. If it fails all the same, the reader reports the damaged line.
            Err(_) => drop(self.file.set_len(self.length)),
        }
        written
    }
}

/// Names a file `<run>.jsonl`, or `<run>.N.jsonl` where an earlier run of that name left its journal.
fn rename_unique(folder: &TrustedFolder, from: &OsStr, run: &str) -> io::Result<OsString> {
    let mut attempt = 0u32;
    loop {
        let name = OsString::from(match attempt {
            0 => format!("{run}.jsonl"),
            _ => format!("{run}.{attempt}.jsonl"),
        });
        match folder.rename_new(from, &name) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    /// Another user may have written it.
    #[error("it cannot be trusted: {0}")]
    Untrusted(Distrust),
    #[error("its first line is not a header")]
    NoHeader,
    #[error("its first line cannot be read ({0})")]
    Header(serde_json::Error),
    #[error(
        "it has format {0} and this program reads format {JOURNAL_VERSION}; clean up with the version that wrote it"
    )]
    Format(u32),
}

impl Unreadable {
    pub(super) fn cause(&self) -> LeftCause {
        match self {
            Unreadable::Untrusted(_) => LeftCause::JournalUntrusted,
            Unreadable::NoHeader | Unreadable::Header(_) => LeftCause::JournalHeader,
            Unreadable::Format(format) => LeftCause::JournalFormat { format: *format },
        }
    }
}

struct Parsed {
    header: Header,
    next: u32,
    outstanding: Vec<(u32, Change)>,
    damage: Vec<DamagedLine>,
}

/// Reads whole lines. Reports unreadable lines and guesses nothing.
fn parse(text: &str) -> Result<Parsed, Unreadable> {
    let mut lines = text.lines().enumerate();
    let first = lines.next().map_or("", |(_, line)| line);
    let header = match serde_json::from_str(first) {
        Ok(Line::Header(header)) => header,
        Ok(_) => return Err(Unreadable::NoHeader),
        Err(error) => return Err(Unreadable::Header(error)),
    };
    if header.journal != JOURNAL_VERSION {
        return Err(Unreadable::Format(header.journal));
    }
    let mut parsed = Parsed {
        header,
        next: 1,
        outstanding: Vec::new(),
        damage: Vec::new(),
    };
    for (index, line) in lines {
        match serde_json::from_str(line) {
            Ok(Line::Change { number, change }) => {
                parsed.next = parsed.next.max(number.saturating_add(1));
                parsed.outstanding.push((number, change));
            }
            Ok(Line::Undone { number }) => parsed.outstanding.retain(|(other, _)| *other != number),
            Ok(Line::Header(_)) => parsed.damage.push(DamagedLine {
                line: index + 1,
                reason: "is a second header".to_owned(),
            }),
            Err(error) => parsed.damage.push(DamagedLine {
                line: index + 1,
                reason: format!("cannot be read ({error})"),
            }),
        }
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::super::locked_file::OtherOwner;
    use super::*;

    /// A journal looked like that of a live run while a child that another thread had forked did not execute its program.
    #[test]
    fn a_journal_is_a_dead_run_s_after_its_end_though_a_child_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::for_test(folder.path());
        let (runs, name) = (journal.folder.clone(), journal.name.clone());
        let _child = OtherOwner::of(&journal.file);
        let live = Journal::open_dead(&runs, &name).unwrap();
        assert!(matches!(live, Opened::Live), "{live:?}");
        drop(journal);
        // The second one fails only if the first keeps the lock.
        for _ in 0..2 {
            let dead = Journal::open_dead(&runs, &name).unwrap();
            assert!(matches!(dead, Opened::Dead(_)), "{dead:?}");
        }
    }

    /// Each step of a sizing waited twice for the disk, which swap kept busy, and did not look at the service meanwhile.
    #[test]
    fn only_the_first_change_of_a_cap_waits_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::for_test(folder.path());
        let cap = |wrote: [&str; 2]| Change::Cap {
            path: "/sys/fs/cgroup/a/memory.high".into(),
            before: "max".to_owned(),
            wrote: wrote.map(str::to_owned),
            inode: None,
        };
        let (lowered, again) = (cap(["max", "8192"]), cap(["8192", "4096"]));
        let first = journal.record(lowered.clone()).unwrap();
        assert!(!journal.is_cap_again(first, &lowered));
        let second = journal.next_number();
        assert!(journal.is_cap_again(second, &again));
        let module = Change::Module {
            name: "zram".to_owned(),
        };
        assert!(!journal.is_cap_again(second, &module));
        assert_eq!(journal.record(again.clone()).unwrap(), second);
        assert!(journal.is_cap_again(first, &lowered));
        journal.record_undone(first).unwrap();
        assert!(!journal.is_cap_again(second, &again), "the last one");
        // A killed sizing left a change that was not yet on the disk.
        let text = std::fs::read_to_string(journal.path()).unwrap();
        assert_eq!(parse(&text).unwrap().outstanding, [(second, again)]);
    }
}
