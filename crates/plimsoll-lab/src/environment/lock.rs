//! The machine lock: one run at a time changes this machine's memory settings. The guard lock: one guard at a time.
//!
//! Swap, zswap and the sysctls are the machine's, and two runs that measure at once would measure each other. The
//! lock is a `flock`, so that it is free when its holder is dead, however it died.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::error::EnvironmentError;
use super::holder::Holder;
use super::state::{Lock, StateFolder};
use rustix::fs::{FlockOperation, flock};

/// How often a waiting run looks whether the lock is free.
const POLL: Duration = Duration::from_millis(50);

/// The lock, held until dropped.
#[derive(Debug)]
pub(super) struct MachineLock {
    _file: File,
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
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) if interrupted.load(Ordering::Acquire) => {
                    return Err(EnvironmentError::Interrupted);
                }
                Err(rustix::io::Errno::WOULDBLOCK)
                    if deadline.is_none_or(|deadline| Instant::now() < deadline) =>
                {
                    thread::sleep(POLL);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(busy(&mut file, which, path)),
                Err(error) => return Err(failed(error.into())),
            }
        }
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
