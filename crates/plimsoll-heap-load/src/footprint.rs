//! How much memory the process takes, as the kernel counts it. It parses the files itself, without an
//! allocation: one by `plimsoll-proc` would be in the memory that it measures.

use std::fs::File;
use std::io::{self, Read, Write};

use crate::error::LoadError;
use crate::value::Values;

/// Resident memory of this process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    pub now: u64,
    /// The most there was since [`Resident::restart_peak`], or since the process began where the kernel refuses that.
    pub peak: u64,
}

impl Resident {
    /// Reads both. Allocates nothing.
    ///
    /// From `/proc/self/smaps_rollup`, which walks the page tables: the cheaper counters, `statm` and `VmRSS`, are off
    /// by up to some hundred KiB a CPU. They serve where a kernel has no rollup.
    ///
    /// # Errors
    /// [`LoadError::Resident`] when `/proc` cannot be read.
    pub fn read() -> Result<Resident, LoadError> {
        let status = |key| kibibytes("/proc/self/status", key);
        let now = kibibytes("/proc/self/smaps_rollup", "Rss:")
            .or_else(|_| status("VmRSS:"))
            .map_err(LoadError::Resident)?;
        let peak = status("VmHWM:").map_err(LoadError::Resident)?;
        Ok(Resident {
            now,
            peak: peak.max(now),
        })
    }

    /// Has the kernel count the peak anew; where it refuses, the peak is that of the whole process.
    pub fn restart_peak() {
        if let Ok(mut file) = File::options().write(true).open("/proc/self/clear_refs") {
            // Refused in some containers; the documented fallback is the peak of the whole process.
            let _ = file.write_all(b"5");
        }
    }
}

/// The bytes of a line `Key:   123 kB`.
fn kibibytes(path: &str, key: &str) -> io::Result<u64> {
    let mut buffer = [0; 4096];
    let mut length = 0;
    let mut file = File::open(path)?;
    while length < buffer.len() {
        match file.read(&mut buffer[length..])? {
            0 => break,
            read => length += read,
        }
    }
    let text = String::from_utf8_lossy(&buffer[..length]);
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let missing = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{path} has no line {key} N kB"),
        )
    };
    number.map(|number| number * 1024).ok_or_else(missing)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Resident bytes before the first block, threads and the generator's tables included.
    pub before: u64,
    /// Bytes requested and live.
    pub live: u64,
    /// Resident bytes with them.
    pub resident: u64,
    /// The most that was resident.
    pub peak: u64,
}

impl Footprint {
    /// Resident bytes for the blocks: the growth since before the first one.
    pub fn growth(&self) -> u64 {
        self.resident.saturating_sub(self.before)
    }

    /// Growth over live bytes: 1 is ideal; the talk's memory efficiency is its inverse.
    pub fn per_live(&self) -> f64 {
        self.growth() as f64 / self.live as f64
    }

    pub(crate) fn values(&self, into: &mut Values) {
        into.count("live_bytes", self.live);
        into.count("resident_before_bytes", self.before);
        into.count("resident_bytes", self.resident);
        into.count("resident_growth_bytes", self.growth());
        into.count("peak_growth_bytes", self.peak.saturating_sub(self.before));
        into.real("resident_per_live", self.per_live());
    }
}
