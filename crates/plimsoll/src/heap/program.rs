//! The program to start: where it is, and whether the dynamic linker would load a library into it at all.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use elf::endian::AnyEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::{ElfBytes, abi};

use plimsoll_model::sanitize::sanitize;

/// Why a program cannot be started with the library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// It is nowhere in `PATH` or not at the path (`NotFound`), or cannot be run.
    #[error("cannot start `{name}`: {source}")]
    NotStarted {
        /// As it was asked for.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The library would not be loaded.
    #[error("`{name}` cannot run on this heap: {why}")]
    NotPreloadable {
        /// As it was asked for.
        name: String,
        /// What stands against it.
        why: Obstacle,
    },
}

/// Why the dynamic linker would not load the library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// No dynamic linker is called for it.
    #[error("{} is statically linked, so no library can be preloaded; its malloc is part of it", .0.display())]
    Static(PathBuf),
    /// It gets rights that the caller has not.
    #[error("{} runs with other rights than yours (set-user-ID, set-group-ID or capabilities), and the dynamic linker ignores LD_PRELOAD then; run it as its owner", .0.display())]
    Privileged(PathBuf),
    /// It is of another kind of processor.
    #[error("{} is for another processor or word size than the library", .0.display())]
    OtherMachine(PathBuf),
    /// Its own malloc is found first.
    #[error("{} brings a malloc of its own, which stands before that of any library", .0.display())]
    OwnMalloc(PathBuf),
}

/// A program that the library can be loaded into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// As it was asked for: what the program sees as its name.
    pub name: OsString,
    /// Its file.
    pub path: PathBuf,
}

/// How many interpreters of scripts are followed, as the kernel does.
const INTERPRETERS: usize = 5;

impl Program {
    /// Finds `name` as a shell does, and looks whether the library would be loaded into it. Of a script its interpreter
    /// is looked at.
    ///
    /// # Errors
    /// [`ProgramError`]: there is none, it cannot be run, or not with the library.
    pub fn find(name: &OsStr, search_path: Option<&OsStr>) -> Result<Program, ProgramError> {
        let spoken = || sanitize(&name.to_string_lossy()).into_owned();
        let path = located(name, search_path).map_err(|source| ProgramError::NotStarted {
            name: spoken(),
            source,
        })?;
        if let Some(why) = obstacle(&path) {
            return Err(ProgramError::NotPreloadable { name: spoken(), why });
        }
        Ok(Program {
            name: name.to_owned(),
            path,
        })
    }
}

/// The file of a program: at the path that holds a slash, or the first that can be run in the folders of `PATH`.
fn located(name: &OsStr, search_path: Option<&OsStr>) -> io::Result<PathBuf> {
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

/// Whether the user may run a file.
fn runnable(path: &Path) -> io::Result<()> {
    if !fs::metadata(path)?.is_file() {
        return Err(rustix::io::Errno::ACCESS.into());
    }
    Ok(rustix::fs::access(path, rustix::fs::Access::EXEC_OK)?)
}

/// What stands against loading the library. What cannot be read (a program that may be run, not read) is left to the
/// kernel.
fn obstacle(path: &Path) -> Option<Obstacle> {
    let mut path = path.to_owned();
    for _ in 0..INTERPRETERS {
        let file = File::open(&path).ok()?;
        let mut head = [0; 256];
        let length = read_up_to(&file, &mut head)?;
        match &head[..length] {
            // The kernel takes no rights from a script, but from its interpreter.
            [b'#', b'!', line @ ..] => path = interpreter(line)?,
            [0x7f, b'E', b'L', b'F', ..] => {
                return if is_privileged(&path) {
                    Some(Obstacle::Privileged(path))
                } else {
                    obstacle_of_elf(path)
                };
            }
            _ => return None,
        }
    }
    None
}

fn read_up_to(mut file: &File, buffer: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(_) => return None,
        }
    }
    Some(length)
}

/// The program of a script's first line.
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let first = words.next()?;
    Some(PathBuf::from(OsStr::from_bytes(first)))
}

/// Whether a program gets rights that its caller has not, so that the kernel tells the dynamic linker to be careful.
fn is_privileged(path: &Path) -> bool {
    let Ok(found) = fs::metadata(path) else {
        return false;
    };
    let user = rustix::process::getuid().as_raw();
    let group = rustix::process::getgid().as_raw();
    let as_user = found.mode() & 0o4000 != 0 && found.uid() != user;
    let as_group = found.mode() & 0o2010 == 0o2010 && found.gid() != group;
    let mut capabilities = [0; 64];
    let capable = user != 0
        && rustix::fs::getxattr(path, "security.capability", &mut capabilities)
            .is_ok_and(|length| length > 0);
    as_user || as_group || capable
}

/// What an ELF file says against it: it is of another machine than this program, names no dynamic linker, or brings a
/// malloc of its own. What makes no sense is left to the kernel.
fn obstacle_of_elf(path: PathBuf) -> Option<Obstacle> {
    #[cfg(target_arch = "x86_64")]
    const MACHINE: u16 = abi::EM_X86_64;
    #[cfg(target_arch = "aarch64")]
    const MACHINE: u16 = abi::EM_AARCH64;
    let bytes = fs::read(&path).ok()?;
    // The header alone first: it names the machine also where the rest is cut off or of another layout.
    let ident = parse_ident::<AnyEndian>(&bytes).ok()?;
    let class = ident.1;
    let header = FileHeader::parse_tail(ident, bytes.get(abi::EI_NIDENT..)?).ok()?;
    if class == Class::ELF32 || header.e_machine != MACHINE {
        return Some(Obstacle::OtherMachine(path));
    }
    let file = ElfBytes::<AnyEndian>::minimal_parse(&bytes).ok()?;
    let mut segments = file.segments().into_iter().flatten();
    if segments.all(|segment| segment.p_type != abi::PT_INTERP) {
        return Some(Obstacle::Static(path));
    }
    let (symbols, names) = file.dynamic_symbol_table().ok()??;
    let own = symbols.iter().any(|symbol| {
        !symbol.is_undefined()
            && names
                .get_raw(symbol.st_name as usize)
                .is_ok_and(|name| name == b"malloc")
    });
    own.then_some(Obstacle::OwnMalloc(path))
}
