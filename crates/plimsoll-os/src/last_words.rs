//! The end of a process that cannot continue: without the C library, which may be the broken part. No call touches
//! `errno`.
#![allow(unsafe_code)]

use crate::raw::system_call;

/// Writes `text` to the standard error stream, as far as it takes it.
pub fn write_error(text: &[u8]) {
    let mut rest = text;
    while !rest.is_empty() {
        let arguments = [2, rest.as_ptr() as usize, rest.len(), 0, 0, 0];
        // SAFETY: the kernel reads the text, and not past its length.
        match unsafe { system_call(libc::SYS_write, arguments) } {
            Ok(written) if written > 0 => rest = &rest[written.min(rest.len())..],
            _ => return,
        }
    }
}

/// Raises SIGABRT in this thread, as `abort(3)` does; if the signal is handled, ignored or blocked, the process ends
/// with the exit code that a shell reports for it.
pub fn abort() -> ! {
    // SAFETY: these take no memory; the last ends the process.
    unsafe {
        let process = system_call(libc::SYS_getpid, [0; 6]).unwrap_or(0);
        let thread = system_call(libc::SYS_gettid, [0; 6]).unwrap_or(0);
        let signal = libc::SIGABRT as usize;
        let _ = system_call(libc::SYS_tgkill, [process, thread, signal, 0, 0, 0]);
        loop {
            let code = 128 + libc::SIGABRT as usize;
            let _ = system_call(libc::SYS_exit_group, [code, 0, 0, 0, 0, 0]);
        }
    }
}
