//! Capabilities (`capabilities(7)`), as the line `CapEff` of `/proc/PID/status` has them.

use super::{Security, Tree};

/// A capability and its bit in the kernel's masks (`<linux/capability.h>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// Its name in the kernel's header.
    pub name: &'static str,
    bit: u32,
}

/// Lock more memory than RLIMIT_MEMLOCK.
pub const IPC_LOCK: Capability = Capability {
    name: "CAP_IPC_LOCK",
    bit: 14,
};
/// Look into processes of other users.
pub const SYS_PTRACE: Capability = Capability {
    name: "CAP_SYS_PTRACE",
    bit: 19,
};
/// Swap, mounts, zram, most of sysfs.
pub const SYS_ADMIN: Capability = Capability {
    name: "CAP_SYS_ADMIN",
    bit: 21,
};
/// Advise on the memory of other processes.
pub const SYS_NICE: Capability = Capability {
    name: "CAP_SYS_NICE",
    bit: 23,
};
/// Performance events.
pub const PERFMON: Capability = Capability {
    name: "CAP_PERFMON",
    bit: 38,
};

/// A set of capabilities.
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

/// Whether this process has a capability in effect; not, where that is unknown.
pub fn this_process_has(capability: Capability) -> bool {
    let status = Tree::live().bytes("proc/self/status").unwrap_or_default();
    let set = Security::parse(&status).capabilities;
    set.is_some_and(|set| set.has(capability))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_of_a_status_file() {
        let set = |text: &[u8]| Security::parse(text).capabilities;
        let admin = set(b"Name:\tx\nCapEff:\t0000000000200000\n").unwrap();
        assert!(admin.has(SYS_ADMIN) && !admin.has(SYS_NICE));
        assert_eq!(set(b"Name:\tx\n"), None);
        assert_eq!(set(b"CapEff:\tno mask\n"), None);
    }
}
