//! The report of a fleet: a self-contained HTML file from a data set of [`collect`](crate::collect).
//!
//! ```text
//! tasks.parquet, metrics.parquet -> DataSet -> distributions by class, outliers with their settings
//!                      DataSet, DataSet -> Comparison (as of `plimsoll compare`) -> conditions
//!                                                     all of these -> Document -> HTML
//! ```
//!
//! A host's value of a metric is the median of its trustworthy trials.

mod changes;
mod data;
mod distribution;
mod outliers;
mod page;
mod sections;
mod settings;
#[cfg(test)]
mod tests;

use std::io::{BufWriter, Write};
use std::path::Path;

use plimsoll_model::exit::Exit;
use plimsoll_report::compare::words;
use plimsoll_report::comparison::{Comparison, State};
use plimsoll_report::html::document;

pub use distribution::{Distribution, HostValue, Quantiles};
pub use outliers::Outlier;
pub use plimsoll_report::comparison::Condition as FailOn;
pub use settings::SettingDifference;

use crate::FleetError;
use crate::plan::Plan;
use data::DataSet;

/// The content of a report.
#[derive(Debug)]
pub struct ReportOutcome {
    pub summary: Summary,
    /// Of headline metrics.
    pub distributions: Vec<Distribution>,
    /// Farthest first.
    pub outliers: Vec<Outlier>,
    pub comparison: Option<Comparison>,
}

/// The tasks of a run by state, and their attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    pub run: String,
    pub tasks: usize,
    pub done: usize,
    pub failed: usize,
    pub missing: usize,
    pub corrupt: usize,
    pub unreadable: usize,
    pub hosts: usize,
    pub classes: usize,
    pub attempts: u64,
    /// Times that the engine started a task again.
    pub engine_restarts: u64,
    /// The tasks that are not done.
    pub unfinished: Vec<Unfinished>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    pub task: String,
    pub host: Option<String>,
    /// `failed`, `missing`, `corrupt` or `unreadable`.
    pub state: String,
    pub attempts: u64,
    pub reason: String,
}

impl ReportOutcome {
    /// The exit code of a command that ends with it: that of `plimsoll compare`.
    pub fn exit(&self) -> Exit {
        match self.comparison.as_ref().map_or(State::Passed, Comparison::state) {
            State::Passed => Exit::Done,
            State::Failed => Exit::Regression,
            State::Unknown => Exit::Untrustworthy,
        }
    }

    /// The result in lines for a terminal: tasks, outliers, comparison, conditions.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![page::tasks_sentence(&self.summary)];
        lines.extend(page::outlier_lines(&self.outliers));
        if let Some(comparison) = &self.comparison {
            lines.push(page::comparison_sentence(comparison));
            let outcomes = comparison.conditions.iter();
            lines.extend(outcomes.map(|outcome| words::outcome(comparison, outcome)));
        }
        lines
    }
}

/// Writes the report of the data set at `data`, compared with `baseline` if there is one.
///
/// # Errors
/// Unreadable data sets; conditions without a baseline or of unknown metrics; a data set without a result; data sets without a class
/// and group in common; those of `output`.
pub fn write(
    data: &Path,
    plan: &Plan,
    baseline: Option<&Path>,
    output: &mut impl Write,
    fail_on: &[FailOn],
) -> Result<ReportOutcome, FleetError> {
    if baseline.is_none() && !fail_on.is_empty() {
        let reason = "cannot check conditions: there is no data set to compare with";
        return Err(FleetError::refused(reason, "name one with --against"));
    }
    let wanted = changes::wanted(fail_on);
    let data_set = DataSet::read(data, Some(plan.run.as_str()), &wanted)?;
    let comparison = match baseline {
        None => None,
        Some(baseline) => {
            let scenarios = [scenario_beside(baseline), plan.scenario.name.clone()];
            let baseline = DataSet::read(baseline, None, &wanted)?;
            Some(changes::compare(&baseline, &data_set, scenarios, fail_on)?)
        }
    };
    let outcome = ReportOutcome {
        summary: summary(&data_set),
        distributions: distribution::all(&data_set),
        outliers: outliers::all(&data_set),
        comparison,
    };
    let document = page::document(&data_set, plan, &outcome);
    let mut output = BufWriter::new(output);
    let written = document::write(&document, &mut output).and_then(|()| output.flush());
    written.map_err(|source| FleetError::io("write the report of", data, source))?;
    Ok(outcome)
}

/// The name of the scenario of the plan beside a data set; empty without a plan.
fn scenario_beside(data: &Path) -> String {
    let beside = data.parent().into_iter().chain([data]);
    let mut plans = beside.filter_map(|folder| Plan::read(folder).ok());
    plans.next().map(|plan| plan.scenario.name).unwrap_or_default()
}

fn summary(data: &DataSet) -> Summary {
    let count = |state: &str| data.tasks.iter().filter(|task| task.state == state).count();
    let unfinished = data.tasks.iter().filter(|task| !task.is_done());
    Summary {
        run: data.run.clone(),
        tasks: data.tasks.len(),
        done: data.tasks.iter().filter(|task| task.is_done()).count(),
        failed: count("failed"),
        missing: count("missing"),
        corrupt: count("corrupt"),
        unreadable: count("unreadable"),
        hosts: data.hosts.len(),
        classes: data.classes().len(),
        attempts: data.tasks.iter().map(|task| task.attempts).sum(),
        engine_restarts: data.tasks.iter().map(|task| task.engine_restarts).sum(),
        unfinished: unfinished
            .map(|task| Unfinished {
                task: task.id.clone(),
                host: task.host.clone(),
                state: task.state.clone(),
                attempts: task.attempts,
                reason: task.reason.clone().unwrap_or_default(),
            })
            .collect(),
    }
}
