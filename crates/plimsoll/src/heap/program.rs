//! Finds the program to start, and checks that the dynamic linker would preload the heap into it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

use plimsoll_model::sanitize::sanitize;

use crate::program::{Image, Kind, locate};

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

impl Program {
    /// Finds `name` as a shell does, and checks that the library can be preloaded into it, or into the interpreter of a
    /// script.
    ///
    /// # Errors
    /// [`ProgramError`] if the program does not exist, is not executable, or cannot run with the library.
    pub fn find(name: &OsStr, search_path: Option<&OsStr>) -> Result<Program, ProgramError> {
        let spoken = || sanitize(&name.to_string_lossy()).into_owned();
        let path = locate(name, search_path).map_err(|source| ProgramError::NotStarted {
            name: spoken(),
            source,
        })?;
        if let Some(why) = Image::of(&path).and_then(obstacle) {
            return Err(ProgramError::NotPreloadable { name: spoken(), why });
        }
        Ok(Program {
            name: name.to_owned(),
            path,
        })
    }
}

/// The obstacle to preloading, if any.
fn obstacle(image: Image) -> Option<Obstacle> {
    if image.is_privileged {
        return Some(Obstacle::Privileged(image.path));
    }
    match image.kind.as_ref()? {
        Kind::OtherMachine => Some(Obstacle::OtherMachine(image.path)),
        Kind::Static => Some(Obstacle::Static(image.path)),
        Kind::Dynamic(_) if image.defines_malloc() => Some(Obstacle::OwnMalloc(image.path)),
        Kind::Dynamic(_) => None,
    }
}
