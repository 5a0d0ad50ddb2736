//! The file behind a pool: made, opened and checked on its descriptor.
//!
//! A pool is shared by the processes of one user. A file of it is used only if that user owns it and its folder, no other
//! user can open the one or change the other, and its path is no link; so no user can put a file in the place of another's.
//! All checks are made on open descriptors. A new file has no name until it is complete, so no process sees a half-made one,
//! and a process that is killed meanwhile leaves nothing.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use plimsoll_os::{SharedWords, allocate_file};
use rustix::fs::{AtFlags, CWD, FileType, MemfdFlags, Mode, OFlags, SealFlags, Stat};
use rustix::io::Errno;

use super::error::{Defect, PoolError};
use super::identity::Identity;
use super::layout::{
    FILE_BYTES, FIRST_BYTES, FORMAT, HEAD, HEADER_WORDS, Header, HeaderFault, MOST_PAGES, PAGE, Place, WORDS,
    buffers,
};
use super::table::Table;
use super::versioned::Version;

/// The mode of a pool's file.
const OWNER_ALONE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Bits of a mode that let other users in.
const OF_OTHERS: u32 = 0o077;
/// Bits of a mode that let other users write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Times that a file is looked for which another process makes or removes meanwhile.
const TRIES: usize = 100;

/// An open pool.
#[derive(Debug)]
pub(crate) struct PoolFile {
    pub(crate) memory: SharedWords,
    pub(crate) header: Header,
    /// The path, or a name for messages.
    pub(crate) path: PathBuf,
    /// Space of the file is allocated through it.
    handle: OwnedFd,
    is_named: bool,
}

impl PoolFile {
    /// A new pool in a file in memory (`memfd_create(2)`), whose size is sealed.
    pub(crate) fn in_memory(total: u64) -> Result<PoolFile, PoolError> {
        let path = PathBuf::from("(file in memory)");
        let failed = |doing| move |errno: Errno| io_error(doing, &PathBuf::from("(file in memory)"), errno);
        let total_pages = pages_of(total)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let handle = rustix::fs::memfd_create("plimsoll-pool", flags).map_err(failed("create"))?;
        fill(&handle, &path, total_pages)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&handle, seals).map_err(failed("seal"))?;
        PoolFile::of(handle, path, false)
    }

    /// The pool of an inherited descriptor of a file in memory.
    pub(crate) fn of_descriptor(handle: OwnedFd) -> Result<PoolFile, PoolError> {
        let path = PathBuf::from(format!("(descriptor {})", handle.as_raw_fd()));
        let sealed = SealFlags::SHRINK | SealFlags::GROW;
        // A file of another kind has no seals.
        let seals = rustix::fs::fcntl_get_seals(&handle).unwrap_or(SealFlags::empty());
        if !seals.contains(sealed) {
            return Err(refused(&path, Defect::NotSealed));
        }
        PoolFile::of(handle, path, false)
    }

    /// The pool of a path; makes it with this total if there is none. Without a total it must be there.
    pub(crate) fn at(path: &Path, total: Option<u64>) -> Result<PoolFile, PoolError> {
        let total_pages = total.map(pages_of).transpose()?;
        let (folder, name) = open_folder(path)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        for _ in 0..TRIES {
            match rustix::fs::openat(&folder, name, flags, Mode::empty()) {
                Ok(handle) => {
                    let pool = PoolFile::of(handle, path.to_owned(), true)?;
                    return pool.of_total(total_pages);
                }
                Err(Errno::NOENT) => {}
                Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => {
                    return Err(refused(path, Defect::NoRegularFile));
                }
                Err(errno) => return Err(io_error("open", path, errno)),
            }
            let Some(total_pages) = total_pages else {
                return Err(io_error("open", path, Errno::NOENT));
            };
            if let Some(handle) = make(&folder, name, path, total_pages)? {
                return PoolFile::of(handle, path.to_owned(), true);
            }
        }
        Err(PoolError::Busy)
    }

    /// Checks the file and maps it.
    fn of(handle: OwnedFd, path: PathBuf, is_named: bool) -> Result<PoolFile, PoolError> {
        let stat = rustix::fs::fstat(&handle).map_err(|errno| io_error("look at", &path, errno))?;
        check_file(&stat, &path, is_named).map_err(|defect| refused(&path, defect))?;
        let memory = SharedWords::map(handle.as_raw_fd(), WORDS)
            .map_err(|errno| io_error("map", &path, io::Error::from_raw_os_error(errno.raw())))?;
        let words: [u64; HEADER_WORDS] = std::array::from_fn(|at| memory.words()[at].load(Ordering::Acquire));
        let header = Header::of_words(&words).map_err(|fault| {
            refused(
                &path,
                match fault {
                    HeaderFault::NoPool => Defect::NoPool,
                    HeaderFault::Format(found) => Defect::Format { found, known: FORMAT },
                    HeaderFault::Damaged => Defect::Header,
                },
            )
        })?;
        if header.user != stat.st_uid {
            return Err(refused(&path, Defect::Header));
        }
        let pool = PoolFile {
            memory,
            header,
            path,
            handle,
            is_named,
        };
        pool.check_place()?;
        Ok(pool)
    }

    fn of_total(self, total_pages: Option<u64>) -> Result<PoolFile, PoolError> {
        match total_pages {
            Some(asked) if asked != self.header.total_pages => {
                let (found, asked) = (self.header.total_pages * PAGE, asked * PAGE);
                Err(refused(&self.path, Defect::OtherTotal { found, asked }))
            }
            _ => Ok(self),
        }
    }

    /// Checks that this process numbers processes as the other members do.
    pub(crate) fn check_place(&self) -> Result<(), PoolError> {
        if place_of_this_process()? == self.header.place {
            return Ok(());
        }
        Err(refused(&self.path, Defect::OtherPlace))
    }

    /// Gives a part of the file memory or blocks, so that no later write to it finds none, which would raise SIGBUS.
    pub(crate) fn allocate(&self, bytes: std::ops::Range<u64>) -> Result<(), PoolError> {
        allocate(&self.handle, &self.path, bytes)
    }

    /// Removes the name of the file, if it is still that of this file.
    pub(crate) fn unlink(&self) -> Result<(), PoolError> {
        if !self.is_named {
            return Ok(());
        }
        let failed = |errno| io_error("remove", &self.path, errno);
        let (folder, name) = open_folder(&self.path)?;
        let named = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let own = rustix::fs::fstat(&self.handle).map_err(failed)?;
        if (named.st_dev, named.st_ino) != (own.st_dev, own.st_ino) {
            return Ok(());
        }
        rustix::fs::unlinkat(&folder, name, AtFlags::empty()).map_err(failed)
    }

    pub(crate) fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

fn io_error(doing: &'static str, object: &Path, source: impl Into<io::Error>) -> PoolError {
    PoolError::Io {
        doing,
        object: object.to_owned(),
        source: source.into(),
    }
}

fn refused(file: &Path, defect: Defect) -> PoolError {
    PoolError::Refused {
        file: file.to_owned(),
        defect,
    }
}

/// Whole pages of a total.
fn pages_of(bytes: u64) -> Result<u64, PoolError> {
    let pages = bytes / PAGE;
    (1..=MOST_PAGES)
        .contains(&pages)
        .then_some(pages)
        .ok_or(PoolError::TotalOutOfRange { bytes })
}

/// The folder of a path, checked, and the name in it.
fn open_folder(path: &Path) -> Result<(OwnedFd, &OsStr), PoolError> {
    let name = path
        .file_name()
        .ok_or_else(|| refused(path, Defect::NoRegularFile))?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let failed = |errno| io_error("open", folder, errno);
    let handle = rustix::fs::open(folder, flags, Mode::empty()).map_err(failed)?;
    let stat = rustix::fs::fstat(&handle).map_err(failed)?;
    check_owner(&stat, folder, WRITABLE_BY_OTHERS).map_err(|defect| refused(path, defect))?;
    Ok((handle, name))
}

/// The user owns the file or folder, and its mode has none of the bits `forbidden`.
fn check_owner(stat: &Stat, path: &Path, forbidden: u32) -> Result<(), Defect> {
    let user = rustix::process::geteuid().as_raw();
    let path = path.to_owned();
    if stat.st_uid != user {
        let owner = stat.st_uid;
        return Err(Defect::OtherUser { path, owner, user });
    }
    let mode = stat.st_mode & 0o7777;
    if mode & forbidden != 0 {
        return Err(Defect::Mode { path, mode });
    }
    Ok(())
}

fn check_file(stat: &Stat, path: &Path, is_named: bool) -> Result<(), Defect> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Defect::NoRegularFile);
    }
    check_owner(stat, path, OF_OTHERS)?;
    // Its type depends on the processor.
    #[allow(clippy::useless_conversion)]
    let links = u64::from(stat.st_nlink);
    if is_named && links > 1 {
        return Err(Defect::HardLinks { links });
    }
    let bytes = u64::try_from(stat.st_size).unwrap_or(0);
    if bytes != FILE_BYTES {
        return Err(Defect::Size { bytes });
    }
    Ok(())
}

/// Makes a complete pool and then gives it its name. Returns none if the name is taken.
fn make(folder: &OwnedFd, name: &OsStr, path: &Path, total_pages: u64) -> Result<Option<OwnedFd>, PoolError> {
    let failed = |errno| io_error("create", path, errno);
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(folder, ".", flags, OWNER_ALONE).map_err(failed)?;
    fill(&handle, path, total_pages)?;
    // Without a privilege, a file without a name is linked by the path of its descriptor.
    let own = format!("/proc/self/fd/{}", handle.as_raw_fd());
    match rustix::fs::linkat(CWD, &own, folder, name, AtFlags::SYMLINK_FOLLOW) {
        Ok(()) => Ok(Some(handle)),
        Err(Errno::EXIST) => Ok(None),
        Err(errno) => Err(failed(errno)),
    }
}

/// Makes a new file a pool without members.
fn fill(handle: &OwnedFd, path: &Path, total_pages: u64) -> Result<(), PoolError> {
    let failed = |errno| io_error("create", path, errno);
    rustix::fs::fchmod(handle, OWNER_ALONE).map_err(failed)?;
    rustix::fs::ftruncate(handle, FILE_BYTES).map_err(failed)?;
    allocate(handle, path, 0..FIRST_BYTES)?;
    let memory = SharedWords::map(handle.as_raw_fd(), WORDS)
        .map_err(|errno| io_error("map", path, io::Error::from_raw_os_error(errno.raw())))?;
    let words = memory.words();
    let table = Table::empty().words();
    for (to, from) in words[buffers()].iter().zip(table) {
        to.store(from, Ordering::Relaxed);
    }
    words[HEAD].store(Version::new(1, 0).word(), Ordering::Relaxed);
    let header = Header {
        total_pages,
        user: rustix::process::geteuid().as_raw(),
        place: place_of_this_process()?,
    };
    for (to, from) in words.iter().zip(header.words()) {
        to.store(from, Ordering::Release);
    }
    Ok(())
}

fn allocate(handle: &OwnedFd, path: &Path, bytes: std::ops::Range<u64>) -> Result<(), PoolError> {
    allocate_file(handle.as_raw_fd(), bytes).map_err(|errno| {
        let source = io::Error::from_raw_os_error(errno.raw());
        io_error("allocate space for", path, source)
    })
}

/// The boot and the namespaces of this process.
fn place_of_this_process() -> Result<Place, PoolError> {
    let boot_id = Path::new("/proc/sys/kernel/random/boot_id");
    let text = std::fs::read_to_string(boot_id).map_err(|source| io_error("read", boot_id, source))?;
    let digits = text.bytes().filter_map(|byte| char::from(byte).to_digit(16));
    let boot = digits.fold(0_u64, |boot, digit| boot.rotate_left(4) ^ u64::from(digit));
    Identity::of_this_process().map_err(|source| PoolError::Identity { source })?;
    Ok(Place {
        boot,
        pid_namespace: namespace("pid").map_err(|source| PoolError::Identity { source })?,
        // Linux before 5.6 has none.
        time_namespace: namespace("time").unwrap_or(0),
    })
}

fn namespace(kind: &str) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let file = File::open(format!("/proc/self/ns/{kind}"))?;
    Ok(file.metadata()?.ino())
}
