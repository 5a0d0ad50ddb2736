//! Finds the program to start, and checks that the dynamic linker would preload a library into it.

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

/// A program cannot start with the library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The program does not exist (`NotFound`) or is not executable.
    #[error("cannot start `{name}`: {source}")]
    NotStarted { name: String, source: io::Error },
    /// The dynamic linker would not load the library.
    #[error("cannot run `{name}` on this heap: {why}")]
    NotPreloadable { name: String, why: Obstacle },
}

/// The reason that the dynamic linker would not load the library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    #[error("{} is statically linked, with its own malloc; link it dynamically", .0.display())]
    Static(PathBuf),
    /// It has set-user-ID, set-group-ID or capabilities that the caller lacks.
    #[error("{} is set-user-ID, set-group-ID or has capabilities, so the dynamic linker ignores LD_PRELOAD; run it as its owner", .0.display())]
    Privileged(PathBuf),
    #[error("{} is for another processor or word size than the library", .0.display())]
    OtherMachine(PathBuf),
    /// It defines `malloc`, which precedes that of any library.
    #[error("{} defines a malloc of its own, which precedes that of a library", .0.display())]
    OwnMalloc(PathBuf),
}

/// A program into which the library can be preloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Name on the command line; the program gets it as its first argument.
    pub name: OsString,
    pub path: PathBuf,
}

/// Maximum depth of interpreters of scripts, as in the kernel.
const INTERPRETERS: usize = 5;

impl Program {
    /// Finds `name` as a shell does, and checks that the library can be preloaded into it, or into the interpreter of a
    /// script.
    ///
    /// # Errors
    /// [`ProgramError`] if the program does not exist, is not executable, or cannot run with the library.
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

/// The file of a program: `name` if it has a slash, otherwise the first executable one in the folders of `PATH`.
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

/// Checks that the user may execute a file.
fn runnable(path: &Path) -> io::Result<()> {
    if !fs::metadata(path)?.is_file() {
        return Err(rustix::io::Errno::ACCESS.into());
    }
    Ok(rustix::fs::access(path, rustix::fs::Access::EXEC_OK)?)
}

/// The obstacle to preloading, if any. A program that is executable but unreadable has no known obstacle.
fn obstacle(path: &Path) -> Option<Obstacle> {
    let mut path = path.to_owned();
    for _ in 0..INTERPRETERS {
        let file = File::open(&path).ok()?;
        let mut head = [0; 256];
        let length = read_up_to(&file, &mut head)?;
        match &head[..length] {
            // The kernel ignores set-user-ID of scripts and honours that of interpreters.
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

/// The interpreter in the first line of a script.
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let first = words.next()?;
    Some(PathBuf::from(OsStr::from_bytes(first)))
}

/// Whether the program gets rights that the caller lacks, so that the kernel sets AT_SECURE.
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

/// The obstacle in an ELF file: another machine than this program's, no dynamic linker, or a malloc of its own. An
/// invalid file has no known obstacle: `execve` reports it.
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
