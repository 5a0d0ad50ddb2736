//! A program's start on the heap: its environment, and its beginning in place of this process.

use std::convert::Infallible;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use super::program::Program;
use plimsoll_monitor::processes::pass_signals_on;

/// Who serves the small blocks of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeapFrontEnd {
    /// One lock over coalescing blocks, as heaps were.
    Standard,
    /// Buckets and affinity slots.
    LowFragmentation,
}

/// How a program is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The library to load into it.
    pub library: PathBuf,
    /// The front end of its heap.
    pub front_end: HeapFrontEnd,
    /// Whether its heap is hardened.
    pub hardened: bool,
}

impl Launch {
    /// The variables that the program's environment gets. The library stands before those that are preloaded already:
    /// the first malloc found is the one that is used.
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

    /// Becomes the program. Returns only where that failed.
    ///
    /// # Errors
    /// What the system said.
    pub fn become_program(&self, program: &Program, arguments: &[OsString]) -> io::Result<Infallible> {
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
