//! The memory eater of Mangan (2016): fill, trim, restore, release.

use serde::{Deserialize, Serialize};

use super::{Model, Settings};
use crate::scenario::assignment::{Assignment, Key, Preset, key};
use crate::scenario::choice::named;
use crate::scenario::error::Invalid;
use crate::scenario::kind::Kind;
use crate::scenario::model::{FillClass, ThpMode};
use crate::scenario::shared_keys::{self, CLASS, THP};
use crate::scenario::speed::SpeedHints;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compression {
    pub class: FillClass,
    /// Bytes that the worker fills.
    pub size: u64,
    /// Bytes of one allocation request (the worker maps `size` in requests of this many bytes).
    pub request: u64,
    pub trim: TrimMechanism,
    /// Seconds of rest after fill and after trim.
    pub hold: f64,
    /// Transparent huge pages for the worker's memory.
    pub thp: ThpMode,
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
            class: values.class("class")?,
            size: values.bytes("size")?,
            request: values.bytes("request")?,
            trim: values.choice("trim")?,
            hold: values.number("hold")?,
            thp: values.choice("thp")?,
        })
    }

    fn size(&self, _: &Settings) -> u64 {
        self.size
    }

    fn filled(&self) -> Option<(&FillClass, ThpMode)> {
        Some((&self.class, self.thp))
    }

    fn rest_seconds(&self, _: &Settings, hints: &SpeedHints) -> f64 {
        hints.setup_s + 2.0 * self.hold
    }

    fn seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64 {
        self.rest_seconds(settings, hints) + hints.once_seconds(&settings.subject, &self.class, self.size)
    }

    fn params(&self, _: &Settings) -> Vec<(&'static str, String)> {
        vec![
            ("size", self.size.to_string()),
            ("class", self.class.to_string()),
            ("trim", self.trim.name().to_owned()),
        ]
    }
}
