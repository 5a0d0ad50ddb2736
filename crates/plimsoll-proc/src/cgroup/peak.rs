//! The most memory that was charged to a cgroup since a moment: `memory.max_usage_in_bytes` (v1), `memory.peak` (v2).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::{CgroupVersion, MemoryCgroup};
use crate::fields::first_number;

/// The kernel's counter of the most memory, set back to the usage at the start.
///
/// v1 has one counter for everybody. In v2 each open file has its own since Linux 6.12; earlier kernels cannot set it back.
#[derive(Debug)]
pub struct PeakUsage(File);

impl PeakUsage {
    /// Sets the counter back. None where the kernel cannot.
    pub fn start(cgroup: &MemoryCgroup) -> Option<PeakUsage> {
        let name = match cgroup.version() {
            CgroupVersion::V1 => "memory.max_usage_in_bytes",
            CgroupVersion::V2 => "memory.peak",
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(cgroup.file(name))
            .ok()?;
        // Any text sets it back; the root of v2 and earlier kernels refuse.
        file.write_all(b"0").ok()?;
        Some(PeakUsage(file))
    }

    /// Bytes of the most memory since the start.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn bytes(&mut self) -> io::Result<u64> {
        let mut text = Vec::new();
        self.0.seek(SeekFrom::Start(0))?;
        self.0.read_to_end(&mut text)?;
        first_number(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_counter_is_set_back_and_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.max_usage_in_bytes");
        fs::write(&file, "9").unwrap();
        let cgroup = MemoryCgroup::new(folder.path(), CgroupVersion::V1);
        let mut peak = PeakUsage::start(&cgroup).unwrap();
        assert_eq!(peak.bytes().unwrap(), 0);
        fs::write(&file, "4096\n").unwrap();
        assert_eq!(peak.bytes().unwrap(), 4096);
        let bare = MemoryCgroup::new(folder.path(), CgroupVersion::V2);
        assert!(PeakUsage::start(&bare).is_none());
    }
}
