//! `plimsoll fleet plan`: writes the folder of a fleet.

use std::fmt::Write;
use std::fs::File;
use std::path::Path;

use crate::cli::{FleetPlan, Verbosity};
use plimsoll_fleet::plan::{Engine, Plan, RunName};
use plimsoll_fleet::{hosts, planning};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::scenario::{self, Document, Overrides};

/// Time limit of a task without `--time-limit`.
const TIME_LIMIT_SECONDS: f64 = 3600.0;
/// Memory limit of a pod without `--memory-limit`.
const MEMORY_LIMIT: u64 = 4 << 30;

pub(super) fn plan(options: &FleetPlan, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let source = scenario::find(&options.scenario).or_exit(Exit::Usage)?;
    let document = Document::parse(&source).or_exit(Exit::Usage)?;
    let overrides = Overrides {
        quick: options.quick,
        set: options.changes.clone(),
        ..Overrides::default()
    };
    document.check_changes(&overrides).or_exit(Exit::Usage)?;
    let (program, program_version) = program(options.binary.as_deref())?;
    let request = planning::Request {
        run: run(options.run.as_deref())?,
        scenario_name: document.name(),
        scenario_text: source.text(),
        changes: options.changes.clone(),
        quick: options.quick,
        program,
        program_version,
        engine: engine(options)?,
        hosts: options.tasks.map_or(1, u32::from),
        repeat: options.repeat.into(),
        at_most: options.at_most.into(),
        stop_after: options.stop_after.map(u32::from),
        retries: options.retries,
    };
    let plan = planning::write(request, &options.folder).map_err(super::failure)?;
    if !verbosity.quiet {
        super::super::print(&summary(&plan, &options.folder))?;
    }
    Ok(Exit::Done)
}

fn run(name: Option<&str>) -> Result<Option<RunName>, Failure> {
    let parse = |name: &str| {
        name.parse().map_err(|error| {
            Failure::message(Exit::Usage, format_args!("cannot name the run `{name}`: {error}"))
        })
    };
    name.map(parse).transpose()
}

/// The program to copy, and its version as far as this program knows it.
fn program(named: Option<&Path>) -> Result<(File, String), Failure> {
    let (path, version) = match named {
        Some(path) => (path, "unknown"),
        None => (Path::new("/proc/self/exe"), env!("CARGO_PKG_VERSION")),
    };
    let failed = |error: std::io::Error| {
        let text = format!(
            "cannot read the program {}: {error}; name it with --binary",
            path.display()
        );
        Failure::message(Exit::Usage, text)
    };
    let file = File::open(path).map_err(failed)?;
    match file.metadata().map_err(failed)?.is_file() {
        true => Ok((file, version.to_owned())),
        false => Err(failed(std::io::Error::other("it is not a regular file"))),
    }
}

fn engine(options: &FleetPlan) -> Result<Engine, Failure> {
    if let Some(file) = &options.hosts {
        let hosts = hosts::read(file).map_err(super::failure)?;
        return Ok(Engine::Ssh { hosts });
    }
    if let Some(partition) = &options.slurm {
        let seconds = options.time_limit.unwrap_or(TIME_LIMIT_SECONDS);
        return Ok(Engine::Slurm {
            partition: partition.clone(),
            // At most 366 days.
            time_limit_minutes: (seconds / 60.0).ceil() as u32,
        });
    }
    if options.nodes.is_empty() && options.tasks.is_none() {
        let text = "cannot plan for Kubernetes: neither nodes nor their number are named; add --nodes a,b,c or --tasks N";
        return Err(Failure::message(Exit::Usage, text));
    }
    Ok(Engine::Kubernetes {
        namespace: options.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        image: options.image.clone().unwrap_or_default(),
        nodes: options.nodes.clone(),
        memory_limit: quantity(options.memory_limit.unwrap_or(MEMORY_LIMIT)),
        tolerations: options.tolerate.clone(),
    })
}

/// Bytes as a quantity of Kubernetes.
fn quantity(bytes: u64) -> String {
    let units = [(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
    let whole = units.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit));
    let (unit, name) = whole.unwrap_or((1, ""));
    format!("{}{name}", bytes / unit)
}

fn summary(plan: &Plan, folder: &Path) -> String {
    let mut text = String::new();
    let shown = folder.display();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "Run       {}", plan.run);
    let _ = writeln!(
        text,
        "Tasks     {} by {}, at most {} at a time",
        plan.tasks.len(),
        plan.engine.name(),
        plan.at_most
    );
    let _ = writeln!(text, "Folder    {shown}");
    let _ = writeln!(text, "Possible actions as root on each host:");
    for privilege in &plan.privileges {
        let _ = writeln!(text, "  {} ({})", privilege.action, privilege.reason);
    }
    let _ = writeln!(text, "Next      plimsoll fleet submit {shown}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_limits_are_quantities_of_kubernetes() {
        for (bytes, expected) in [
            (4 << 30, "4Gi"),
            (1536 << 20, "1536Mi"),
            (3 << 10, "3Ki"),
            (1000, "1000"),
        ] {
            assert_eq!(quantity(bytes), expected);
        }
    }
}
