//! Turning swap areas on and off.
//!
//! An area is an open file all the time between its creation and `swapon`: the header goes through that descriptor, and
//! the kernel gets the descriptor, not the path. So an area that another program puts in its place is never written to.
//! Checked by `a_file_in_place_of_the_area_is_neither_written_to_nor_swapped_to`.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use plimsoll_os::Errno;
use plimsoll_proc::swap_header::{self, Found, SwapHeader};
use plimsoll_proc::swaps::{self, ActiveSwap, active, find};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::error::EnvironmentError;
use super::journal::Journal;
use super::undo::{UndoError, Undone};

/// Priority of our areas where no other is higher.
const PRIORITY: u16 = 1000;
/// Highest priority that there is.
const HIGHEST: u16 = 32767;
/// Attempts at swapoff that a signal or a shortage of memory may spoil.
const OFF_ATTEMPTS: u32 = 20;

/// A swap area of a run, turned on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SwapDevice {
    pub path: PathBuf,
    pub kind: SwapKind,
    pub size: u64,
    /// Its priority, above that of any area that was there before.
    pub priority: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum SwapKind {
    Zram {
        id: u32,
        /// The algorithm that the kernel reports.
        algorithm: String,
        /// Whether the device was added for the run (or was a free one).
        added: bool,
    },
    File,
}

impl SwapDevice {
    /// `zram<N>`, the name under `/sys/block`, for a zram device.
    pub fn zram_name(&self) -> Option<String> {
        match &self.kind {
            SwapKind::Zram { id, .. } => Some(format!("zram{id}")),
            SwapKind::File => None,
        }
    }
}

/// Writes the header to the area, which is open for writing at `path`, and turns it on, above all others. Returns its
/// priority.
pub(super) fn turn_on(
    journal: &mut Journal,
    path: &Path,
    area: &File,
    header: &SwapHeader,
) -> Result<u16, EnvironmentError> {
    write_header(area, header).map_err(|source| {
        EnvironmentError::system(format!("write a swap header to {}", path.display()), source)
    })?;
    let others = active().map_err(|source| EnvironmentError::reading(Path::new(swaps::PATH), source))?;
    let above = others
        .iter()
        .map(|swap| swap.priority.saturating_add(1))
        .max()
        .unwrap_or(0);
    let priority = u16::try_from(above).unwrap_or(0).clamp(PRIORITY, HIGHEST);
    let uuid = header.uuid_text();
    let text = descriptor_path(area)
        .map_err(|source| EnvironmentError::system(format!("use the path {}", path.display()), source))?;
    // An area whose path leads elsewhere could not be found again to turn it off.
    if !is_at(path, area).map_err(|source| EnvironmentError::reading(path, source))? {
        return Err(EnvironmentError::Replaced {
            path: path.to_owned(),
        });
    }
    let number = journal.record(Change::SwapOn {
        path: path.to_owned(),
        uuid,
    })?;
    if let Err(errno) = plimsoll_os::swap_on(&text, Some(priority)) {
        journal.record_undone(number)?;
        let advice = match errno.raw() {
            libc::EPERM => "run as root (CAP_SYS_ADMIN)",
            libc::EINVAL => {
                "the file system cannot hold swap files (holes or copy-on-write): name another folder with `swap-dir`"
            }
            libc::EBUSY => "another program uses it",
            _ => "",
        };
        let source = io::Error::from_raw_os_error(errno.raw());
        return Err(EnvironmentError::system_with(
            format!("turn swap on {} on", path.display()),
            source,
            advice,
        ));
    }
    Ok(priority)
}

fn write_header(area: &File, header: &SwapHeader) -> io::Result<()> {
    area.write_all_at(&header.encode(rustix::param::page_size()), 0)?;
    area.sync_all()
}

/// Whether the path leads to the open file, without a link.
fn is_at(path: &Path, file: &File) -> io::Result<bool> {
    let there = match fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let open = file.metadata()?;
    Ok((there.dev(), there.ino()) == (open.dev(), open.ino()))
}

/// A path that leads to the open file itself. The kernel shows the true path in `/proc/swaps`.
fn descriptor_path(file: &File) -> io::Result<CString> {
    Ok(CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?)
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Turns the area off if it is on and has our UUID.
pub(super) fn undo(path: &Path, uuid: &str) -> Result<Undone, UndoError> {
    let reading = |source: io::Error| UndoError::system("read /proc/swaps")(source);
    match find(&active().map_err(reading)?, path) {
        None => return Ok(Undone::Gone),
        Some(area) if area.path != path => return undo_deleted(area, path),
        Some(_) => {}
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let area = File::from(opened.map_err(UndoError::system("open it"))?);
    match swap_header::find(&area) {
        Ok(Found::Uuid(found)) if found == uuid => {}
        Ok(_) => {
            return Ok(Undone::NotOurs(
                "another swap area has taken its place".to_owned(),
            ));
        }
        Err(source) => return Err(UndoError::system("read its header")(source)),
    }
    let text = descriptor_path(&area).map_err(UndoError::system("use its path"))?;
    let mut last = None;
    for attempt in 0..OFF_ATTEMPTS {
        match plimsoll_os::swap_off(&text) {
            Ok(()) => break,
            Err(errno) if errno == Errno::INTR || errno == Errno::NOMEM => last = Some(errno),
            Err(errno) => return Err(UndoError::SwapOff(errno)),
        }
        thread::sleep(Duration::from_millis(10 * u64::from(attempt)));
    }
    let still = active()
        .map_err(reading)?
        .into_iter()
        .find(|swap| swap.path == path);
    match (still, last) {
        (None, _) => Ok(Undone::Gone),
        (Some(swap), Some(Errno::NOMEM)) => Err(UndoError::NoRoom { used: swap.used }),
        (Some(_), _) => Err(UndoError::Interrupted),
    }
}

/// Turns off an area whose file was deleted during use. Its header is unreachable, but only this run's area had this
/// path. The kernel finds an area by its file, which must still open.
fn undo_deleted(area: &ActiveSwap, path: &Path) -> Result<Undone, UndoError> {
    let text = c_path(path).map_err(UndoError::system("use its path"))?;
    match plimsoll_os::swap_off(&text) {
        Ok(()) => Ok(Undone::Gone),
        Err(errno) => Err(UndoError::Deleted {
            errno,
            used: area.used,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The owner of the folder once replaced the file between its creation and the write of the header: root wrote 4 KiB
    /// over a file of the owner's choice.
    #[test]
    fn a_file_in_place_of_the_area_is_neither_written_to_nor_swapped_to() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("area"), folder.path().join("victim"));
        let size = 64 << 10;
        let header = SwapHeader::new(size, rustix::param::page_size(), "plimsoll").unwrap();
        let mut journal = Journal::for_test(folder.path());
        for link in [true, false] {
            let area = File::create_new(&path).unwrap();
            area.set_len(size).unwrap();
            // The step of the attacker.
            fs::remove_file(&path).unwrap();
            fs::write(&victim, "important").unwrap();
            match link {
                true => std::os::unix::fs::symlink(&victim, &path).unwrap(),
                false => fs::hard_link(&victim, &path).unwrap(),
            }
            let error = turn_on(&mut journal, &path, &area, &header).unwrap_err();
            assert!(matches!(error, EnvironmentError::Replaced { .. }), "{error}");
            assert_eq!(fs::read_to_string(&victim).unwrap(), "important");
            assert!(journal.outstanding_since(0).is_empty(), "nothing to undo");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_failed_swapoff_of_a_deleted_file_is_an_error() {
        let text = "Filename\tType\tSize\tUsed\tPriority\n\
                    /plimsoll-test/.plimsoll-a\\040b-1.swap\\040(deleted)\tfile\t1020\t8\t1000\n";
        let (areas, path) = (
            swaps::parse(text.as_bytes()),
            Path::new("/plimsoll-test/.plimsoll-a b-1.swap"),
        );
        let area = find(&areas, path).unwrap();
        assert_ne!(area.path, path);
        assert_eq!(find(&areas, Path::new("/plimsoll-test/.plimsoll-a")), None);
        let why = undo_deleted(area, path).unwrap_err();
        assert!(matches!(why, UndoError::Deleted { used: 8192, .. }), "{why}");
    }
}
