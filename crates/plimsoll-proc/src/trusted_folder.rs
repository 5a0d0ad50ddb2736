//! Folders that no other user can change: opened component by component, and checked on the descriptors.
//!
//! A program that runs as root must not create, rename, execute or obey files in a folder whose entries another user
//! can replace. [`TrustedFolder`] is the one check of this. It opens every component of a path relative to the
//! descriptor of the component before, without following links, and checks the opened folder. So no rename between a
//! check and its use can lead elsewhere, and everything below is addressed by the descriptor of the folder.
//!
//! Rules for a path `/a/b/c` and a user:
//! - `/`, `/a` and `/a/b` belong to the user or to root, and only their owner can write to them; or they have the sticky
//!   bit, so that other users can create entries but not replace those of the user.
//! - `/a/b/c` belongs to the user, and only the user can write to it ([`TrustedFolder::own`]); or the rule of its
//!   ancestors holds for it, too ([`TrustedFolder::shared`]).
//! - A symbolic link on the way belongs to the user or to root. Its target is checked like the rest of the path.
//!
//! The group's write bit counts even for the user's own group: the group may have other members, and with an access
//! control list the bit is the mask of all its entries.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Permission bits that let other users write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// Symbolic links that a path may have, as for the kernel (`MAXSYMLINKS`).
const MOST_LINKS: u32 = 40;

/// Defect of a folder or file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Distrust {
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The failed operation: a verb whose object is the path.
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// Another user could replace its entries.
    #[error("other users can write to {}", .0.display())]
    WritableByOthers(PathBuf),
    #[error("{} belongs to user {}", .0.display(), .1)]
    OfAnother(PathBuf, u32),
    /// A file or a symbolic link has this path.
    #[error("{} is not a folder", .0.display())]
    NoFolder(PathBuf),
    /// A folder, a device, a pipe or a link has this path.
    #[error("{} is not a regular file", .0.display())]
    NoFile(PathBuf),
}

impl Distrust {
    fn io(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> Distrust {
        Distrust::Io {
            doing,
            path: path.to_owned(),
            source: source.into(),
        }
    }

    /// Whether the folder or file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Distrust::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// An open folder whose entries of the user no other user can replace, except root.
#[derive(Debug, Clone)]
pub struct TrustedFolder {
    handle: Arc<OwnedFd>,
    /// Without symbolic links, `.` and `..`.
    path: PathBuf,
    user: u32,
}

/// The action at a missing component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absent {
    Refuse,
    /// Create it with mode 0700.
    Make,
    Stop,
}

impl TrustedFolder {
    /// Opens a folder that belongs to the effective user and that only this user can write to.
    ///
    /// # Errors
    /// [`Distrust`], also of an ancestor; [`Distrust::is_not_found`] if it does not exist.
    pub fn own(path: &Path) -> Result<TrustedFolder, Distrust> {
        Self::own_of(path, effective_user())
    }

    /// As [`TrustedFolder::own`], for the user `user`.
    ///
    /// # Errors
    /// As [`TrustedFolder::own`].
    pub fn own_of(path: &Path, user: u32) -> Result<TrustedFolder, Distrust> {
        walk(path, user, Absent::Refuse, false)?.0.exclusive()
    }

    /// As [`TrustedFolder::own`], and creates the folder and its missing ancestors with mode 0700.
    ///
    /// # Errors
    /// As [`TrustedFolder::own`]. Nothing is created in a folder that is not trusted.
    pub fn make_own(path: &Path) -> Result<TrustedFolder, Distrust> {
        Self::make_own_of(path, effective_user())
    }

    /// As [`TrustedFolder::make_own`], for the user `user`.
    ///
    /// # Errors
    /// As [`TrustedFolder::make_own`].
    pub fn make_own_of(path: &Path, user: u32) -> Result<TrustedFolder, Distrust> {
        walk(path, user, Absent::Make, false)?.0.exclusive()
    }

    /// Opens a folder in which other users cannot replace the entries of the effective user: as [`TrustedFolder::own`],
    /// or of root, or with the sticky bit.
    ///
    /// # Errors
    /// As [`TrustedFolder::own`].
    pub fn shared(path: &Path) -> Result<TrustedFolder, Distrust> {
        Ok(walk(path, effective_user(), Absent::Refuse, true)?.0)
    }

    /// The nearest existing ancestor of `path` by the rule of [`TrustedFolder::shared`], and the missing rest of the
    /// path. Creates nothing.
    ///
    /// # Errors
    /// As [`TrustedFolder::own`].
    pub fn nearest_of(path: &Path, user: u32) -> Result<(TrustedFolder, PathBuf), Distrust> {
        walk(path, user, Absent::Stop, false)
    }

    /// Its path, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a folder in it that belongs to the user and that only the user can write to.
    ///
    /// # Errors
    /// As [`TrustedFolder::own`].
    pub fn folder(&self, name: &OsStr) -> Result<TrustedFolder, Distrust> {
        self.child(name, Absent::Refuse)?.exclusive()
    }

    /// As [`TrustedFolder::folder`], and creates it with mode 0700 if it does not exist.
    ///
    /// # Errors
    /// As [`TrustedFolder::own`].
    pub fn make_folder(&self, name: &OsStr) -> Result<TrustedFolder, Distrust> {
        self.child(name, Absent::Make)?.exclusive()
    }

    fn child(&self, name: &OsStr, absent: Absent) -> Result<TrustedFolder, Distrust> {
        let path = self.path.join(name);
        let opened = match entry(self.handle.as_fd(), name) {
            Err(Errno::NOENT) if absent == Absent::Make => {
                create_folder(self.handle.as_fd(), name, &path)?;
                entry(self.handle.as_fd(), name)
            }
            opened => opened,
        };
        let (handle, stat) = opened.map_err(|errno| Distrust::io("open", &path, errno))?;
        check_ancestor(&stat, &path, self.user)?;
        Ok(TrustedFolder {
            handle: Arc::new(handle),
            path,
            user: self.user,
        })
    }

    /// The same folder, if it belongs to the user and only the user can write to it.
    fn exclusive(self) -> Result<TrustedFolder, Distrust> {
        let stat =
            rustix::fs::fstat(&self.handle).map_err(|errno| Distrust::io("look at", &self.path, errno))?;
        check_own(stat.st_uid, stat.st_mode, &self.path, self.user)?;
        Ok(self)
    }

    /// Opens the file `name` in it with these flags and never follows a link. A new file gets the mode `mode`. The file
    /// may be of any type and owner: [`TrustedFolder::own_file`] checks these.
    ///
    /// # Errors
    /// Those of `openat(2)`, among them `ELOOP` for a symbolic link.
    pub fn open(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        // Non-blocking: the open of a pipe would wait for its other end.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(rustix::fs::openat(&self.handle, name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// As [`TrustedFolder::open`], for a regular file of the user that only the user can write to.
    ///
    /// # Errors
    /// [`Distrust`]; [`Distrust::is_not_found`] if it does not exist.
    pub fn own_file(&self, name: &OsStr, flags: OFlags, mode: u32) -> Result<File, Distrust> {
        let path = self.path.join(name);
        let file = self
            .open(name, flags, mode)
            .map_err(|source| match source.raw_os_error() {
                Some(libc::ELOOP | libc::ENXIO | libc::EISDIR) => Distrust::NoFile(path.clone()),
                _ => Distrust::io("open", &path, source),
            })?;
        let found = file
            .metadata()
            .map_err(|source| Distrust::io("look at", &path, source))?;
        if !found.is_file() {
            return Err(Distrust::NoFile(path));
        }
        check_own(found.uid(), found.mode(), &path, self.user)?;
        Ok(file)
    }

    /// Whether the entry `name` is `file` itself: the same inode of the same device.
    ///
    /// # Errors
    /// Those of `fstatat(2)`, except a missing entry.
    pub fn names(&self, name: &OsStr, file: &File) -> io::Result<bool> {
        let there = match rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) => there,
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        let open = file.metadata()?;
        Ok((there.st_dev, there.st_ino) == (open.dev(), open.ino()))
    }

    /// Gives an entry another name in the same folder, in place of an entry that has it.
    ///
    /// # Errors
    /// Those of `renameat(2)`.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.handle, from, &self.handle, to)?)
    }

    /// As [`TrustedFolder::rename`], unless an entry has the name.
    ///
    /// # Errors
    /// Those of `renameat2(2)`, among them `EEXIST`.
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        Ok(rustix::fs::renameat_with(
            &self.handle,
            from,
            &self.handle,
            to,
            flags,
        )?)
    }

    /// Removes a file of it.
    ///
    /// # Errors
    /// Those of `unlinkat(2)`.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// The names in it, in no order.
    ///
    /// # Errors
    /// Those of `openat(2)` and `getdents64(2)`.
    pub fn names_in(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.readable()?)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Waits until its entries are on disk.
    ///
    /// # Errors
    /// Those of `fsync(2)`.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.readable()?)?)
    }

    fn readable(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.handle, ".", flags, Mode::empty())?)
    }
}

impl AsFd for TrustedFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Opens the folders of `path` one by one and checks each by the rule of ancestors. Returns the last one, and the
/// components that are missing after it.
fn walk(
    path: &Path,
    user: u32,
    absent: Absent,
    follow_last: bool,
) -> Result<(TrustedFolder, PathBuf), Distrust> {
    let absolute = std::path::absolute(path).map_err(|source| Distrust::io("resolve", path, source))?;
    let mut ahead: VecDeque<OsString> = names(&absolute).collect();
    let mut way = Way::root(user)?;
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            way.up();
            continue;
        }
        let at = way.path.join(&name);
        let opened = match entry(way.last(), &name) {
            Err(Errno::NOENT) if absent == Absent::Stop => {
                ahead.push_front(name);
                return Ok((way.folder(user), ahead.iter().collect()));
            }
            Err(Errno::NOENT) if absent == Absent::Make => {
                create_folder(way.last(), &name, &at)?;
                entry(way.last(), &name)
            }
            opened => opened,
        };
        let (handle, stat) = opened.map_err(|errno| Distrust::io("open", &at, errno))?;
        let follow = follow_last || !ahead.is_empty();
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink && follow {
            links += 1;
            let target = link_target(&handle, &stat, &at, user, links)?;
            if target.is_absolute() {
                way.stack.truncate(1);
                way.path = PathBuf::from("/");
            }
            names(&target).rev().for_each(|name| ahead.push_front(name));
            continue;
        }
        check_ancestor(&stat, &at, user)?;
        way.stack.push(handle);
        way.path = at;
    }
    Ok((way.folder(user), PathBuf::new()))
}

/// The opened folders from the root on.
struct Way {
    /// Never empty.
    stack: Vec<OwnedFd>,
    path: PathBuf,
}

impl Way {
    fn root(user: u32) -> Result<Way, Distrust> {
        let path = PathBuf::from("/");
        let (handle, stat) =
            entry(CWD, OsStr::new("/")).map_err(|errno| Distrust::io("open", &path, errno))?;
        check_ancestor(&stat, &path, user)?;
        Ok(Way {
            stack: vec![handle],
            path,
        })
    }

    fn last(&self) -> BorrowedFd<'_> {
        self.stack[self.stack.len() - 1].as_fd()
    }

    fn up(&mut self) {
        if self.stack.len() > 1 {
            self.stack.pop();
            self.path.pop();
        }
    }

    fn folder(mut self, user: u32) -> TrustedFolder {
        let last = self.stack.len() - 1;
        TrustedFolder {
            handle: Arc::new(self.stack.swap_remove(last)),
            path: self.path,
            user,
        }
    }
}

/// The components of a path as names; `..` is one of them.
fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + use<'_> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Opens an entry for lookups alone: a link is opened itself, and a pipe or device is not touched.
fn entry(folder: BorrowedFd<'_>, name: &OsStr) -> Result<(OwnedFd, Stat), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&handle)?;
    Ok((handle, stat))
}

fn create_folder(folder: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<(), Distrust> {
    match rustix::fs::mkdirat(folder, name, Mode::RWXU) {
        // Another process may have created it meanwhile; the caller checks the result.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(Distrust::io("create", path, errno)),
    }
}

fn link_target(link: &OwnedFd, stat: &Stat, path: &Path, user: u32, links: u32) -> Result<PathBuf, Distrust> {
    if ![ROOT, user].contains(&stat.st_uid) {
        return Err(Distrust::OfAnother(path.to_owned(), stat.st_uid));
    }
    if links > MOST_LINKS {
        return Err(Distrust::io("open", path, Errno::LOOP));
    }
    let target = rustix::fs::readlinkat(link, "", Vec::new())
        .map_err(|errno| Distrust::io("read the link", path, errno))?;
    Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

/// Checks that other users cannot replace entries of the user in a folder.
fn check_ancestor(stat: &Stat, path: &Path, user: u32) -> Result<(), Distrust> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(Distrust::NoFolder(path.to_owned()));
    }
    if ![ROOT, user].contains(&stat.st_uid) {
        return Err(Distrust::OfAnother(path.to_owned(), stat.st_uid));
    }
    if stat.st_mode & WRITABLE_BY_OTHERS != 0 && stat.st_mode & STICKY == 0 {
        return Err(Distrust::WritableByOthers(path.to_owned()));
    }
    Ok(())
}

/// Checks that a folder or file belongs to the user and that only the user can write to it.
fn check_own(owner: u32, mode: u32, path: &Path, user: u32) -> Result<(), Distrust> {
    if owner != user {
        return Err(Distrust::OfAnother(path.to_owned(), owner));
    }
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Err(Distrust::WritableByOthers(path.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
