//! Errors of `plimsoll size` before its run.

use std::ffi::OsString;

use plimsoll_lab::run::requirements::Lack;
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::quantity::bytes;
use plimsoll_model::scenario::ParseNameError;
use plimsoll_model::scenario::workloads::command::MetricError;

#[derive(Debug, thiserror::Error)]
pub(super) enum SizeError {
    #[error(
        "cannot use --engine `{given}`: {cause}; engines are none, zram, zram:ALGORITHM, zswap, zswap:COMPRESSOR, swapfile"
    )]
    Engine { given: String, cause: ParseNameError },
    #[error(
        "cannot use --engine `{0}`: an allocator; engines are none, zram, zram:ALGORITHM, zswap, zswap:COMPRESSOR, swapfile"
    )]
    Allocator(String),
    #[error(
        "cannot use --engine `{0}`: a program that is sized has no pager; engines are none, zram, zram:ALGORITHM, zswap, \
         zswap:COMPRESSOR, swapfile"
    )]
    Pager(String),
    #[error("cannot use --engine `{0}` twice: name each engine once")]
    EngineTwice(String),
    #[error("cannot use --tolerate `{0}`: not a percentage from 0.1% to 10000%; give for example 5%")]
    Tolerate(String),
    #[error("cannot use --metric `{given}`: {cause}; give for example --metric 'ops/s: ([0-9.]+)'")]
    Metric { given: String, cause: MetricError },
    #[error("cannot pass the argument {} to the program: not UTF-8; start the program from a script that has it", .0.display())]
    NotText(OsString),
    /// A file that is no program, or none.
    #[error("cannot start `{program}`: {cause}; name an executable file by its path, or one in PATH")]
    Program { program: String, cause: &'static str },
    #[error("cannot size a program on this machine:\n{}\n{}", listed(.missing), remedy(.works))]
    Missing {
        missing: Vec<Lack>,
        /// The engines that lack nothing.
        works: Vec<String>,
    },
    #[error(
        "cannot size `{program}`: it fails without pressure: {reason}; make it succeed by itself, then repeat"
    )]
    Pilot { program: String, reason: String },
    #[error("cannot size `{program}`: the run without pressure was stopped: {reason}; repeat it")]
    Stopped { program: String, reason: String },
    #[error(
        "cannot keep the budget of {}: {program} needs {} on {engine}; raise `--fail-if-needs-more-than`, or reduce the program",
        bytes(*budget as f64), bytes(*needed as f64)
    )]
    OverBudget {
        program: String,
        engine: String,
        needed: u64,
        budget: u64,
    },
    #[error("cannot check the budget of {}: {engine} has no trustworthy result; repeat the run on a quiet machine", bytes(*budget as f64))]
    Unknown { engine: String, budget: u64 },
}

fn listed(missing: &[Lack]) -> String {
    let lines: Vec<String> = missing
        .iter()
        .map(|lack| format!("  - {}", lack.missing))
        .collect();
    lines.join("\n")
}

fn remedy(works: &[String]) -> String {
    match works {
        [] => "no engine works here without that; in a cgroup of your own, `--engine none` needs no root: \
               `systemd-run --user --scope -p Delegate=yes plimsoll size --engine none -- PROGRAM`"
            .to_owned(),
        names => format!("these work here: `--engine {}`", names.join(",")),
    }
}

impl SizeError {
    fn exit(&self) -> Exit {
        match self {
            SizeError::Missing { .. } => Exit::Missing,
            SizeError::OverBudget { .. } => Exit::Regression,
            SizeError::Unknown { .. } => Exit::Untrustworthy,
            SizeError::Pilot { .. } | SizeError::Stopped { .. } => Exit::WorkloadFailed,
            _ => Exit::Usage,
        }
    }
}

impl From<SizeError> for Failure {
    fn from(error: SizeError) -> Failure {
        Failure::new(error.exit(), error)
    }
}
