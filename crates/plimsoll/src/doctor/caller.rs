//! The calling process: user, capabilities, seccomp filter, limits.

use plimsoll_proc::capabilities::{Capabilities, Capability, PERFMON, SYS_NICE, SYS_PTRACE};
use plimsoll_proc::resource_limits::{Limit, Limits};
use plimsoll_proc::{Seccomp, Security, Tree};

pub(super) use plimsoll_proc::capabilities::{IPC_LOCK, SYS_ADMIN};

/// The capabilities that experiments use.
pub(super) const USED: [Capability; 5] = [SYS_ADMIN, IPC_LOCK, SYS_PTRACE, SYS_NICE, PERFMON];

/// The calling process, from `/proc/self`.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) uid: Option<u32>,
    capabilities: Option<Capabilities>,
    /// `disabled`, `strict` or `filter`.
    pub(super) seccomp: &'static str,
    /// `no_new_privs`: the process can gain no privileges, so `sudo` does not work.
    pub(super) no_new_privileges: bool,
    /// Soft limit of RLIMIT_MEMLOCK.
    pub(super) memlock: Option<Limit>,
}

impl Caller {
    pub(super) fn of(tree: &Tree) -> Caller {
        let security = Security::parse(&tree.bytes("proc/self/status").unwrap_or_default());
        let limits = Limits::parse(&tree.bytes("proc/self/limits").unwrap_or_default());
        Caller {
            uid: security.uid,
            capabilities: security.capabilities,
            seccomp: match security.seccomp {
                Some(Seccomp::Disabled) => "disabled",
                Some(Seccomp::Strict) => "strict",
                Some(Seccomp::Filter) => "filter",
                None => "unknown",
            },
            no_new_privileges: security.no_new_privileges,
            memlock: limits.locked,
        }
    }

    /// Whether the process has the capability; false if that is unknown.
    pub(super) fn has(&self, capability: Capability) -> bool {
        self.capabilities.is_some_and(|set| set.has(capability))
    }

    pub(super) fn capabilities_known(&self) -> bool {
        self.capabilities.is_some()
    }
}
