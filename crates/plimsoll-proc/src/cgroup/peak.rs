//! The most memory that was charged to a cgroup since a moment: `memory.max_usage_in_bytes` (v1), `memory.peak` (v2).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::{CgroupVersion, MemoryCgroup};
use crate::fields::first_number;

/// The kernel's counter of the most memory, set back to the usage at the start.
///
/// v1 has one counter for everybody. In v2 each open file has its own since Linux 6.12; earlier kernels cannot set it back:
/// it then counts if it has grown.
#[derive(Debug)]
pub struct PeakUsage {
    file: File,
    /// The value at the start, where the kernel cannot set it back.
    before: Option<u64>,
}

impl PeakUsage {
    /// Sets the counter back, where the kernel can. None without a counter.
    pub fn start(cgroup: &MemoryCgroup) -> Option<PeakUsage> {
        let name = match cgroup.version() {
            CgroupVersion::V1 => "memory.max_usage_in_bytes",
            CgroupVersion::V2 => "memory.peak",
        };
        let path = cgroup.file(name);
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        // Any text sets it back; the root of v2 and earlier kernels refuse.
        let set_back = opened.and_then(|mut file| file.write_all(b"0").map(|()| file));
        match set_back {
            Ok(file) => Some(PeakUsage { file, before: None }),
            Err(_) => PeakUsage::beyond(File::open(path).ok()?),
        }
    }

    /// The counter of a kernel that cannot set it back.
    fn beyond(file: File) -> Option<PeakUsage> {
        let mut counter = PeakUsage { file, before: None };
        counter.before = Some(counter.number().ok()?);
        Some(counter)
    }

    /// Bytes of the most memory since the start; `None` where the kernel could not set its counter back, and it shows a
    /// peak before the start.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn bytes(&mut self) -> io::Result<Option<u64>> {
        let most = self.number()?;
        Ok(Some(most).filter(|most| self.before.is_none_or(|before| *most > before)))
    }

    fn number(&mut self) -> io::Result<u64> {
        let mut text = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_end(&mut text)?;
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
        assert_eq!(peak.bytes().unwrap(), Some(0));
        fs::write(&file, "4096\n").unwrap();
        assert_eq!(peak.bytes().unwrap(), Some(4096));
        let bare = MemoryCgroup::new(folder.path(), CgroupVersion::V2);
        assert!(PeakUsage::start(&bare).is_none());
    }

    /// Before Linux 6.12, a program that grew between two samples had a peak that was too small: its base did not fit.
    #[test]
    fn a_counter_that_cannot_be_set_back_counts_if_it_grows() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.peak");
        fs::write(&file, "8192\n").unwrap();
        let mut peak = PeakUsage::beyond(File::open(&file).unwrap()).unwrap();
        assert_eq!(peak.bytes().unwrap(), None);
        fs::write(&file, "12288\n").unwrap();
        assert_eq!(peak.bytes().unwrap(), Some(12288));
        let mut later = PeakUsage::beyond(File::open(&file).unwrap()).unwrap();
        assert_eq!(later.bytes().unwrap(), None);
    }
}
