//! The file that the kernel executes for a program.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use elf::endian::AnyEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::{ElfStream, ParseError, abi};
use plimsoll_os::{FileCapabilities, ProcessCapabilities};

/// Maximum depth of interpreters of scripts, as in the kernel.
const INTERPRETERS: usize = 5;

/// An ELF file that the kernel executes: the program's, or that of the interpreter of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub path: PathBuf,
    /// Whether it gets rights that the caller lacks: the dynamic linker then ignores `LD_PRELOAD`.
    pub is_privileged: bool,
    /// `None` if the file is invalid: `execve` reports it.
    pub kind: Option<Kind>,
}

/// The part of the dynamic linker in the start of an ELF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// It is for another processor or word size than this program.
    OtherMachine,
    /// No dynamic linker takes part.
    Static,
    /// By the dynamic linker of this path, as the file names it.
    Dynamic(PathBuf),
}

impl Image {
    /// The image of the program in a file. `None` if nothing is known of it: this user cannot read the file, or it is
    /// neither an ELF file nor a script.
    pub fn of(program: &Path) -> Option<Image> {
        let mut path = program.to_owned();
        for _ in 0..INTERPRETERS {
            let file = File::open(&path).ok()?;
            let mut head = [0; 256];
            let length = read_up_to(&file, &mut head)?;
            match &head[..length] {
                // The kernel ignores set-user-ID of scripts and honours that of interpreters.
                [b'#', b'!', line @ ..] => path = interpreter(line)?,
                head @ [0x7f, b'E', b'L', b'F', ..] => {
                    return Some(Image {
                        is_privileged: is_privileged(&path),
                        kind: kind(head, file),
                        path,
                    });
                }
                _ => return None,
            }
        }
        None
    }

    /// Whether it defines `malloc`, which precedes that of any library. False where that cannot be read.
    pub fn defines_malloc(&self) -> bool {
        let Ok(file) = File::open(&self.path) else {
            return false;
        };
        has_malloc(file).unwrap_or(false)
    }
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
    as_user || as_group || user != 0 && has_capabilities(path)
}

/// Whether the program has capabilities for which the kernel sets AT_SECURE, if its real user is not root.
fn has_capabilities(path: &Path) -> bool {
    let mut attribute = [0; FileCapabilities::MOST_BYTES];
    let length = rustix::fs::getxattr(path, FileCapabilities::ATTRIBUTE, &mut attribute);
    let attribute = length.ok().and_then(|length| attribute.get(..length));
    attribute.is_some_and(|attribute| makes_secure(attribute, ProcessCapabilities::own))
}

/// Whether the kernel sets AT_SECURE for a program with this attribute.
fn makes_secure(attribute: &[u8], process: impl FnOnce() -> ProcessCapabilities) -> bool {
    let file = FileCapabilities::decode(attribute);
    file.is_some_and(|file| file.makes_secure(process))
}

/// The kind of the file that begins with `head`. Of a large file, only the headers are read.
fn kind(head: &[u8], file: File) -> Option<Kind> {
    #[cfg(target_arch = "x86_64")]
    const MACHINE: u16 = abi::EM_X86_64;
    #[cfg(target_arch = "aarch64")]
    const MACHINE: u16 = abi::EM_AARCH64;
    // The header alone first: it names the machine also where the rest is cut off or of another layout.
    let ident = parse_ident::<AnyEndian>(head).ok()?;
    let class = ident.1;
    let header = FileHeader::parse_tail(ident, head.get(abi::EI_NIDENT..)?).ok()?;
    if class == Class::ELF32 || header.e_machine != MACHINE {
        return Some(Kind::OtherMachine);
    }
    let mut file = ElfStream::<AnyEndian, _>::open_stream(file).ok()?;
    let mut segments = file.segments().iter();
    let Some(named) = segments.find(|segment| segment.p_type == abi::PT_INTERP).copied() else {
        return Some(Kind::Static);
    };
    let name = file.segment_data(&named).ok()?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(Kind::Dynamic(PathBuf::from(OsStr::from_bytes(name))))
}

fn has_malloc(file: File) -> Result<bool, ParseError> {
    let mut file = ElfStream::<AnyEndian, _>::open_stream(file)?;
    let Some((symbols, names)) = file.dynamic_symbol_table()? else {
        return Ok(false);
    };
    Ok(symbols.iter().any(|symbol| {
        !symbol.is_undefined()
            && names
                .get_raw(symbol.st_name as usize)
                .is_ok_and(|name| name == b"malloc")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any attribute counted: `exec` and `heap run` refused a program for a capability that its process would not get.
    #[test]
    fn only_capabilities_that_a_program_gets_make_it_privileged() {
        let process = ProcessCapabilities {
            permitted: 0,
            inheritable: 0,
            bounding: u64::MAX,
            gains_none: false,
        };
        // Revision 2, with CAP_NET_BIND_SERVICE (10) as a permitted or an inheritable one.
        let attribute = |at: usize| {
            let mut bytes = [0; 20];
            (bytes[3], bytes[at]) = (2, 4);
            bytes
        };
        let (permitted, inheritable) = (attribute(5), attribute(9));
        assert!(makes_secure(&permitted, || process));
        assert!(!makes_secure(&inheritable, || process));
        assert!(!makes_secure(&permitted[..19], || process), "no valid attribute");
        let has_it = ProcessCapabilities {
            inheritable: 1 << 10,
            ..process
        };
        assert!(makes_secure(&inheritable, || has_it));
    }
}
