//! Kernel modules, by `modprobe`.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Answers by module: each starts a process, and plans have thousands of trials.
static LOADABLE: LazyLock<Mutex<BTreeMap<String, bool>>> = LazyLock::new(Mutex::default);

/// Whether there is a module of this name or alias to load. Loads nothing.
pub(super) fn loadable(name: &str) -> bool {
    let mut known = LOADABLE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(loadable) = known.get(name) {
        return *loadable;
    }
    // busybox knows no --dry-run, and no long names.
    let loadable = modprobe(&["-D", name]).is_ok();
    known.insert(name.to_owned(), loadable);
    loadable
}

pub(super) fn modprobe(arguments: &[&str]) -> io::Result<()> {
    // Users' search paths often lack the folders of root's tools.
    let candidates = ["modprobe", "/usr/sbin/modprobe", "/sbin/modprobe"];
    let run = |program| Command::new(program).args(arguments).output();
    let output = match candidates.iter().find_map(|program| run(program).ok()) {
        Some(output) => output,
        None => {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the program `modprobe` is not installed",
            ));
        }
    };
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(
        String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    ))
}
