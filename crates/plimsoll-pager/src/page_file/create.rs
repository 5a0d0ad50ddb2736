//! Creation of a page file, with the care of a program that may be root.
//!
//! The file never has a name if its file system has such files (`O_TMPFILE`): no other process can open it, and
//! nothing is left at any moment. Elsewhere it is created with `O_EXCL` and unlinked at once; only a process that is
//! killed between the two calls leaves an empty file. No link is followed at the end of the path.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use plimsoll_os::{Errno, Folder, NamelessFile, Origin, fill_random, repeat_interrupted};

use super::backing::{Backing, OpenFile};
use super::children::Children;
use super::cipher::Cipher;
use super::error::CreateError;
use super::file::{ALIGNMENT, Counters, PageFile, Shared, read_all};
use super::queue::{Plain, Queue};
use super::ring::Ring;
use super::seals::Seals;
use super::slot_map::SlotMap;
use super::space::Space;
use super::units::{BlockBuffer, MOST_SLOTS, SLOTS_PER_WRITE, WRITE_BYTES};
use super::writer::Writer;

/// The means that a new page file may use. By default it uses all, and replaces one that the machine refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageFileOptions {
    /// io_uring; otherwise `pwrite(2)`.
    pub ring: bool,
    /// Access past the page cache (`O_DIRECT`); otherwise through it, and blocks leave it after each call.
    pub direct: bool,
    /// A file that never has a name (`O_TMPFILE`); otherwise the name is removed at once.
    pub nameless: bool,
    /// A file system in memory (tmpfs, ramfs), which is refused by default: the pages would stay in RAM.
    pub in_memory: bool,
}

impl Default for PageFileOptions {
    fn default() -> PageFileOptions {
        PageFileOptions {
            ring: true,
            direct: true,
            nameless: true,
            in_memory: false,
        }
    }
}

/// A file that is open, and becomes a page file on first use. Until then nothing is written to it.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: OpenFile,
    folder: PathBuf,
}

impl NewFile {
    /// Opens a file, for a page file of up to `bytes`, in a folder or at a path where nothing is. It has no disk space yet.
    ///
    /// # Errors
    /// [`CreateError`]. Nothing is left then.
    pub(crate) fn open(path: &Path, bytes: u64, options: PageFileOptions) -> Result<NewFile, CreateError> {
        chunks_of(bytes)?;
        let (folder, name) = locate(path)?;
        NewFile::open_as(folder, &name, options)
    }

    /// As [`NewFile::open`], but `folder` must be a folder.
    ///
    /// # Errors
    /// [`CreateError`]. Nothing is left then.
    pub(crate) fn open_in(folder: &Path, options: PageFileOptions) -> Result<NewFile, CreateError> {
        NewFile::open_as(folder.to_owned(), &random_name()?, options)
    }

    fn open_as(folder: PathBuf, name: &CStr, options: PageFileOptions) -> Result<NewFile, CreateError> {
        let file = open(&folder, name, options.nameless)?;
        if !options.in_memory && file.is_in_memory().unwrap_or(false) {
            return Err(CreateError::InMemory(folder));
        }
        let file = OpenFile::new(file, options.direct);
        Ok(NewFile { file, folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The same file at a number of the pager's.
    ///
    /// # Errors
    /// No such number is free.
    pub(crate) fn at_own_number(self) -> Result<NewFile, CreateError> {
        let NewFile { file, folder } = self;
        match file.at_own_number() {
            Ok(file) => Ok(NewFile { file, folder }),
            Err(errno) => Err(CreateError::Descriptor(errno)),
        }
    }

    /// Creates a page file of up to `bytes` on it, which io_uring writes if `ring` and the kernel has it. The first disk space
    /// is allocated at once, more as it is needed.
    ///
    /// # Errors
    /// [`CreateError`]. Nothing is left then.
    pub(crate) fn create(self, bytes: u64, ring: bool) -> Result<(PageFile, Writer), CreateError> {
        let chunks = chunks_of(bytes)?;
        let NewFile { file, folder } = self;
        let file = probe(file).map_err(|(is_space, source)| {
            let path = folder.clone();
            match is_space {
                true => CreateError::Space { path, source },
                false => CreateError::Probe { path, source },
            }
        })?;
        PageFile::on(Arc::new(file), chunks, &folder, |backing, origin| {
            if ring && let Some(ring) = Ring::new(Arc::clone(&backing), origin)? {
                return Ok(Box::new(ring));
            }
            Ok(Box::new(Plain::new(backing)?))
        })
    }
}

/// The MiB of a page file of `bytes`.
fn chunks_of(bytes: u64) -> Result<u32, CreateError> {
    let chunks = bytes.div_ceil(WRITE_BYTES as u64);
    let most = u64::from(MOST_SLOTS) / SLOTS_PER_WRITE as u64;
    match bytes < WRITE_BYTES as u64 || chunks > most {
        true => Err(CreateError::Size(bytes)),
        false => Ok(chunks as u32),
    }
}

impl PageFile {
    /// Creates a page file of up to `bytes`, rounded up to MiB, in a folder or at a path where nothing is. The first
    /// disk space is allocated at once, more as it is needed.
    ///
    /// # Errors
    /// [`CreateError`]. Nothing is left then.
    pub fn create(
        path: &Path,
        bytes: u64,
        options: PageFileOptions,
    ) -> Result<(PageFile, Writer), CreateError> {
        NewFile::open(path, bytes, options)?.create(bytes, options.ring)
    }

    /// A page file of so many MiB on an open file.
    pub(super) fn on(
        backing: Arc<dyn Backing>,
        chunks: u32,
        folder: &Path,
        make_queue: impl FnOnce(Arc<dyn Backing>, Arc<Origin>) -> Result<Box<dyn Queue>, Errno>,
    ) -> Result<(PageFile, Writer), CreateError> {
        let memory = CreateError::Memory;
        let origin = Arc::new(Origin::here().map_err(memory)?);
        let slots = chunks * SLOTS_PER_WRITE as u32;
        let shared = Arc::new(Shared {
            backing: Arc::clone(&backing),
            cipher: Cipher::new()?,
            seals: Seals::new(slots).map_err(memory)?,
            map: SlotMap::new(slots).map_err(memory)?,
            children: Children::new(slots).map_err(memory)?,
            origin: Arc::clone(&origin),
            slots,
            allocated: AtomicU64::new(0),
            limit: OnceLock::new(),
            failure: OnceLock::new(),
            counters: Counters::default(),
        });
        let mut space = Space::new(chunks).map_err(memory)?;
        if !space.grow(&shared) {
            // Signals alone are no limit.
            let source = shared.limit.get().map_or(Errno::INTR, |(_, errno)| *errno);
            let path = folder.to_owned();
            return Err(CreateError::Space { path, source });
        }
        let queue = make_queue(backing, origin).map_err(memory)?;
        let writer = Writer::new(Arc::clone(&shared), queue, space);
        Ok((PageFile { shared }, writer))
    }
}

/// Opens the file in a folder; `name` is for a file system without nameless files.
fn open(folder_path: &Path, name: &CStr, nameless: bool) -> Result<NamelessFile, CreateError> {
    let path = folder_path.to_owned();
    let folder = Folder::open(&c_string(folder_path.as_os_str().as_bytes())).map_err(|source| {
        let is_link = folder_path.is_symlink();
        let path = folder_path.to_owned();
        match source {
            Errno::NOTDIR if is_link => CreateError::Link(path),
            source => CreateError::Folder { path, source },
        }
    })?;
    let never_named = match nameless {
        true => NamelessFile::create_in(&folder),
        false => Err(Errno::OPNOTSUPP),
    };
    let file = match never_named {
        // The file system has no such files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => {
            NamelessFile::create_named(&folder, name)
        }
        opened => opened,
    };
    match file {
        Ok(file) => Ok(file),
        Err(Errno::EXIST) => Err(CreateError::Exists(folder_path.join(os_string(name)))),
        Err(source) => Err(CreateError::Create { path, source }),
    }
}

/// The folder of a new file, and a name for it that is needed if it cannot be nameless.
fn locate(path: &Path) -> Result<(PathBuf, CString), CreateError> {
    // Without the slash at its end, behind which the kernel would follow a link.
    let path: PathBuf = path.components().collect();
    match std::fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => {}
        // The open of a link fails, with the right error if a folder is behind it.
        Ok(found) if found.is_symlink() && path.is_dir() => {}
        Ok(_) => return Err(CreateError::Exists(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return file_at(&path),
        Err(error) => {
            let source = Errno::of_number(error.raw_os_error().unwrap_or(Errno::INVAL.raw()));
            return Err(CreateError::Folder { path, source });
        }
    }
    Ok((path, random_name()?))
}

/// A name that no file has.
fn random_name() -> Result<CString, CreateError> {
    let mut number = [0; 16];
    fill_random(&mut number).map_err(CreateError::Key)?;
    let name = format!(".plimsoll-page-file-{:032x}", u128::from_le_bytes(number));
    Ok(c_string(name.as_bytes()))
}

/// The folder and the name of a file that does not exist.
fn file_at(path: &Path) -> Result<(PathBuf, CString), CreateError> {
    let Some(name) = path.file_name() else {
        // `..` behind a folder that does not exist.
        let (path, source) = (path.to_owned(), Errno::NOENT);
        return Err(CreateError::Folder { path, source });
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok((folder, c_string(name.as_bytes())))
}

/// A path as the kernel reads it. One with a zero byte, which no file has, becomes empty, which the kernel refuses.
fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).unwrap_or_default()
}

fn os_string(name: &CStr) -> &std::ffi::OsStr {
    std::ffi::OsStr::from_bytes(name.to_bytes())
}

/// Writes a block and reads it back, so that a file system that cannot hold a page file is refused now. Leaves direct
/// access if the file system has it but not with the alignment of a block. The error says whether space was missing.
fn probe(file: OpenFile) -> Result<OpenFile, (bool, Errno)> {
    match try_block(&file) {
        Err((_, Errno::INVAL)) if file.is_direct() => {
            let file = file.buffered().map_err(|errno| (false, errno))?;
            try_block(&file).map(|()| file)
        }
        tried => tried.map(|()| file),
    }
}

pub(super) fn try_block(file: &dyn Backing) -> Result<(), (bool, Errno)> {
    let mut written = Box::new(BlockBuffer::new());
    let mut read = Box::new(BlockBuffer::new());
    let length = written.0.len() as u64;
    let space = |errno| {
        let space = [Errno::NOSPC, Errno::DQUOT, Errno::FBIG];
        (space.contains(&errno), errno)
    };
    if file.most_bytes().is_some_and(|most| most < WRITE_BYTES as u64) {
        return Err((true, Errno::FBIG));
    }
    fill_random(&mut written.0).map_err(space)?;
    write_all(file, &written.0).map_err(space)?;
    repeat_interrupted(|| file.settle(0, length)).map_err(space)?;
    let whole = read_all(file, &mut read.0, 0).map_err(space)?;
    match whole && written.0 == read.0 {
        true => Ok(()),
        false => Err((false, Errno::IO)),
    }
}

/// Writes `bytes` to the start of the file. A disk that is nearly full takes a part of them, and has its error for the rest.
fn write_all(file: &dyn Backing, bytes: &[u8]) -> Result<(), Errno> {
    let mut written = 0;
    while written < bytes.len() {
        // A direct write goes on at a block of the disk.
        let from = written - written % ALIGNMENT;
        match repeat_interrupted(|| file.write_at(&bytes[from..], from as u64))? {
            more if from + more > written => written = from + more,
            _ => return Err(Errno::IO),
        }
    }
    Ok(())
}
