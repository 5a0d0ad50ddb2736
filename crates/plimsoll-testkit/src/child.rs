//! Child processes in a known state.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The file-mode creation mask of children.
const UMASK: libc::mode_t = 0o022;

/// The highest signal number of Linux.
const LAST_SIGNAL: libc::c_int = 64;

/// Variables to set for children.
const SET: [(&str, &str); 4] = [
    ("LANG", "C.UTF-8"),
    ("TZ", "UTC"),
    ("TERM", "dumb"),
    ("RUST_BACKTRACE", "0"),
];

/// Variables to remove for children: they change the output or the work of a program under test.
const REMOVED: [&str; 17] = [
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLUMNS",
    "FORCE_COLOR",
    "LANGUAGE",
    "LD_PRELOAD",
    "LINES",
    "NO_COLOR",
    "PLIMSOLL_EXEC",
    "PLIMSOLL_HEAP_DEBUG",
    "PLIMSOLL_HEAP_FRONT_END",
    "PLIMSOLL_HEAP_PROFILE",
    "PLIMSOLL_HEAP_PURGE",
    "PLIMSOLL_HEAP_RSEQ",
    "PLIMSOLL_HEAP_THP",
    "PLIMSOLL_STATE_DIR",
];

/// Prefixes of further variables to remove: of the locale, git's hooks, Python and glibc's malloc.
const REMOVED_PREFIXES: [&str; 4] = ["LC_", "GIT_", "PYTHON", "MALLOC_"];

/// A command whose process starts with default signal dispositions, an empty signal mask, umask 022, a UTF-8 locale
/// without a language, UTC, and /dev/null as standard input.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.envs(SET).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let prefixed = REMOVED_PREFIXES.iter().any(|prefix| text.starts_with(prefix));
        if prefixed || REMOVED.contains(&&*text) {
            command.env_remove(&name);
        }
    }
    // SAFETY: `reset` makes only async-signal-safe calls.
    unsafe { command.pre_exec(reset) };
    command
}

/// The next line of a child's piped standard output, without its line feed. Empty at the end of the output. The later
/// lines stay in the pipe.
///
/// # Panics
/// If the output is not piped or not text.
pub fn next_line(child: &mut Child) -> String {
    let output = child.stdout.as_mut().expect("its output is piped");
    let (mut line, mut byte) = (Vec::new(), [0]);
    while output.read_exact(&mut byte).is_ok() && byte != *b"\n" {
        line.push(byte[0]);
    }
    String::from_utf8(line).expect("its output is text")
}

/// Resets the calling process before its exec, by async-signal-safe calls only.
fn reset() -> std::io::Result<()> {
    // SAFETY: the set is initialised before its use; no handler is installed.
    unsafe {
        for signal in 1..=LAST_SIGNAL {
            // Refused for SIGKILL, SIGSTOP and the signals of the C library, which the caller cannot change either.
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = std::mem::MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        if libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        libc::umask(UMASK);
    }
    Ok(())
}
