//! The memory of a workload whose worker fills it once and rests between its phases.

use serde::{Deserialize, Serialize};

use super::{Settings, Unfit};
use crate::quantity;
use crate::scenario::assignment::{Assignment, Key, PAGE, Preset, key};
use crate::scenario::choice::{Choice, named};
use crate::scenario::error::Invalid;
use crate::scenario::kind::Kind;
use crate::scenario::model::{FillClass, Subject, ThpMode};
use crate::scenario::shared_keys;
use crate::scenario::speed::SpeedHints;
use crate::scenario::value::Value;

/// Settings that such workloads share. In a document they stand among the workload's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Filling {
    pub class: FillClass,
    /// Bytes that the worker fills.
    pub size: u64,
    /// Seconds of rest after the fill and after the next phase.
    pub hold: f64,
    /// Transparent huge pages for the memory.
    pub thp: ThpMode,
    /// The store behind it. Recordings of earlier versions have neither this nor the threads.
    #[serde(default)]
    pub memory: Backing,
    /// Threads of the worker, each with a part of the memory of its own.
    #[serde(default = "one")]
    pub threads: u32,
}

fn one() -> u32 {
    1
}

/// The store behind the pages of a worker's memory. As text, with the names of `mapping`: `anonymous`, `memfd`, `file`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backing {
    /// Private and anonymous: pages go to swap.
    #[default]
    Anonymous,
    /// Memory files, shared (shmem): pages go to swap.
    Memfd,
    /// Files on a disk, shared: pages go to their file.
    File,
}

named!(
    Backing,
    "anonymous" = Backing::Anonymous,
    "memfd" = Backing::Memfd,
    "file" = Backing::File,
);

impl Backing {
    /// The store of this name; none of an unknown one.
    pub fn named(name: &str) -> Option<Backing> {
        Backing::of_name(name)
    }

    /// Whether trimmed pages go to swap.
    pub fn goes_to_swap(self) -> bool {
        self != Backing::File
    }
}

pub(super) const MEMORY: Key = key(
    "memory",
    Kind::Choice(Backing::NAMES),
    Preset::Text("anonymous"),
    "the store behind the worker's memory: none, memory files, or files without a name in `swap-dir`, to which their pages \
     go instead of to swap",
);

pub(super) const THREADS: Key =
    shared_keys::threads("threads of the worker, each of which works on its own part of the memory");

/// The subject of memory that may be a file's: then it is `none`, as no page goes to swap.
pub(super) const SUBJECT: Key = key(
    "subject",
    Kind::Subject,
    Preset::Text("zram"),
    "the place of trimmed pages, which is under test; with `memory = \"file\"` always `none`",
)
.adjusted(|values, subject, _| {
    Ok(match values.choice::<Backing>("memory")?.goes_to_swap() {
        true => subject,
        false => Value::Subject(Subject::NoSwap),
    })
});

impl Filling {
    /// Of a workload whose memory is anonymous and whose worker has one thread.
    pub(super) fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        Ok(Filling {
            class: values.class("class")?,
            size: values.bytes("size")?,
            hold: values.number("hold")?,
            thp: values.choice("thp")?,
            memory: Backing::Anonymous,
            threads: 1,
        })
    }

    /// Of a workload with the keys [`MEMORY`] and [`THREADS`].
    pub(super) fn read_all(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        Ok(Filling {
            memory: values.choice("memory")?,
            threads: values.count("threads")?,
            ..Filling::read(values)?
        })
    }

    /// The parameters of it that a trial's record names.
    pub(super) fn params(&self) -> Vec<(&'static str, String)> {
        vec![
            ("size", self.size.to_string()),
            ("class", self.class.to_string()),
            ("memory", self.memory.name().to_owned()),
            ("threads", self.threads.to_string()),
        ]
    }

    /// Seconds in which its pages go to their store and come back.
    pub(super) fn stored_seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64 {
        match self.memory.goes_to_swap() {
            true => hints.stored_seconds(&settings.subject, &self.class, self.size),
            false => hints.disk_seconds(self.size),
        }
    }

    /// Rejects more threads than pages.
    pub(super) fn check(&self) -> Result<(), Unfit> {
        if u64::from(self.threads) <= self.size / PAGE {
            return Ok(());
        }
        Err(Unfit::new(format!(
            "`threads` is {}, more than the pages of the size of {}: each thread works on its own pages; lower `threads` or \
             raise `size`",
            self.threads,
            quantity::bytes(self.size as f64),
        )))
    }
}
