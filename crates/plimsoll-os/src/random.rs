//! Random numbers of the kernel. No call touches `errno`.
#![allow(unsafe_code)]

use crate::raw::system_call;

/// A number that nobody can guess; none where the kernel has none to give yet (early at boot) or a filter forbids it.
pub fn random_number() -> Option<u64> {
    let mut number = 0u64;
    let arguments = [
        &raw mut number as usize,
        size_of::<u64>(),
        libc::GRND_NONBLOCK as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes the number, which outlives the call.
    let written = unsafe { system_call(libc::SYS_getrandom, arguments) };
    (written == Ok(size_of::<u64>())).then_some(number)
}
