//! The file of a program.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Finds the file of a program as a shell does: `name` if it has a slash, otherwise the first executable one in the
/// folders of `PATH`.
///
/// # Errors
/// `NotFound`, or `PermissionDenied` for a file that this user may not execute.
pub fn locate(name: &OsStr, search_path: Option<&OsStr>) -> io::Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        runnable(Path::new(name))?;
        return Ok(PathBuf::from(name));
    }
    let mut worst = io::Error::from(rustix::io::Errno::NOENT);
    let folders = search_path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    for folder in std::env::split_paths(folders) {
        let path = match folder.as_os_str().is_empty() {
            true => Path::new(".").join(name),
            false => folder.join(name),
        };
        match runnable(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => worst = error,
            Err(_) => {}
        }
    }
    Err(worst)
}

/// Checks that the user may execute a file.
fn runnable(path: &Path) -> io::Result<()> {
    if !fs::metadata(path)?.is_file() {
        return Err(rustix::io::Errno::ACCESS.into());
    }
    Ok(rustix::fs::access(path, rustix::fs::Access::EXEC_OK)?)
}
