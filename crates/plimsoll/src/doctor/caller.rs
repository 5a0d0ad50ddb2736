//! Who is asking: user, capabilities, filters, limits.

use plimsoll_sample::host::Tree;

/// A capability and its bit in the kernel's masks (`<linux/capability.h>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capability {
    pub(super) name: &'static str,
    bit: u32,
}

/// Lock more memory than RLIMIT_MEMLOCK.
pub(super) const IPC_LOCK: Capability = Capability {
    name: "CAP_IPC_LOCK",
    bit: 14,
};
/// Swap, mounts, zram, most of sysfs.
pub(super) const SYS_ADMIN: Capability = Capability {
    name: "CAP_SYS_ADMIN",
    bit: 21,
};
/// The capabilities that experiments use.
pub(super) const USED: [Capability; 5] = [
    SYS_ADMIN,
    IPC_LOCK,
    Capability {
        name: "CAP_SYS_PTRACE",
        bit: 19,
    },
    Capability {
        name: "CAP_SYS_NICE",
        bit: 23,
    },
    Capability {
        name: "CAP_PERFMON",
        bit: 38,
    },
];

/// The process that examines, from `/proc/self`.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// Effective user id.
    pub(super) uid: Option<u32>,
    /// Effective capabilities.
    capabilities: Option<u64>,
    /// `disabled`, `strict` or `filter`.
    pub(super) seccomp: &'static str,
    /// Whether privileges can never grow (`no_new_privs`): `sudo` does not work then.
    pub(super) no_new_privileges: bool,
    /// Soft limit of RLIMIT_MEMLOCK in bytes, `u64::MAX` for none.
    pub(super) memlock: Option<u64>,
}

impl Caller {
    pub(super) fn of(tree: &Tree) -> Caller {
        let status = |key| tree.field("proc/self/status", key);
        let seccomp = match status("Seccomp").as_deref() {
            Some("0") => "disabled",
            Some("1") => "strict",
            Some("2") => "filter",
            _ => "unknown",
        };
        Caller {
            uid: status("Uid").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok()),
            capabilities: status("CapEff").and_then(|mask| u64::from_str_radix(&mask, 16).ok()),
            seccomp,
            no_new_privileges: status("NoNewPrivs").as_deref() == Some("1"),
            memlock: memlock(tree),
        }
    }

    /// Whether it has the capability; not, where that is unknown.
    pub(super) fn has(&self, capability: Capability) -> bool {
        self.capabilities
            .is_some_and(|mask| mask & (1 << capability.bit) != 0)
    }

    /// Whether the capabilities are known at all.
    pub(super) fn capabilities_known(&self) -> bool {
        self.capabilities.is_some()
    }
}

fn memlock(tree: &Tree) -> Option<u64> {
    let limits = tree.read("proc/self/limits")?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        bytes => bytes.parse().ok(),
    }
}
