//! The options of `plimsoll guard`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plimsoll_model::scenario::GuardPolicy;

use super::values::some_seconds;

fn policies() -> impl TypedValueParser<Value = GuardPolicy> {
    PossibleValuesParser::new(GuardPolicy::NAMES).try_map(|name| name.parse::<GuardPolicy>())
}

#[derive(Debug, Clone, Args)]
pub struct Guard {
    /// Guard this memory cgroup and those below it [default: the machine]
    #[arg(short, long, value_name = "PATH", group = "scope")]
    pub cgroup: Option<PathBuf>,
    /// Guard this process and its descendants
    #[arg(short, long, value_name = "PID", group = "scope")]
    pub pid: Option<u32>,
    /// Choose how processes are held back
    #[arg(long, value_name = "POLICY", value_parser = policies(), default_value = "auto")]
    pub policy: GuardPolicy,
    /// Never touch processes of this name
    #[arg(long, value_name = "NAME")]
    pub protect: Vec<String>,
    /// Never touch processes in this cgroup
    #[arg(long, value_name = "PATH")]
    pub protect_cgroup: Vec<PathBuf>,
    /// Print the decisions and carry out none
    #[arg(long)]
    pub dry_run: bool,
    /// Undo the stops and throttles of a killed guard, and exit
    #[arg(long, conflicts_with_all = ["scope", "policy", "protect", "protect_cgroup", "dry_run", "duration"])]
    pub release: bool,
    /// Exit after this time [default: at a signal]
    #[arg(long, value_name = "TIME", value_parser = some_seconds)]
    pub duration: Option<f64>,
    /// Print a JSON document a line for each decision
    #[arg(long)]
    pub json: bool,
}
