//! Files that the user names for output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plimsoll_model::recording::replace_file;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 18;

/// Writes a file through `write`: the file of that name, or the one that it links to, is replaced whole or stays as it
/// was. A pipe or a device is written to directly. A link of another user than the effective one and root is refused.
///
/// # Errors
/// The error of `write` or of the system; leaves no file behind.
pub(super) fn to_file<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let buffered = |file: File| -> Result<(), E> {
        let mut output = BufWriter::with_capacity(BUFFER, file);
        write(&mut output)?;
        Ok(output.flush()?)
    };
    let target = link_target(path)?;
    match fs::metadata(&target) {
        Ok(there) if !there.is_file() => {
            let direct = OpenOptions::new().write(true).open(&target)?;
            if direct.metadata()?.is_file() {
                return Err(io::Error::other("another program has replaced it meanwhile").into());
            }
            buffered(direct)
        }
        _ => replace_file(&target, |file| buffered(file.try_clone()?)),
    }
}

/// The file that an output named `path` replaces: `path` itself, or the target of a link that root or the effective user
/// made.
///
/// # Errors
/// `PermissionDenied` for a link of another user, and those of `realpath(3)`.
fn link_target(path: &Path) -> io::Result<PathBuf> {
    let link = match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => found,
        _ => return Ok(path.to_owned()),
    };
    let user = rustix::process::geteuid().as_raw();
    if ![0, user].contains(&link.uid()) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "it is a symbolic link of user {}; remove it, or name another file",
                link.uid()
            ),
        ));
    }
    match fs::canonicalize(path) {
        // Nothing is there: the file takes the place of the link.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        target => target,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_output_follows_only_links_of_its_user_or_root() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let (link, file) = (folder.join("link"), folder.join("file"));
        assert_eq!(link_target(&link).unwrap(), link);
        symlink(&file, &link).unwrap();
        assert_eq!(link_target(&link).unwrap(), link, "a link to nothing is replaced");
        fs::write(&file, "").unwrap();
        assert_eq!(link_target(&link).unwrap(), file);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
            let error = link_target(&link).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
    }
}
