//! Becomes the program: its environment, and its `exec` in place of this process.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::counters::CountersFile;
use super::settings::Settings;
use super::shared_pool::SharedPool;
use plimsoll_monitor::processes::pass_signals_on;

#[derive(Debug)]
pub struct Launch {
    /// The library to preload.
    pub library: PathBuf,
    pub settings: Settings,
    /// The budget that the processes of the program share; it must live until the program is executed.
    pub pool: Option<SharedPool>,
    /// The file for the counters of its processes, as the pool; without one, `stats` prints them.
    pub counters: Option<CountersFile>,
}

impl Launch {
    /// The variables to add to the program's environment. The library precedes the libraries in `preloaded`, since the
    /// dynamic linker uses the first symbol of a name.
    pub fn environment(&self, preloaded: Option<&OsStr>) -> Vec<(&'static str, OsString)> {
        let own = self.library.as_os_str().as_bytes();
        let others = preloaded.unwrap_or_default().as_bytes();
        // A program under `exec` may start another `exec`.
        let others = others
            .split(|byte| b": ".contains(byte))
            .filter(|name| !name.is_empty() && *name != own);
        let all: Vec<&[u8]> = [own].into_iter().chain(others).collect();
        vec![
            ("LD_PRELOAD", OsString::from_vec(all.join(&b':'))),
            (
                Settings::VARIABLE,
                self.settings.value(self.pool.as_ref(), self.counters.as_ref()),
            ),
        ]
    }
}

/// Executes the program at `path` in place of this process, with `name` as its first argument and `variables` added to
/// its environment. Returns only on failure.
///
/// # Errors
/// The error of `execve`.
pub fn execute(
    path: &Path,
    name: &OsStr,
    arguments: &[OsString],
    variables: Vec<(&'static str, OsString)>,
) -> io::Result<Infallible> {
    Err(command(path, name, arguments, variables).exec())
}

/// The command that starts the program, as [`execute`] does.
pub fn command(
    path: &Path,
    name: &OsStr,
    arguments: &[OsString],
    variables: Vec<(&'static str, OsString)>,
) -> Command {
    let mut command = Command::new(path);
    command.arg0(name).args(arguments).envs(variables);
    pass_signals_on(&mut command);
    command
}

#[cfg(test)]
mod tests {
    use super::super::settings::Codec;
    use super::*;

    #[test]
    fn the_library_comes_first_and_once() {
        let launch = Launch {
            library: "/c/libplimsoll_exec.so".into(),
            settings: Settings {
                ram: 1,
                codec: Codec::Lz4,
                page_file: None,
                stats: false,
            },
            pool: None,
            counters: None,
        };
        let preload = |others: Option<&str>| {
            let variables = launch.environment(others.map(OsStr::new));
            assert_eq!(
                variables[1],
                (Settings::VARIABLE, launch.settings.value(None, None))
            );
            variables[0].1.clone()
        };
        for (others, expected) in [
            (None, "/c/libplimsoll_exec.so"),
            (Some(""), "/c/libplimsoll_exec.so"),
            (Some("/a.so b.so"), "/c/libplimsoll_exec.so:/a.so:b.so"),
            (
                Some("/c/libplimsoll_exec.so:/a.so"),
                "/c/libplimsoll_exec.so:/a.so",
            ),
        ] {
            assert_eq!(preload(others), expected, "{others:?}");
        }
    }
}
