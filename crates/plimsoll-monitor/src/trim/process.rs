//! A process that is to be trimmed: held by descriptors, so that its number cannot become another's meanwhile.

use std::io;

use plimsoll_os::{Errno, Pidfd, Range};
use plimsoll_proc::capabilities::{SYS_NICE, this_process_has};
use plimsoll_proc::{Folder, PidStat, PidStatus, Statm, pids};

use super::error::TrimError;
use super::holdings::Holdings;
use super::maps;
use plimsoll_model::sanitize::sanitize;

/// A process. Its folder in /proc and its pidfd belong to it, not to its number: once it has ended they say so.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    name: String,
    pidfd: Pidfd,
    folder: Folder,
}

impl Process {
    /// Opens process `pid`; with `start_ticks` only the one that started then.
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
        // Alive after both were opened: both are the same process.
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

    /// Why there is no pidfd for `pid`: that of a thread is refused.
    fn refused(pid: u32, errno: Errno) -> TrimError {
        let mut buffer = Vec::new();
        let text = Folder::open(pid)
            .and_then(|folder| Ok(folder.read("status", &mut buffer)?.to_vec()))
            .unwrap_or_default();
        match PidStatus::parse(&text).process {
            Some(process) if process != pid => TrimError::Thread { pid, process },
            // Numbers that no process can have are refused as such.
            None if errno == Errno::INVAL => TrimError::NoSuchProcess { pid },
            _ => TrimError::of_process(pid, "open", errno_as_error(errno)),
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Its name, safe to print.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The process in words.
    pub(super) fn title(&self) -> String {
        format!("pid {} ({})", self.pid, self.name)
    }

    /// What it holds now.
    pub(super) fn holdings(&self) -> Result<Holdings, TrimError> {
        let text = self.read("status")?;
        let status = PidStatus::parse(&text);
        let text = self.read("stat")?;
        let stat = PidStat::parse(&text).ok_or(TrimError::Ended { pid: self.pid })?;
        // A process that has given up its memory (a zombie) has no such lines.
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

    /// Bytes resident now, from the shortest file that tells.
    pub(super) fn resident(&self) -> Result<u64, TrimError> {
        let statm = Statm::parse(&self.read("statm")?);
        Ok(statm.map_or(0, |statm| statm.resident))
    }

    /// Its mappings that are worth asking for.
    pub(super) fn mappings(&self) -> Result<Vec<Range>, TrimError> {
        Ok(maps::reclaimable(&self.read("maps")?))
    }

    /// Its reference for system calls.
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

/// What [`super::What::All`] would trim, for a question before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidates {
    /// Processes that this user may trim.
    pub processes: u64,
    /// Bytes resident in them; pages that several map are counted for each.
    pub resident: u64,
    /// Processes that this user may not trim.
    pub denied: u64,
}

/// Looks at what trimming all processes would do, and does nothing.
pub fn candidates() -> Candidates {
    let (processes, refused) = all();
    // Advising on the memory of others.
    let privileged = this_process_has(SYS_NICE);
    let mut found = Candidates {
        processes: 0,
        resident: 0,
        denied: refused.len() as u64,
    };
    for process in processes {
        // Reading the mappings asks for the same ptrace access as advising on them does.
        if privileged && process.read("maps").is_ok() {
            found.processes += 1;
            found.resident += process.resident().unwrap_or(0);
        } else {
            found.denied += 1;
        }
    }
    found
}

/// Every process but this one and the kernel's threads, the largest first, and why others could not be opened.
pub(super) fn all() -> (Vec<Process>, Vec<TrimError>) {
    of_pids(&pids::all().unwrap_or_default())
}

/// The processes of these numbers, as [`all`] gives them.
pub(super) fn of_pids(pids: &[u32]) -> (Vec<Process>, Vec<TrimError>) {
    let (mut processes, mut refused) = (Vec::new(), Vec::new());
    for &pid in pids.iter().filter(|&&pid| pid != std::process::id()) {
        match Process::open(pid, None) {
            Ok(process) => processes.push(process),
            // Ended since they were listed, or nothing that could be trimmed.
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
