//! Words on the standard error stream, without the C library's; the last of them where going on is not possible.

use core::fmt::{self, Write};

use plimsoll_os::{abort, write_error};

/// The standard error stream. Bytes that it does not take are lost.
#[derive(Debug)]
pub struct StandardError;

impl Write for StandardError {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_error(text.as_bytes());
        Ok(())
    }
}

/// Writes the reason, and aborts.
#[cold]
pub fn fatal(why: impl fmt::Display) -> ! {
    let _ = writeln!(StandardError, "plimsoll: {why}");
    abort()
}
