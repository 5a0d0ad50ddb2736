//! The engine of the kernel: a memory cgroup and swap.

use std::process::ExitCode;

use super::attended::{self, Attendance};
use super::document::{self, End, EngineName, Event, ProgramEnd};
use super::summary::{self, Row, number, size};
use super::{end, spoken};
use crate::cli::Exec;
use crate::command::{not_started, print_error};
use plimsoll_lab::confined::{self, Confined, ConfinedError, Request, Supply, Usage};
use plimsoll_lab::environment::EnvironmentError;
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::quantity::bytes;
use signal_hook::consts::SIGKILL;

/// Runs the program in a cgroup and ends as it ended.
pub(super) fn run(
    request: &Request<'_>,
    supply: &Supply,
    options: &Exec,
    attendance: Option<&Attendance<'_>>,
) -> Result<ExitCode, Failure> {
    let title = format!(
        "engine kernel, cgroup {}, limit {}",
        supply.version,
        bytes(request.limit as f64)
    );
    if let Some(attendance) = attendance {
        return attended(request, &title, options, attendance);
    }
    let finished = match confined::run(request) {
        Ok(finished) => finished,
        Err(error) => return did_not_run(request, error),
    };
    let (program, usage) = (ProgramEnd::from(&finished.ended), finished.usage);
    explain(request, &usage, program.signal);
    if let Some(left) = &finished.left {
        print_error(&left.to_string());
    }
    if options.json {
        document::print(&Event::End(End {
            engine: EngineName::Kernel,
            ram_bytes: Some(request.limit),
            oom_killed: is_oom_killed(&usage, program.signal),
            program: Some(program),
            cgroup: Some(usage),
            counters: None,
            monitor: None,
        }));
    } else if options.stats {
        print_error(&summary::table(&title, &rows(&usage, &program)));
    }
    Ok(end(program.exit_code, program.signal))
}

/// Runs the program under the monitor.
fn attended(
    request: &Request<'_>,
    title: &str,
    options: &Exec,
    attendance: &Attendance<'_>,
) -> Result<ExitCode, Failure> {
    let made = Confined::make(request).and_then(|confined| Ok((confined.command(request)?, confined)));
    let (command, confined) = match made {
        Ok(made) => made,
        Err(error) => return did_not_run(request, error),
    };
    let summary = match attendance.run(command, Some(confined.folder().to_owned()), title)? {
        Ok(summary) => summary,
        Err(code) => return Ok(code),
    };
    let (usage, left) = confined.end();
    let program = summary.program.as_ref().map(ProgramEnd::from);
    let signal = program.and_then(|program| program.signal);
    explain(request, &usage, signal);
    if let Some(left) = &left {
        print_error(&left.to_string());
    }
    if options.json {
        document::print(&Event::End(End {
            engine: EngineName::Kernel,
            ram_bytes: Some(request.limit),
            program,
            oom_killed: program.and_then(|program| is_oom_killed(&usage, program.signal)),
            cgroup: Some(usage),
            counters: None,
            monitor: Some(&summary),
        }));
    } else {
        let mut values = summary::of_kernel(&summary, usage.stalled_us, request.limit);
        values.extend(program.iter().flat_map(|program| rows(&usage, program)));
        attended::print_table(title, &summary, &values);
    }
    Ok(attended::conclude(&summary))
}

/// The end of a program that did not run.
fn did_not_run(request: &Request<'_>, error: ConfinedError) -> Result<ExitCode, Failure> {
    match error {
        ConfinedError::Start(error) => Ok(not_started(&spoken(request.name), &error)),
        ConfinedError::Environment(EnvironmentError::Busy { holder, .. }) => Err(Failure::message(
            Exit::Missing,
            format_args!(
                "cannot change this machine: {holder} holds its lock; start the program when {holder} has ended"
            ),
        )),
        error => Err(Failure::new(Exit::Missing, error)),
    }
}

/// Whether the OOM killer ended the program itself. None if the kernel does not count its kills.
fn is_oom_killed(usage: &Usage, signal: Option<i32>) -> Option<bool> {
    let kills = usage.oom_kills?;
    Some(kills > 0 && signal == Some(SIGKILL))
}

/// Prints that the OOM killer ended the program, if it did.
fn explain(request: &Request<'_>, usage: &Usage, signal: Option<i32>) {
    if is_oom_killed(usage, signal) == Some(true) {
        print_error(&format!(
            "the OOM killer ended `{}`: its memory exceeds --ram and the free swap; raise --ram, or add swap",
            spoken(request.name)
        ));
    }
}

/// The values of the cgroup, and of the program with the children that it waited for.
fn rows(usage: &Usage, program: &ProgramEnd) -> Vec<Row> {
    vec![
        ("most RAM in use", size(usage.peak)),
        ("pages from swap", number(usage.refaults_anon)),
        ("pages of files read again", number(usage.refaults_file)),
        ("OOM kills", number(usage.oom_kills)),
        ("major faults", number(Some(program.major_faults))),
        ("CPU time, user", format!("{:.2} s", program.cpu_user_s)),
        ("CPU time, system", format!("{:.2} s", program.cpu_system_s)),
    ]
}
