//! `/proc/PID/status` (`proc_pid_status(5)`): memory, user and rights of a process.

use super::fields::{first_number, kib, lines, number, words};

/// The lines `key: value` of the file. The kernel escapes a line feed in the name, so that no name can make a line.
fn keyed(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines(text).filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((&line[..colon], &line[colon + 1..]))
    })
}

/// Memory and user. Sizes are bytes. Kernel threads and processes that are ending have no memory and none of its
/// fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PidStatus {
    /// The process that the thread belongs to.
    pub process: Option<u32>,
    pub uid: Option<u32>,
    /// Whether a debugger traces it.
    pub is_traced: bool,
    /// Largest resident size that it ever had.
    pub peak_resident: Option<u64>,
    /// Resident bytes that no file is behind.
    pub anon: Option<u64>,
    /// Resident bytes of mapped files.
    pub file: Option<u64>,
    /// Resident bytes of shared memory and tmpfs.
    pub shmem: Option<u64>,
    /// Bytes swapped out, shared memory apart.
    pub swap: Option<u64>,
    /// Bytes in pages of hugetlbfs.
    pub huge: Option<u64>,
    /// Locked bytes.
    pub locked: Option<u64>,
    /// Bytes of address space.
    pub address_space: Option<u64>,
    /// Bytes of data segments, which `ulimit -d` counts.
    pub data: Option<u64>,
}

impl PidStatus {
    pub fn parse(text: &[u8]) -> PidStatus {
        let mut status = PidStatus::default();
        let id = |word: Option<&[u8]>| word.and_then(number).and_then(|id| u32::try_from(id).ok());
        for (key, value) in keyed(text) {
            match key {
                b"Tgid" => status.process = id(words(value).next()),
                b"Uid" => status.uid = id(words(value).nth(1)),
                b"TracerPid" => status.is_traced = id(words(value).next()).is_some_and(|tracer| tracer != 0),
                b"VmSize" => status.address_space = kib(value),
                b"VmLck" => status.locked = kib(value),
                b"VmHWM" => status.peak_resident = kib(value),
                b"RssAnon" => status.anon = kib(value),
                b"RssFile" => status.file = kib(value),
                b"RssShmem" => status.shmem = kib(value),
                b"VmData" => status.data = kib(value),
                b"VmSwap" => status.swap = kib(value),
                b"HugetlbPages" => status.huge = kib(value),
                // Follows the memory: nothing of interest comes after it.
                b"Threads" => break,
                _ => {}
            }
        }
        status
    }

    /// Bytes of the working set: anonymous memory, files and shared memory that are resident.
    pub fn wss(&self) -> Option<u64> {
        self.anon?.checked_add(self.file?)?.checked_add(self.shmem?)
    }
}

/// Bytes swapped out, for a caller that wants nothing else and does so on every tick.
pub fn swapped(text: &[u8]) -> Option<i64> {
    let key = b"\nVmSwap:";
    let at = text.windows(key.len()).position(|window| window == key)?;
    let kib = words(&text[at + key.len()..]).next().and_then(number)?;
    kib.checked_mul(1024)
}

/// A capability and its bit in the kernel's masks (`<linux/capability.h>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// Its name in the kernel's header.
    pub name: &'static str,
    bit: u32,
}

impl Capability {
    pub(super) const fn new(name: &'static str, bit: u32) -> Capability {
        Capability { name, bit }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// Parses the mask, 16 hexadecimal digits.
    pub fn parse(mask: &[u8]) -> Option<Capabilities> {
        let mask = std::str::from_utf8(mask.trim_ascii()).ok()?;
        u64::from_str_radix(mask, 16).ok().map(Capabilities)
    }

    /// Whether the capability is in the set.
    pub fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability.bit) != 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seccomp {
    Disabled,
    /// Read, write and exit alone.
    Strict,
    /// A filter of the process's own or of its container.
    Filter,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Security {
    pub uid: Option<u32>,
    pub capabilities: Option<Capabilities>,
    pub seccomp: Option<Seccomp>,
    /// Whether privileges can never grow (`no_new_privs`): `sudo` does not work then.
    pub no_new_privileges: bool,
}

impl Security {
    pub fn parse(text: &[u8]) -> Security {
        let mut security = Security {
            uid: PidStatus::parse(text).uid,
            ..Security::default()
        };
        for (key, value) in keyed(text) {
            match key {
                b"CapEff" => security.capabilities = Capabilities::parse(value),
                b"NoNewPrivs" => security.no_new_privileges = first_number(value) == Some(1),
                b"Seccomp" => {
                    security.seccomp = match first_number(value) {
                        Some(0) => Some(Seccomp::Disabled),
                        Some(1) => Some(Seccomp::Strict),
                        Some(2) => Some(Seccomp::Filter),
                        _ => None,
                    }
                }
                _ => {}
            }
        }
        security
    }
}
