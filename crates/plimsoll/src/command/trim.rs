//! `plimsoll trim`.

use std::io::{BufRead, IsTerminal, Write};

use serde::Serialize;

use crate::cli::{Trim, Verbosity};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::quantity::{bytes, count, seconds};
use plimsoll_model::scenario::SizeExpr;
use plimsoll_monitor::trim::{self, Reason, Report, TrimError, What};
use plimsoll_sample::stop::Stop;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    #[serde(flatten)]
    report: &'a Report,
}

pub(super) fn trim(options: &Trim, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let limit = options
        .size
        .as_deref()
        .map(|text| size("--size", text))
        .transpose()?;
    let what = match (&options.cgroup, options.pid) {
        (Some(path), _) => What::Cgroup(path.clone()),
        (None, Some(pid)) => What::pid(pid),
        (None, None) => What::All,
    };
    if what == What::All && !options.yes && !confirmed()? {
        return Err(Failure::message(Exit::Usage, "cancelled: nothing was trimmed"));
    }
    let stop = Stop::install().or_exit(Exit::Missing)?;
    let report = trim::trim(&what, limit, stop.flag()).map_err(|error| {
        let exit = exit_of(&error);
        Failure::new(exit, error)
    })?;
    if options.json {
        super::print_json(&Document {
            schema: 1,
            report: &report,
        })?;
    } else if !verbosity.quiet {
        super::print(&render(&report))?;
    }
    if let Some(cause) = stop.cause() {
        return Err(Failure::message(cause.exit(), cause));
    }
    Ok(exit_after(&report))
}

/// The bytes of an option.
pub(super) fn size(option: &str, text: &str) -> Result<u64, Failure> {
    match text.parse() {
        Ok(SizeExpr::Bytes(bytes)) => Ok(bytes),
        Ok(SizeExpr::Share { .. }) => Err(Failure::message(
            Exit::Usage,
            format_args!("cannot use {option} `{text}`: a share; give bytes, for instance 512M"),
        )),
        Err(error) => Err(Failure::message(
            Exit::Usage,
            format_args!("cannot use {option} `{text}`: {error}; give bytes, for instance 512M"),
        )),
    }
}

/// Prints the effect of `--all` and asks for confirmation; without a terminal it fails.
fn confirmed() -> Result<bool, Failure> {
    let found = trim::candidates();
    let would = format!(
        "--all pages out {} processes with {} resident; this user cannot trim {} more",
        count(found.processes),
        bytes(found.resident as f64),
        count(found.denied),
    );
    let input = std::io::stdin();
    if !input.is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::message(
            Exit::Usage,
            format_args!("cannot ask for confirmation without a terminal: {would}; add --yes to do it"),
        ));
    }
    // A question that the user cannot see has the answer no.
    if write!(std::io::stderr(), "{would}. Continue? [y/N] ").is_err() {
        return Ok(false);
    }
    let mut answer = String::new();
    input.lock().read_line(&mut answer).or_exit(Exit::Usage)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn exit_of(error: &TrimError) -> Exit {
    match error {
        TrimError::NoSuchCgroup { .. } | TrimError::RootCgroup { .. } => Exit::Usage,
        TrimError::Denied { .. } | TrimError::NoHierarchy { .. } | TrimError::Unsupported { .. } => {
            Exit::Missing
        }
        _ => Exit::WorkloadFailed,
    }
}

fn exit_after(report: &Report) -> Exit {
    let lacking = [
        Reason::NoSwap,
        Reason::SwapFull,
        Reason::SwapForbidden,
        Reason::Denied,
    ];
    if !report.is_nothing() || report.kept.is_empty() {
        Exit::Done
    } else if lacking.iter().any(|reason| report.kept_for(*reason)) {
        Exit::Missing
    } else {
        Exit::WorkloadFailed
    }
}

fn render(report: &Report) -> String {
    let size = |value: u64| bytes(value as f64);
    let mut lines = vec![
        format!("{} by {}", report.title, report.mechanism.name()),
        format!(
            "  left       {} of {} resident, in {}",
            size(report.left),
            size(report.before.resident),
            seconds(report.seconds)
        ),
        format!(
            "  came back  {} within {}, in {} major and {} minor faults",
            size(report.returned.bytes),
            seconds(report.returned.within_s),
            count(report.returned.major_faults),
            count(report.returned.minor_faults),
        ),
        format!("  went       {}", report.went),
    ];
    lines.extend(report.kept.iter().map(|kept| format!("  stayed     {kept}")));
    if report.processes.len() > 1 {
        let most = report.processes.iter().take(MOST_PROCESSES);
        lines.extend(most.map(|process| {
            format!(
                "  pid {:<10} {} of {} left  {}",
                process.pid,
                size(process.left),
                size(process.before),
                process.name
            )
        }));
        let more = report.processes.len().saturating_sub(MOST_PROCESSES);
        if more > 0 {
            lines.push(format!("  and {more} more; --json lists all"));
        }
    }
    lines.join("\n") + "\n"
}

/// Maximum of processes in the list.
const MOST_PROCESSES: usize = 20;
