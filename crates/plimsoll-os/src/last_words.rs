//! The end of a process that cannot continue: without the C library, which may be the broken part. No call touches
//! `errno`.
#![allow(unsafe_code)]

use core::ffi::c_int;

use crate::raw::system_call;
use crate::{Errno, coarse_milliseconds};

/// Milliseconds for which signals may interrupt each try of a write. A terminal that stops its background writers interrupts
/// every one.
const LONGEST_INTERRUPTION: u32 = 10_000;

/// Writes `text` to the standard error stream, as far as it takes it.
pub fn write_error(text: &[u8]) {
    write(libc::STDERR_FILENO, text);
}

fn write(file: c_int, text: &[u8]) {
    write_all(text, |rest| {
        let arguments = [file as usize, rest.as_ptr() as usize, rest.len(), 0, 0, 0];
        // SAFETY: the kernel reads the text, and not past its length.
        unsafe { system_call(libc::SYS_write, arguments) }
    });
}

/// Writes a text by calls of `write`, which returns the bytes that it has written, until all is written or a call fails. A
/// call that a signal interrupted is made again.
pub fn write_all(text: &[u8], write: impl Fn(&[u8]) -> Result<usize, Errno>) {
    let mut rest = text;
    let mut interrupted_since = None;
    while !rest.is_empty() {
        match write(rest) {
            Ok(written) if written > 0 => {
                rest = &rest[written.min(rest.len())..];
                interrupted_since = None;
            }
            Err(Errno::INTR) => {
                let now = coarse_milliseconds();
                let since = *interrupted_since.get_or_insert(now);
                if now.wrapping_sub(since) > LONGEST_INTERRUPTION {
                    return;
                }
            }
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

#[cfg(test)]
mod tests {
    extern crate std;

    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;
    use std::{thread, vec, vec::Vec};

    use super::*;

    extern "C" fn on_signal(_: c_int) {}

    /// A signal interrupted the write to a full pipe, and the text was lost.
    #[test]
    fn signals_take_nothing_of_a_text() {
        // SAFETY: the structure is valid as zeroes, and the handler, without SA_RESTART, does nothing.
        let (process, target) = unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            assert_eq!(
                libc::sigaction(libc::SIGUSR1, &raw const action, core::ptr::null_mut()),
                0
            );
            (libc::getpid(), libc::gettid())
        };
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        // More than a pipe has room for: the write waits for the reader.
        let text = vec![b'7'; 1 << 20];
        let done = AtomicBool::new(false);
        let read = thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: the thread lives until this one has ended, and handles the signal.
                    unsafe { libc::syscall(libc::SYS_tgkill, process, target, libc::SIGUSR1) };
                    // Signals without a pause would leave the thread in its handler.
                    thread::sleep(Duration::from_micros(500));
                }
            });
            let read = scope.spawn(move || {
                thread::sleep(Duration::from_millis(100));
                let mut read = Vec::new();
                reader.read_to_end(&mut read).map(|_| read)
            });
            write(writer.as_raw_fd(), &text);
            done.store(true, Ordering::Relaxed);
            drop(writer);
            read.join().expect("a reader")
        });
        assert!(read.expect("a pipe") == text);
    }
}
