//! A process to trim. Descriptors hold it, so that a reused pid cannot redirect the trim.

use std::io;

use plimsoll_os::{Errno, Pidfd, Range};
use plimsoll_proc::capabilities::{SYS_NICE, this_process_has};
use plimsoll_proc::{Folder, PidStat, PidStatus, Statm, maps, pids};

use super::error::TrimError;
use super::holdings::Holdings;
use plimsoll_model::sanitize::sanitize;

/// A process. Its `/proc` folder and its pidfd refer to the process, not to its pid: after its end both return errors.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    name: String,
    pidfd: Pidfd,
    folder: Folder,
}

impl Process {
    /// Opens process `pid`; with `start_ticks` only if it started then.
    pub(super) fn open(pid: u32, start_ticks: Option<u64>) -> Result<Process, TrimError> {
        let absent = TrimError::NoSuchProcess { pid };
        let pidfd = match Pidfd::open(pid) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Err(absent),
            Err(errno) => return Err(Self::refused(pid, errno)),
        };
        let Ok(folder) = Folder::open(pid) else {
            return Err(absent);
        };
        let mut process = Process {
            pid,
            name: String::new(),
            pidfd,
            folder,
        };
        // Alive after both were opened, so both refer to the same process.
        if process.pidfd.send_signal(0) == Err(Errno::SRCH) {
            return Err(absent);
        }
        let text = process.read("stat")?;
        let stat = PidStat::parse(&text).ok_or(TrimError::Ended { pid })?;
        if start_ticks.is_some_and(|wanted| wanted != stat.start_ticks) {
            return Err(TrimError::Reused { pid });
        }
        process.name = sanitize(&stat.name_text()).into_owned();
        if stat.kernel_thread {
            return Err(TrimError::KernelThread {
                pid,
                name: process.name,
            });
        }
        Ok(process)
    }

    /// Error for a refused pidfd: the kernel refuses that of a thread.
    fn refused(pid: u32, errno: Errno) -> TrimError {
        let mut buffer = Vec::new();
        let text = Folder::open(pid)
            .and_then(|folder| Ok(folder.read("status", &mut buffer)?.to_vec()))
            .unwrap_or_default();
        match PidStatus::parse(&text).process {
            Some(process) if process != pid => TrimError::Thread { pid, process },
            // Impossible pids: the kernel refuses them.
            None if errno == Errno::INVAL => TrimError::NoSuchProcess { pid },
            _ => TrimError::of_process(pid, "open", errno_as_error(errno)),
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Safe to print.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Name for messages: `pid 4242 (redis-server)`.
    pub(super) fn title(&self) -> String {
        format!("pid {} ({})", self.pid, self.name)
    }

    pub(super) fn holdings(&self) -> Result<Holdings, TrimError> {
        let text = self.read("status")?;
        let status = PidStatus::parse(&text);
        let text = self.read("stat")?;
        let stat = PidStat::parse(&text).ok_or(TrimError::Ended { pid: self.pid })?;
        // A process without memory (a zombie) has no such lines.
        let (Some(anon), Some(file)) = (status.anon, status.file) else {
            return Err(TrimError::Ended { pid: self.pid });
        };
        let shmem = status.shmem.unwrap_or(0);
        Ok(Holdings {
            resident: anon + file + shmem,
            anon,
            file,
            shmem,
            swapped: status.swap.unwrap_or(0),
            locked: status.locked.unwrap_or(0),
            huge: status.huge.unwrap_or(0),
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
        })
    }

    /// Current resident bytes, from the shortest file that has them.
    pub(super) fn resident(&self) -> Result<u64, TrimError> {
        let statm = Statm::parse(&self.read("statm")?);
        Ok(statm.map_or(0, |statm| statm.resident))
    }

    pub(super) fn mappings(&self) -> Result<Vec<Range>, TrimError> {
        Ok(maps::reclaimable(&self.read("maps")?))
    }

    pub(super) fn pidfd(&self) -> &Pidfd {
        &self.pidfd
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, TrimError> {
        let mut text = Vec::new();
        let length = self
            .folder
            .read(name, &mut text)
            .map(<[u8]>::len)
            .map_err(|source| TrimError::of_process(self.pid, &format!("read {name} of"), source))?;
        text.truncate(length);
        Ok(text)
    }
}

pub(super) fn errno_as_error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw())
}

/// Extent of [`super::What::All`], for the confirmation prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidates {
    /// Processes that this user may trim.
    pub processes: u64,
    /// Their resident bytes. A page that several processes map counts for each.
    pub resident: u64,
    pub denied: u64,
}

/// Counts the processes that a trim of all would reach. Changes nothing.
pub fn candidates() -> Candidates {
    let (processes, refused) = all();
    // Capability to advise on the memory of other processes.
    let privileged = this_process_has(SYS_NICE);
    let mut found = Candidates {
        processes: 0,
        resident: 0,
        denied: refused.len() as u64,
    };
    for process in processes {
        // Reading the mappings needs the same ptrace access as advising on them.
        if privileged && process.read("maps").is_ok() {
            found.processes += 1;
            found.resident += process.resident().unwrap_or(0);
        } else {
            found.denied += 1;
        }
    }
    found
}

/// All processes except this one and kernel threads, the largest first, and the errors of those that could not be
/// opened.
pub(super) fn all() -> (Vec<Process>, Vec<TrimError>) {
    of_pids(&pids::all().unwrap_or_default())
}

/// The same for these pids.
pub(super) fn of_pids(pids: &[u32]) -> (Vec<Process>, Vec<TrimError>) {
    let (mut processes, mut refused) = (Vec::new(), Vec::new());
    for &pid in pids.iter().filter(|&&pid| pid != std::process::id()) {
        match Process::open(pid, None) {
            Ok(process) => processes.push(process),
            // Ended since the listing, or has no memory to trim.
            Err(
                TrimError::NoSuchProcess { .. } | TrimError::Ended { .. } | TrimError::KernelThread { .. },
            ) => {}
            Err(error) => refused.push(error),
        }
    }
    processes.sort_by_cached_key(|process| std::cmp::Reverse(process.resident().unwrap_or(0)));
    (processes, refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_agrees_with_procfs() {
        let oracle = procfs::process::Process::myself().unwrap().stat().unwrap();
        let this = Process::open(std::process::id(), Some(oracle.starttime)).unwrap();
        let text = this.read("stat").unwrap();
        let stat = PidStat::parse(&text).unwrap();
        assert_eq!(
            (this.name(), stat.start_ticks),
            (oracle.comm.as_str(), oracle.starttime)
        );
        assert!(matches!(
            Process::open(std::process::id(), Some(oracle.starttime + 1)),
            Err(TrimError::Reused { .. })
        ));
        assert!(this.resident().unwrap() > 0 && this.holdings().unwrap().anon > 0);
    }
}
