//! The memory eater of Mangan (2016): fill, trim, restore, release.

use serde::{Deserialize, Serialize};

use super::{Filling, Model, Settings};
use crate::scenario::assignment::{Assignment, Key, Preset, key};
use crate::scenario::choice::named;
use crate::scenario::error::Invalid;
use crate::scenario::kind::Kind;
use crate::scenario::shared_keys::{self, CLASS, THP};
use crate::scenario::speed::SpeedHints;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compression {
    #[serde(flatten)]
    pub filling: Filling,
    /// Bytes of one allocation request (the worker maps `size` in requests of this many bytes).
    pub request: u64,
    pub trim: TrimMechanism,
}

/// How pages are made to leave the working set. As text: `worker`, `process-madvise`, `cgroup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrimMechanism {
    /// The worker calls `madvise(MADV_PAGEOUT)` on its own memory.
    Worker,
    /// The runner calls `process_madvise(MADV_PAGEOUT)` on the worker.
    ProcessMadvise,
    /// The runner reclaims the cgroup: `memory.reclaim` on v2, a lowered limit on v1.
    Cgroup,
}

named!(
    TrimMechanism,
    "worker" = TrimMechanism::Worker,
    "process-madvise" = TrimMechanism::ProcessMadvise,
    "cgroup" = TrimMechanism::Cgroup,
);

pub(in crate::scenario) const KEYS: &[Key] = &[
    CLASS,
    shared_keys::size("bytes that the worker fills"),
    shared_keys::request("bytes of one allocation; more than `size` means `size`"),
    key(
        "trim",
        Kind::Choice(TrimMechanism::NAMES),
        Preset::Text("worker"),
        "how pages are made to leave the working set",
    ),
    shared_keys::hold("rest after fill and after trim"),
    THP,
];

impl Model for Compression {
    fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        Ok(Compression {
            filling: Filling::read(values)?,
            request: values.bytes("request")?,
            trim: values.choice("trim")?,
        })
    }

    fn size(&self, _: &Settings) -> u64 {
        self.filling.size
    }

    fn filling(&self) -> Option<&Filling> {
        Some(&self.filling)
    }

    fn seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64 {
        self.rest_seconds(settings, hints)
            + hints.once_seconds(&settings.subject, &self.filling.class, self.filling.size)
    }

    fn params(&self, _: &Settings) -> Vec<(&'static str, String)> {
        vec![
            ("size", self.filling.size.to_string()),
            ("class", self.filling.class.to_string()),
            ("trim", self.trim.name().to_owned()),
        ]
    }
}
