//! The engine of the kernel: a memory cgroup and swap.

use std::process::ExitCode;

use super::attended::{self, Attendance};
use super::summary::{self, Row, number, size};
use super::{end, spoken};
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
    stats: bool,
    attendance: Option<&Attendance<'_>>,
) -> Result<ExitCode, Failure> {
    let title = format!(
        "engine kernel, cgroup {}, limit {}",
        supply.version,
        bytes(request.limit as f64)
    );
    if let Some(attendance) = attendance {
        return attended(request, &title, attendance);
    }
    let finished = match confined::run(request) {
        Ok(finished) => finished,
        Err(error) => return did_not_run(request, error),
    };
    let ended = &finished.ended;
    explain(request, &finished.usage, ended.signal);
    if stats {
        let spent = &ended.usage;
        let seconds = |microseconds: u64| microseconds as f64 / 1e6;
        let cpu_s = [seconds(spent.user_us), seconds(spent.system_us)];
        print_error(&summary::table(
            &title,
            &rows(&finished.usage, spent.major_faults, cpu_s),
        ));
    }
    if let Some(left) = &finished.left {
        print_error(&left.to_string());
    }
    Ok(end(ended.code, ended.signal))
}

/// Runs the program under the monitor.
fn attended(request: &Request<'_>, title: &str, attendance: &Attendance<'_>) -> Result<ExitCode, Failure> {
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
    let mut values = summary::of_kernel(&summary, usage.stalled_us, request.limit);
    if let Some(program) = &summary.program {
        explain(request, &usage, program.signal);
        let cpu_s = [program.cpu_user_s, program.cpu_system_s];
        values.extend(rows(&usage, program.major_faults, cpu_s));
    }
    if let Some(left) = &left {
        print_error(&left.to_string());
    }
    Ok(attended::conclude(title, &summary, &values))
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

/// Prints that the OOM killer ended the program, if it did.
fn explain(request: &Request<'_>, usage: &Usage, signal: Option<i32>) {
    if usage.oom_kills.is_some_and(|kills| kills > 0) && signal == Some(SIGKILL) {
        print_error(&format!(
            "the OOM killer ended `{}`: its memory exceeds --ram and the free swap; raise --ram, or add swap",
            spoken(request.name)
        ));
    }
}

/// The values of the cgroup, and of the program with the children that it waited for.
fn rows(usage: &Usage, major_faults: u64, [user_s, system_s]: [f64; 2]) -> Vec<Row> {
    vec![
        ("most RAM in use", size(usage.peak)),
        ("pages from swap", number(usage.refaults_anon)),
        ("pages of files read again", number(usage.refaults_file)),
        ("OOM kills", number(usage.oom_kills)),
        ("major faults", number(Some(major_faults))),
        ("CPU time, user", format!("{user_s:.2} s")),
        ("CPU time, system", format!("{system_s:.2} s")),
    ]
}
