//! What the target's memory cgroup is charged for, in either version of cgroups.

use std::path::{Path, PathBuf};

use super::fields::{KeyedLines, number};
use super::kept_file::KeptFile;
use super::psi::PressureFile;
use plimsoll_model::columns::{Row, col};

/// The files of a memory cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupFiles {
    /// Bytes charged: `memory.usage_in_bytes` or `memory.current`.
    pub usage: PathBuf,
    /// Bytes of swap charged, and nothing else: `memory.swap.current`. None in v1, where `memory.stat` has it.
    pub swap: Option<PathBuf>,
    /// `memory.stat`.
    pub stat: PathBuf,
    /// `memory.pressure`, of v2.
    pub pressure: Option<PathBuf>,
}

impl CgroupFiles {
    /// Those of the v1 cgroup at `folder` (of the memory controller's hierarchy).
    pub fn v1(folder: &Path) -> Self {
        CgroupFiles {
            usage: folder.join("memory.usage_in_bytes"),
            swap: None,
            stat: folder.join("memory.stat"),
            pressure: None,
        }
    }

    /// Those of the v2 cgroup at `folder`.
    pub fn v2(folder: &Path) -> Self {
        CgroupFiles {
            usage: folder.join("memory.current"),
            swap: Some(folder.join("memory.swap.current")),
            stat: folder.join("memory.stat"),
            pressure: Some(folder.join("memory.pressure")),
        }
    }
}

/// The kept-open files.
pub(crate) struct Cgroup {
    usage: KeptFile,
    swap: KeptFile,
    stat: KeptFile,
    keys: KeyedLines<16>,
    pressure: Option<PressureFile>,
}

impl Cgroup {
    /// Opens them.
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
        }
    }

    /// Reads them into `row`.
    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) {
        if let Some(bytes) = self.usage.read(buffer).and_then(number) {
            row.set(col::CGROUP_USAGE, bytes);
        }
        if let Some(text) = self.stat.read(buffer) {
            self.keys.parse(text, row);
        }
        if let Some(bytes) = self.swap.read(buffer).and_then(number) {
            row.set(col::CGROUP_SWAP, bytes);
        }
        if let Some(pressure) = &self.pressure {
            pressure.read(buffer, row);
        }
    }
}

/// The names of v1 (with the children's share, `total_`) and of v2; no `memory.stat` has both.
fn keys() -> KeyedLines<16> {
    let mut keys = KeyedLines::new();
    for (name, column) in [
        ("total_rss", col::CGROUP_ANON),
        ("total_cache", col::CGROUP_FILE),
        ("total_swap", col::CGROUP_SWAP),
        ("anon", col::CGROUP_ANON),
        ("file", col::CGROUP_FILE),
    ] {
        keys.insert(name, column, 1);
    }
    keys
}

/// Parses the text of `memory.stat`: for tests, which bring their own.
pub fn parse_stat(text: &[u8], row: &mut Row) {
    keys().parse(text, row);
}
