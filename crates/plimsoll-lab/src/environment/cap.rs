//! The cap of a cgroup of other programs, which a sizing or the throttle of a guard lowers for a while: `memory.high` (v2), `memory.limit_in_bytes`
//! (v1). Changed through the journal, and restored unless another program has changed it since.
//!
//! Invariant: the journal names each content that the file gets, except the content before: a cap is lifted without a
//! wait for the disk. In v1 the OOM killer of the cgroup is off meanwhile ([`super::oom_killer`]). Checked by `a_cap_is_restored_after_any_torn_write`.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plimsoll_proc::cgroup::{CgroupFolder, CgroupVersion, HIGH, MemoryCgroup, OOM_CONTROL, UNLIMITED};
use plimsoll_proc::{read, write};

use super::cgroup::{is_gone, open_folder, other_cgroup};
use super::change::Change;
use super::error::EnvironmentError;
use super::journal::Journal;
use super::oom_killer::{OomKiller, OomKillerError};
use super::undo::{UndoError, Undone};

/// Bytes that are reclaimed in one piece: between two pieces the caller may stop.
const PIECE: u64 = 16 << 20;

/// Why a cap cannot be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CapError {
    #[error(
        "cannot hold the cap: another program changed {} to `{found}`, from the `{ours}` of this run; let one program at a \
         time set the cap",
        path.display()
    )]
    Changed {
        path: PathBuf,
        ours: String,
        found: String,
    },
    #[error("cannot hold the cap: the cgroup {} was removed; start its service, then repeat the command", path.display())]
    Gone { path: PathBuf },
    #[error(
        "cannot cap the cgroup {}: it has no {file}; enable the memory controller for it \
         (systemd: `MemoryAccounting=yes`)",
        path.display()
    )]
    NoFile { path: PathBuf, file: &'static str },
    #[error("cannot change {}: permission denied; run as root", path.display())]
    Denied { path: PathBuf },
    /// Only the journal of the killed run has the value before the cap.
    #[error(
        "cannot cap the cgroup {}: the killed run {run} left it capped; run `plimsoll cleanup`, then try again",
        cgroup.display()
    )]
    KilledRun { run: String, cgroup: PathBuf },
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
}

/// The cap of a cgroup of other programs. The cgroup is its open folder: another one of the same name is not touched.
#[derive(Debug)]
pub struct Cap {
    folder: CgroupFolder,
    /// Inode number of the folder.
    inode: u64,
    /// Folder of the cgroup, for messages.
    cgroup: PathBuf,
    /// The file, as the journal names it.
    path: PathBuf,
    /// Its content before.
    before: String,
    /// The content that it must have now.
    holds: String,
    /// Number of the change in the journal.
    number: Option<u32>,
    /// Off while the limit of v1 is lowered.
    killer: OomKiller,
}

impl Cap {
    /// Name of the file that holds the cap.
    pub const fn file(version: CgroupVersion) -> &'static str {
        match version {
            CgroupVersion::V1 => version.limit_file(),
            CgroupVersion::V2 => HIGH,
        }
    }

    /// Opens the cgroup at `cgroup`, and changes nothing.
    ///
    /// # Errors
    /// [`CapError::NoFile`], [`CapError::Denied`], [`CapError::Gone`], and other errors of the system.
    pub(super) fn open(cgroup: &Path) -> Result<Cap, CapError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => CapError::Gone {
                path: cgroup.to_owned(),
            },
            _ => EnvironmentError::reading(cgroup, source).into(),
        };
        let folder = CgroupFolder::open(cgroup).map_err(failed)?;
        let folder = folder.ok_or_else(|| failed(io::ErrorKind::NotADirectory.into()))?;
        let inode = folder.group().path().metadata().map_err(failed)?.ino();
        let name = Cap::file(folder.group().version());
        let path = cgroup.join(name);
        let file = folder.group().file(name);
        let before = read(&file).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => CapError::NoFile {
                path: cgroup.to_owned(),
                file: name,
            },
            _ => EnvironmentError::reading(&path, source).into(),
        })?;
        if rustix::fs::access(&file, rustix::fs::Access::WRITE_OK).is_err() {
            return Err(CapError::Denied { path });
        }
        let killer = OomKiller::open(&folder.group()).map_err(|error| match error.io().kind() {
            io::ErrorKind::NotFound => CapError::NoFile {
                path: cgroup.to_owned(),
                file: OOM_CONTROL,
            },
            _ => EnvironmentError::reading(&cgroup.join(OOM_CONTROL), error.into_io()).into(),
        })?;
        let control = folder.group().file(OOM_CONTROL);
        if killer.is_guarded() && rustix::fs::access(&control, rustix::fs::Access::WRITE_OK).is_err() {
            return Err(CapError::Denied {
                path: cgroup.join(OOM_CONTROL),
            });
        }
        Ok(Cap {
            folder,
            inode,
            cgroup: cgroup.to_owned(),
            path,
            holds: before.clone(),
            before,
            number: None,
            killer,
        })
    }

    /// The cgroup, by its open folder.
    pub fn group(&self) -> MemoryCgroup {
        self.folder.group()
    }

    /// Inode number of the cgroup's folder.
    pub(super) fn inode(&self) -> u64 {
        self.inode
    }

    /// The file, with its real path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content of the file before.
    pub fn before(&self) -> &str {
        &self.before
    }

    /// The cap before; `None` without one.
    pub fn ceiling(&self) -> Option<u64> {
        bytes_in(&self.before)
    }

    /// The cap now, if it is lowered.
    pub fn lowered(&self) -> Option<u64> {
        (self.holds != self.before)
            .then(|| bytes_in(&self.holds))
            .flatten()
    }

    /// Checks that the file holds the content that this run gave it.
    ///
    /// # Errors
    /// [`CapError::Changed`], [`CapError::Gone`], and other errors of the system.
    pub fn check(&self) -> Result<(), CapError> {
        let found = read(&self.control()).map_err(|source| self.failed("read", source))?;
        if found == self.holds {
            return Ok(());
        }
        Err(CapError::Changed {
            path: self.path.clone(),
            ours: self.holds.clone(),
            found,
        })
    }

    /// Sets the cap to `bytes`; see [`Session::set_cap`](super::Session::set_cap).
    pub(super) fn set(
        &mut self,
        journal: &mut Journal,
        bytes: u64,
        stop: impl Fn() -> bool,
    ) -> Result<Option<u64>, CapError> {
        self.check()?;
        match self.group().version() {
            CgroupVersion::V1 => {
                let group = self.group();
                let disabled = self.killer.disable(&group, &self.cgroup, self.inode, journal);
                disabled.map_err(|error| self.not_turned(error))?;
                let limited = self.limit(journal, bytes, stop);
                if self.holds == self.before {
                    self.let_oom_kill(journal)?;
                }
                limited?;
            }
            CgroupVersion::V2 => self.throttle(journal, bytes, stop)?,
        }
        Ok(self.lowered())
    }

    /// Restores the cap before; see [`Session::lift_cap`](super::Session::lift_cap).
    pub(super) fn lift(&mut self, journal: &mut Journal) -> Result<(), CapError> {
        if self.holds == self.before {
            return Ok(());
        }
        self.check()?;
        write(&self.control(), &self.before).map_err(|source| self.failed("write", source))?;
        self.holds.clone_from(&self.before);
        let enabled = self.let_oom_kill(journal);
        if let Some(number) = self.number.take() {
            journal.record_undone(number)?;
        }
        enabled
    }

    /// Wakes tasks that wait although the cap is as before: they met it just before the lift.
    ///
    /// # Errors
    /// As [`Session::lift_cap`](super::Session::lift_cap).
    pub fn wake(&self) -> Result<(), CapError> {
        let woken = self.killer.wake(&self.group());
        woken.map_err(|error| self.not_turned(error.into()))
    }

    /// Strikes the change out: another program has changed the cap, or the cgroup was removed, so that an undo would do nothing.
    pub(super) fn forget(&mut self, journal: &mut Journal) -> Result<(), CapError> {
        match self.number.take() {
            Some(number) => Ok(journal.record_undone(number)?),
            None => Ok(()),
        }
    }

    fn let_oom_kill(&mut self, journal: &mut Journal) -> Result<(), CapError> {
        let enabled = self.killer.enable(&self.group(), journal);
        enabled.map_err(|error| self.not_turned(error))
    }

    fn not_turned(&self, error: OomKillerError) -> CapError {
        match error {
            OomKillerError::Control(error) if is_gone(error.io()) => CapError::Gone {
                path: self.cgroup.clone(),
            },
            OomKillerError::Control(error) => EnvironmentError::system(
                format!("turn the OOM killer of {} off or on", self.cgroup.display()),
                error.into_io(),
            )
            .into(),
            OomKillerError::Environment(error) => error.into(),
        }
    }

    /// v1: lowering the limit reclaims. The kernel refuses (EBUSY) a limit that it cannot reach.
    fn limit(&mut self, journal: &mut Journal, bytes: u64, stop: impl Fn() -> bool) -> Result<(), CapError> {
        loop {
            let usage = self.usage()?;
            let now = self.lowered().unwrap_or(u64::MAX);
            let next = bytes.max(usage.min(now).saturating_sub(PIECE));
            match self.write(journal, next) {
                Ok(()) if next > bytes && !stop() && !self.is_waited_at() => {}
                Ok(()) => return Ok(()),
                Err(source) if matches!(source.raw_os_error(), Some(libc::EBUSY | libc::EINTR)) => {
                    return Ok(());
                }
                Err(source) => return Err(self.failed("write", source)),
            }
        }
    }

    /// v2: the memory above the cap is reclaimed before: the write would throttle the service, and reclaim without a way to
    /// stop it.
    fn throttle(
        &mut self,
        journal: &mut Journal,
        bytes: u64,
        stop: impl Fn() -> bool,
    ) -> Result<(), CapError> {
        // The kernel rounds a cap down to whole pages, and the file then holds another text.
        let page = rustix::param::page_size() as u64;
        let bytes = bytes / page * page;
        let mut next = bytes;
        if bytes < bytes_in(&self.holds).unwrap_or(u64::MAX) {
            let left = self.reclaim(bytes, stop)?;
            match reached(bytes, left, &self.holds) {
                Some(cap) => next = cap,
                None => return Ok(()),
            }
        }
        self.write(journal, next)
            .map_err(|source| self.failed("write", source))
    }

    /// Reclaims down to `bytes` in pieces. Returns the usage then, or 0 where the kernel has no file for it (before
    /// Linux 5.19): the write of the cap then reclaims.
    fn reclaim(&self, bytes: u64, stop: impl Fn() -> bool) -> Result<u64, CapError> {
        let group = self.group();
        loop {
            let usage = self.usage()?;
            if usage <= bytes || stop() {
                return Ok(usage);
            }
            match group.reclaim((usage - bytes).min(PIECE)) {
                Ok(()) => {}
                // A partial reclaim, or a signal.
                Err(error) if matches!(error.errno(), Some(libc::EAGAIN | libc::EINTR)) => {
                    return self.usage();
                }
                Err(error) if error.io().kind() == io::ErrorKind::NotFound => return Ok(0),
                Err(error) => return Err(self.failed("reclaim", error.into_io())),
            }
        }
    }

    /// Writes a cap, journalled, and checks nothing.
    fn write(&mut self, journal: &mut Journal, bytes: u64) -> io::Result<()> {
        let next = bytes.to_string();
        if next == self.holds {
            return Ok(());
        }
        let number = journal
            .record(Change::Cap {
                path: self.path.clone(),
                before: self.before.clone(),
                wrote: [self.holds.clone(), next.clone()],
                inode: Some(self.inode),
            })
            .map_err(io::Error::other)?;
        let written = write(&self.control(), &next);
        let over = match &written {
            Ok(()) => {
                self.holds = next;
                self.number.replace(number)
            }
            Err(_) => Some(number),
        };
        if let Some(over) = over {
            journal.record_undone(over).map_err(io::Error::other)?;
        }
        written
    }

    /// Whether tasks wait at the limit of v1: a lower one would let them wait for longer.
    fn is_waited_at(&self) -> bool {
        self.group().oom_control().is_ok_and(|control| control.waiting)
    }

    fn usage(&self) -> Result<u64, CapError> {
        self.group()
            .usage()
            .map_err(|error| self.failed("read", error.into_io()))
    }

    fn control(&self) -> PathBuf {
        let group = self.group();
        group.file(Cap::file(group.version()))
    }

    fn failed(&self, action: &str, source: io::Error) -> CapError {
        if is_gone(&source) {
            return CapError::Gone {
                path: self.cgroup.clone(),
            };
        }
        EnvironmentError::system(format!("{action} the cap {}", self.path.display()), source).into()
    }
}

/// The cap above the memory that a reclaim down to `bytes` left; `None` where that is not below the cap that the file `holds`.
fn reached(bytes: u64, left: u64, holds: &str) -> Option<u64> {
    let page = rustix::param::page_size() as u64;
    let next = bytes.max(left.div_ceil(page).saturating_mul(page));
    (next < bytes_in(holds).unwrap_or(u64::MAX)).then_some(next)
}

/// The bytes that the text of a cap stands for; `None` for none.
pub(super) fn bytes_in(text: &str) -> Option<u64> {
    text.parse().ok().filter(|bytes| *bytes < UNLIMITED)
}

pub(super) fn is_cap(text: &str) -> bool {
    text == "max" || text.parse::<u64>().is_ok()
}

/// Restores `before` if the file holds one of the contents `wrote`, and its cgroup has this inode number or the journal
/// has none.
pub(super) fn undo(
    path: &Path,
    before: &str,
    wrote: &[String; 2],
    inode: Option<u64>,
) -> Result<Undone, UndoError> {
    let (Some(cgroup), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(UndoError::Outside("this is no path of a cap"));
    };
    let Some(folder) = open_folder(cgroup)? else {
        return Ok(Undone::Gone);
    };
    let group = folder.group();
    match other_cgroup(group.path(), inode)? {
        Some(other) => Ok(other),
        None => restore(&group.path().join(name), before, wrote),
    }
}

fn restore(file: &Path, before: &str, wrote: &[String; 2]) -> Result<Undone, UndoError> {
    let now = match read(file) {
        Ok(now) => now,
        Err(error) if is_gone(&error) => return Ok(Undone::Gone),
        Err(source) => return Err(UndoError::system("read it")(source)),
    };
    if now == before {
        return Ok(Undone::Gone);
    }
    if !wrote.contains(&now) {
        return Ok(Undone::NotOurs(format!(
            "it holds `{now}`, not the `{}` of this run: another program changed it (it was `{before}`)",
            wrote[1]
        )));
    }
    match write(file, before) {
        Ok(()) => {}
        Err(error) if is_gone(&error) => return Ok(Undone::Gone),
        Err(source) => return Err(UndoError::system(format!("write `{before}` back"))(source)),
    }
    match read(file) {
        Ok(now) if now == before => Ok(Undone::Gone),
        Ok(found) => Err(UndoError::NotTaken {
            before: before.to_owned(),
            found,
        }),
        Err(error) if is_gone(&error) => Ok(Undone::Gone),
        Err(source) => Err(UndoError::system("read it back")(source)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The run died before the write, after it, or between the two lines of the journal around it.
    #[test]
    fn a_cap_is_restored_after_any_torn_write() {
        let wrote = ["1048576".to_owned(), "983040".to_owned()];
        for (now, expected, alone) in [
            ("1048576\n", "max", false),
            ("983040\n", "max", false),
            ("max", "max", false),
            ("4096\n", "4096\n", true),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join(HIGH);
            fs::write(&file, now).unwrap();
            // A plain file keeps the tail of a longer content, which a control file does not.
            let undone = restore(&file, "max", &wrote);
            match alone {
                true => assert!(matches!(undone, Ok(Undone::NotOurs(_))), "held {now}: {undone:?}"),
                false => assert!(
                    !matches!(undone, Ok(Undone::NotOurs(_))),
                    "held {now}: {undone:?}"
                ),
            }
            assert!(
                fs::read_to_string(&file).unwrap().starts_with(expected),
                "held {now}"
            );
        }
        let absent = Path::new("/sys/fs/cgroup/plimsoll_absent/memory.high");
        assert_eq!(undo(absent, "max", &wrote, None).unwrap(), Undone::Gone);
    }

    /// A service that is a little above its own `memory.high` got a higher one.
    #[test]
    fn a_reclaim_that_fails_raises_no_cap() {
        let mib = |number: u64| number << 20;
        let high = mib(100).to_string();
        assert_eq!(reached(mib(90), mib(101), &high), None);
        assert_eq!(reached(mib(90), mib(100), &high), None);
        assert_eq!(reached(mib(90), mib(95) - 1, &high), Some(mib(95)));
        assert_eq!(reached(mib(90), 0, &high), Some(mib(90)));
        assert_eq!(reached(mib(90), mib(101), "max"), Some(mib(101)));
    }

    #[test]
    fn no_limit_in_either_version_is_no_cap() {
        assert_eq!(bytes_in("max"), None);
        assert_eq!(bytes_in("9223372036854771712"), None);
        assert_eq!(bytes_in("1048576"), Some(1 << 20));
        assert!(is_cap("max") && is_cap("0") && !is_cap("-1") && !is_cap("1\n2") && !is_cap(""));
    }
}
