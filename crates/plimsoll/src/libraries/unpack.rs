//! A library, unpacked into a folder of the user.
//!
//! A preloaded library runs with all rights of its program. So this module only returns a library in a [`TrustedFolder`],
//! and only if its bytes equal the embedded ones. The returned path has no symbolic link, so it leads to the checked file.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use plimsoll_proc::{Distrust, TrustedFolder};
use rustix::fs::{OFlags, StatVfsMountFlags};
use rustix::rand::{GetRandomFlags, getrandom};

use super::Library;

const ROOT: u32 = 0;

/// There is no folder for the library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    #[error(
        "cannot unpack {library}: {}; set XDG_CACHE_HOME or TMPDIR to a folder that only you can write to",
        list(.refused)
    )]
    NoPlace {
        library: &'static str,
        /// The candidate folders, each with its defect.
        refused: Vec<(PathBuf, Refusal)>,
    },
}

/// Defect of a folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error("cannot {doing}: {source}")]
    Io {
        /// The failed operation: a verb with its object.
        doing: &'static str,
        source: io::Error,
    },
    /// Another user could replace the library, or the folder cannot be opened.
    #[error(transparent)]
    Folder(#[from] Distrust),
    #[error("its file system is mounted noexec")]
    NoExec,
    #[error("LD_PRELOAD cannot name a path with a space, a colon or a dollar sign")]
    Unspeakable,
}

fn list(refused: &[(PathBuf, Refusal)]) -> String {
    let each = refused
        .iter()
        .map(|(folder, why)| format!("{}: {why}", folder.display()));
    each.collect::<Vec<_>>().join("; ")
}

impl Library {
    /// Unpacks the library unless it exists, and returns its path: in the user's cache (`$XDG_CACHE_HOME/plimsoll` or
    /// `~/.cache/plimsoll`) or, if that is unusable, in a folder of the user's own in `$TMPDIR`. For root without
    /// `XDG_CACHE_HOME`, the system's cache (`/var/cache/plimsoll`) comes first: children of root's programs may be other
    /// users', and cannot read a library below root's home.
    ///
    /// # Errors
    /// [`LibraryError`] if both folders are unwritable or untrusted.
    pub fn unpack(&self) -> Result<PathBuf, LibraryError> {
        let user = rustix::process::geteuid().as_raw();
        // Not made where it is missing: its mode is the system's matter.
        let system = Path::new("/var/cache");
        let system = system.is_dir().then_some(system);
        unpack_into(self, &folders(|name| env::var_os(name), user, system), user)
    }
}

/// The candidate folders, in order of preference.
fn folders(
    variable: impl Fn(&str) -> Option<OsString>,
    user: u32,
    system_cache: Option<&Path>,
) -> Vec<PathBuf> {
    let absolute = |name: &str| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    let system = || system_cache.filter(|_| user == ROOT).map(Path::to_owned);
    let caches = match absolute("XDG_CACHE_HOME") {
        Some(cache) => [Some(cache), None],
        None => [system(), home()],
    };
    let cached = caches.into_iter().flatten().map(|cache| cache.join("plimsoll"));
    let temporary = absolute("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
    cached
        .chain([temporary.join(format!("plimsoll-{user}"))])
        .collect()
}

fn unpack_into(library: &Library, folders: &[PathBuf], user: u32) -> Result<PathBuf, LibraryError> {
    let mut refused = Vec::new();
    for folder in folders {
        match place(library, folder, user) {
            Ok(path) => return Ok(path),
            Err(why) => refused.push((folder.clone(), why)),
        }
    }
    Err(LibraryError::NoPlace {
        library: library.name,
        refused,
    })
}

/// Unpacks the library into a folder in `folder` named by its hash, so that programs of older releases keep theirs.
fn place(library: &Library, folder: &Path, user: u32) -> Result<PathBuf, Refusal> {
    // Check before the first write: a folder of root in another user's folder would lock that user out.
    let (there, missing) = TrustedFolder::nearest_of(folder, user)?;
    let path = there.path().join(missing).join(library.hash).join(library.name);
    if path
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| b" \t\n:$".contains(byte))
    {
        return Err(Refusal::Unspeakable);
    }
    let folder = TrustedFolder::make_own_of(folder, user)?;
    share(&folder, user)?;
    let own = folder.make_folder(library.hash.as_ref())?;
    share(&own, user)?;
    let mounted =
        rustix::fs::fstatvfs(&own).map_err(|error| doing("look at its file system")(error.into()))?;
    if mounted.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(Refusal::NoExec);
    }
    if !is_in(&own, library) {
        write(&own, library).map_err(doing("write the library"))?;
    }
    Ok(own.path().join(library.name))
}

/// Lets every user read a folder of root's that holds nothing but the library: a program that root starts may become
/// another user, and the dynamic linker then loads the library into its children. Others still cannot write to it.
fn share(folder: &TrustedFolder, user: u32) -> Result<(), Refusal> {
    const READABLE: u32 = 0o755;
    if user != ROOT {
        return Ok(());
    }
    let share = || {
        let opened = folder.open(OsStr::new("."), OFlags::RDONLY | OFlags::DIRECTORY, 0)?;
        match opened.metadata()?.mode() & 0o7777 {
            READABLE => Ok(()),
            _ => opened.set_permissions(fs::Permissions::from_mode(READABLE)),
        }
    };
    share().map_err(doing("let other users read the folder"))
}

fn doing(doing: &'static str) -> impl Fn(io::Error) -> Refusal {
    move |source| Refusal::Io { doing, source }
}

/// Whether the folder has the library: a regular file of the user with the embedded bytes.
fn is_in(folder: &TrustedFolder, library: &Library) -> bool {
    let Ok(mut file) = folder.own_file(OsStr::new(library.name), OFlags::RDONLY, 0) else {
        return false;
    };
    // A start waits for this: small enough for the processor's cache.
    let mut bytes = [0; 64 << 10];
    let has_all = library.bytes.chunks(bytes.len()).all(|part| {
        let bytes = &mut bytes[..part.len()];
        file.read_exact(bytes).is_ok() && bytes == part
    });
    has_all && matches!(file.read(&mut bytes), Ok(0))
}

/// Writes the library under another name and renames it, so that no program loads a part of it.
fn write(folder: &TrustedFolder, library: &Library) -> io::Result<()> {
    // A random name: containers that share the folder may use the same process ids.
    let mut random = [0; 16];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let half = OsString::from(format!("{}.{:032x}", library.name, u128::from_ne_bytes(random)));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file = folder.open(&half, flags, 0o500)?;
    let written = file
        .write_all(library.bytes)
        .and_then(|()| file.set_permissions(fs::Permissions::from_mode(0o555)))
        .and_then(|()| folder.rename(&half, OsStr::new(library.name)));
    if written.is_err() {
        // The caller needs the first error.
        let _ = folder.remove_file(&half);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    use super::super::MALLOC;
    use super::*;

    fn user() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn unpack_into(folders: &[PathBuf], user: u32) -> Result<PathBuf, LibraryError> {
        super::unpack_into(&MALLOC, folders, user)
    }

    fn place_in(folder: &Path, user: u32) -> Result<PathBuf, Refusal> {
        super::place(&MALLOC, folder, user)
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
    }

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).expect("a folder").count()
    }

    #[test]
    fn the_cache_comes_before_the_temporary_folder() {
        let of = |variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            folders(variable, 7, Some(Path::new("/v")))
        };
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(
            of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c"), ("TMPDIR", "/t")]),
            paths(&["/c/plimsoll", "/t/plimsoll-7"])
        );
        assert_eq!(
            of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "relative")]),
            paths(&["/h/.cache/plimsoll", "/tmp/plimsoll-7"])
        );
        assert_eq!(of(&[]), paths(&["/tmp/plimsoll-7"]));
        let of_root = |variables: &'static [(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            folders(variable, ROOT, Some(Path::new("/v")))
        };
        assert_eq!(
            of_root(&[("HOME", "/root")]),
            paths(&["/v/plimsoll", "/root/.cache/plimsoll", "/tmp/plimsoll-0"])
        );
        assert_eq!(
            of_root(&[("HOME", "/root"), ("XDG_CACHE_HOME", "/c")]),
            paths(&["/c/plimsoll", "/tmp/plimsoll-0"])
        );
    }

    #[test]
    fn a_changed_library_is_unpacked_again() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = place.path().join("cache/plimsoll");
        let library = unpack_into(std::slice::from_ref(&folder), user()).expect("it is unpacked");
        assert_eq!(fs::read(&library).expect("it is there"), MALLOC.bytes);
        // Other users can read a library that root unpacked, as programs of root start programs of theirs.
        let readable = if user() == ROOT { 0o755 } else { 0o700 };
        assert_eq!((mode(&library), mode(&folder)), (0o555, readable));
        assert_eq!(mode(library.parent().expect("a folder")), readable);
        let inode = |path: &Path| fs::metadata(path).expect("it is there").ino();
        let first = inode(&library);
        unpack_into(std::slice::from_ref(&folder), user()).expect("it is there");
        assert_eq!(inode(&library), first, "nothing is written where nothing differs");

        fs::remove_file(&library).expect("removed");
        fs::write(&library, &MALLOC.bytes[1..]).expect("written");
        unpack_into(std::slice::from_ref(&folder), user()).expect("it is unpacked again");
        assert_eq!(fs::read(&library).expect("it is there"), MALLOC.bytes);
        fs::remove_file(&library).expect("removed");
        let elsewhere = place.path().join("elsewhere");
        fs::write(&elsewhere, MALLOC.bytes).expect("written");
        symlink(&elsewhere, &library).expect("linked");
        unpack_into(&[folder], user()).expect("it is unpacked again");
        assert!(fs::symlink_metadata(&library).expect("it is there").is_file());
        let left = entries(library.parent().expect("a folder"));
        assert_eq!(left, 1, "nothing but the library is left");
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused_for_the_next() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let (open, linked, good) = (
            place.path().join("open"),
            place.path().join("link"),
            place.path().join("good"),
        );
        fs::create_dir_all(open.join("inside")).expect("made");
        fs::set_permissions(open.join("inside"), fs::Permissions::from_mode(0o700)).expect("closed");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("opened");
        symlink(&open, &linked).expect("linked");
        let below = open.join("inside/way/below");
        let folders = [open.clone(), linked.clone(), below.clone()];
        let error = unpack_into(&folders, user()).expect_err("none will do");
        let LibraryError::NoPlace { refused, .. } = &error;
        assert!(
            matches!(
                refused.as_slice(),
                [
                    (_, Refusal::Folder(Distrust::WritableByOthers(_))),
                    (_, Refusal::Folder(Distrust::NoFolder(_))),
                    (_, Refusal::Folder(Distrust::WritableByOthers(_)))
                ]
            ),
            "{error}"
        );
        let spoken = error.to_string();
        assert!(
            spoken.contains(&open.display().to_string()) && spoken.contains("XDG_CACHE_HOME"),
            "{spoken}"
        );
        assert_eq!(entries(&open), 1, "nothing was made");
        assert_eq!(entries(&open.join("inside")), 0, "nor further down");
        let used = unpack_into(&[open, good.clone()], user()).expect("the second will do");
        assert!(used.starts_with(good));
    }

    #[test]
    fn a_folder_that_a_group_can_write_to_is_refused() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let shared = place.path().join("shared");
        fs::create_dir(&shared).expect("made");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o770)).expect("opened");
        for folder in [shared.clone(), shared.join("plimsoll")] {
            let error = place_in(&folder, user()).expect_err("refused");
            assert!(
                matches!(error, Refusal::Folder(Distrust::WritableByOthers(_))),
                "{error}"
            );
        }
        assert_eq!(entries(&shared), 0, "nothing was made");
    }

    #[test]
    fn a_folder_of_another_user_is_refused_and_nothing_made_in_it() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let user = match user() {
            0 => {
                chown(place.path(), Some(1), None).expect("root may");
                0
            }
            user => user + 1,
        };
        let error = place_in(&place.path().join("cache/plimsoll"), user).expect_err("refused");
        assert!(
            matches!(error, Refusal::Folder(Distrust::OfAnother(..))),
            "{error}"
        );
        assert_eq!(entries(place.path()), 0, "nothing was made");
    }

    #[test]
    fn the_path_that_is_preloaded_has_no_symbolic_link_in_it() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let real = place.path().canonicalize().expect("it is there").join("real");
        fs::create_dir(&real).expect("made");
        let linked = place.path().join("link");
        symlink(&real, &linked).expect("linked");
        for below in ["plimsoll", "cache/plimsoll"] {
            let library = place_in(&linked.join(below), user()).expect("it is unpacked");
            assert!(library.starts_with(real.join(below)), "{}", library.display());
        }
        // LD_PRELOAD must be able to name the resolved path.
        let spaced = place.path().join("a b");
        fs::create_dir(&spaced).expect("made");
        let linked = place.path().join("spaced");
        symlink(&spaced, &linked).expect("linked");
        let error = place_in(&linked.join("plimsoll"), user()).expect_err("refused");
        assert!(matches!(error, Refusal::Unspeakable), "{error}");
    }

    /// Two containers with one cache, each with a process 1: one published a half-written file of the other.
    #[test]
    fn concurrent_writers_publish_whole_libraries() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = TrustedFolder::own(place.path()).expect("trusted");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        write(&folder, &MALLOC).expect("written");
                        assert!(is_in(&folder, &MALLOC));
                    }
                });
            }
        });
        assert_eq!(entries(place.path()), 1, "nothing but the library is left");
    }

    #[test]
    fn paths_that_ld_preload_cannot_name_are_refused() {
        let place = tempfile::tempdir().expect("a temporary folder");
        for name in ["a b", "a:b", "a$b"] {
            let error = place_in(&place.path().join(name), user()).expect_err("refused");
            assert!(matches!(error, Refusal::Unspeakable), "{name}: {error}");
        }
        assert_eq!(entries(place.path()), 0, "nothing was made");
    }
}
