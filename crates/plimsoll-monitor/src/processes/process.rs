//! What is known of a process.

use std::io;
use std::time::Instant;

use plimsoll_proc::resource_limits::Limits;
use plimsoll_proc::{Folder, PidStat, PidStatus, command_line, oom, smaps_rollup};

use super::identity::Identity;

/// A process at one moment. What this user may not read is None.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// Which one.
    pub identity: Identity,
    /// Process id of its parent; 0 for none that can be seen.
    pub parent: u32,
    /// Its name, at most 15 bytes. As it is: to be made [`sanitize`](plimsoll_model::sanitize::sanitize) before it is shown.
    pub name: String,
    /// State letter of `/proc/PID/stat`: `R`, `S`, `D`, `T`, `Z`, ...
    pub state: char,
    /// Whether it is a thread of the kernel, which has no memory of its own.
    pub kernel_thread: bool,
    /// Minor faults since its start, which were served without waiting for a device.
    pub minor_faults: u64,
    /// Major faults since its start, which had to read (from zram too).
    pub major_faults: u64,
    /// CPU time in user mode since its start, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel since its start, in microseconds.
    pub system_us: u64,
    /// Resident bytes, as roughly as `/proc/PID/stat` has them.
    pub resident: u64,
    /// Text of `/proc/PID/cgroup`.
    pub cgroups: Option<String>,
    /// What takes more reading, where it was asked for.
    pub detail: Option<Detail>,
}

/// What takes more reading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Detail {
    /// Arguments, apart by spaces; empty where there are none. As it is, like the name.
    pub command: Option<String>,
    /// Memory, user.
    pub status: PidStatus,
    /// Proportional set, where it was asked for.
    pub pss: Option<Proportional>,
    /// What the OOM killer thinks of it, 0 to 2000: the highest goes first.
    pub oom_score: Option<u64>,
    /// What was set for it, -1000 (never) to 1000.
    pub oom_score_adj: Option<i64>,
    /// Limits on its memory.
    pub limits: Limits,
    /// Files that this user may not read.
    pub denied: Vec<&'static str>,
}

/// The proportional set of a process: shared pages count by how many share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proportional {
    /// Bytes.
    pub bytes: u64,
    /// Microseconds that counting took.
    pub took_us: u64,
}

/// How much of a process is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// `stat` and `cgroup`: counters, and what is needed to find fault storms.
    Counters,
    /// All but the proportional set.
    Detail,
    /// All. Counting the proportional set walks the page tables, 13 ms a GiB, and holds up the process meanwhile.
    Proportional,
}

impl Process {
    /// Reads the process that has the number `pid` now.
    ///
    /// # Errors
    /// `NotFound` when it has ended, `PermissionDenied` when this user may not see it.
    pub fn read(pid: u32, depth: Depth) -> io::Result<Process> {
        Self::read_with(pid, depth, &mut Vec::with_capacity(4096))
    }

    /// As [`Process::read`], through a buffer that is kept.
    pub(super) fn read_with(pid: u32, depth: Depth, buffer: &mut Vec<u8>) -> io::Result<Process> {
        let folder = Folder::open(pid)?;
        let stat = PidStat::parse(folder.read("stat", buffer)?).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("/proc/{pid}/stat cannot be parsed"),
            )
        })?;
        let mut process = Process {
            identity: Identity {
                pid,
                start_ticks: stat.start_ticks,
            },
            parent: stat.parent,
            name: stat.name_text().into_owned(),
            state: stat.state,
            kernel_thread: stat.kernel_thread,
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
            user_us: stat.user_us,
            system_us: stat.system_us,
            resident: stat
                .resident_pages
                .saturating_mul(rustix::param::page_size() as u64),
            cgroups: None,
            detail: None,
        };
        if process.kernel_thread {
            return Ok(process);
        }
        process.cgroups = folder
            .read("cgroup", buffer)
            .ok()
            .map(|text| String::from_utf8_lossy(text).into_owned());
        process.detail = (depth != Depth::Counters).then(|| Detail::read(&folder, depth, buffer));
        Ok(process)
    }

    /// Bytes of the working set: exact where they were read, otherwise as `/proc/PID/stat` has them.
    pub fn wss(&self) -> u64 {
        let exact = self.detail.as_ref().and_then(|detail| detail.status.wss());
        exact.unwrap_or(self.resident)
    }

    /// Bytes swapped out, where they were read.
    pub fn swap(&self) -> Option<u64> {
        self.detail.as_ref()?.status.swap
    }
}

impl Detail {
    fn read(folder: &Folder, depth: Depth, buffer: &mut Vec<u8>) -> Detail {
        let mut denied = Vec::new();
        let mut read = |name: &'static str, buffer: &mut Vec<u8>| -> Option<Vec<u8>> {
            match folder.read(name, buffer) {
                Ok(text) => Some(text.to_vec()),
                Err(error) => {
                    if error.kind() == io::ErrorKind::PermissionDenied {
                        denied.push(name);
                    }
                    None
                }
            }
        };
        let mut detail = Detail {
            command: read("cmdline", buffer).map(|text| command_line::parse(&text)),
            status: read("status", buffer).map_or_else(PidStatus::default, |text| PidStatus::parse(&text)),
            pss: None,
            oom_score: read("oom_score", buffer).and_then(|text| oom::score(&text)),
            oom_score_adj: read("oom_score_adj", buffer).and_then(|text| oom::adjustment(&text)),
            limits: read("limits", buffer).map_or_else(Limits::default, |text| Limits::parse(&text)),
            denied: Vec::new(),
        };
        if depth == Depth::Proportional {
            let start = Instant::now();
            let bytes = read("smaps_rollup", buffer).and_then(|text| smaps_rollup::pss(&text));
            detail.pss = bytes.map(|bytes| Proportional {
                bytes,
                took_us: start.elapsed().as_micros() as u64,
            });
        }
        detail.denied = denied;
        detail
    }
}
