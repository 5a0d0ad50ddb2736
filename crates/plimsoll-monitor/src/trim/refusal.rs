//! The reason for a refused trim, and its remedy.

use std::fmt;

use plimsoll_proc::capabilities::{SYS_NICE, SYS_PTRACE};
use plimsoll_proc::{Security, Tree};

/// Why the kernel refuses a trim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// This process lacks capabilities.
    Capabilities {
        missing: Vec<&'static str>,
        /// The user is root, so that `sudo` adds nothing.
        root: bool,
    },
    /// This process has the capabilities, so a security module or a user namespace refuses.
    Policy,
    /// The control files of the cgroup are not writable.
    ControlFiles,
}

impl Refusal {
    /// The reason for a refused access to another process.
    pub(super) fn of_process() -> Refusal {
        Self::from_status(&Tree::live().bytes("proc/self/status").unwrap_or_default())
    }

    fn from_status(status: &[u8]) -> Refusal {
        let security = Security::parse(status);
        let held = |capability| security.capabilities.is_some_and(|set| set.has(capability));
        let needed = [SYS_NICE, SYS_PTRACE];
        let missing: Vec<&str> = needed
            .into_iter()
            .filter(|capability| !held(*capability))
            .map(|capability| capability.name)
            .collect();
        match missing.is_empty() {
            true => Refusal::Policy,
            false => Refusal::Capabilities {
                missing,
                root: security.uid == Some(0),
            },
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Capabilities { missing, root: false } => write!(
                f,
                "this user lacks {}: run as root, or `setcap cap_sys_nice,cap_sys_ptrace+ep` the program",
                missing.join(" and ")
            ),
            Refusal::Capabilities { missing, root: true } => write!(
                f,
                "root lacks {} here: add them to the container, for instance with `--cap-add SYS_NICE --cap-add \
                 SYS_PTRACE`",
                missing.join(" and ")
            ),
            Refusal::Policy => f.write_str(
                "this process has CAP_SYS_NICE and CAP_SYS_PTRACE, so a security module (Landlock, SELinux, AppArmor, \
                 Yama) or a user namespace protects that process: trim it from outside this sandbox, or trim its \
                 cgroup with `--cgroup`",
            ),
            Refusal::ControlFiles => f.write_str(
                "it needs write access to that file: run as root, or as the user that the cgroup is delegated to",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_hears_of_missing_capabilities_and_of_policies() {
        let refusal = |uid: u32, mask: &str| {
            let status = format!("Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapEff:\t{mask}\n");
            Refusal::from_status(status.as_bytes())
        };
        let both = vec!["CAP_SYS_NICE", "CAP_SYS_PTRACE"];
        assert_eq!(
            refusal(1000, "0000000000000000"),
            Refusal::Capabilities {
                missing: both.clone(),
                root: false
            }
        );
        // Docker's capabilities of root.
        let docker = refusal(0, "00000000a80425fb");
        assert_eq!(
            docker,
            Refusal::Capabilities {
                missing: both,
                root: true
            }
        );
        // The remedies: capabilities for the container, or a trim of the cgroup.
        let said = docker.to_string();
        for word in [
            "CAP_SYS_NICE",
            "CAP_SYS_PTRACE",
            "--cap-add SYS_NICE",
            "--cap-add SYS_PTRACE",
        ] {
            assert!(said.contains(word), "{word}: {said}");
        }
        // Everything but CAP_SYS_RESOURCE, in a sandbox that protects its init.
        let sandbox = refusal(0, "000001fffeffffff");
        assert_eq!(sandbox, Refusal::Policy);
        let said = sandbox.to_string();
        assert!(
            said.contains("`--cgroup`") && !said.contains("--cap-add"),
            "{said}"
        );
    }
}
