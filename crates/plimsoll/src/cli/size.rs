//! The options of `plimsoll size`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::RUNS;
use super::values::{bytes, percent, some_seconds};

#[derive(Debug, Clone, Args)]
pub struct Size {
    /// Measure on these engines, separated by commas: none, zram:lz4, zswap, swapfile [default: none, and those that this machine has]
    #[arg(
        long,
        value_name = "ENGINES",
        value_delimiter = ',',
        conflicts_with = "service"
    )]
    pub engine: Vec<String>,
    /// Repeat the search this many times on each engine; six give a 95% interval
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "service", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Tolerate this slowdown over the run without pressure
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "5%",
        conflicts_with = "service"
    )]
    pub tolerate: String,
    /// Measure the number that the program prints, the group of this regular expression, instead of wall time
    #[arg(long, value_name = "REGEX", conflicts_with = "service")]
    pub metric: Option<String>,
    /// Count a larger number as better
    #[arg(long, requires = "metric", conflicts_with = "service")]
    pub higher_is_better: bool,
    /// Count a run whose standard output differs as failed
    #[arg(long, conflicts_with = "service")]
    pub same_output: bool,
    /// Choose the page cache at the start of each run
    #[arg(long, value_enum, default_value_t = SizeCache::Cold, conflicts_with = "service")]
    pub cache: SizeCache,
    /// Exit with code 6 if the program needs more than this on any engine, for instance 600M
    #[arg(long, value_name = "BYTES", conflicts_with = "service")]
    pub fail_if_needs_more_than: Option<String>,
    /// Write the recording into this folder
    #[arg(short, long, value_name = "DIR", default_value = RUNS)]
    pub output: PathBuf,
    #[command(flatten)]
    pub service: SizeService,
    /// Wait up to this many seconds for another run to end
    #[arg(long, value_name = "SECONDS", conflicts_with = "service", num_args = 0..=1, default_missing_value = "3600", require_equals = true)]
    pub wait: Option<u64>,
    /// Open the report in a browser: $BROWSER, otherwise xdg-open
    #[arg(long)]
    pub open: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
    /// Run this program with these arguments
    #[arg(
        required_unless_present = "service",
        conflicts_with = "service",
        last = true,
        value_name = "COMMAND"
    )]
    pub program: Vec<std::ffi::OsString>,
}

/// Page cache of the program's cgroup at the start of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SizeCache {
    /// Empty: each run reads its files again.
    Cold,
    /// Of the run before: a first run reads the files.
    Warm,
}

/// The options of `plimsoll size` for a running service.
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("service").args(["cgroup", "pid"]))]
pub struct SizeService {
    /// Size the service in this memory cgroup: a path below the mount, or its folder
    #[arg(short, long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Size the service in the cgroup of this process
    #[arg(short, long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Lower the cap until tasks stall for memory in this share of the time
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = percent, requires = "service")]
    pub psi: f64,
    /// Size for this time: seconds, or a number with s, m, h or d; more time lowers the cap more slowly
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = some_seconds, requires = "service")]
    pub duration: f64,
    /// Never set the cap below this, for instance 512M
    #[arg(long, value_name = "BYTES", value_parser = bytes, requires = "service")]
    pub floor: Option<u64>,
}
