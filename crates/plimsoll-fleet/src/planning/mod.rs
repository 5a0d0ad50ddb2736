//! A fleet's folder, written whole or not at all.
//!
//! A new engine: a variant of [`Engine`] with its checks in `plan/mod.rs`, a module like `slurm` with `write`, `submit` and `cancel`, its
//! actions as root in `privileges.rs`, its option in `cli/fleet.rs` of `plimsoll`. The compiler finds the matches.

mod privileges;
mod tasks;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

use crate::plan::{self, Binary, Engine, Plan, PlannedScenario, RunName};
use crate::{FleetError, Folder, kubernetes, sha256, slurm, ssh};

/// Largest program: a debug build has some 100 MB.
const MOST_PROGRAM_BYTES: u64 = 1 << 30;
/// Longest part of a scenario's name in the name of a run.
const LONGEST_NAME: usize = 40;

/// The parts of a plan that the user selects.
#[derive(Debug)]
pub struct Request<'r> {
    /// By default the scenario's name and the time.
    pub run: Option<RunName>,
    pub scenario_name: &'r str,
    pub scenario_text: &'r str,
    /// `KEY=VALUE`.
    pub changes: Vec<String>,
    pub quick: bool,
    pub program: File,
    pub program_version: String,
    pub engine: Engine,
    /// Number of hosts, for an engine that selects them.
    pub hosts: u32,
    /// Tasks of each host.
    pub repeat: u32,
    pub at_most: u32,
    pub stop_after: Option<u32>,
    pub retries: u32,
}

/// Writes the plan, the scenario, the program and the files of the engine into a new or empty folder.
///
/// # Errors
/// [`FleetError::Refused`] for a folder that is not empty, and for a plan that its engine cannot carry out; those of
/// [`Folder::write`]. Then the folder is as before.
pub fn write(request: Request<'_>, folder: &Path) -> Result<Plan, FleetError> {
    let mut program = Vec::new();
    let read = (&request.program)
        .take(MOST_PROGRAM_BYTES + 1)
        .read_to_end(&mut program);
    read.map_err(|source| FleetError::io("read", Path::new("the program"), source))?;
    if program.len() as u64 > MOST_PROGRAM_BYTES {
        return Err(FleetError::refused(
            format_args!("the program has more than {MOST_PROGRAM_BYTES} bytes"),
            "name the program plimsoll with --binary",
        ));
    }
    let scenario = request.scenario_text.to_owned();
    let plan = plan(request, &program)?;
    plan.check().map_err(|reason| {
        FleetError::refused(format_args!("cannot plan the fleet: {reason}"), "change it")
    })?;
    let is_new = !folder.exists();
    let opened = Folder::make(folder)?;
    if !opened.names()?.is_empty() {
        return Err(FleetError::refused(
            format_args!(
                "cannot write the fleet into {}: it is not empty",
                folder.display()
            ),
            "name a new folder",
        ));
    }
    let written = write_files(&plan, &opened, &scenario, &program);
    if written.is_err() {
        for name in opened.names().unwrap_or_default() {
            let _ = opened.remove(name);
        }
        if is_new {
            let _ = std::fs::remove_dir(folder);
        }
    }
    written.map(|()| plan)
}

fn write_files(plan: &Plan, folder: &Folder, scenario: &str, program: &[u8]) -> Result<(), FleetError> {
    folder.write(plan::SCENARIO, scenario.as_bytes(), 0o644)?;
    folder.write(plan::PROGRAM, program, 0o755)?;
    folder.make_folder(plan::TASKS)?;
    match &plan.engine {
        Engine::Slurm { .. } => slurm::write(plan, folder.path())?,
        Engine::Ssh { .. } => ssh::write(plan, folder.path())?,
        Engine::Kubernetes { .. } => kubernetes::write(plan, folder.path())?,
    }
    // Last: a folder with a plan is whole.
    plan.write(folder.path())
}

fn plan(request: Request<'_>, program: &[u8]) -> Result<Plan, FleetError> {
    let created = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let run = match request.run {
        Some(run) => run,
        None => run_name(request.scenario_name, &created),
    };
    Ok(Plan {
        version: plan::VERSION,
        run,
        scenario: PlannedScenario {
            name: request.scenario_name.to_owned(),
            sha256: sha256::of_bytes(request.scenario_text),
        },
        changes: request.changes,
        quick: request.quick,
        binary: Binary {
            sha256: sha256::of_bytes(program),
            bytes: program.len() as u64,
            version: request.program_version,
        },
        tasks: tasks::of(&request.engine, request.hosts, request.repeat)?,
        privileges: privileges::of(&request.engine),
        engine: request.engine,
        at_most: request.at_most,
        stop_after: request.stop_after,
        retries: request.retries,
        created,
    })
}

/// `compression-20261130t174512z`.
fn run_name(scenario: &str, created: &str) -> RunName {
    let time = created.replace(['-', ':'], "").to_ascii_lowercase();
    let name = tasks::plain(scenario, LONGEST_NAME);
    let parsed = format!("{name}-{time}").parse();
    // The time alone is a name, too.
    parsed.unwrap_or_else(|_| time.parse().expect("digits and letters are a name"))
}
