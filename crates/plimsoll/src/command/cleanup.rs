//! `plimsoll cleanup`.

use std::fmt::Write;

use serde::Serialize;

use crate::cli::{Cleanup, Verbosity};
use plimsoll_lab::environment::{self, CleanupReport, RunCleanup, RunState};
use plimsoll_model::exit::{Exit, Failure, OrExit};

/// Option of `run` that tells the journal of a task from those of other runs.
const TASK: &str = "--task";

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    clean: bool,
    #[serde(flatten)]
    report: &'a CleanupReport,
}

pub(super) fn cleanup(options: &Cleanup, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let report = match options.tasks {
        true => environment::cleanup_of(&is_task, None),
        false => environment::cleanup(None),
    };
    let report = report.or_exit(Exit::Missing)?;
    let clean = report.is_clean();
    if options.json {
        super::print_json(&Document {
            schema: 1,
            clean,
            report: &report,
        })?;
    } else if !(verbosity.quiet && clean) {
        super::print(&render(&report))?;
    }
    Ok(if clean { Exit::Done } else { Exit::Missing })
}

/// Whether a command line is that of a task of a fleet.
pub(super) fn is_task(command: &[String]) -> bool {
    let is_option = |argument: &String| {
        let rest = argument.strip_prefix(TASK);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    command.iter().any(is_option)
}

fn render(report: &CleanupReport) -> String {
    if report.runs.is_empty() {
        return "nothing to clean up\n".to_owned();
    }
    report.runs.iter().map(render_run).collect()
}

fn render_run(run: &RunCleanup) -> String {
    let state = match run.state {
        RunState::Live => "alive, left alone",
        RunState::Undone => "undone",
        RunState::Kept => "NOT all undone; journal kept",
    };
    let mut text = format!("{}: {state}\n", run.run);
    // Writing to a string cannot fail.
    for line in &run.undone {
        let _ = writeln!(text, "  undone      {line}");
    }
    for left in &run.left_alone {
        let _ = writeln!(text, "  left alone  {left}");
    }
    for left in &run.left {
        let _ = writeln!(text, "  LEFT        {left}");
    }
    if run.state == RunState::Kept {
        let _ = writeln!(text, "  journal     {}", run.journal.display());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_known_by_its_option() {
        for (line, expected) in [
            ("plimsoll run tour --task a --output tasks", true),
            ("plimsoll run tour --task=a", true),
            ("plimsoll run tour --tasks", false),
            ("plimsoll run task", false),
        ] {
            let command: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(is_task(&command), expected, "{line}");
        }
    }
}
