//! The environment of programs with rights that this process lacks: set-user-ID, set-group-ID, or with file capabilities.
//!
//! The dynamic linker ignores `LD_PRELOAD` in such a program, and removes it from the environment: the settings of the library
//! are of no use to the program and its children. So the program does not get them, with exceptions, which are harmless:
//!
//! - `execveat`, `fexecve` or a system call of the caller's own executes it;
//! - `posix_spawn` has file actions, and its path is relative, or an entry of `PATH` is ([`WorkingDirectory::Unknown`]);
//! - the environment has more than [`MOST_VARIABLES`] other variables.
//!
//! The other mistake is not harmless: a program that loads the library without the settings has no limit.
//!
//! A child of `vfork` has the memory of its parent: the shorter list of variables is on the stack, and no text is changed.
#![allow(unsafe_code, reason = "system calls, and texts of the program")]

use std::ffi::{CStr, c_char};
use std::ptr;

use plimsoll_os::{FileCapabilities, ProcessCapabilities};

use super::Texts;
use crate::calls::{self, Call};
use crate::configuration::VARIABLE;
use crate::own_calls::{repeated, result_of};
use crate::trampoline;

/// Variables that the stack has room for, without the settings. A longer environment is passed on as it is.
const MOST_VARIABLES: usize = 511;
/// Bytes of a path with its NUL (`PATH_MAX`).
const PATH_BYTES: usize = 4096;
/// Folders of programs if no variable names them, as the C library has them.
const USUAL_FOLDERS: &CStr = c"/bin:/usr/bin";

/// The working directory of a program when it starts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkingDirectory {
    /// That of this process.
    Own,
    /// The child may change it before: a relative path may name another program there.
    Unknown,
}

impl WorkingDirectory {
    /// Whether the program at a path is known.
    fn determines(self, path: &[u8]) -> bool {
        self == WorkingDirectory::Own || path.first() == Some(&b'/')
    }
}

/// Calls `execute` with the environment for the program at `path`.
///
/// # Safety
/// The arguments are those of `execve`.
pub(super) unsafe fn environment_of_path<T>(
    path: *const c_char,
    directory: WorkingDirectory,
    environment: Texts,
    execute: impl FnOnce(Texts) -> T,
) -> T {
    // Only a path that may be relative to another folder is read here: the kernel refuses one that is no text.
    let is_known = directory == WorkingDirectory::Own || {
        // SAFETY: the caller's premise.
        !path.is_null() && directory.determines(unsafe { CStr::from_ptr(path) }.to_bytes())
    };
    match is_known && is_privileged(path) {
        // SAFETY: the caller's premise.
        true => unsafe { without_settings(environment, execute) },
        false => execute(environment),
    }
}

/// The same for the program that the C library finds by the name `file`.
///
/// # Safety
/// The arguments are those of `execvpe`.
pub(super) unsafe fn environment_of_name<T>(
    file: *const c_char,
    directory: WorkingDirectory,
    environment: Texts,
    execute: impl FnOnce(Texts) -> T,
) -> T {
    // SAFETY: the caller's premise: the name is a text.
    let name = unsafe { CStr::from_ptr(file) };
    match is_named_privileged(name, directory) {
        // SAFETY: the caller's premise.
        true => unsafe { without_settings(environment, execute) },
        false => execute(environment),
    }
}

/// Calls `execute` with the environment without the settings of the library.
///
/// # Safety
/// The environment is a list of texts, or null.
#[inline(never)]
unsafe fn without_settings<T>(environment: Texts, execute: impl FnOnce(Texts) -> T) -> T {
    let mut kept = [ptr::null(); MOST_VARIABLES + 1];
    let mut count = 0;
    let mut next = environment;
    // SAFETY: the caller's premise: the list ends with a null pointer.
    unsafe {
        while !next.is_null() && !(*next).is_null() {
            if !is_settings(*next) {
                if count == MOST_VARIABLES {
                    return execute(environment);
                }
                kept[count] = *next;
                count += 1;
            }
            next = next.add(1);
        }
    }
    execute(kept.as_ptr())
}

/// Whether a variable is that of the settings.
///
/// # Safety
/// It is a text.
unsafe fn is_settings(variable: *const c_char) -> bool {
    // SAFETY: the caller's premise.
    let text = unsafe { CStr::from_ptr(variable) }.to_bytes();
    let value = text.strip_prefix(VARIABLE.as_bytes());
    value.is_some_and(|value| value.first() == Some(&b'='))
}

/// Whether the program that the C library finds by this name gets rights that this process lacks. False if a folder that it
/// searches first is not known.
#[inline(never)]
fn is_named_privileged(name: &CStr, directory: WorkingDirectory) -> bool {
    if name.to_bytes().contains(&b'/') {
        return directory.determines(name.to_bytes()) && is_privileged(name.as_ptr());
    }
    // SAFETY: the C library returns a text or null. The program must not change the variable meanwhile, as for `execvpe`.
    let folders = unsafe {
        let folders = libc::getenv(c"PATH".as_ptr());
        match folders.is_null() {
            true => USUAL_FOLDERS,
            false => CStr::from_ptr(folders),
        }
    };
    let mut buffer = [0; PATH_BYTES];
    for folder in folders.to_bytes().split(|byte| *byte == b':') {
        if !directory.determines(folder) {
            return false;
        }
        let Some(path) = joined(&mut buffer, folder, name) else {
            continue;
        };
        let arguments = [here(), path as usize, libc::X_OK as usize, 0, 0, 0];
        // SAFETY: the kernel reads the path alone.
        let is_executable = unsafe { kernel(libc::SYS_faccessat, arguments) } == 0;
        // As the C library, which passes over folders of this name.
        if is_executable && let Some(file) = regular_file(path) {
            return gains_rights(path, &file);
        }
    }
    false
}

/// The path of `name` in `folder`, where an empty folder is the working directory. None if it is too long.
fn joined(buffer: &mut [u8; PATH_BYTES], folder: &[u8], name: &CStr) -> Option<*const c_char> {
    let separator: &[u8] = if folder.is_empty() { b"" } else { b"/" };
    let mut length = 0;
    for part in [folder, separator, name.to_bytes_with_nul()] {
        let end = length + part.len();
        buffer.get_mut(length..end)?.copy_from_slice(part);
        length = end;
    }
    Some(buffer.as_ptr().cast())
}

/// Whether the program at `path` gets rights that this process lacks. False if the kernel cannot read the path.
fn is_privileged(path: *const c_char) -> bool {
    regular_file(path).is_some_and(|file| gains_rights(path, &file))
}

/// The file at `path`, if it is a regular one: the kernel executes no other.
fn regular_file(path: *const c_char) -> Option<libc::stat> {
    // SAFETY: a structure of numbers.
    let mut file: libc::stat = unsafe { std::mem::zeroed() };
    let arguments = [here(), path as usize, (&raw mut file) as usize, 0, 0, 0];
    // SAFETY: the kernel writes the structure.
    let result = unsafe { kernel(libc::SYS_newfstatat, arguments) };
    (result == 0 && file.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(file)
}

/// Whether the program gets rights that this process lacks, so that the kernel sets AT_SECURE.
fn gains_rights(path: *const c_char, file: &libc::stat) -> bool {
    (sets_id(file) || has_capabilities(path)) && !ignores_rights(path) && is_elf(path)
}

/// Whether the file has set-user-ID or set-group-ID to another ID than the process. The kernel ignores both bits if the process
/// has given up new privileges (`no_new_privs`), as it has with a filter of system calls.
fn sets_id(file: &libc::stat) -> bool {
    const AS_GROUP: libc::mode_t = libc::S_ISGID | libc::S_IXGRP;
    // SAFETY: the calls have no premises.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    let as_user = file.st_mode & libc::S_ISUID != 0 && file.st_uid != user;
    let as_group = file.st_mode & AS_GROUP == AS_GROUP && file.st_gid != group;
    (as_user || as_group) && !gains_none()
}

/// Whether the process has given up new privileges.
fn gains_none() -> bool {
    let arguments = [libc::PR_GET_NO_NEW_PRIVS as usize, 0, 0, 0, 0, 0];
    // SAFETY: the call takes no memory.
    unsafe { kernel(libc::SYS_prctl, arguments) != 0 }
}

/// Whether the file has capabilities for which the kernel sets AT_SECURE. With the effective flag, it does so also if the user has
/// them already, or the process has given up new privileges. It never does for root, who has all.
fn has_capabilities(path: *const c_char) -> bool {
    let mut attribute = [0_u8; FileCapabilities::MOST_BYTES];
    let name = FileCapabilities::ATTRIBUTE.as_ptr() as usize;
    let buffer = attribute.as_mut_ptr() as usize;
    let arguments = [path as usize, name, buffer, attribute.len(), 0, 0];
    // SAFETY: the first call has no premises; the kernel reads the texts, and writes as many bytes as `attribute` has.
    let length = unsafe {
        match libc::getuid() {
            0 => return false,
            _ => kernel(libc::SYS_getxattr, arguments),
        }
    };
    let attribute = usize::try_from(length)
        .ok()
        .and_then(|length| attribute.get(..length));
    let file = attribute.and_then(FileCapabilities::decode);
    file.is_some_and(|file| file.makes_secure(own_capabilities))
}

/// The capabilities of this process.
fn own_capabilities() -> ProcessCapabilities {
    ProcessCapabilities::own_by(|number, arguments| {
        // SAFETY: calls of that function, which write to its own memory alone.
        result_of(unsafe { kernel(number, arguments) })
    })
}

/// Whether the file system of the file is mounted with `nosuid`: the kernel ignores both bits and capabilities.
fn ignores_rights(path: *const c_char) -> bool {
    // The words of the kernel's `struct statfs` on machines of 64 bits: `libc` hides its flags.
    const FLAGS: usize = 10;
    let mut system = [0_u64; size_of::<libc::statfs>() / 8];
    let arguments = [path as usize, system.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes the structure.
    let result = unsafe { kernel(libc::SYS_statfs, arguments) };
    result == 0 && system[FLAGS] & libc::ST_NOSUID != 0
}

/// Whether the file is a program of the kernel's usual format. Of a script, with or without `#!`, the shell or another interpreter
/// runs, and the kernel ignores the rights of the script. True for a file that this user cannot read.
fn is_elf(path: *const c_char) -> bool {
    const FLAGS: i32 = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let mut start = [0_u8; 4];
    let arguments = [here(), path as usize, FLAGS as usize, 0, 0, 0];
    // SAFETY: the kernel reads the path, and writes as many bytes as `start` has; the descriptor is this function's.
    let length = unsafe {
        let file = kernel(libc::SYS_openat, arguments);
        if file < 0 {
            return true;
        }
        let buffer = start.as_mut_ptr() as usize;
        let length = kernel(libc::SYS_read, [file as usize, buffer, start.len(), 0, 0, 0]);
        trampoline::call(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]);
        length
    };
    length < 0 || start == *b"\x7fELF"
}

/// The descriptor that stands for the working directory.
const fn here() -> usize {
    libc::AT_FDCWD as usize
}

/// Makes a call of this module's own, whose memory may be on absent pages. `errno` stays as it was.
///
/// A file system of a network may return `EINTR`. An interrupted `statfs` must not look like the lack of `nosuid`: the program
/// would load the library without the settings.
///
/// # Safety
/// As for the system call, which may be made several times.
unsafe fn kernel(number: i64, arguments: [usize; 6]) -> isize {
    repeated(|| {
        // SAFETY: the caller's premise.
        unsafe {
            match calls::is_active() {
                true => calls::serve(Call::new(number, arguments)),
                false => trampoline::call(number, arguments),
            }
        }
    })
}
