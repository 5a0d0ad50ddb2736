//! Memory charged to the target's cgroup, in either version of cgroups.

use std::path::{Path, PathBuf};

use plimsoll_proc::cgroup::{CgroupVersion, Field, STAT, UNLIMITED};
use plimsoll_proc::fields::{KeyedLines, number};
use plimsoll_proc::{KeptFile, RepeatedLines};

use super::fields::read_into;
use super::psi::PressureFile;
use plimsoll_model::columns::{Row, col};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupFiles {
    /// Bytes charged: `memory.usage_in_bytes` or `memory.current`.
    pub usage: PathBuf,
    /// Bytes of swap charged, and nothing else: `memory.swap.current`. None in v1, where `memory.stat` has it.
    pub swap: Option<PathBuf>,
    pub stat: PathBuf,
    /// `memory.pressure`, of v2.
    pub pressure: Option<PathBuf>,
    /// The cap that `plimsoll size` lowers; no other command records it.
    pub cap: Option<PathBuf>,
}

impl CgroupFiles {
    /// Those of the cgroup at `folder` (of the memory controller's hierarchy).
    pub fn of(folder: &Path, version: CgroupVersion) -> Self {
        CgroupFiles {
            usage: folder.join(version.usage_file()),
            swap: version.swap_file().map(|name| folder.join(name)),
            stat: folder.join(STAT),
            pressure: version.pressure_file().map(|name| folder.join(name)),
            cap: None,
        }
    }

    /// Also reads the file `cap` of the cgroup, which holds bytes or `max`.
    #[must_use]
    pub fn with_cap(mut self, cap: PathBuf) -> Self {
        self.cap = Some(cap);
        self
    }
}

pub(crate) struct Cgroup {
    usage: KeptFile,
    swap: KeptFile,
    stat: KeptFile,
    keys: RepeatedLines<32>,
    pressure: Option<PressureFile>,
    cap: KeptFile,
}

impl Cgroup {
    pub(crate) fn open(files: &CgroupFiles) -> Self {
        Cgroup {
            usage: KeptFile::open(&files.usage),
            swap: files.swap.as_ref().map_or(KeptFile::NONE, KeptFile::open),
            stat: KeptFile::open(&files.stat),
            keys: keys(),
            pressure: files
                .pressure
                .as_ref()
                .map(|path| PressureFile::open(path, col::CGROUP_PSI_SOME_US, Some(col::CGROUP_PSI_FULL_US))),
            cap: files.cap.as_ref().map_or(KeptFile::NONE, KeptFile::open),
        }
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8], row: &mut Row) {
        if let Some(bytes) = self.usage.read(buffer).and_then(number) {
            row.set(col::CGROUP_USAGE, bytes);
        }
        if let Some(text) = self.stat.read(buffer) {
            read_into(&mut self.keys, text, row);
        }
        if let Some(bytes) = self.swap.read(buffer).and_then(number) {
            row.set(col::CGROUP_SWAP, bytes);
        }
        if let Some(pressure) = &self.pressure {
            pressure.read(buffer, row);
        }
        // `max`, and v1's number for no limit, are no cap.
        let cap = self.cap.read(buffer).and_then(number);
        if let Some(bytes) = cap.filter(|bytes| bytes.unsigned_abs() < UNLIMITED) {
            row.set(col::CGROUP_CAP, bytes);
        }
    }
}

/// The names of both versions; no `memory.stat` has both.
fn keys() -> RepeatedLines<32> {
    let mut keys = KeyedLines::new();
    for (field, column) in [
        (Field::Anon, col::CGROUP_ANON),
        (Field::File, col::CGROUP_FILE),
        (Field::Swap, col::CGROUP_SWAP),
        (Field::SwapCached, col::CGROUP_SWAP_CACHED),
        (Field::RefaultsAnon, col::CGROUP_REFAULT_ANON),
        (Field::RefaultsFile, col::CGROUP_REFAULT_FILE),
    ] {
        for version in [CgroupVersion::V1, CgroupVersion::V2] {
            if let Some(name) = field.key(version) {
                keys.insert(name, column, 1);
            }
        }
    }
    RepeatedLines::new(keys)
}

/// Parses the text of `memory.stat`: for tests, which bring their own.
pub fn parse_stat(text: &[u8], row: &mut Row) {
    read_into(&mut keys(), text, row);
}
