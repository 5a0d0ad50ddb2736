//! The end of the process, where going on is not possible: one line on standard error, and SIGABRT.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::fmt::{self, Write};

unsafe extern "C" {
    safe fn abort() -> !;
    fn write(fd: c_int, bytes: *const u8, length: usize) -> isize;
}

struct StandardError;

impl Write for StandardError {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the text is valid for its length. What cannot be written has nobody to read it.
        let _ = unsafe { write(2, text.as_ptr(), text.len()) };
        Ok(())
    }
}

/// Says why on standard error, and aborts.
#[cold]
pub(crate) fn fatal(why: impl fmt::Display) -> ! {
    let _ = writeln!(StandardError, "plimsoll-malloc: {why}");
    abort()
}

#[cfg(panic = "abort")]
#[panic_handler]
fn panic(information: &core::panic::PanicInfo<'_>) -> ! {
    fatal(format_args!("this is a bug, please report it: {information}"))
}
