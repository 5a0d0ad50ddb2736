//! The options of `plimsoll heap`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

const HEAP_RUN: &str = "The command unpacks its library into $XDG_CACHE_HOME/plimsoll or ~/.cache/plimsoll (root's into \
    /var/cache/plimsoll), or else into a folder of the user's own in $TMPDIR, and names it in LD_PRELOAD. Child processes of the program use the heap too.\n\n\
    Exit codes: that of the program; 127 program not found; 126 program cannot be executed; 4 program cannot load the library \
    (static, set-user-ID, another architecture, its own malloc); 3 no folder for the library.";

#[derive(Debug, Clone, Args)]
pub struct HeapGroup {
    #[command(subcommand)]
    pub command: HeapCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub enum HeapCommand {
    /// Run a program with this heap in place of its malloc
    #[command(after_help = HEAP_RUN)]
    Run(HeapRun),
    /// Print the contents, fragmentation and consistency of the heaps of a running process
    Stat(HeapStat),
}

#[derive(Debug, Clone, Args)]
#[command(override_usage = "plimsoll heap stat [OPTIONS] <PID|--all-heaps>")]
pub struct HeapStat {
    /// Inspect this process
    #[arg(required_unless_present = "all_heaps")]
    pub pid: Option<u32>,
    /// Print every heap in full; without PID, the heaps of every process
    #[arg(long)]
    pub all_heaps: bool,
    /// Check all units, lists, free blocks and slots
    #[arg(long, conflicts_with = "watch")]
    pub validate: bool,
    /// Print one JSON document
    #[arg(long, conflicts_with = "watch")]
    pub json: bool,
    /// Print again every second until ^C or the end of the process
    #[arg(long)]
    pub watch: bool,
    /// Also write an HTML report with a map of the units
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct HeapRun {
    /// Choose the front end for blocks of up to 16 KiB
    #[arg(long, value_enum, default_value_t = HeapFrontEnd::Lfh, value_name = "FRONT-END")]
    pub front_end: HeapFrontEnd,
    /// Detect more errors with guard pages, quarantine and zeroing on free
    #[arg(long)]
    pub hardened: bool,
    /// Run this program with these arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub program: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HeapFrontEnd {
    /// One lock over coalescing blocks.
    Standard,
    /// Low fragmentation: buckets, and one slot per processor.
    Lfh,
}
