//! `plimsoll run`: resolve what was asked, run it, print the verdict.

use std::path::Path;
use std::time::Duration;

use crate::analysis;
use crate::cli::{self, Talk};
use crate::environment;
use crate::exit::{Exit, Failure, OrExit};
use crate::progress::Progress;
use crate::quantity;
use crate::report;
use crate::run::{self, Outcome};
use crate::scenario::{self, Document, Overrides, Plan, SpeedHints};

pub(super) fn run(options: &cli::Run, talk: &Talk) -> Result<Exit, Failure> {
    let source = scenario::find(&options.scenario).or_exit(Exit::Usage)?;
    let document = Document::parse(&source).or_exit(Exit::Usage)?;
    let machine = environment::machine().or_exit(Exit::Missing)?;
    let overrides = Overrides {
        quick: options.quick,
        repeat: options.repeat,
        set: options.set.clone(),
        seed: options.seed,
    };
    let plan = match &options.resume {
        Some(folder) => recorded_plan(folder, document.name())?,
        None => document.resolve(&machine, &overrides).or_exit(Exit::Usage)?,
    };
    if options.check {
        super::print(&format!("{}: ok, {} trials\n", plan.scenario, plan.trials.len()))?;
        return Ok(Exit::Done);
    }
    if options.show {
        super::print(&plan.to_toml())?;
        return Ok(Exit::Done);
    }
    if options.dry_run {
        super::print(&describe(&plan))?;
        run::check_sizes(&plan, &machine)?;
        return Ok(Exit::Done);
    }
    let mut progress = Progress::new(talk.quiet, talk.verbose);
    let settings = run::Options {
        plan,
        machine,
        hz: options.hz,
        output: options.output.clone(),
        resume: options.resume.clone(),
        wait: options.wait.map(Duration::from_secs),
    };
    let outcome = run::run(settings, &mut progress)?;
    present(&outcome, options.json, talk)?;
    Ok(outcome.exit)
}

/// The plan of a recording to go on with: sizes in percent must not be resolved anew.
fn recorded_plan(folder: &Path, scenario: &str) -> Result<Plan, Failure> {
    let recording = super::report::open(folder)?;
    let plan = recording.manifest.plan;
    if plan.scenario != scenario {
        return Err(Failure::message(
            Exit::Usage,
            format_args!(
                "{} is a recording of `{}`, not of `{scenario}`; name the scenario that was run",
                folder.display(),
                plan.scenario,
            ),
        ));
    }
    Ok(plan)
}

/// The plan with its memory, disk and time, for `--dry-run`.
fn describe(plan: &Plan) -> String {
    let estimate = plan.estimate(&SpeedHints::default());
    let mut text = format!(
        "{}: {}\n{} trials, at most {} of memory and {} of disk, about {:.0} s\n",
        plan.scenario,
        plan.title,
        plan.trials.len(),
        quantity::bytes(estimate.peak_memory_bytes as f64),
        quantity::bytes(estimate.disk_bytes as f64),
        estimate.seconds,
    );
    for (number, trial) in plan.trials.iter().enumerate() {
        text.push_str(&format!("{:>4}  {}\n", number + 1, trial.id));
    }
    text
}

/// Prints the verdict of a run, or its results as JSON.
fn present(outcome: &Outcome, json: bool, talk: &Talk) -> Result<(), Failure> {
    if json {
        return super::print_json(&outcome.results);
    }
    let groups = analysis::groups(&outcome.results.trials);
    let colour = super::colour_on_stdout(talk);
    let mut text = report::terminal::summary(&outcome.results, &groups, super::width_of_stdout(), colour);
    text.push_str(&format!("\nRecording  {}\n", outcome.directory.display()));
    text.push_str(&format!("Report     {}\n", outcome.page.display()));
    super::print(&text)
}
