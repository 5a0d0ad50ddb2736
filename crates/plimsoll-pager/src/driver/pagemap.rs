//! The presence of pages, by `/proc/PID/pagemap` (`proc_pid_pagemap(5)`).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use plimsoll_os::Errno;

use crate::page::PAGE_SIZE;

/// The pagemap of a process. Its entries for present pages need no privilege beyond that of reading the process.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
}

impl Pagemap {
    /// The pagemap of the process `pid`.
    ///
    /// # Errors
    /// The process does not exist, or this one may not read it.
    pub fn of(pid: u32) -> io::Result<Pagemap> {
        File::open(format!("/proc/{pid}/pagemap")).map(|file| Pagemap { file })
    }

    /// The pagemap of this process.
    pub(crate) fn own() -> io::Result<Pagemap> {
        File::open("/proc/self/pagemap").map(|file| Pagemap { file })
    }

    /// The descriptor.
    pub(super) fn as_raw_fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Marks the presence of each page from the one at `address` on. Does not allocate.
    pub(crate) fn present(&self, address: usize, present: &mut [bool]) -> Result<(), Errno> {
        /// Entries that one call reads.
        const AT_ONCE: usize = 64;
        /// Bits of an entry: the page is present, or the kernel has swapped it out.
        const HAS_CONTENTS: u64 = 1 << 63 | 1 << 62;
        let mut at = (address / PAGE_SIZE * size_of::<u64>()) as u64;
        for piece in present.chunks_mut(AT_ONCE) {
            let mut bytes = [0; AT_ONCE * size_of::<u64>()];
            let bytes = &mut bytes[..piece.len() * size_of::<u64>()];
            let read = self.file.read_exact_at(bytes, at);
            read.map_err(|error| Errno::of_number(error.raw_os_error().unwrap_or(libc::EIO)))?;
            let (entries, _) = bytes.as_chunks();
            for (present, entry) in piece.iter_mut().zip(entries) {
                *present = u64::from_ne_bytes(*entry) & HAS_CONTENTS != 0;
            }
            at += bytes.len() as u64;
        }
        Ok(())
    }
}
