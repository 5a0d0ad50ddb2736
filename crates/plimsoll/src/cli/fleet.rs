//! The options of `plimsoll fleet`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::values::{bytes, some_seconds};

const FLEET: &str = "A fleet folder has the plan, the program, the commands of the engine and the results. Slurm, GNU parallel \
    over ssh, or Kubernetes place, start and repeat the tasks.";
const COLLECT: &str =
    "Exit codes: 0 every task is done; 2 a task failed, is missing or is corrupt; 1, 3 as for all commands.";
const REPORT: &str = "Exit codes: 0; 6 a condition of --fail-on failed; 7 a condition has no verdict; 1, 3 as for all commands.";

#[derive(Debug, Clone, Args)]
#[command(after_help = FLEET)]
pub struct FleetGroup {
    #[command(subcommand)]
    pub command: FleetCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub enum FleetCommand {
    /// Write the folder of a run on many hosts: plan, program and commands
    Plan(FleetPlan),
    /// Submit the tasks of a folder to its engine
    Submit(FleetSubmit),
    /// Stop the tasks of a folder
    Cancel(FleetFolder),
    /// Merge the results of the tasks into a data set, and list the tasks that are not done
    #[command(after_help = COLLECT)]
    Collect(FleetCollect),
    /// Report distributions, outlier hosts and the difference to another fleet
    #[command(after_help = REPORT)]
    Report(FleetReport),
}

#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("engine").required(true).args(["hosts", "slurm", "k8s"]))]
pub struct FleetPlan {
    /// Run this built-in scenario (see `plimsoll list`) or scenario file
    #[arg(value_name = "SCENARIO")]
    pub scenario: String,
    /// Set keys of the scenario: `N=5 S=10M`
    #[arg(value_name = "KEY=VALUE")]
    pub changes: Vec<String>,
    /// Write this new folder; hosts of Slurm need it at the same path
    #[arg(long, value_name = "DIR")]
    pub folder: PathBuf,
    /// Run on the hosts of this file by ssh: a line for each host, `[user@]name[:port] [class=WORD]`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["slurm", "k8s", "tasks", "time_limit"])]
    pub hosts: Option<PathBuf>,
    /// Run on hosts of this Slurm partition
    #[arg(long, value_name = "PARTITION", requires = "tasks", conflicts_with = "k8s")]
    pub slurm: Option<String>,
    /// End a task after this time: 30m, 2h [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = some_seconds, requires = "slurm")]
    pub time_limit: Option<f64>,
    /// Run on nodes of Kubernetes
    #[arg(long, requires = "image")]
    pub k8s: bool,
    /// Take this image, which has the program and a shell
    #[arg(long, value_name = "IMAGE", requires = "k8s")]
    pub image: Option<String>,
    /// Run on each of these nodes: a,b,c
    #[arg(
        long,
        value_name = "NODES",
        value_delimiter = ',',
        requires = "k8s",
        conflicts_with = "tasks"
    )]
    pub nodes: Vec<String>,
    /// Create the Jobs in this namespace [default: default]
    #[arg(long, value_name = "NAMESPACE", requires = "k8s")]
    pub namespace: Option<String>,
    /// Limit the memory of a pod; the cgroups of the trials are in it [default: 4G]
    #[arg(long, value_name = "SIZE", value_parser = bytes, requires = "k8s")]
    pub memory_limit: Option<u64>,
    /// Run on this many hosts, which the engine selects
    #[arg(long, value_name = "N")]
    pub tasks: Option<NonZeroU32>,
    /// Run this many tasks on each host
    #[arg(long, value_name = "N", default_value = "1")]
    pub repeat: NonZeroU32,
    /// Shrink the scenario to about one minute
    #[arg(long)]
    pub quick: bool,
    /// Run on at most this many hosts at a time
    #[arg(long, value_name = "N", default_value = "10")]
    pub at_most: NonZeroU32,
    /// Start no further task after this many failed tasks
    #[arg(long, value_name = "N")]
    pub stop_after: Option<NonZeroU32>,
    /// Start a failed task again, up to this many times
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub retries: u32,
    /// Name the run: small letters, digits, `.`, `_` and `-` [default: scenario and time]
    #[arg(long, value_name = "RUN-NAME")]
    pub run: Option<String>,
    /// Copy this program to the hosts [default: this program]
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct FleetFolder {
    /// Take this folder of `fleet plan`
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub struct FleetSubmit {
    /// Take this folder of `fleet plan`
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Print the commands and carry out none
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, Args)]
pub struct FleetCollect {
    /// Take this folder of `fleet plan`
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct FleetReport {
    /// Take this folder of `fleet plan`, after `fleet collect`
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Compare with this data set, the baseline: a folder of `fleet plan`, or its `data`
    #[arg(long, value_name = "DIR")]
    pub against: Option<PathBuf>,
    /// Exit with code 6 if a metric is worse than in the baseline by this limit: `restore.seconds>10%`
    #[arg(long, value_name = "METRIC>LIMIT", requires = "against")]
    pub fail_on: Vec<String>,
    /// Write to this file; `-` is standard output [default: report.html in the folder]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Open the report in a browser: $BROWSER, otherwise xdg-open
    #[arg(long)]
    pub open: bool,
}
