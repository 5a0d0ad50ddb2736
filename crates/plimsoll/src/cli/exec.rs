//! The options of `plimsoll exec`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use plimsoll_model::scenario::Amount;

use super::values::{PageFileArgument, SwapArgument, page_file, swap};

pub(super) const EXEC: &str = "The engine pager unpacks its library as `plimsoll heap run` does, sets LD_PRELOAD and PLIMSOLL_EXEC, and becomes the \
    program. The engine kernel runs the program as a child in a memory cgroup, forwards signals to it, and exits with its exit code or by \
    its signal. With --watch or --report, the program of either engine is a child of the monitor.\n\n\
    Exit codes: that of the program; 127 program not found; 126 program cannot be executed; 125 the library cannot start in the program; \
    4 the pager cannot manage the program (static, set-user-ID, another architecture, another C library than glibc); 3 a capability or \
    resource is missing; 1 the command line is wrong, or --ram is too small for a pager.";

#[derive(Debug, Clone, Args)]
pub struct Exec {
    /// Give the program this much RAM: 512M, or a share of the container's RAM: 40%
    #[arg(long, value_name = "SIZE")]
    pub ram: Amount,
    /// Choose the engine that manages the memory
    #[arg(long, value_enum, default_value_t = ExecEngine::Auto)]
    pub engine: ExecEngine,
    /// Let the pager write pages that do not fit into the budget to an encrypted file in this folder on a disk: PATH, PATH,SIZE or none [default: /var/tmp if it is on a disk; SIZE: 4 times --ram, without PATH at most an eighth of the free space]
    #[arg(long, value_name = "PATH", value_parser = OsStringValueParser::new().try_map(page_file))]
    pub page_file: Option<PageFileArgument>,
    /// Choose the codec of the pager [default: auto]
    #[arg(long, value_enum)]
    pub codec: Option<ExecCodec>,
    /// Turn swap on for the engine kernel, as root: zram, zram:ALGORITHM, swapfile or swapfile:FOLDER, with or without ,SIZE [default: use active swap; SIZE: 4 times --ram, at most half of the available RAM or disk space]
    #[arg(long, value_name = "SWAP", value_parser = swap, conflicts_with_all = ["page_file", "codec"])]
    pub swap: Option<SwapArgument>,
    /// Print memory, faults and times on standard error at the end
    #[arg(long)]
    pub stats: bool,
    /// Print the chosen engine, and the values at the end (engine kernel, --report or --watch), as JSON on standard error, one document a line
    #[arg(long)]
    pub json: bool,
    /// Show the monitor of `plimsoll watch` until the program ends; write the program's output to the folder of --report, or discard it
    #[arg(long)]
    pub watch: bool,
    /// Record the run into this new folder, write a report, and print a summary on standard error [default folder: a new one in plimsoll-runs]
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    pub report: Option<Option<PathBuf>>,
    /// Run the program without a limit if the pager cannot manage it
    #[arg(long)]
    pub allow_unmanaged: bool,
    /// Run this program with these arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub program: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExecEngine {
    /// The kernel if this user may create a memory cgroup and swap is free, otherwise the pager.
    Auto,
    /// A pager in the program's own process, without root and without swap.
    Pager,
    /// A memory cgroup and the swap of the machine.
    Kernel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExecCodec {
    /// Fast.
    Lz4,
    /// Dense.
    Zstd,
    /// LZ4 at first, Zstandard for idle pages.
    Auto,
}
