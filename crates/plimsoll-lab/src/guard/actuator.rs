//! Carries orders out: signals through pidfds, page-outs, and the journal before them.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_os::{Errno, Pidfd};
use plimsoll_proc::{Folder, ProcessId, maps};

use super::error::GuardError;
use super::members::Members;
use super::policy::Order;
use crate::environment::Vigil;

/// Bytes of one call that pages out.
const PIECE: u64 = 2 << 20;

/// Result of an order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Carried out; of a trim, with the bytes that were paged out at most.
    Done(u64),
    /// A dry run.
    Dry,
    /// The process has ended, or is no candidate any more.
    Void,
    Refused(String),
}

#[derive(Debug)]
pub(super) struct Actuator {
    /// `None` in a dry run.
    vigil: Option<Vigil>,
    stopped: BTreeSet<ProcessId>,
    /// Descriptors of the processes that the journal has.
    journalled: BTreeMap<ProcessId, Pidfd>,
}

impl Actuator {
    pub(super) fn new(vigil: Option<Vigil>) -> Actuator {
        Actuator {
            vigil,
            stopped: BTreeSet::new(),
            journalled: BTreeMap::new(),
        }
    }

    pub(super) fn stopped(&self) -> &BTreeSet<ProcessId> {
        &self.stopped
    }

    pub(super) fn carry_out(&mut self, order: &Order, members: &Members) -> Outcome {
        if self.vigil.is_none() {
            return Outcome::Dry;
        }
        let done = match order {
            Order::Stop { process, .. } => self.stop(*process, members),
            Order::Continue { process, .. } => self.go_on(*process),
            Order::Trim { process, bytes, .. } => self.trim(*process, *bytes),
            Order::Kill { process, .. } => kill(*process, members),
        };
        done.unwrap_or_else(|error| Outcome::Refused(error.to_string()))
    }

    fn stop(&mut self, process: ProcessId, members: &Members) -> Result<Outcome, GuardError> {
        if !self.journalled.contains_key(&process) {
            let Some(pidfd) = open(process)? else {
                return Ok(Outcome::Void);
            };
            self.journalled.insert(process, pidfd);
        }
        // After the descriptor was opened, so that both are of the same process.
        if !members.may_stop(process) {
            self.forget(process)?;
            return Ok(Outcome::Void);
        }
        if let Some(vigil) = &mut self.vigil {
            vigil.stopping(process)?;
        }
        match self.signal(process, libc::SIGSTOP)? {
            true => {
                self.stopped.insert(process);
                Ok(Outcome::Done(0))
            }
            false => Ok(Outcome::Void),
        }
    }

    fn go_on(&mut self, process: ProcessId) -> Result<Outcome, GuardError> {
        if !self.stopped.remove(&process) {
            return Ok(Outcome::Void);
        }
        match self.signal(process, libc::SIGCONT)? {
            true => Ok(Outcome::Done(0)),
            false => Ok(Outcome::Void),
        }
    }

    /// Sends a signal to a journalled process. Returns whether it lives.
    fn signal(&mut self, process: ProcessId, signal: i32) -> Result<bool, GuardError> {
        let Some(pidfd) = self.journalled.get(&process) else {
            return Ok(false);
        };
        match pidfd.send_signal(signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => {
                self.stopped.remove(&process);
                self.forget(process)?;
                Ok(false)
            }
            Err(errno) => Err(GuardError::Signal {
                pid: process.pid,
                errno,
            }),
        }
    }

    /// Strikes a process out of the journal: another program has stopped it, or it has ended.
    pub(super) fn forget(&mut self, process: ProcessId) -> Result<(), GuardError> {
        if self.stopped.contains(&process) || self.journalled.remove(&process).is_none() {
            return Ok(());
        }
        match &mut self.vigil {
            Some(vigil) => Ok(vigil.released(process)?),
            None => Ok(()),
        }
    }

    /// Pages out anonymous memory of a process, until so many bytes were advised on.
    fn trim(&mut self, process: ProcessId, bytes: u64) -> Result<Outcome, GuardError> {
        let Some(pidfd) = open(process)? else {
            return Ok(Outcome::Void);
        };
        let mut buffer = Vec::new();
        let text = Folder::open(process.pid).and_then(|folder| Ok(folder.read("maps", &mut buffer)?.to_vec()));
        let Ok(text) = text else { return Ok(Outcome::Void) };
        let mut advised = 0;
        for mapping in maps::parse(&text).filter(|mapping| mapping.is_private_anonymous()) {
            let range = plimsoll_os::Range {
                start: mapping.start,
                length: mapping.length,
            };
            match pidfd.page_out(&[range], PIECE, |done| advised + done < bytes) {
                Ok(done) => advised += done,
                Err(error) if matches!(error.errno, Errno::NOMEM | Errno::INVAL) => advised += error.advised,
                Err(error) if error.errno == Errno::SRCH => return Ok(Outcome::Void),
                Err(error) => {
                    return Err(GuardError::Trim {
                        pid: process.pid,
                        errno: error.errno,
                    });
                }
            }
            if advised >= bytes {
                break;
            }
        }
        Ok(Outcome::Done(advised))
    }

    /// Continues all stopped processes. Returns their number.
    pub(super) fn release_all(&mut self) -> usize {
        let stopped: Vec<ProcessId> = self.stopped.iter().copied().collect();
        // One that cannot be continued now is in the journal, which the end undoes.
        let continued = stopped.into_iter().filter(|process| {
            matches!(self.go_on(*process), Ok(Outcome::Done(_)))
        });
        continued.count()
    }

    /// Undoes the rest of the journal, and removes it.
    pub(super) fn finish(self) -> Result<(), GuardError> {
        match self.vigil {
            Some(vigil) => Ok(vigil.finish().map(drop)?),
            None => Ok(()),
        }
    }
}

/// Opens a process; `None` if it has ended.
fn open(process: ProcessId) -> Result<Option<Pidfd>, GuardError> {
    match Pidfd::open(process.pid) {
        // The number may be another process's by now.
        Ok(pidfd) => Ok(Some(pidfd).filter(|_| process.is_alive())),
        Err(Errno::SRCH) => Ok(None),
        Err(errno) => Err(GuardError::Open {
            pid: process.pid,
            errno,
        }),
    }
}

fn kill(process: ProcessId, members: &Members) -> Result<Outcome, GuardError> {
    let Some(pidfd) = open(process)?.filter(|_| members.may_stop(process)) else {
        return Ok(Outcome::Void);
    };
    match pidfd.send_signal(libc::SIGKILL) {
        Ok(()) => Ok(Outcome::Done(0)),
        Err(Errno::SRCH) => Ok(Outcome::Void),
        Err(errno) => Err(GuardError::Signal {
            pid: process.pid,
            errno,
        }),
    }
}
