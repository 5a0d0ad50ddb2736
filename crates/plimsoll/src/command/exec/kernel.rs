//! The engine of the kernel: a memory cgroup and swap.

use std::fmt::Write;
use std::process::ExitCode;

use super::spoken;
use crate::command::{not_started, print_error};
use plimsoll_lab::confined::{self, ConfinedError, Finished, Request, Supply};
use plimsoll_lab::environment::EnvironmentError;
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::quantity::bytes;
use signal_hook::consts::SIGKILL;

/// Runs the program in a cgroup and ends as it ended.
pub(super) fn run(request: &Request<'_>, supply: &Supply, stats: bool) -> Result<ExitCode, Failure> {
    let finished = match confined::run(request) {
        Ok(finished) => finished,
        Err(ConfinedError::Start(error)) => return Ok(not_started(&spoken(request.name), &error)),
        Err(ConfinedError::Environment(EnvironmentError::Busy { holder, .. })) => {
            return Err(Failure::message(
                Exit::Missing,
                format_args!(
                    "cannot change this machine: {holder} holds its lock; start the program when {holder} has ended"
                ),
            ));
        }
        Err(error) => return Err(Failure::new(Exit::Missing, error)),
    };
    let killed = finished.usage.oom_kills.filter(|kills| *kills > 0);
    if let (Some(_), Some(SIGKILL)) = (killed, finished.ended.signal) {
        print_error(&format!(
            "the OOM killer ended `{}`: its memory exceeds --ram and the free swap; raise --ram, or add swap",
            spoken(request.name)
        ));
    }
    if stats {
        print_error(&statistics(request, supply, &finished));
    }
    if let Some(left) = &finished.left {
        print_error(&left.to_string());
    }
    Ok(end(&finished))
}

/// The exit code of the program. If a signal ended it, this process ends by the same signal, where it can.
fn end(finished: &Finished) -> ExitCode {
    if let Some(code) = finished.ended.code {
        return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }
    let signal = finished.ended.signal.unwrap_or(SIGKILL);
    confined::end_by(signal);
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}

fn statistics(request: &Request<'_>, supply: &Supply, finished: &Finished) -> String {
    let usage = &finished.usage;
    let size = |value: Option<u64>| value.map_or("unknown".to_owned(), |value| bytes(value as f64));
    let count = |value: Option<u64>| value.map_or("unknown".to_owned(), |value| value.to_string());
    let seconds = |microseconds: u64| microseconds as f64 / 1e6;
    let spent = &finished.ended.usage;
    let mut text = format!(
        "engine kernel, cgroup {}, limit {}",
        supply.version,
        bytes(request.limit as f64)
    );
    let rows = [
        ("most RAM in use", size(usage.peak)),
        ("pages from swap", count(usage.refaults_anon)),
        ("pages of files read again", count(usage.refaults_file)),
        ("OOM kills", count(usage.oom_kills)),
        ("major faults", spent.major_faults.to_string()),
        ("CPU time, user", format!("{:.2} s", seconds(spent.user_us))),
        ("CPU time, system", format!("{:.2} s", seconds(spent.system_us))),
    ];
    for (name, value) in rows {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {name:<26} {value}");
    }
    text
}
