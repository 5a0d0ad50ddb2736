//! Waiting times of tasks, by the kernel's delay accounting, over a generic netlink socket.
//!
//! The messages are described in the kernel's `Documentation/accounting/taskstats.rst`, the values in
//! `Documentation/accounting/delay-accounting.rst`.

use std::io;
use std::os::fd::OwnedFd;

use plimsoll_proc::sysctl::{self, TASK_DELAY_ACCOUNTING as SWITCH};
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

/// Lengths of the headers of a message, and of that of an attribute.
const NETLINK_HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;

/// Message types and commands (`linux/netlink.h`, `linux/genetlink.h`, `linux/taskstats.h`).
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET: u8 = 1;
const BY_THREAD: u16 = 1;
const BY_PROCESS: u16 = 2;
const STATS: u16 = 3;

/// The one version of `struct taskstats` in which new fields were put between old ones (Linux 6.14).
const SHUFFLED_VERSION: u16 = 15;

/// Offsets in `struct taskstats`, the same in every other version that has the field.
const SWAP_IN: usize = 56;
const RECLAIM: usize = 320;
const THRASHING: usize = 336;
const COMPACTION: usize = 360;
const COPY: usize = 408;

/// Waiting times of all threads of a process since its start, in nanoseconds.
///
/// A page that comes back soon after it was swapped out counts in both of the first two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delays {
    /// Pages that were brought in from swap, decompression included.
    pub swap_in_ns: u64,
    /// Pages that were brought in, from swap or a file, that had been reclaimed a short while ago.
    pub thrashing_ns: u64,
    /// Memory that had to be reclaimed first.
    pub reclaim_ns: u64,
    /// Memory that had to be compacted first.
    pub compaction_ns: u64,
    /// Pages that were copied since they were written to while shared.
    pub copy_ns: u64,
}

impl Delays {
    /// The greater of both, value by value.
    fn max(self, other: Delays) -> Delays {
        Delays {
            swap_in_ns: self.swap_in_ns.max(other.swap_in_ns),
            thrashing_ns: self.thrashing_ns.max(other.thrashing_ns),
            reclaim_ns: self.reclaim_ns.max(other.reclaim_ns),
            compaction_ns: self.compaction_ns.max(other.compaction_ns),
            copy_ns: self.copy_ns.max(other.copy_ns),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DelaysError {
    /// The kernel's switch cannot be read.
    #[error("cannot read {SWITCH}: {0}; the kernel needs CONFIG_TASK_DELAY_ACCT")]
    NotBuilt(io::Error),
    #[error(
        "cannot read delays: delay accounting is off; set `sysctl kernel.task_delayacct=1` before the program starts"
    )]
    Off,
    /// There is no way to the kernel's account.
    #[error("cannot open a netlink socket for delays: {0}")]
    Connect(io::Error),
    #[error("cannot read delays: CAP_NET_ADMIN is missing; run as root")]
    NotPermitted,
    /// The kernel answers with something else.
    #[error("cannot read delays: {0}")]
    Refused(io::Error),
}

/// The way to ask for [`Delays`].
#[derive(Debug)]
pub struct DelayAccounting {
    socket: OwnedFd,
    family: u16,
}

impl DelayAccounting {
    /// Opens it.
    ///
    /// # Errors
    /// When the kernel keeps no account, or does not tell this user.
    pub fn open() -> Result<DelayAccounting, DelaysError> {
        if !sysctl::has_delay_accounting().map_err(DelaysError::NotBuilt)? {
            return Err(DelaysError::Off);
        }
        let opened = connect().map_err(DelaysError::Connect)?;
        // Asking for one's own shows whether one may ask.
        match opened.of(std::process::id()) {
            Ok(_) => Ok(opened),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(DelaysError::NotPermitted),
            Err(error) => Err(DelaysError::Refused(error)),
        }
    }

    /// The delays of process `pid`, which may have ended if its parent has not waited for it yet.
    ///
    /// # Errors
    /// The system's error: `NotFound` (as the raw error ESRCH) when there is no such process.
    pub fn of(&self, pid: u32) -> io::Result<Delays> {
        // The values of a process omit threads that ended while it had only one.
        let whole = self.ask(BY_PROCESS, pid)?;
        let first = self.ask(BY_THREAD, pid)?;
        Ok(whole.max(first))
    }

    fn ask(&self, by: u16, pid: u32) -> io::Result<Delays> {
        let answer = call(&self.socket, self.family, GET, by, &pid.to_ne_bytes())?;
        // One attribute holds two: the number, and the values.
        let counters = attributes(&answer)
            .next()
            .and_then(|(_, both)| attributes(both).find(|(kind, _)| *kind == STATS))
            .map(|(_, counters)| counters)
            .ok_or_else(garbled)?;
        if counters.get(..2) == Some(&SHUFFLED_VERSION.to_ne_bytes()) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel's version of the account, 15, has its counters in other places",
            ));
        }
        let at = |offset: usize| {
            let bytes = counters
                .get(offset..offset + 8)
                .and_then(|bytes| bytes.try_into().ok());
            // An older kernel has fewer values.
            bytes.map_or(0, u64::from_ne_bytes)
        };
        Ok(Delays {
            swap_in_ns: at(SWAP_IN),
            thrashing_ns: at(THRASHING),
            reclaim_ns: at(RECLAIM),
            compaction_ns: at(COMPACTION),
            copy_ns: at(COPY),
        })
    }
}

fn connect() -> io::Result<DelayAccounting> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::GENERIC),
    )?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    let answer = call(&socket, CONTROLLER, GET_FAMILY, FAMILY_NAME, b"TASKSTATS\0")?;
    let family = attributes(&answer)
        .find(|(kind, _)| *kind == FAMILY_ID)
        .and_then(|(_, bytes)| Some(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?)))
        .ok_or_else(garbled)?;
    Ok(DelayAccounting { socket, family })
}

/// Sends a command with one attribute and returns the attributes of the answer, which the kernel gives at once.
fn call(socket: &OwnedFd, family: u16, command: u8, attribute: u16, value: &[u8]) -> io::Result<Vec<u8>> {
    let attribute_length = ATTRIBUTE_HEADER + value.len();
    let length = NETLINK_HEADER + GENERIC_HEADER + attribute_length.next_multiple_of(4);
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    // Sequence and port, which the kernel fills in.
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend((attribute_length as u16).to_ne_bytes());
    message.extend(attribute.to_ne_bytes());
    message.extend(value);
    message.resize(length, 0);
    send(socket, &message, SendFlags::empty())?;
    let mut answer = vec![0; 4096];
    let (received, _) = recv(socket, answer.as_mut_slice(), RecvFlags::empty())?;
    answer.truncate(received);
    let kind = answer.get(4..6).ok_or_else(garbled)?;
    if kind == ERROR.to_ne_bytes() {
        let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok());
        let code = code.map(i32::from_ne_bytes).ok_or_else(garbled)?;
        return Err(io::Error::from_raw_os_error(code.saturating_neg()));
    }
    let headers = (NETLINK_HEADER + GENERIC_HEADER).min(answer.len());
    Ok(answer.split_off(headers))
}

/// The attributes in `bytes`, by type.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let header = bytes.get(..ATTRIBUTE_HEADER)?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]);
        let value = bytes.get(ATTRIBUTE_HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn garbled() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the kernel's answer is not as it should be",
    )
}
