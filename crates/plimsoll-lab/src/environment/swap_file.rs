//! Swap files.
//!
//! Invariant: a swap file is only made in, and removed from, a folder in which no other user can replace it. Checked by
//! `a_folder_that_others_can_write_to_gets_no_swap_file`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use plimsoll_proc::TrustedFolder;
use plimsoll_proc::swap_header::{self, Found, SwapHeader};
use plimsoll_proc::swaps::is_active;
use rustix::fs::{FallocateFlags, IFlags, OFlags, fallocate, fstatfs, ioctl_getflags, ioctl_setflags};

use super::change::Change;
use super::error::EnvironmentError;
use super::journal::Journal;
use super::machine::disk_space;
use super::swap_device::{SwapDevice, SwapKind, turn_on};
use super::swap_folder::suitable;
use super::undo::{UndoError, Undone};

/// `BTRFS_SUPER_MAGIC` of `<linux/magic.h>`.
const BTRFS: u64 = 0x9123_683e;

/// A swap file is named `.plimsoll-<run>-<number>.swap`.
const PREFIX: &str = ".plimsoll-";
const SUFFIX: &str = ".swap";
/// Swapped memory is private to its owner.
const MODE: u32 = 0o600;

/// Bytes written at once where the file system cannot allocate ahead.
const CHUNK: usize = 1 << 20;

/// Makes a swap file of `size` bytes in `folder` and turns it on. Undone through the journal.
pub(super) fn create(
    journal: &mut Journal,
    folder: &Path,
    size: u64,
) -> Result<SwapDevice, EnvironmentError> {
    let place = suitable(folder).map_err(|defect| EnvironmentError::UnsuitableFolder {
        folder: folder.to_owned(),
        defect,
    })?;
    // /proc/swaps shows the real path.
    let folder = place.path().to_owned();
    let page = rustix::param::page_size();
    let header = SwapHeader::new(size, page, "plimsoll")?;
    let size = header.pages * page as u64;
    let space = disk_space(&folder).map_err(|source| EnvironmentError::reading(&folder, source))?;
    if size.saturating_add(space.reserve) > space.available {
        return Err(disk_full(folder, size));
    }
    let name = OsString::from(format!(
        "{PREFIX}{}-{}{SUFFIX}",
        journal.run(),
        journal.next_number()
    ));
    let path = folder.join(&name);
    let number = journal.record(Change::File {
        path: path.clone(),
        uuid: header.uuid_text(),
    })?;
    let opened = place.open(&name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, MODE);
    let file = match opened {
        Ok(file) => file,
        Err(source) => {
            journal.record_undone(number)?;
            return Err(EnvironmentError::system(
                format!("make the swap file {}", path.display()),
                source,
            ));
        }
    };
    match allocate(&file, size) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => return Err(disk_full(folder, size)),
        Err(source) => {
            let action = format!("allocate {size} bytes for the swap file {}", path.display());
            return Err(EnvironmentError::system(action, source));
        }
    }
    let priority = turn_on(journal, &path, &file, &header)?;
    Ok(SwapDevice {
        path,
        kind: SwapKind::File,
        size,
        priority,
    })
}

fn disk_full(folder: PathBuf, needed: u64) -> EnvironmentError {
    let space = disk_space(&folder).unwrap_or_default();
    EnvironmentError::DiskFull {
        folder,
        needed,
        available: space.available,
        reserve: space.reserve,
    }
}

/// Gives the file `size` bytes of real disk blocks: a swap file must have no holes.
fn allocate(file: &File, size: u64) -> io::Result<()> {
    if fstatfs(file)?.f_type as u64 == BTRFS {
        // btrfs swaps only to files without copy-on-write, a flag that only an empty file takes.
        ioctl_setflags(file, ioctl_getflags(file)? | IFlags::NOCOW)?;
    }
    match fallocate(file, FallocateFlags::empty(), 0, size) {
        Ok(()) => file.sync_all(),
        Err(rustix::io::Errno::OPNOTSUPP) => write_zeros(file, size),
        Err(error) => Err(error.into()),
    }
}

fn write_zeros(mut file: &File, size: u64) -> io::Result<()> {
    let zeros = vec![0u8; CHUNK];
    let mut left = size;
    while left > 0 {
        let length = left.min(CHUNK as u64);
        file.write_all(&zeros[..length as usize])?;
        left -= length;
    }
    file.sync_all()
}

/// Removes the file, unless it is in use as swap or another program's: a file of ours has our name, owner and mode,
/// and a header with our UUID or none yet.
pub(super) fn undo(path: &Path, uuid: &str) -> Result<Undone, UndoError> {
    if is_active(path).map_err(UndoError::system("read /proc/swaps"))? {
        return Err(UndoError::InUse);
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(UndoError::Outside("this is no path of a file"));
    };
    let folder = match TrustedFolder::shared(folder) {
        Ok(folder) => folder,
        Err(defect) if defect.is_not_found() => return Ok(Undone::Gone),
        Err(defect) => return Err(UndoError::Untrusted(defect)),
    };
    let replaced = || {
        Ok(Undone::NotOurs(
            "something else has taken its place since".to_owned(),
        ))
    };
    let file = match folder.open(name, OFlags::RDONLY, 0) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Undone::Gone),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::EACCES)) => return replaced(),
        Err(source) => return Err(UndoError::system("open it")(source)),
    };
    let metadata = file.metadata().map_err(UndoError::system("look at it"))?;
    let as_made = metadata.is_file()
        && metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.permissions().mode() & 0o7777 == MODE
        && is_our_name(path);
    if !as_made {
        return replaced();
    }
    match header(&file, metadata.len()) {
        Ok(Found::Blank) => {}
        Ok(Found::Uuid(found)) if found == uuid => {}
        Ok(_) => {
            return Ok(Undone::NotOurs(
                "another program has written to it since".to_owned(),
            ));
        }
        Err(source) => return Err(UndoError::system("read its header")(source)),
    }
    if !folder
        .names(name, &file)
        .map_err(UndoError::system("look at it"))?
    {
        return replaced();
    }
    match folder.remove_file(name) {
        Ok(()) => Ok(Undone::Gone),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Undone::Gone),
        Err(source) => Err(UndoError::system("remove it")(source)),
    }
}

/// Whether the file has a name that a run gives.
pub(super) fn is_our_name(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
}

/// The swap header; a run may die before the file has its size.
fn header(mut file: &File, length: u64) -> io::Result<Found> {
    if length >= rustix::param::page_size() as u64 {
        return swap_header::find(file);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let zeros = bytes.iter().all(|&byte| byte == 0);
    Ok(if zeros { Found::Blank } else { Found::Other })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_allocated_file_has_no_holes() {
        let folder = tempfile::tempdir().unwrap();
        for (name, fill) in [
            ("allocated", allocate as fn(&File, u64) -> io::Result<()>),
            ("written", write_zeros),
        ] {
            let path = folder.path().join(name);
            let size = (CHUNK + 8192) as u64;
            fill(&File::create_new(&path).unwrap(), size).unwrap();
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!(metadata.len(), size);
            assert!(
                metadata.blocks() * 512 >= size,
                "{name}: {} blocks",
                metadata.blocks()
            );
        }
    }

    /// Makes a file and undoes it; true if `undo` took it for ours.
    fn removed(name: &str, mode: u32, content: &[u8]) -> bool {
        let uuid = "00112233-4455-4677-8899-aabbccddeeff";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let undone = undo(&path, uuid).unwrap();
        assert_eq!(undone == Undone::Gone, !path.exists(), "{undone:?}");
        !path.exists()
    }

    #[test]
    fn undo_removes_only_our_file() {
        let name = ".plimsoll-run-1.swap";
        let page = rustix::param::page_size();
        let mut ours = SwapHeader::new(1 << 20, page, "plimsoll").unwrap();
        ours.uuid = *b"\x00\x11\x22\x33\x44\x55\x46\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff";
        let theirs = SwapHeader::new(1 << 20, page, "plimsoll").unwrap();
        assert!(removed(name, 0o600, &ours.encode(page)));
        assert!(removed(name, 0o600, &[]), "made, and not yet allocated");
        assert!(
            removed(name, 0o600, &vec![0; 2 * page]),
            "allocated, and without a header yet"
        );
        assert!(
            !removed(name, 0o600, &theirs.encode(page)),
            "another program's swap"
        );
        assert!(!removed(name, 0o600, b"their text"));
        assert!(!removed(name, 0o600, &vec![b'x'; 2 * page]));
        assert!(!removed(name, 0o644, &ours.encode(page)));
        assert!(!removed("swapfile", 0o600, &ours.encode(page)));
    }

    #[test]
    fn undo_keeps_a_folder_or_link_at_the_path_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (
            folder.path().join(".plimsoll-a-1.swap"),
            folder.path().join("target"),
        );
        fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let directory = folder.path().join(".plimsoll-a-2.swap");
        fs::create_dir(&directory).unwrap();
        for path in [&link, &directory] {
            assert!(
                matches!(undo(path, "u"), Ok(Undone::NotOurs(_))),
                "{}",
                path.display()
            );
        }
        assert!(link.is_symlink() && target.exists() && directory.is_dir());
    }

    /// The owner of the folder could put a link in place of the file before root writes to it.
    #[test]
    fn a_folder_that_others_can_write_to_gets_no_swap_file() {
        let state = tempfile::tempdir().unwrap();
        let place = tempfile::tempdir().unwrap();
        let mut journal = Journal::for_test(state.path());
        let mut refused = |folder: &Path| {
            // Without the check the size would be refused: no swap is turned on in any case.
            let error = create(&mut journal, folder, 1).unwrap_err();
            assert!(
                matches!(error, EnvironmentError::UnsuitableFolder { .. }),
                "{error}"
            );
            assert!(journal.outstanding_since(0).is_empty(), "nothing to undo");
            assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "nothing was made");
        };
        let mode = |mode: u32| {
            fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
        };
        for shared in [0o777, 0o770] {
            mode(shared);
            refused(place.path());
            // A file that was made before the folder was opened to others is not removed by a path.
            let path = place.path().join(".plimsoll-run-1.swap");
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(MODE)).unwrap();
            let undone = undo(&path, "u");
            assert!(matches!(undone, Err(UndoError::Untrusted(_))), "{undone:?}");
            fs::remove_file(&path).unwrap();
        }
        if rustix::process::geteuid().is_root() {
            mode(0o755);
            std::os::unix::fs::chown(place.path(), Some(65534), None).unwrap();
            refused(place.path());
        }
    }
}
