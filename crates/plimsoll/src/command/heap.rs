//! `plimsoll heap`: runs programs on Plimsoll's heap and inspects them.

mod stat;

use std::env;
use std::process::ExitCode;

use crate::cli::{HeapCommand, HeapFrontEnd, HeapRun};
use crate::heap::{self, Launch, Program, ProgramError};
use crate::libraries;
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::sanitize::sanitize;

pub(super) fn heap(command: &HeapCommand) -> Result<ExitCode, Failure> {
    match command {
        HeapCommand::Run(options) => run(options),
        HeapCommand::Stat(options) => stat::stat(options).map(ExitCode::from),
    }
}

/// Executes the program in place of this process; returns only on failure.
fn run(options: &HeapRun) -> Result<ExitCode, Failure> {
    let Some((name, arguments)) = options.program.split_first() else {
        return Err(Failure::message(Exit::Usage, "cannot run: no program; name one"));
    };
    let program = match Program::find(name, env::var_os("PATH").as_deref()) {
        Ok(program) => program,
        Err(error @ ProgramError::NotPreloadable { .. }) => {
            return Err(Failure::new(Exit::Unsupported, error));
        }
        Err(ProgramError::NotStarted { name, source }) => return Ok(super::not_started(&name, &source)),
    };
    let launch = Launch {
        library: libraries::MALLOC.unpack().or_exit(Exit::Missing)?,
        front_end: match options.front_end {
            HeapFrontEnd::Standard => heap::HeapFrontEnd::Standard,
            HeapFrontEnd::Lfh => heap::HeapFrontEnd::LowFragmentation,
        },
        hardened: options.hardened,
    };
    let Err(error) = launch.execute(&program, arguments);
    Ok(super::not_started(&sanitize(&name.to_string_lossy()), &error))
}
