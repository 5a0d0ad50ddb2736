//! Check for usable restartable sequences, by other calls of the C library and the kernel than those of the code under
//! test, so that tests detect code that misses existing sequences.
#![allow(unsafe_code)]

/// The requirements of sequences.
pub const WHAT_IS_NEEDED: &str =
    "x86-64, a glibc that registers an area (2.35), a kernel that keeps concurrency ids there (Linux 6.3)";

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
pub fn is_usable() -> bool {
    const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
    /// Bytes of an area up to the end of the concurrency id.
    const NEEDED: libc::c_ulong = 28;
    // SAFETY: the name ends in a zero; glibc defines it as an unsigned number, which it never changes.
    unsafe {
        let registered = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        !registered.is_null() && *registered > 0 && libc::getauxval(AT_RSEQ_FEATURE_SIZE) >= NEEDED
    }
}

/// This architecture or C library has none.
#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
pub fn is_usable() -> bool {
    false
}
