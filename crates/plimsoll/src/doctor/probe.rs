//! Trials of system calls that leave the system as it is.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;

use plimsoll_os::{
    Advice, Errno, Mapping, PerfEvent, PerfScope, Pidfd, Range, UffdApi, UffdMode, api_handshake,
    open_from_device, open_perf_event, open_userfaultfd, page_size,
};
use rustix::process::{DumpableBehavior, dumpable_behavior, geteuid, set_dumpable_behavior};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use rustix::{process::Gid, process::Uid};

/// Id of the user without privileges.
const NOBODY: u32 = 65534;

pub type Outcome = Result<(), Errno>;

/// The outcomes of the trials.
#[derive(Debug, Clone)]
pub struct Probes {
    /// `madvise(MADV_PAGEOUT)` on a page of this process.
    pub page_out: Outcome,
    /// `process_madvise(MADV_PAGEOUT)` on this process through a pidfd.
    pub process_madvise: Outcome,
    /// userfaultfd as this user.
    pub userfaultfd: UffdAccess,
    /// userfaultfd as a user without privileges; `None` if this user has none or cannot drop them.
    pub userfaultfd_unprivileged: Option<UffdAccess>,
    /// Counting page faults of user code only.
    pub perf_user: Outcome,
    /// Counting page faults, kernel included.
    pub perf_software: Outcome,
    /// Counting CPU cycles, kernel included.
    pub perf_hardware: Outcome,
    /// The file system for swap files.
    pub disk: Option<Disk>,
}

/// The ways to open a userfaultfd, and its features.
#[derive(Debug, Clone)]
pub struct UffdAccess {
    /// All faults, by the system call.
    pub full: Outcome,
    /// Faults of user code only, by the system call.
    pub user_mode_only: Outcome,
    /// All faults, through `/dev/userfaultfd`.
    pub device: Outcome,
    /// Result of the handshake, by the first way that works.
    pub api: Option<UffdApi>,
}

/// Space of a file system.
#[derive(Debug, Clone)]
pub struct Disk {
    pub folder: String,
    /// Bytes free for this user.
    pub free: u64,
    /// Size of the file system in bytes.
    pub size: u64,
}

impl Probes {
    /// Tries each call on this machine, and reads the disk space of `folder`.
    pub fn live(folder: &Path) -> Probes {
        let perf = |event, scope| open_perf_event(event, scope).map(drop);
        Probes {
            page_out: page_out(),
            process_madvise: process_madvise(),
            userfaultfd: userfaultfd(),
            userfaultfd_unprivileged: userfaultfd_unprivileged(),
            perf_user: perf(PerfEvent::PageFaults, PerfScope::User),
            perf_software: perf(PerfEvent::PageFaults, PerfScope::UserAndKernel),
            perf_hardware: perf(PerfEvent::Cycles, PerfScope::UserAndKernel),
            disk: disk(folder),
        }
    }
}

/// Pages out one page with data. Without swap the page stays resident, and the call succeeds too.
fn page_out() -> Outcome {
    one_page()?.advise(Advice::PageOut)
}

fn process_madvise() -> Outcome {
    let page = one_page()?;
    let range = Range {
        start: page.address() as u64,
        length: page.len() as u64,
    };
    let myself = Pidfd::open(std::process::id())?;
    myself
        .page_out(&[range], range.length, |_| true)
        .map(drop)
        .map_err(|error| error.errno)
}

fn one_page() -> Result<Mapping, Errno> {
    let mut page = Mapping::anonymous(page_size())?;
    page.bytes_mut()[0] = 1;
    Ok(page)
}

fn userfaultfd() -> UffdAccess {
    let full = open_userfaultfd(UffdMode::Full);
    let user_mode_only = open_userfaultfd(UffdMode::UserModeOnly);
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/userfaultfd")
        .map_err(|error| Errno::of_number(error.raw_os_error().unwrap_or_default()))
        .and_then(|device| open_from_device(device.as_raw_fd(), UffdMode::Full));
    let open = [
        full.as_ref().ok(),
        user_mode_only.as_ref().ok(),
        device.as_ref().ok(),
    ];
    let api = open
        .into_iter()
        .flatten()
        .find_map(|uffd| api_handshake(uffd).ok());
    UffdAccess {
        full: full.map(drop),
        user_mode_only: user_mode_only.map(drop),
        device: device.map(drop),
        api,
    }
}

/// Tries as a user without privileges in a separate thread: Linux has credentials per thread, so those of the process stay.
fn userfaultfd_unprivileged() -> Option<UffdAccess> {
    if !geteuid().is_root() {
        return None;
    }
    // A change of user clears the dumpable flag of the whole process, which then cannot read its own files in /proc.
    let dumpable = dumpable_behavior().unwrap_or(DumpableBehavior::Dumpable);
    let probe = thread::spawn(|| {
        let (group, user) = (Gid::from_raw(NOBODY), Uid::from_raw(NOBODY));
        set_thread_groups(&[]).ok()?;
        set_thread_res_gid(group, group, group).ok()?;
        set_thread_res_uid(user, user, user).ok()?;
        Some(userfaultfd())
    });
    let found = probe.join().ok().flatten();
    // If this fails, only the owner of /proc/self/* differs.
    let _ = set_dumpable_behavior(dumpable);
    found
}

fn disk(folder: &Path) -> Option<Disk> {
    let room = rustix::fs::statvfs(folder).ok()?;
    Some(Disk {
        folder: folder.canonicalize().ok()?.display().to_string(),
        free: room.f_bavail * room.f_frsize,
        size: room.f_blocks * room.f_frsize,
    })
}
