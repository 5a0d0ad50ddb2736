//! The options of `plimsoll hold`.

use std::path::PathBuf;

use clap::Args;
use plimsoll_lab::hold::Pressure;
use plimsoll_model::scenario::Amount;

use super::RUNS;
use super::values::{bytes, rate, seconds};

#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("level").required(true).multiple(true).args(["used", "available", "bytes", "leak", "psi"]))]
pub struct Hold {
    /// Keep this much memory in use, by all programs together: 80%, 12G
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["available", "bytes", "leak", "psi"])]
    pub used: Option<Amount>,
    /// Leave this much memory available to other programs: 500M, 10%
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["bytes", "leak", "psi"])]
    pub available: Option<Amount>,
    /// Hold this much memory, regardless of other programs
    #[arg(long, value_name = "SIZE", conflicts_with = "psi")]
    pub bytes: Option<Amount>,
    /// Hold this much more each second, as a leak does: 10M/s
    #[arg(long, value_name = "SIZE/s", value_parser = rate, conflicts_with = "psi")]
    pub leak: Option<u64>,
    /// Keep tasks waiting for memory in this share of time: some=10%, full=5%
    #[arg(long, value_name = "KIND=SHARE")]
    pub psi: Option<Pressure>,
    /// Hold the level in this memory cgroup; shares are of its limit
    #[arg(short, long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Approach the level over this time: 30s, 5m
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "0")]
    pub ramp: f64,
    /// Release the memory after this time [default: at a signal]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<f64>,
    /// Fill the memory with this class of data: random, ratio=2.5, file=PATH
    #[arg(long, value_name = "CLASS", default_value = "random", conflicts_with = "psi")]
    pub class: String,
    /// Read each page once in this time, so that it stays in RAM
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with = "psi")]
    pub touch_every: Option<f64>,
    /// Release all when less than this is available [default: 5% of RAM; at least 512M and 5%]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub reserve: Option<u64>,
    /// Make the file that --psi reads in this folder on a disk
    #[arg(long, value_name = "DIR", default_value = "/var/tmp", conflicts_with_all = ["used", "available", "bytes", "leak"])]
    pub folder: PathBuf,
    /// With --psi, wait up to this many seconds for a run or another pressure to end
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "3600", require_equals = true,
        conflicts_with_all = ["used", "available", "bytes", "leak"])]
    pub wait: Option<u64>,
    /// Write a recording and its report into this folder [default: none; without DIR: plimsoll-runs]
    #[arg(short, long, value_name = "DIR", num_args = 0..=1, default_missing_value = RUNS)]
    pub output: Option<PathBuf>,
    /// Open the report in a browser: $BROWSER, otherwise xdg-open
    #[arg(long, requires = "output")]
    pub open: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}
