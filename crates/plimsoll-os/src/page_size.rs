//! The size of a page.
#![allow(unsafe_code)]

/// Bytes of a base page of this system: 4096 on x86-64, up to 65536 elsewhere.
pub fn page_size() -> usize {
    // SAFETY: sysconf reads a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // Linux passes the page size to every process in the auxiliary vector, so this cannot be -1.
    usize::try_from(bytes).unwrap_or(4096)
}
