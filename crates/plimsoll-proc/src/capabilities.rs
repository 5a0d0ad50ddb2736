//! Capabilities (`capabilities(7)`), as the line `CapEff` of `/proc/PID/status` has them.

use super::{Security, Tree};

pub use super::pid_status::{Capabilities, Capability};

/// Lock more memory than RLIMIT_MEMLOCK.
pub const IPC_LOCK: Capability = Capability::new("CAP_IPC_LOCK", 14);
/// Look into processes of other users.
pub const SYS_PTRACE: Capability = Capability::new("CAP_SYS_PTRACE", 19);
/// Swap, mounts, zram, most of sysfs.
pub const SYS_ADMIN: Capability = Capability::new("CAP_SYS_ADMIN", 21);
/// Advise on the memory of other processes.
pub const SYS_NICE: Capability = Capability::new("CAP_SYS_NICE", 23);
pub const PERFMON: Capability = Capability::new("CAP_PERFMON", 38);

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
