//! Repeated output in place.

use std::io::{IsTerminal, Write};

use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::sanitize::sanitize_styled;

/// Standard output for repeated lists.
pub(super) struct Screen {
    terminal: bool,
}

impl Screen {
    /// Clears a terminal and hides its cursor, until dropped.
    pub(super) fn take() -> Result<Screen, Failure> {
        let terminal = std::io::stdout().is_terminal();
        if terminal {
            super::print_controls("\x1b[?25l\x1b[2J")?;
        }
        Ok(Screen { terminal })
    }

    /// Shows a list: on a terminal in place of the previous one, cut to its lines, otherwise after it. Returns false if
    /// the pipe is closed.
    pub(super) fn show(&self, list: &str) -> Result<bool, Failure> {
        let list = sanitize_styled(list);
        let text = if self.terminal {
            let lines =
                rustix::termios::tcgetwinsize(std::io::stdout()).map_or(24, |size| usize::from(size.ws_row));
            let lines: Vec<&str> = list.lines().take(lines.max(2) - 1).collect();
            format!("\x1b[H{}\x1b[K\r\n\x1b[J", lines.join("\x1b[K\r\n"))
        } else {
            format!("{list}\n")
        };
        let mut output = std::io::stdout().lock();
        match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::message(
                Exit::Missing,
                format_args!("cannot write to standard output: {error}"),
            )),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.terminal {
            // A closed terminal needs no cursor.
            let _ = super::print_controls("\x1b[?25h");
        }
    }
}
