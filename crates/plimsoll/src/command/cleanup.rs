//! `plimsoll cleanup`.

use std::fmt::Write;

use serde::Serialize;

use crate::cli::{Cleanup, Verbosity};
use plimsoll_lab::environment::{self, CleanupReport, RunCleanup, RunState};
use plimsoll_model::exit::{Exit, Failure, OrExit};

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    clean: bool,
    #[serde(flatten)]
    report: &'a CleanupReport,
}

pub(super) fn cleanup(options: &Cleanup, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let report = environment::cleanup(None).or_exit(Exit::Missing)?;
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
