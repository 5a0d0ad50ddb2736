//! A regular file without a name, read and written at offsets. No call on an open one touches `errno` or allocates, so
//! that a signal handler can make it.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_int, c_long};

use crate::raw::system_call;
use crate::{Errno, Fd, limits, repeat_interrupted};

/// Mode of a new file: its user alone reads and writes it.
const OWNER_ALONE: usize = 0o600;

/// `TMPFS_MAGIC` and `RAMFS_MAGIC` of `<linux/magic.h>`.
const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;

/// An open folder, to create files in.
#[derive(Debug)]
pub struct Folder(Fd);

impl Folder {
    /// Opens a folder. The last component of `path` must not be a symbolic link.
    ///
    /// # Errors
    /// `ENOTDIR` for a link and for anything else that is no folder, and those of `open(2)`.
    pub fn open(path: &CStr) -> Result<Folder, Errno> {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        open_at(libc::AT_FDCWD, path, flags).map(Folder)
    }
}

/// Opens a file, and creates it with the mode 0600 if the flags say so.
fn open_at(folder: c_int, name: &CStr, flags: c_int) -> Result<Fd, Errno> {
    let name = name.as_ptr() as usize;
    let arguments = [folder as usize, name, flags as usize, OWNER_ALONE, 0, 0];
    let opened = repeat_interrupted(|| {
        // SAFETY: the kernel reads a string that ends with 0, and returns a new descriptor.
        unsafe { system_call(libc::SYS_openat, arguments) }
    });
    Ok(Fd::from_call(opened? as c_int))
}

/// The kernel's description of a file (`fstat(2)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// Whether it is a regular file.
    pub regular: bool,
    /// Number of its names.
    pub links: u64,
    /// Permission bits.
    pub mode: u32,
    /// User that it belongs to.
    pub user: u32,
    /// Length in bytes.
    pub length: u64,
    /// Bytes that its file system allocated for it.
    pub allocated: u64,
}

/// A file without a name. Its blocks return to the file system when its last descriptor is closed: by this value's end,
/// or by the end of the process, however that comes.
#[derive(Debug)]
pub struct NamelessFile(Fd);

impl NamelessFile {
    /// Creates a file that never has a name (`O_TMPFILE`), and that cannot get one.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `EISDIR` or [`Errno::INVAL`] where the file system has no such files; those of `open(2)`.
    pub fn create_in(folder: &Folder) -> Result<NamelessFile, Errno> {
        let flags = libc::O_TMPFILE | libc::O_EXCL | libc::O_RDWR | libc::O_CLOEXEC;
        open_at(folder.0.raw(), c".", flags).map(NamelessFile)
    }

    /// Creates the file `name`, which must not exist, and removes the name at once.
    ///
    /// # Errors
    /// [`Errno::EXIST`] for a name that exists, as a link too; those of `open(2)` and `unlink(2)`.
    pub fn create_named(folder: &Folder, name: &CStr) -> Result<NamelessFile, Errno> {
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_RDWR | libc::O_CLOEXEC;
        let file = open_at(folder.0.raw(), name, flags).map(NamelessFile)?;
        let arguments = [folder.0.raw() as usize, name.as_ptr() as usize, 0, 0, 0, 0];
        repeat_interrupted(|| {
            // SAFETY: the kernel reads a string that ends with 0.
            unsafe { system_call(libc::SYS_unlinkat, arguments) }
        })?;
        Ok(file)
    }

    /// Reads and writes past the page cache (`O_DIRECT`), or through it. The memory, offset and length of a direct read
    /// or write are multiples of the file system's alignment.
    ///
    /// # Errors
    /// [`Errno::INVAL`] where the file system has no direct access.
    pub fn set_direct(&self, direct: bool) -> Result<(), Errno> {
        let flags = self.call(libc::SYS_fcntl, [libc::F_GETFL as usize, 0, 0, 0])?;
        let bit = libc::O_DIRECT as usize;
        let flags = if direct { flags | bit } else { flags & !bit };
        self.call(libc::SYS_fcntl, [libc::F_SETFL as usize, flags, 0, 0])
            .map(drop)
    }

    /// Reads up to the length of `bytes` at `offset` (`pread(2)`): 0 bytes past the end of the file.
    ///
    /// # Errors
    /// `EIO` where the disk fails, and the others of `pread(2)`.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let arguments = [bytes.as_mut_ptr() as usize, bytes.len(), offset as usize, 0];
        // The kernel writes to `bytes` alone, at most as many bytes as it has.
        self.call(libc::SYS_pread64, arguments)
    }

    /// Writes up to the length of `bytes` at `offset` (`pwrite(2)`).
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`, `EIO`, `EFBIG` above RLIMIT_FSIZE (where the kernel also raises SIGXFSZ), and the others of
    /// `pwrite(2)`.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let arguments = [bytes.as_ptr() as usize, bytes.len(), offset as usize, 0];
        self.call(libc::SYS_pwrite64, arguments)
    }

    /// Allocates blocks for a range, and makes the file as long as that (`fallocate(2)`).
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`, `EFBIG` as for a write; `EOPNOTSUPP` where the file system cannot; [`Errno::INTR`].
    pub fn allocate(&self, offset: u64, length: u64) -> Result<(), Errno> {
        let arguments = [0, offset as usize, length as usize, 0];
        self.call(libc::SYS_fallocate, arguments).map(drop)
    }

    /// Frees the blocks of a range, which then reads as zero; the file keeps its length.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the file system cannot punch holes; [`Errno::INTR`].
    pub fn punch(&self, offset: u64, length: u64) -> Result<(), Errno> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let arguments = [mode as usize, offset as usize, length as usize, 0];
        self.call(libc::SYS_fallocate, arguments).map(drop)
    }

    /// Sets the length: cuts the end off, or adds a hole (`ftruncate(2)`).
    ///
    /// # Errors
    /// Those of `ftruncate(2)`: [`Errno::INTR`] too.
    pub fn set_length(&self, length: u64) -> Result<(), Errno> {
        self.call(libc::SYS_ftruncate, [length as usize, 0, 0, 0])
            .map(drop)
    }

    /// Writes dirty pages of a range to the disk and waits for them (`sync_file_range(2)`). Neither metadata nor the
    /// disk's own cache: the data is readable after any error that is not a crash of the machine.
    ///
    /// # Errors
    /// `EIO`, `ENOSPC` and `EDQUOT` that a write-back met; [`Errno::INTR`].
    pub fn write_back(&self, offset: u64, length: u64) -> Result<(), Errno> {
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        let arguments = [offset as usize, length as usize, flags as usize, 0];
        self.call(libc::SYS_sync_file_range, arguments).map(drop)
    }

    /// Drops clean pages of a range from the page cache (`POSIX_FADV_DONTNEED`).
    ///
    /// # Errors
    /// Those of `posix_fadvise(2)`.
    pub fn drop_cached(&self, offset: u64, length: u64) -> Result<(), Errno> {
        self.advise(offset, length, libc::POSIX_FADV_DONTNEED)
    }

    /// Switches read-ahead off (`POSIX_FADV_RANDOM`).
    ///
    /// # Errors
    /// Those of `posix_fadvise(2)`.
    pub fn expect_random_reads(&self) -> Result<(), Errno> {
        self.advise(0, 0, libc::POSIX_FADV_RANDOM)
    }

    fn advise(&self, offset: u64, length: u64, advice: c_int) -> Result<(), Errno> {
        let arguments = [offset as usize, length as usize, advice as usize, 0];
        self.call(libc::SYS_fadvise64, arguments).map(drop)
    }

    /// The kernel's description of it.
    ///
    /// # Errors
    /// Those of `fstat(2)`.
    pub fn status(&self) -> Result<FileStatus, Errno> {
        let mut status = core::mem::MaybeUninit::<libc::stat>::uninit();
        repeat_interrupted(|| {
            // SAFETY: the kernel writes the structure, which outlives the call.
            Errno::check(unsafe { libc::fstat(self.0.raw(), status.as_mut_ptr()) })
        })?;
        // SAFETY: the kernel has written the whole structure, as it succeeded.
        let status = unsafe { status.assume_init() };
        // Another type on arm64.
        #[allow(clippy::unnecessary_cast)]
        let links = status.st_nlink as u64;
        Ok(FileStatus {
            regular: status.st_mode & libc::S_IFMT == libc::S_IFREG,
            links,
            mode: status.st_mode & 0o7777,
            user: status.st_uid,
            length: status.st_size as u64,
            allocated: status.st_blocks as u64 * 512,
        })
    }

    /// Whether its file system keeps files in RAM or swap (tmpfs, ramfs).
    ///
    /// # Errors
    /// Those of `fstatfs(2)`.
    pub fn is_in_memory(&self) -> Result<bool, Errno> {
        let mut system = core::mem::MaybeUninit::<libc::statfs>::uninit();
        repeat_interrupted(|| {
            // SAFETY: the kernel writes the structure, which outlives the call.
            Errno::check(unsafe { libc::fstatfs(self.0.raw(), system.as_mut_ptr()) })
        })?;
        // SAFETY: the kernel has written the whole structure, as it succeeded.
        let system = unsafe { system.assume_init() };
        Ok([TMPFS, RAMFS].contains(&(system.f_type as u32)))
    }

    /// The same file at the first free number from `least` on. Its former number is closed, unless it is one of those.
    ///
    /// # Errors
    /// `EMFILE` or [`Errno::INVAL`] where the process may have no such number; the file is closed then.
    pub fn at_number_from(self, least: i32) -> Result<NamelessFile, Errno> {
        self.0.at_number_from(least).map(NamelessFile)
    }

    /// The descriptor's number, still owned by `self`.
    pub fn raw(&self) -> i32 {
        self.0.raw()
    }

    /// A system call whose first argument is the descriptor. Private: the callers above pass no memory that the kernel
    /// may write to, but in `read_at`.
    fn call(&self, number: c_long, rest: [usize; 4]) -> Result<usize, Errno> {
        let arguments = [self.0.raw() as usize, rest[0], rest[1], rest[2], rest[3], 0];
        // SAFETY: every caller is in this module and passes numbers, or memory that it borrows for the call.
        unsafe { system_call(number, arguments) }
    }
}

/// RLIMIT_FSIZE of the process in bytes; none if it is unlimited. A write or allocation past it raises SIGXFSZ.
pub fn file_size_limit() -> Option<u64> {
    limits::current(libc::RLIMIT_FSIZE as usize)
}
