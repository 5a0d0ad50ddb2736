//! A process and its `/proc` files.

use std::io;
use std::time::Instant;

use plimsoll_proc::resource_limits::Limits;
use plimsoll_proc::{Folder, PidStat, PidStatus, ProcessId, command_line, oom, smaps_rollup};

use super::pager::Paged;
use plimsoll_sample::monotonic_ns;

/// A process at one moment. None means that this user may not read the value.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    pub identity: ProcessId,
    /// Time at which its counters were read, in nanoseconds of CLOCK_MONOTONIC.
    pub read_ns: u64,
    pub threads: u64,
    /// Parent pid; 0 if the parent is not visible.
    pub parent: u32,
    /// Name, at most 15 bytes. Callers must [`sanitize`](plimsoll_model::sanitize::sanitize) it before display.
    pub name: String,
    /// State letter of `/proc/PID/stat`: `R`, `S`, `D`, `T`, `Z`, ...
    pub state: char,
    /// Whether it is a kernel thread, which has no memory of its own.
    pub kernel_thread: bool,
    /// Minor faults since its start: served without waiting for a device.
    pub minor_faults: u64,
    /// Major faults since its start: read from a device (zram too).
    pub major_faults: u64,
    /// CPU time in user mode since its start, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel since its start, in microseconds.
    pub system_us: u64,
    /// Resident bytes with the low accuracy of `/proc/PID/stat`.
    pub resident: u64,
    /// Text of `/proc/PID/cgroup`.
    pub cgroups: Option<String>,
    /// Values that are slower to read, for [`Depth::Sizes`] and up.
    pub detail: Option<Detail>,
}

/// Values that are slower to read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Detail {
    /// Arguments separated by spaces; empty if there are none. Not sanitized.
    pub command: Option<String>,
    pub status: PidStatus,
    /// Proportional set size, if it was measured.
    pub pss: Option<Proportional>,
    /// Badness for the OOM killer, 0 to 2000: the highest is killed first.
    pub oom_score: Option<u64>,
    /// Adjustment of the badness, -1000 (never) to 1000.
    pub oom_score_adj: Option<i64>,
    pub limits: Limits,
    /// Its pagers, if it has some that this user may read.
    pub pager: Option<Paged>,
    /// Names of the files that this user may not read.
    pub denied: Vec<&'static str>,
}

/// Proportional set size (PSS) of a process: a shared page counts for 1/n in each of n processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proportional {
    pub bytes: u64,
    /// Microseconds that the kernel took to count.
    pub took_us: u64,
}

/// How much of a process to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// `stat` and `cgroup`: counters, enough for fault storms.
    Counters,
    /// Also `status`: the exact working set, by kind, and swap.
    Sizes,
    /// All but the proportional set size.
    Detail,
    /// All. For PSS the kernel walks the page tables, 13 ms per GiB, and blocks the process meanwhile.
    Proportional,
}

impl Process {
    /// Reads the process that has this pid now.
    ///
    /// # Errors
    ///
    /// `NotFound` if it has ended, `PermissionDenied` if this user may not see it.
    pub fn read(pid: u32, depth: Depth) -> io::Result<Process> {
        Self::read_with(pid, depth, &mut Vec::with_capacity(4096))
    }

    /// Like [`Process::read`], with a reusable buffer.
    pub(super) fn read_with(pid: u32, depth: Depth, buffer: &mut Vec<u8>) -> io::Result<Process> {
        let folder = Folder::open(pid)?;
        let stat = PidStat::parse(folder.read("stat", buffer)?).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("/proc/{pid}/stat cannot be parsed"),
            )
        })?;
        let mut process = Process {
            identity: ProcessId {
                pid,
                start_ticks: stat.start_ticks,
            },
            read_ns: monotonic_ns(),
            threads: stat.threads,
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
        process.detail = (depth != Depth::Counters).then(|| Detail::read(pid, &folder, depth, buffer));
        Ok(process)
    }

    /// Working set in bytes: exact if `status` was read, otherwise from `/proc/PID/stat`.
    pub fn wss(&self) -> u64 {
        let exact = self.detail.as_ref().and_then(|detail| detail.status.wss());
        exact.unwrap_or(self.resident)
    }

    pub fn swap(&self) -> Option<u64> {
        self.detail.as_ref()?.status.swap
    }
}

impl Detail {
    fn read(pid: u32, folder: &Folder, depth: Depth, buffer: &mut Vec<u8>) -> Detail {
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
        if depth == Depth::Sizes {
            let status = read("status", buffer);
            return Detail {
                status: status.map_or_else(PidStatus::default, |text| PidStatus::parse(&text)),
                denied,
                ..Detail::default()
            };
        }
        let mut detail = Detail {
            command: read("cmdline", buffer).map(|text| command_line::parse(&text)),
            status: read("status", buffer).map_or_else(PidStatus::default, |text| PidStatus::parse(&text)),
            pss: None,
            oom_score: read("oom_score", buffer).and_then(|text| oom::score(&text)),
            oom_score_adj: read("oom_score_adj", buffer).and_then(|text| oom::adjustment(&text)),
            limits: read("limits", buffer).map_or_else(Limits::default, |text| Limits::parse(&text)),
            pager: Paged::read(pid),
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
