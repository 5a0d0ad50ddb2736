//! The hardware and settings of a host, without values that are unique to it or that move by themselves: two hosts of a class
//! have equal fingerprints except for their names, unless one is set up differently.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub const VERSION: u32 = 1;

/// `host.json` of a task's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// [`VERSION`].
    pub version: u32,
    pub host: String,
    /// Vendor and product of the machine, and its CPU.
    pub machine: String,
    /// `uname -r` and `-v`.
    pub kernel: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    /// `uname -m`.
    pub architecture: String,
    /// Before the run.
    pub swap: Vec<SwapDevice>,
    /// By path.
    pub settings: BTreeMap<String, String>,
    /// Of the file of hosts.
    #[serde(default)]
    pub class: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwapDevice {
    /// `zram`, `partition` or `file`.
    pub kind: String,
    pub bytes: u64,
    /// Compression algorithm of zram.
    #[serde(default)]
    pub algorithm: Option<String>,
}

impl Fingerprint {
    /// Hosts of one class are comparable: the class of the file of hosts, or the same hardware.
    pub fn class_key(&self) -> String {
        if let Some(class) = &self.class {
            return class.clone();
        }
        const GIB: u64 = 1 << 30;
        let memory = self.memory_bytes.saturating_add(GIB / 2) / GIB;
        format!(
            "{}, {}, {} CPUs, {memory} GiB",
            self.architecture, self.machine, self.cpus
        )
    }
}
