//! Words on the standard error stream, without the C library's; the last of them where going on is not possible.

use core::fmt::{self, Write};

use plimsoll_os::{abort, write_error};

/// The standard error stream. Bytes that it does not take are lost.
pub(crate) struct StandardError;

impl Write for StandardError {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_error(text.as_bytes());
        Ok(())
    }
}

/// Writes the reason, and aborts.
#[cold]
pub(crate) fn fatal(why: impl fmt::Display) -> ! {
    let _ = writeln!(StandardError, "plimsoll: {why}");
    abort()
}

#[cfg(panic = "abort")]
#[panic_handler]
fn panic(information: &core::panic::PanicInfo<'_>) -> ! {
    fatal(format_args!(
        "the heap's library made a mistake of its own, please report it: {information}"
    ))
}
