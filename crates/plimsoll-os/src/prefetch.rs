//! Hints to the processor's caches.
#![allow(unsafe_code)]

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Has the processor fetch `bytes` bytes from the address `start` on into its caches, while the caller goes on. A hint, which
/// reads nothing: any address is allowed. It does nothing on processors other than x86-64.
#[inline]
pub fn prefetch(start: usize, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (start..start.saturating_add(bytes)).step_by(LINE) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line as *const i8) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}
