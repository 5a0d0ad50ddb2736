//! Starts a program on the heap: its environment, and its `exec` in place of this process.

use std::convert::Infallible;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use super::program::Program;
use plimsoll_monitor::processes::pass_signals_on;

/// The front end for the small blocks of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeapFrontEnd {
    /// One lock over coalescing blocks.
    Standard,
    /// Buckets and affinity slots.
    LowFragmentation,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The library to preload.
    pub library: PathBuf,
    pub front_end: HeapFrontEnd,
    pub hardened: bool,
}

impl Launch {
    /// The variables to add to the program's environment. The library precedes the libraries in `preloaded`, since the
    /// dynamic linker uses the first malloc.
    pub fn environment(&self, preloaded: Option<&OsStr>) -> Vec<(&'static str, OsString)> {
        let mut preload = self.library.clone().into_os_string();
        if let Some(others) = preloaded.filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let front_end = match self.front_end {
            HeapFrontEnd::Standard => "standard",
            HeapFrontEnd::LowFragmentation => "lfh",
        };
        let profile = if self.hardened { "hardened" } else { "default" };
        vec![
            ("LD_PRELOAD", preload),
            ("PLIMSOLL_HEAP_FRONT_END", front_end.into()),
            ("PLIMSOLL_HEAP_PROFILE", profile.into()),
        ]
    }

    /// Executes the program in place of this process. Returns only on failure.
    ///
    /// # Errors
    /// The error of `execve`.
    pub fn execute(&self, program: &Program, arguments: &[OsString]) -> io::Result<Infallible> {
        let preloaded = env::var_os("LD_PRELOAD");
        let mut command = Command::new(&program.path);
        command
            .arg0(&program.name)
            .args(arguments)
            .envs(self.environment(preloaded.as_deref()));
        pass_signals_on(&mut command);
        Err(command.exec())
    }
}
