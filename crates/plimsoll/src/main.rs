//! The `plimsoll` command: parses, dispatches, prints an error once, and returns the exit code.

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use plimsoll::cli::Cli;
use plimsoll::command;
use plimsoll_model::exit::Exit;

// SAFETY: the C library calls the functions of this section before `main`; this function ignores the arguments.
#[allow(
    unsafe_code,
    reason = "the signal state of the caller, read before the Rust runtime changes it"
)]
#[used]
#[unsafe(link_section = ".init_array")]
static TAKE_OVER_SIGNALS: extern "C" fn() = plimsoll_os::take_over_signals;

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => command::dispatch(&cli).unwrap_or_else(|failure| {
            command::print_failure(&failure, &cli.verbosity);
            failure.exit.into()
        }),
        Err(error) => {
            let exit = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done,
                _ => Exit::Usage,
            };
            command::print_usage(&error);
            exit.into()
        }
    }
}
