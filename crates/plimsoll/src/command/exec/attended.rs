//! `--watch` and `--report`: the program is a child of this process, which is its monitor.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use super::summary::Row;
use super::{end, summary};
use crate::cli::{Exec, RUNS, Verbosity, Watch};
use crate::command::{print_error, watch};
use plimsoll_lab::confined;
use plimsoll_lab::run::run_name;
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::sanitize::shorten;
use plimsoll_monitor::watch::{Prepared, Program, Summary};
use plimsoll_sample::stop::Stop;

/// Samples a second, as of `plimsoll watch`.
const HZ: u32 = 10;

/// Most characters of a command line in the summary: a long one would displace the values.
const TITLE_LETTERS: usize = 200;

/// The monitor that the options ask for.
pub(super) struct Attendance<'a> {
    options: Watch,
    stop: Arc<Stop>,
    verbosity: &'a Verbosity,
}

impl<'a> Attendance<'a> {
    /// `None` without `--watch` and `--report`. From here on, SIGINT, SIGTERM, SIGHUP and SIGQUIT are forwarded to the program
    /// and do not end this process, nor do the signals that [`confined::block_except`] blocks.
    pub(super) fn of(options: &Exec, verbosity: &'a Verbosity) -> Result<Option<Attendance<'a>>, Failure> {
        if !options.watch && options.report.is_none() {
            return Ok(None);
        }
        if options.watch {
            watch::require_terminal("use --report without --watch")?;
        }
        let stop = Stop::install().or_exit(Exit::Missing)?;
        // Any other signal would leave the cgroup and the swap of the program, or the program without its monitor.
        confined::block_except(&Stop::SIGNALS).or_exit(Exit::Missing)?;
        let record = options.report.clone();
        Ok(Some(Attendance {
            options: Watch {
                program: options.program.clone(),
                record: record.map(|folder| folder.unwrap_or_else(|| Path::new(RUNS).join(run_name("exec")))),
                headless: !options.watch,
                hz: HZ,
                ..Watch::default()
            },
            stop,
            verbosity,
        }))
    }

    /// Runs the program to its end, with `title` as a note. Returns the exit code of a program that did not start.
    pub(super) fn run(
        &self,
        command: Command,
        cgroup: Option<PathBuf>,
        title: &str,
    ) -> Result<Result<Summary, ExitCode>, Failure> {
        let program = Prepared {
            program: Program {
                command: self.options.program.clone(),
                passes_through: self.options.headless,
            },
            command,
            cgroup,
        };
        watch::attend(program, title, &self.stop, &self.options, self.verbosity)
    }
}

pub(super) fn print_table(title: &str, summary: &Summary, rows: &[Row]) {
    print_error(&summary::table(
        &format!("{title}: {}", shorten(&summary.title, TITLE_LETTERS)),
        &[rows, &summary::of_recording(summary)].concat(),
    ));
}

/// Ends as the program ended, after the summary.
pub(super) fn conclude(summary: &Summary) -> ExitCode {
    let ended = summary.program.as_ref();
    if let Some(error) = &summary.recording_error {
        print_error(error);
    }
    end(
        ended.and_then(|program| program.exit_code),
        ended.and_then(|program| program.signal),
    )
}
