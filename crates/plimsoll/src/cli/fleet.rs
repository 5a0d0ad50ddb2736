//! The options of `plimsoll fleet`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::values::{bytes, some_seconds};

const FLEET: &str = "A fleet folder has the plan, the program, the commands of the engine and the results. Slurm, GNU parallel \
    over ssh, or Kubernetes place, start and retry the tasks.";
const COLLECT: &str = "Exit codes: 0 every task is done; 2 a task failed, is missing, corrupt or unreadable; 4 a file is of a newer \
    version; 1, 3 as for all commands.";
const REPORT: &str = "Exit codes: 0; 6 a condition of --fail-on failed; 7 a condition cannot be decided, as its metric is missing or \
    untrustworthy; 4 a file is of a newer version; 1, 3 as for all commands.";

#[derive(Debug, Clone, Args)]
#[command(after_help = FLEET)]
pub struct FleetGroup {
    #[command(subcommand)]
    pub command: FleetCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub enum FleetCommand {
    /// Write a fleet folder: plan, program and commands
    Plan(Box<FleetPlan>),
    /// Submit the tasks of a fleet folder to its engine
    Submit(FleetSubmit),
    /// Stop the tasks of a fleet folder
    Cancel(FleetFolder),
    /// Merge the results of the tasks into a data set, and list the tasks that are not done
    #[command(after_help = COLLECT)]
    Collect(FleetCollect),
    /// Report distributions and outlier hosts, and compare with another fleet
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
    /// Write this new folder; Slurm hosts need it at the same path
    #[arg(long, value_name = "DIR")]
    pub folder: PathBuf,
    /// Run over ssh on the hosts of this file: one line per host, `[user@]name[:port] [class=WORD]`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["slurm", "k8s", "tasks", "time_limit"])]
    pub hosts: Option<PathBuf>,
    /// Run on hosts of this Slurm partition
    #[arg(long, value_name = "PARTITION", requires = "tasks", conflicts_with = "k8s")]
    pub slurm: Option<String>,
    /// End a task after this time: 30m, 2h [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = some_seconds, requires = "slurm")]
    pub time_limit: Option<f64>,
    /// Run on Kubernetes nodes
    #[arg(long, requires = "image")]
    pub k8s: bool,
    /// Run in this container image, which needs sh, sed, tar, sha256sum, modprobe and glibc
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
    /// Run also on nodes with this NoSchedule taint; repeat for several taints
    #[arg(long, value_name = "KEY", requires = "k8s")]
    pub tolerate: Vec<String>,
    /// Plan N x --repeat tasks; the scheduler selects the hosts, and a host may run several
    #[arg(long, value_name = "N")]
    pub tasks: Option<NonZeroU32>,
    /// Plan each task this many times; with --hosts or --nodes, on the same host
    #[arg(long, value_name = "N", default_value = "1")]
    pub repeat: NonZeroU32,
    /// Shrink the scenario to about one minute
    #[arg(long)]
    pub quick: bool,
    /// Run on at most this many hosts at a time
    #[arg(long, value_name = "N", default_value = "10")]
    pub at_most: NonZeroU32,
    /// Cancel the waiting tasks after this many failed tasks; running tasks finish (Kubernetes: are terminated)
    #[arg(long, value_name = "N")]
    pub stop_after: Option<NonZeroU32>,
    /// Retry a failed task up to this many times
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub retries: u32,
    /// Name the run: lowercase letters, digits, `.`, `_` and `-` [default: scenario and time]
    #[arg(long, value_name = "RUN-NAME")]
    pub run: Option<String>,
    /// Copy this program to the hosts [default: this program]
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct FleetFolder {
    /// Use this fleet folder, written by `fleet plan`
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub struct FleetSubmit {
    /// Use this fleet folder, written by `fleet plan`
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Print the commands without running them
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, Args)]
pub struct FleetCollect {
    /// Use this fleet folder, written by `fleet plan`
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct FleetReport {
    /// Use this fleet folder, after `fleet collect`
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Compare with this baseline: a fleet folder, or its data set
    #[arg(long, value_name = "DIR")]
    pub against: Option<PathBuf>,
    /// Exit with code 6 if a metric gets worse by more than this limit: `restore.seconds>10%`
    #[arg(long, value_name = "METRIC>LIMIT", requires = "against")]
    pub fail_on: Vec<String>,
    /// Write to this file; `-` is standard output [default: report.html in the folder]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Open the report in a browser: $BROWSER, otherwise xdg-open
    #[arg(long)]
    pub open: bool,
}
