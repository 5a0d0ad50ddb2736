//! The presence of pages, by `/proc/PID/pagemap` (`proc_pid_pagemap(5)`).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use plimsoll_os::Errno;

use crate::page::PAGE_SIZE;

/// Entries that one call reads: few on the stack of a signal handler, and those of a chunk for the looks at all shared pages.
const FEW: usize = 64;
const MANY: usize = 512;
/// Bits of an entry: the page is present; the kernel has swapped it out; no other process maps it.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const EXCLUSIVE: u64 = 1 << 56;

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

    pub(crate) fn own() -> io::Result<Pagemap> {
        File::open("/proc/self/pagemap").map(|file| Pagemap { file })
    }

    pub(super) fn as_raw_fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Marks the presence of each page from the one at `address` on. Does not allocate.
    pub(crate) fn present(&self, address: usize, present: &mut [bool]) -> Result<(), Errno> {
        self.entries::<FEW>(address, present.len(), |page, entry| {
            present[page] = entry & (PRESENT | SWAPPED) != 0;
        })
    }

    /// The present pages, of `pages` from the one at `address` on, that another process maps too. Does not allocate.
    pub(crate) fn shared(&self, address: usize, pages: usize) -> Result<u64, Errno> {
        match pages {
            ..=FEW => self.shared_by::<FEW>(address, pages),
            _ => self.shared_by::<MANY>(address, pages),
        }
    }

    /// The frame of one kind is not to have room for the entries of the other.
    #[inline(never)]
    fn shared_by<const AT_ONCE: usize>(&self, address: usize, pages: usize) -> Result<u64, Errno> {
        let mut shared = 0;
        self.entries::<AT_ONCE>(address, pages, |_, entry| {
            shared += u64::from(entry & (PRESENT | EXCLUSIVE) == PRESENT);
        })?;
        Ok(shared)
    }

    /// Calls `each` with the number and the entry of each of `pages` pages from the one at `address` on.
    fn entries<const AT_ONCE: usize>(
        &self,
        address: usize,
        pages: usize,
        mut each: impl FnMut(usize, u64),
    ) -> Result<(), Errno> {
        for first in (0..pages).step_by(AT_ONCE) {
            let mut entries = [[0; size_of::<u64>()]; AT_ONCE];
            let entries = &mut entries[..AT_ONCE.min(pages - first)];
            let at = (address / PAGE_SIZE + first) * size_of::<u64>();
            let read = self.file.read_exact_at(entries.as_flattened_mut(), at as u64);
            read.map_err(|error| Errno::of_number(error.raw_os_error().unwrap_or(libc::EIO)))?;
            for (page, entry) in (first..).zip(entries) {
                each(page, u64::from_ne_bytes(*entry));
            }
        }
        Ok(())
    }
}
