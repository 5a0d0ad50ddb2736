//! The end of a process whose heap is damaged, with words on what was found.

use plimsoll_os::{abort, write_error};

/// Says on the standard error stream what was found at `address`, and aborts the process.
#[cold]
pub(crate) fn report(found: &str, address: usize) -> ! {
    let mut hexadecimal = [0; 2 * size_of::<usize>()];
    for (at, digit) in hexadecimal.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[address >> (4 * at) & 15];
    }
    for part in [
        &b"plimsoll: the heap is damaged: "[..],
        found.as_bytes(),
        b", at 0x",
        &hexadecimal,
        b"\n",
    ] {
        write_error(part);
    }
    abort()
}
