//! Memory of the generator's own, which the allocator under test has no part in.
//!
//! Premise of the unsafe code: a [`Mapping`] owns its pages from `mmap` to `munmap`.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

use crate::error::LoadError;

/// Zeroed pages, resident from the start.
#[derive(Debug)]
pub(crate) struct Mapping {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping owns its pages; pages belong to no thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps at least one page.
    pub(crate) fn new(bytes: usize) -> Result<Mapping, LoadError> {
        let bytes = bytes.max(1);
        // SAFETY: a new private mapping, of no file, at an address of the kernel's choice, touches nothing that exists.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(LoadError::Mapping {
                bytes,
                reason: io::Error::last_os_error(),
            });
        }
        let address = NonNull::new(address.cast()).expect("mmap maps nothing at 0 unless told to");
        Ok(Mapping { address, bytes })
    }

    /// Where it begins; aligned to a page.
    pub(crate) fn address(&self) -> NonNull<u8> {
        self.address
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and no longer borrowed.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}
