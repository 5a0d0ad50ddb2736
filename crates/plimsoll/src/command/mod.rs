//! The commands, one file each: resolve the options, call the libraries, print.
//!
//! Invariant: results go to standard output, everything else to standard error.

mod bench;
mod cleanup;
mod compare;
mod doctor;
mod exec;
mod export;
mod fleet;
mod guard;
mod heap;
mod hold;
mod open_page;
mod output;
mod output_file;
mod pager;
mod ps;
mod recordings;
mod report;
mod run;
mod scenarios;
mod screen;
mod shell;
mod size;
mod trim;
mod watch;
mod watched;

use std::io::IsTerminal;
use std::process::ExitCode;

use crate::cli::{Cli, Command, Verbosity};
pub use output::print_usage;
use output::{
    colour_on_stdout, document_output, print, print_controls, print_document, print_error, print_error_json,
    print_error_lines, print_json, print_json_text, print_linked, print_mistake, print_news, print_pieces,
    print_recording, print_styled, use_colour, width_of_stdout,
};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::scenario::Mistake;

/// Executes a command. Returns an [`Exit`], or the exit code of the program that `plimsoll watch -- program` started.
pub fn dispatch(cli: &Cli) -> Result<ExitCode, Failure> {
    let verbosity = &cli.verbosity;
    let exit = match &cli.command {
        Command::Run(options) => run::run(options, verbosity),
        Command::Size(options) => size::size(options, verbosity),
        Command::List(options) => scenarios::list(options, verbosity),
        Command::Show(options) => scenarios::show(options),
        Command::Runs(options) => recordings::runs(options),
        Command::Report(options) => report::report(options, verbosity),
        Command::Compare(options) => compare::compare(options, verbosity),
        Command::Export(options) => export::export(options),
        Command::Fleet(options) => fleet::fleet(&options.command, verbosity),
        Command::Exec(options) => return exec::exec(options, verbosity),
        Command::Heap(options) => return heap::heap(&options.command),
        Command::Pager(options) => pager::pager(&options.command),
        Command::Watch(options) => return watch::watch(options, verbosity),
        Command::Ps(options) => ps::ps(options, verbosity),
        Command::Hold(options) => hold::hold(options, verbosity),
        Command::Guard(options) => guard::guard(options, verbosity),
        Command::Trim(options) => trim::trim(options, verbosity),
        Command::Doctor(options) => doctor::doctor(options, verbosity),
        Command::Cleanup(options) => cleanup::cleanup(options, verbosity),
        Command::Bench(options) => bench::bench_command(options),
        Command::Completions(options) => shell::completions(options),
        Command::Complete(options) => shell::complete(options),
        Command::Man(options) => shell::man(options),
        Command::Worker => {
            let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
            plimsoll_lab::run::serve_worker(input, output).or_exit(Exit::WorkloadFailed)?;
            Ok(Exit::Done)
        }
    };
    exit.map(ExitCode::from)
}

/// The mistake with its place, if the error is one in a scenario or in a condition of a comparison.
fn mistake(error: &anyhow::Error) -> Option<Mistake> {
    if let Some(error) = error.downcast_ref::<plimsoll_model::scenario::ScenarioError>() {
        return Some(error.mistake());
    }
    let condition = error.downcast_ref::<plimsoll_report::comparison::ConditionError>()?;
    Some(condition.mistake())
}

/// Prints a failure with its causes on standard error, a mistake in a text with its place.
pub fn print_failure(failure: &Failure, verbosity: &Verbosity) {
    if let Some(mistake) = mistake(&failure.error) {
        let colour = use_colour(verbosity.color, std::io::stderr().is_terminal());
        print_mistake(&mistake, colour);
        return;
    }
    let mut text = String::new();
    for cause in failure.error.chain().map(ToString::to_string) {
        // Some messages contain that of their cause.
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    print_error(&text);
}

/// Prints the error of a program's start; returns the exit code of a shell, 127 or 126.
fn not_started(name: &str, error: &std::io::Error) -> ExitCode {
    print_error(&format!("cannot start `{name}`: {error}"));
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound {
        127
    } else {
        126
    })
}
