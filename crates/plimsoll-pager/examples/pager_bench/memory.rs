//! The memory of a subject: a region of a pager, or a mapping under the kernel's swap.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use plimsoll_os::{Advice, Mapping};
use plimsoll_pager::{Codec, Pager, Region, TrimTo};

use crate::Options;

pub(crate) enum Memory {
    Pager(Pager, Region),
    Kernel(Kernel),
}

/// A mapping, with the files that tell and limit its use of RAM.
pub(crate) struct Kernel {
    mapping: Mapping,
    used: Option<Gauge>,
    cgroup: Option<PathBuf>,
    /// Bytes that the device and the cgroup used before the mapping was filled.
    before: (u64, u64),
}

impl Memory {
    /// Memory of `bytes` under a budget of `ram`, which the kernel's gets by [`Memory::hold`].
    pub(crate) fn new(options: &Options, bytes: usize, ram: usize) -> Result<Memory, Box<dyn Error>> {
        let codec = match options.subject.as_str() {
            "pager:lz4" => Codec::Lz4,
            "pager:zstd" => Codec::Zstd,
            "kernel" => {
                let mut kernel = Kernel {
                    mapping: Mapping::anonymous(bytes)?,
                    used: options.used.clone(),
                    cgroup: options.cgroup.clone(),
                    before: (0, 0),
                };
                kernel.before = (kernel.device()?, kernel.cgroup_bytes()?);
                return Ok(Memory::Kernel(kernel));
            }
            other => {
                return Err(
                    format!("unknown subject {other:?}; there are pager:lz4, pager:zstd and kernel").into(),
                );
            }
        };
        let pager = Pager::builder().ram(ram as u64).codec(codec).build()?;
        let region = pager.map(bytes)?;
        Ok(Memory::Pager(pager, region))
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match self {
            Memory::Pager(_, region) => region.bytes_mut(),
            Memory::Kernel(kernel) => kernel.mapping.bytes_mut(),
        }
    }

    /// Moves all pages to compressed copies.
    pub(crate) fn trim(&mut self) -> Result<(), Box<dyn Error>> {
        match self {
            Memory::Pager(_, region) => region.trim(.., TrimTo::Store).map(drop)?,
            Memory::Kernel(kernel) => kernel.mapping.advise(Advice::PageOut)?,
        }
        Ok(())
    }

    /// Bytes of RAM that the compressed copies take, metadata included, and of metadata alone where it is known.
    pub(crate) fn copies(&self) -> Result<(u64, u64), Box<dyn Error>> {
        Ok(match self {
            Memory::Pager(pager, _) => {
                let stats = pager.stats();
                (stats.store_bytes + stats.metadata_bytes, stats.metadata_bytes)
            }
            Memory::Kernel(kernel) => (kernel.device()?.saturating_sub(kernel.before.0), 0),
        })
    }

    /// Bytes of the region that are in RAM as pages.
    pub(crate) fn pages(&self) -> Result<u64, Box<dyn Error>> {
        Ok(match self {
            Memory::Pager(pager, _) => {
                let stats = pager.stats();
                stats.resident_bytes() - stats.store_bytes - stats.metadata_bytes
            }
            Memory::Kernel(kernel) => kernel.mapping.in_core()?,
        })
    }

    /// Has pages and compressed copies together take `ram` bytes: the kernel's cgroup gets the bytes that the device leaves.
    /// To be called until it settles; a pager holds its budget by itself.
    pub(crate) fn hold(&self, ram: u64) -> Result<(), Box<dyn Error>> {
        let Memory::Kernel(kernel) = self else {
            return Ok(());
        };
        let Some(cgroup) = &kernel.cgroup else {
            return Ok(());
        };
        let device = kernel.device()?.saturating_sub(kernel.before.0);
        let limit = kernel.before.1 + ram.saturating_sub(device).max(ram / 16);
        // The kernel refuses with EBUSY after some tries to reclaim; the next call goes on.
        let _ = fs::write(cgroup.join("memory.limit_in_bytes"), limit.to_string());
        Ok(())
    }

    /// Compressed pages and events of the pager, for the raw data.
    pub(crate) fn events(&self) -> Vec<(&'static str, f64)> {
        let Memory::Pager(pager, _) = self else {
            return Vec::new();
        };
        let stats = pager.stats();
        vec![
            ("hard_faults", stats.hard_faults as f64),
            ("soft_faults", stats.soft_faults as f64),
            ("stream_pages", stats.stream_pages as f64),
            ("trimmed_pages", stats.trimmed_pages as f64),
            ("direct_reclaims", stats.direct_reclaims as f64),
            ("taken_frames", stats.taken_frames as f64),
            ("compressed_pages", stats.compressed_pages as f64),
            ("store_bytes", stats.store_bytes as f64),
            ("forced_frames", stats.forced_frames as f64),
        ]
    }
}

impl Kernel {
    fn device(&self) -> Result<u64, Box<dyn Error>> {
        self.used.as_ref().map_or(Ok(0), Gauge::bytes)
    }

    fn cgroup_bytes(&self) -> Result<u64, Box<dyn Error>> {
        let gauge = |folder: &PathBuf| Gauge::Field(folder.join("memory.usage_in_bytes"), 0).bytes();
        self.cgroup.as_ref().map_or(Ok(0), gauge)
    }
}

/// A file of the kernel that tells a number of bytes.
#[derive(Debug, Clone)]
pub(crate) enum Gauge {
    /// The field with this number, from 0.
    Field(PathBuf, usize),
    /// The line with this name, in KiB.
    Line(PathBuf, String),
}

impl Gauge {
    /// `FILE:NUMBER` or `FILE:NAME`.
    pub(crate) fn of(text: &str) -> Option<Gauge> {
        let (path, field) = text.rsplit_once(':')?;
        Some(match field.parse() {
            Ok(number) => Gauge::Field(path.into(), number),
            Err(_) => Gauge::Line(path.into(), format!("{field}:")),
        })
    }

    fn bytes(&self) -> Result<u64, Box<dyn Error>> {
        let (Gauge::Field(path, _) | Gauge::Line(path, _)) = self;
        let text =
            fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let mut words = text.split_whitespace();
        let (number, unit) = match self {
            Gauge::Field(_, field) => (words.nth(*field), 1),
            Gauge::Line(_, name) => (words.skip_while(|word| word != name).nth(1), 1024),
        };
        let number: Option<u64> = number.and_then(|number| number.parse().ok());
        let bytes = number.map(|number| number * unit);
        bytes.ok_or_else(|| format!("{} has no such number", path.display()).into())
    }
}
