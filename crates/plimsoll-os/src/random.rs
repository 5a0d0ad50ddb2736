//! Random bytes of the kernel. No call touches `errno`.
#![allow(unsafe_code)]

use crate::Errno;
use crate::raw::system_call;

/// 8 random bytes; none if the kernel has no such call or is not ready for it.
pub fn random_word() -> Option<u64> {
    const WITHOUT_WAITING: usize = libc::GRND_NONBLOCK as usize;
    let mut word = 0_u64;
    let arguments = [&raw mut word as usize, size_of::<u64>(), WITHOUT_WAITING, 0, 0, 0];
    // SAFETY: the kernel writes to the word alone.
    let bytes = unsafe { system_call(libc::SYS_getrandom, arguments) };
    (bytes == Ok(size_of::<u64>())).then_some(word)
}

/// Fills `bytes`, and waits until the kernel's random source is ready (`getrandom(2)`).
///
/// # Errors
/// [`Errno::NOSYS`] or [`Errno::PERM`] where a filter of system calls refuses it.
pub fn fill_random(bytes: &mut [u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let arguments = [rest.as_mut_ptr() as usize, rest.len(), 0, 0, 0, 0];
        // SAFETY: the kernel writes to the bytes alone, at most as many as there are.
        match unsafe { system_call(libc::SYS_getrandom, arguments) } {
            Ok(got) => rest = &mut rest[got..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
