//! Whole-file replacement that never leaves a half.
//!
//! Invariant: nothing here writes through a symbolic link that another user may have made. Checked by
//! `a_link_is_replaced_and_its_target_is_not_written_to`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// Names that a temporary file tries.
const NAMES: u32 = 1000;
/// Flags of a file that must not exist yet.
pub(super) const NEW: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::CLOEXEC);
/// Number of the next temporary file of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Replaces the file `path`, or makes it, so that at every moment it is the old one or the new one and whole. A link
/// at `path` is replaced, too: its target stays as it is. The temporary file beside it is removed when that fails.
///
/// # Errors
/// The error of `write` or of the system.
pub fn replace_file<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = open_folder(CWD, parent.unwrap_or(Path::new(".")), OFlags::empty());
    let folder = folder.map_err(io::Error::from)?;
    replace_in(folder.as_fd(), path.file_name().unwrap_or_default(), write)
}

/// As [`replace_file`], of the file `name` of an open folder: names above the folder do not matter.
pub(super) fn replace_in<T, E: From<io::Error>>(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    write: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let (mut file, temporary) = create_beside(folder, name)?;
    let attempt = || -> Result<T, E> {
        let written = write(&mut file)?;
        file.sync_all()?;
        rustix::fs::renameat(folder, &temporary, folder, name).map_err(io::Error::from)?;
        // The rename lasts only once the folder is on disk.
        readable(folder).and_then(|folder| folder.sync_all())?;
        Ok(written)
    };
    attempt().inspect_err(|_| {
        // The first error is the one that tells; a temporary file that cannot be removed harms no reader.
        let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
    })
}

/// Creates a temporary file beside the file `beside`. It must be new: a link of its name could lead to any file.
fn create_beside(folder: BorrowedFd<'_>, beside: &OsStr) -> io::Result<(File, OsString)> {
    let mut last = None;
    for _ in 0..NAMES {
        let mut name = OsString::from(".");
        name.push(beside);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        name.push(format!(".{}-{number}.new", std::process::id()));
        match rustix::fs::openat(folder, &name, NEW, Mode::from_raw_mode(0o666)) {
            Ok(file) => return Ok((file.into(), name)),
            Err(Errno::EXIST) => last = Some(Errno::EXIST.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
}

/// Opens a folder for lookups.
pub(super) fn open_folder(at: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}

pub(super) fn readable(folder: BorrowedFd<'_>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, ".", flags, Mode::empty())?.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    /// `report` wrote through a link in place of report.html, and through a link in place of its temporary file.
    #[test]
    fn a_link_is_replaced_and_its_target_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("report.html"), folder.path().join("victim"));
        fs::write(&victim, "important").unwrap();
        symlink(&victim, &path).unwrap();
        symlink(&victim, folder.path().join(".report.html.new")).unwrap();
        // The names that this process takes next: guessed by an attacker.
        let next = NEXT.load(Ordering::Relaxed);
        for number in next..next + 20 {
            let name = format!(".report.html.{}-{number}.new", std::process::id());
            symlink(&victim, folder.path().join(name)).unwrap();
        }
        let before = entries(folder.path());
        replace_file(&path, |file| file.write_all(b"report")).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "important");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::read_to_string(&path).unwrap(), "report");
        assert_eq!(entries(folder.path()), before, "the temporary file is gone");
    }
}
