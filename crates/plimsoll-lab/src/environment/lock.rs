//! The machine lock: one run at a time changes this machine's memory settings. The guard lock: one guard at a time.
//!
//! Swap, zswap and the sysctls are the machine's, and two runs that measure at once would measure each other. The
//! lock is that of a [`LockedFile`].

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::error::EnvironmentError;
use super::holder::Holder;
use super::locked_file::{LockedFile, TryLock};
use super::state::{Lock, StateFolder};

/// How often a waiting run looks whether the lock is free.
const POLL: Duration = Duration::from_millis(50);

/// The lock, held until dropped.
#[derive(Debug)]
pub(super) struct MachineLock {
    _file: LockedFile,
}

impl MachineLock {
    /// Takes the lock of the state folder for `run`, waiting for up to `wait`, or until `interrupted` is true.
    pub(super) fn acquire(
        state: &StateFolder,
        which: Lock,
        run: &str,
        wait: Option<Duration>,
        interrupted: &AtomicBool,
    ) -> Result<MachineLock, EnvironmentError> {
        let path = state.lock_path(which);
        let failed = |source| EnvironmentError::system(format!("open the lock {}", path.display()), source);
        let mut file = state.lock_file(which)?;
        // `None` if the wait overflows an instant: no deadline.
        let deadline = Instant::now().checked_add(wait.unwrap_or_default());
        let mut file = loop {
            match LockedFile::try_lock(file).map_err(failed)? {
                TryLock::Locked(locked) => break locked,
                TryLock::Held(_) if interrupted.load(Ordering::Acquire) => {
                    return Err(EnvironmentError::Interrupted);
                }
                TryLock::Held(held) if deadline.is_none_or(|deadline| Instant::now() < deadline) => {
                    file = held;
                    thread::sleep(POLL);
                }
                TryLock::Held(mut held) => return Err(busy(&mut held, which, path)),
            }
        };
        let holder = Holder {
            run: run.to_owned(),
            pid: std::process::id(),
        };
        write_holder(&mut file, &holder).map_err(failed)?;
        Ok(MachineLock { _file: file })
    }
}

fn write_holder(file: &mut File, holder: &Holder) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(serde_json::to_string(holder)?.as_bytes())
}

fn busy(file: &mut File, which: Lock, lock: PathBuf) -> EnvironmentError {
    let mut text = String::new();
    // The holder may be writing its name just now: an unreadable name is only an unknown one.
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    let holder = read
        .ok()
        .and_then(|_| serde_json::from_str(&text).ok())
        .unwrap_or(Holder {
            run: String::new(),
            pid: 0,
        });
    match which {
        Lock::Machine => EnvironmentError::Busy { holder, lock },
        Lock::Guard => EnvironmentError::Guarded { holder, lock },
    }
}

#[cfg(test)]
mod tests {
    use super::super::locked_file::OtherOwner;
    use super::*;

    /// A run that followed another one found the lock held, by no process that could be named: a child of the first had not executed
    /// its program yet.
    #[test]
    fn the_lock_is_free_after_its_end_though_a_child_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::make(&folder.path().join("state")).unwrap();
        let never = AtomicBool::new(false);
        for which in [Lock::Machine, Lock::Guard] {
            let acquire = || MachineLock::acquire(&state, which, "test", None, &never);
            let lock = acquire().unwrap();
            let _child = OtherOwner::of(&lock._file);
            let busy = acquire();
            assert!(
                matches!(
                    busy,
                    Err(EnvironmentError::Busy { .. } | EnvironmentError::Guarded { .. })
                ),
                "{busy:?}"
            );
            drop(lock);
            acquire().expect("the lock is free");
        }
    }
}
