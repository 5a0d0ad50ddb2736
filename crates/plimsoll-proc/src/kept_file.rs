//! A file of /proc or /sys that is opened once and read again and again.

use std::fs::File;
use std::path::Path;

use rustix::io::Errno;

/// Size of the one buffer that all files are read into. /proc/vmstat, the longest that is read whole, has 4 KiB.
pub const BUFFER: usize = 32 * 1024;

/// A kept-open file. One that could not be opened reads as nothing, for ever.
pub struct KeptFile(Option<File>);

impl KeptFile {
    pub const NONE: KeptFile = KeptFile(None);

    /// Opens `path`, if it is there and may be read.
    pub fn open(path: impl AsRef<Path>) -> Self {
        KeptFile(File::open(path).ok())
    }

    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Reads from the start with one call. That is the whole of a file the kernel writes as a single record (meminfo,
    /// stat, pressure, schedstat, statm, files of sysfs and of cgroups).
    pub fn read<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let length = self.read_at(buffer, 0)?;
        Some(&buffer[..length])
    }

    /// Reads from the start to the end, which a file of many records (vmstat, swaps) takes a call a page for. Where
    /// the buffer is too small, the last line that is not whole is left out.
    pub fn read_to_end<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let mut length = 0;
        while length < buffer.len() {
            match self.read_at(&mut buffer[length..], length as u64)? {
                0 => return Some(&buffer[..length]),
                more => length += more,
            }
        }
        let whole = buffer
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        Some(&buffer[..whole])
    }

    /// As [`KeptFile::read_to_end`], for a file whose records are at most `longest` bytes, which needs no last call: the
    /// kernel fills a page as long as a record fits (`seq_read`), so a page with more room than that is the last one.
    pub fn read_records<'b>(&self, buffer: &'b mut [u8], longest: usize) -> Option<&'b [u8]> {
        let full = rustix::param::page_size().saturating_sub(longest);
        let mut length = 0;
        while length < buffer.len() {
            let more = self.read_at(&mut buffer[length..], length as u64)?;
            length += more;
            if more < full.max(1) && length < buffer.len() {
                return Some(&buffer[..length]);
            }
        }
        self.read_to_end(buffer)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Option<usize> {
        let file = self.0.as_ref()?;
        loop {
            match rustix::io::pread(file, &mut *buffer, offset) {
                Ok(length) => return Some(length),
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }
}
