//! Writing to standard output and standard error: the one place where text reaches a terminal.
//!
//! Recordings, journals, scenarios and names of processes are texts of others. A terminal obeys the control characters in
//! them, so that no function here writes one: text for people is sanitized always, a document (CSV, HTML, a scenario) if
//! standard output is a terminal, and JSON by escapes, which mean the same. A pipe or a file gets documents unchanged.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::open_page;

use crate::cli::{Verbosity, When};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::sanitize::{sanitize_json, sanitize_lines, sanitize_styled, shorten};
use plimsoll_model::scenario::Mistake;

/// Most letters of an error: a name in it can be of any length.
const ERROR_LETTERS: usize = 4000;

/// Prints text for people.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    write(&sanitize_lines(text))
}

/// Prints text for people with colours of its own, in which the texts of others are sanitized.
pub(super) fn print_styled(text: &str) -> Result<(), Failure> {
    write(&sanitize_styled(text))
}

/// Prints the path of a report, on a terminal as a hyperlink, whose text and address are sanitized.
pub(super) fn print_linked(label: &'static str, path: &Path, verbosity: &Verbosity) -> Result<(), Failure> {
    write(&format!("{label}{}\n", open_page::linked(path, verbosity)))
}

/// Prints a document for programs.
pub(super) fn print_document(text: &str) -> Result<(), Failure> {
    match io::stdout().is_terminal() {
        true => write(&sanitize_lines(text)),
        false => write(text),
    }
}

pub(super) fn print_json(document: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(document).or_exit(Exit::WorkloadFailed)?;
    text.push('\n');
    print_json_text(&text)
}

pub(super) fn print_json_text(text: &str) -> Result<(), Failure> {
    write(&sanitize_json(text))
}

/// Prints control sequences of our own.
pub(super) fn print_controls(text: &'static str) -> Result<(), Failure> {
    write(text)
}

/// Prints the folder of a recording and, if it has one, its report as a link.
pub(super) fn print_recording(
    folder: &Path,
    page: Option<&Path>,
    verbosity: &Verbosity,
) -> Result<(), Failure> {
    print_styled(&format!("Recording  {}\n", folder.display()))?;
    match page {
        Some(page) => print_linked("Report     ", page, verbosity),
        None => Ok(()),
    }
}

/// Longest wait for a reader of news.
const READER: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// Prints a line of a command that goes on until a signal. Returns whether a reader is left: one that does not read for some
/// seconds would stop this program.
pub(super) fn print_news(line: &str) -> Result<bool, Failure> {
    let output = io::stdout();
    let mut fds = [PollFd::new(&output, PollFlags::OUT)];
    if !matches!(
        poll(&mut fds, Some(&READER)),
        Ok(1..) | Err(rustix::io::Errno::INTR)
    ) {
        return Ok(false);
    }
    let safe = match line.starts_with('{') {
        true => sanitize_json(line),
        false => sanitize_styled(line),
    };
    write_to_reader(&safe)
}

/// Writes to standard output. A closed pipe (`plimsoll list | head -1`) is not an error.
fn write(text: &str) -> Result<(), Failure> {
    write_to_reader(text).map(drop)
}

/// Writes to standard output. Returns false for a closed pipe.
fn write_to_reader(text: &str) -> Result<bool, Failure> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(cannot_write(&error)),
        Ok(()) => Ok(true),
    }
}

/// Writes to standard error; ignores errors, as no other stream is left.
pub(super) fn print_error(text: &str) {
    let text = shorten(text, ERROR_LETTERS);
    let _ = writeln!(io::stderr(), "plimsoll: {}", sanitize_lines(&text));
}

/// Writes lines for programs to standard error, without the name of this one.
pub(super) fn print_error_lines(lines: &str) {
    let _ = write!(io::stderr(), "{}", sanitize_lines(lines));
}

/// Prints a JSON document as a line on standard error, for a command whose standard output is that of a program. The program
/// may write to standard error too: the line is one write, and `lead` comes before it.
pub(super) fn print_error_json(lead: &str, document: &impl serde::Serialize) {
    match serde_json::to_string(document) {
        Ok(line) => {
            let line = format!("{lead}{}\n", sanitize_json(&line));
            let _ = io::stderr().write_all(line.as_bytes());
        }
        Err(error) => print_error(&format!("cannot encode the JSON document: {error}")),
    }
}

/// Prints a mistake with its place, which sanitizes its text itself, on standard error.
pub(super) fn print_mistake(mistake: &Mistake, colour: bool) {
    let _ = writeln!(
        io::stderr(),
        "plimsoll: {}",
        sanitize_styled(&mistake.render(colour))
    );
}

/// Prints an error of the command line with its own colours, or `--help`.
pub fn print_usage(error: &clap::Error) {
    let text = error.render();
    let plain = text.to_string();
    let safe = sanitize_lines(&plain);
    if safe == plain {
        // A closed stream has no reader left.
        let _ = error.print();
    } else {
        let _ = write!(io::stderr(), "{}", shorten(&safe, ERROR_LETTERS));
    }
}

/// Standard output for a document that is written in pieces, without the line buffer of Rust's `Stdout`.
pub(super) fn document_output() -> io::Result<Box<dyn Write + Send>> {
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let output = BufWriter::with_capacity(1 << 18, File::from(output));
    Ok(match io::stdout().is_terminal() {
        true => Box::new(Sanitized {
            output,
            rest: Vec::new(),
        }),
        false => Box::new(output),
    })
}

/// Prints a document for programs that is made while it is written. A closed pipe is not an error.
pub(super) fn print_pieces(
    write: impl FnOnce(&mut Box<dyn Write + Send>) -> io::Result<()>,
) -> Result<(), Failure> {
    let written = document_output().and_then(|mut output| {
        write(&mut output)?;
        output.flush()
    });
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(cannot_write(&error)),
        Ok(()) => Ok(()),
    }
}

fn cannot_write(error: &io::Error) -> Failure {
    Failure::message(
        Exit::Missing,
        format_args!("cannot write to standard output: {error}"),
    )
}

/// A writer that sanitizes all text on its way to `output`.
struct Sanitized<W> {
    output: W,
    /// Bytes of a letter whose end has not come.
    rest: Vec<u8>,
}

impl<W: Write> Write for Sanitized<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let mut written = 0;
        while written < self.rest.len() {
            let rest = &self.rest[written..];
            let (valid, invalid) = match std::str::from_utf8(rest) {
                Ok(_) => (rest.len(), 0),
                Err(error) => match error.error_len() {
                    Some(invalid) => (error.valid_up_to(), invalid),
                    None if error.valid_up_to() == 0 => break,
                    None => (error.valid_up_to(), 0),
                },
            };
            let text = String::from_utf8_lossy(&rest[..valid + invalid]);
            self.output.write_all(sanitize_lines(&text).as_bytes())?;
            written += valid + invalid;
        }
        self.rest.drain(..written);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

pub(super) fn use_colour(when: When, terminal: bool) -> bool {
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => {
            terminal
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

pub(super) fn colour_on_stdout(verbosity: &Verbosity) -> bool {
    use_colour(verbosity.color, io::stdout().is_terminal())
}

/// Columns of the terminal on standard output; 100 without a terminal or with less than 40.
pub(super) fn width_of_stdout() -> u16 {
    rustix::termios::tcgetwinsize(io::stdout())
        .ok()
        .map(|size| size.ws_col)
        .filter(|columns| *columns >= 40)
        .unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_in_any_pieces_is_sanitized() {
        let text = "a\u{1b}[2J,\u{e9}\u{202e}\n\u{9b}3m".as_bytes();
        for size in 1..text.len() {
            let mut sanitized = Sanitized {
                output: Vec::new(),
                rest: Vec::new(),
            };
            for piece in text.chunks(size).chain([&b"\xff!"[..]]) {
                sanitized.write_all(piece).expect("written");
            }
            let found = String::from_utf8(sanitized.output).expect("text");
            assert_eq!(
                found, "a\u{fffd}[2J,\u{e9}\u{fffd}\n\u{fffd}3m\u{fffd}!",
                "{size}"
            );
        }
    }
}
