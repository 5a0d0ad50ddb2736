//! The command line and its help. The modules of `command` resolve the settings.
//!
//! The doc comments of fields and variants are the text of `--help`.

mod exec;
mod fleet;
mod guard;
mod heap;
mod hold;
mod size;
mod values;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
use plimsoll_fleet::plan::TaskId;
use plimsoll_model::exit::Exit;
use plimsoll_model::scenario::WorkloadKind;
use plimsoll_report::analysis::statistics::THRESHOLD_PERCENT;

use values::{address, seconds};

use exec::EXEC;
pub use exec::{Exec, ExecCodec, ExecEngine};
pub use fleet::{FleetCollect, FleetCommand, FleetFolder, FleetGroup, FleetPlan, FleetReport, FleetSubmit};
pub use guard::Guard;
pub use heap::{HeapCommand, HeapFrontEnd, HeapGroup, HeapRun, HeapStat};
pub use hold::Hold;
pub use size::{Size, SizeCache, SizeService};
pub use values::{PageFileArgument, SwapKind};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// The exit codes in two lines.
fn exit_codes() -> String {
    let code = |exit: &Exit| format!("{} {}", *exit as u8, exit.meaning());
    let lines = Exit::ALL.chunks(5);
    let lines = lines.map(|line| line.iter().map(code).collect::<Vec<_>>().join("   "));
    format!("Exit codes:\n  {}", lines.collect::<Vec<_>>().join("\n  "))
}

const ENVIRONMENT: &str = "Environment:\n  \
    PLIMSOLL_STATE_DIR  folder of the journals and the lock; only you may be able to write to it\n  \
    XDG_STATE_HOME      parent of the state folder of users other than root [default: ~/.local/state]\n  \
    XDG_CACHE_HOME      parent of the folder of preloaded libraries [default: ~/.cache]\n  \
    TMPDIR              parent of that folder if the cache is not usable [default: /tmp]\n  \
    NO_COLOR            if not empty: no colours\n  \
    PLIMSOLL_EXEC       settings of programs under `plimsoll exec`, which sets it; see the book\n  \
    PLIMSOLL_HEAP_*     settings of programs on the heap; see the book";

/// Measure Linux under memory pressure, watch its memory, run programs on a low-fragmentation heap, and inspect pagers.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, styles = STYLES, max_term_width = 110, after_help = exit_codes(),
    after_long_help = format!("{}\n\n{ENVIRONMENT}", exit_codes()))]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

#[derive(Debug, Clone, Args)]
pub struct Verbosity {
    /// Print results and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print each step and each change of the system
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Choose when to use colour; NO_COLOR is respected
    #[arg(long, global = true, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    pub color: When,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// On a terminal, in a pipe and in a file.
    Always,
    /// Plain text.
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario and write a recording and a report
    Run(Run),
    /// Measure the RAM that a program or a running service needs
    Size(Size),
    /// List the built-in scenarios, or the keys of a workload
    List(List),
    /// Print a built-in scenario file, or the scenario of a recording
    Show(Show),
    /// List the recordings of a folder, newest first
    Runs(Runs),
    /// Write the report of a recording
    Report(Report),
    /// Compare the metrics of two or more runs
    Compare(Compare),
    /// Export a recording as Parquet, CSV, JSON or Prometheus text
    Export(Export),
    /// Run a scenario on many hosts by Slurm, ssh or Kubernetes, and compare the hosts
    Fleet(FleetGroup),
    /// Show the memory of the machine over time, live or from a recording
    Watch(Watch),
    /// List processes with working set, swap, faults, limits and fault storms
    Ps(Ps),
    /// Reclaim pages of a process or cgroup and count the refaults
    Trim(Trim),
    /// Hold memory at a level while other programs come and go
    Hold(Hold),
    /// Stop some of the processes that thrash, so that the others work
    Guard(Guard),
    /// Run a program in less RAM than it needs
    #[command(after_help = EXEC)]
    Exec(Exec),
    /// Run programs on the low-fragmentation heap and inspect their heaps
    Heap(HeapGroup),
    /// Inspect the pagers of running processes
    Pager(PagerGroup),
    /// Check the capabilities of this machine and print the commands that enable missing ones
    Doctor(Json),
    /// Undo the changes that a killed run or guard left on this machine
    Cleanup(Cleanup),
    /// Measure the cost of the sampler or the speed of the fills
    Bench(Bench),
    /// Print shell completions
    Completions(Completions),
    /// Print the man page or write all man pages into a folder
    Man(Man),
    /// Run a worker process of an experiment
    #[command(hide = true)]
    Worker,
    /// Print the completions of a command line, for the scripts of `completions`
    #[command(hide = true)]
    Complete(Complete),
}

#[derive(Debug, Clone, Args)]
pub struct Run {
    /// Run this built-in scenario (see `plimsoll list`) or scenario file [default: tour]
    #[arg(value_name = "SCENARIO")]
    pub scenario: Option<String>,
    /// Set keys of the scenario as `--set` does: `plimsoll run thrash N=5 S=10M`
    #[arg(value_name = "KEY=VALUE")]
    pub changes: Vec<String>,
    /// Shrink the scenario to about one minute
    #[arg(long)]
    pub quick: bool,
    /// Repeat each combination this many times
    #[arg(long, value_name = "N")]
    pub repeat: Option<u32>,
    /// Set a key of the scenario; a list makes a sweep: `key=value`, `section.key=[a, b]`
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Shrink memory and time together, as `--set scale=F` does
    #[arg(long, value_name = "F")]
    pub scale: Option<String>,
    /// Seed the fill data and the order of the trials
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print the scenario with every value resolved for this machine and exit
    #[arg(long, conflicts_with_all = ["check", "dry_run"])]
    pub show: bool,
    /// Check the scenario file and the requirements of its plan on this machine and exit
    #[arg(long, conflicts_with = "dry_run")]
    pub check: bool,
    /// Print the plan with its memory, disk space and time, check its requirements and exit
    #[arg(long)]
    pub dry_run: bool,
    /// Resume an unfinished recording (see `plimsoll runs`) and skip its finished trials
    #[arg(long, value_name = "RUN", conflicts_with_all = ["quick", "repeat", "set", "changes", "scale", "seed", "show", "check", "dry_run"])]
    pub resume: Option<PathBuf>,
    /// Write recordings into this folder
    #[arg(short, long, value_name = "DIR", default_value = RUNS)]
    pub output: PathBuf,
    /// Take this many samples a second
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub hz: u32,
    /// Wait up to this many seconds for another run to end
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "3600", require_equals = true)]
    pub wait: Option<u64>,
    /// Run the scenario as fleet task ID; skip it if DIR/ID has a result
    #[arg(long, value_name = "ID", conflicts_with_all = ["resume", "check", "dry_run", "show", "open"])]
    pub task: Option<TaskId>,
    /// Open the report in a browser: $BROWSER, otherwise xdg-open
    #[arg(long, conflicts_with_all = ["show", "check", "dry_run"])]
    pub open: bool,
    /// Print the results, or the plan with `--check`, `--dry-run` or `--show`, as one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct List {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// List the keys that a section of this workload may have
    #[arg(long, value_name = "WORKLOAD", conflicts_with = "json",
          value_parser = PossibleValuesParser::new(WorkloadKind::ALL.map(WorkloadKind::name)))]
    pub keys: Option<String>,
}

/// Options of commands with `--json` only.
#[derive(Debug, Clone, Args)]
pub struct Json {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct Show {
    /// Print this built-in scenario, scenario file, or the resolved scenario of this recording
    #[arg(value_name = "SCENARIO")]
    pub name: String,
}

#[derive(Debug, Clone, Args)]
pub struct Runs {
    /// List the recordings in this folder
    #[arg(value_name = "DIR", default_value = RUNS)]
    pub folder: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct Report {
    /// Read this recording: a folder, `@latest`, `@-1` for the one before, or the start of a name in plimsoll-runs
    pub run: PathBuf,
    /// Choose the format
    #[arg(short, long, value_enum, default_value_t = Format::Html, conflicts_with = "json")]
    pub format: Format,
    /// Write to this file; `-` is standard output [default: html: report.html in the recording; others: `-`]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Choose the chart for SVG [default: the first of the report]
    #[arg(long, value_name = "CHART")]
    pub chart: Option<String>,
    /// Choose the colours of the SVG chart [default: light]
    #[arg(long, value_enum, value_name = "THEME")]
    pub theme: Option<Theme>,
    /// Open the report in a browser: $BROWSER, otherwise xdg-open
    #[arg(long, conflicts_with = "json")]
    pub open: bool,
    /// Print the results as one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Theme {
    /// For a light background.
    Light,
    /// For a dark background.
    Dark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One self-contained HTML file.
    Html,
    /// The summary for a terminal.
    Text,
    /// One line for each metric of each trial.
    Csv,
    /// The summary table, environment and warnings.
    Markdown,
    /// `results.json`, computed again.
    Json,
    /// One chart of the report.
    Svg,
}

#[derive(Debug, Clone, Args)]
pub struct Compare {
    /// Compare these recordings with the first one, the baseline: `compare @-1 @latest`
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Exit with code 6 if a metric is worse than this limit: `restore.seconds>10%`
    #[arg(long, value_name = "METRIC>LIMIT")]
    pub fail_on: Vec<String>,
    /// Ignore changes of a median below this percentage
    #[arg(long, value_name = "PERCENT", default_value_t = THRESHOLD_PERCENT)]
    pub threshold: f64,
    /// Choose the format
    #[arg(short, long, value_enum, default_value_t = CompareFormat::Text, conflicts_with = "json")]
    pub format: CompareFormat,
    /// Write to this file; `-` is standard output [default: html: compare.html; others: `-`]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// The table for a terminal.
    Text,
    /// One self-contained HTML file.
    Html,
    /// The table, for a pull request.
    Markdown,
    /// One line for each metric.
    Csv,
    /// One JSON document.
    Json,
}

#[derive(Debug, Clone, Args)]
pub struct Export {
    /// Read this recording: a folder, `@latest`, `@-1` for the one before, or the start of a name in plimsoll-runs
    pub run: PathBuf,
    /// Choose the format
    #[arg(short, long, value_enum)]
    pub format: ExportFormat,
    /// Write to this file; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// The samples as Apache Parquet.
    Parquet,
    /// The samples as comma-separated values.
    Csv,
    /// The whole recording as one JSON document.
    Json,
    /// The results and the last sample in the Prometheus text format.
    Prometheus,
}

#[derive(Debug, Clone, Default, Args)]
pub struct Watch {
    /// Watch this process and its descendants
    #[arg(short, long, value_name = "PID", group = "target")]
    pub pid: Option<u32>,
    /// Watch this memory cgroup: a path below the mount, or its folder
    #[arg(short, long, value_name = "PATH", group = "target")]
    pub cgroup: Option<PathBuf>,
    /// Start this program and watch it
    #[arg(last = true, value_name = "COMMAND", group = "target")]
    pub program: Vec<std::ffi::OsString>,
    /// Write a recording into this new folder
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Show this recording, finished or not, instead of the machine
    #[arg(long, value_name = "RUN", conflicts_with_all = ["target", "record", "hz"])]
    pub replay: Option<PathBuf>,
    /// Draw nothing and run until a signal, the end of the program, or --duration
    #[arg(long, conflicts_with = "replay")]
    pub headless: bool,
    /// Serve the monitor to a browser, and metrics to a scraper, at this address
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub serve: Option<std::net::SocketAddr>,
    /// Read the token of --serve from this file instead of making a new one
    #[arg(long, value_name = "FILE", requires = "serve")]
    pub token_file: Option<PathBuf>,
    /// Allow the browser to trim, release and mark
    #[arg(long, requires = "serve", conflicts_with = "replay")]
    pub allow_actions: bool,
    /// Take this many samples a second
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub hz: u32,
    /// Exit after this many seconds and send SIGTERM to the started program
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<f64>,
    /// Print the summary as one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct Ps {
    /// Sort by this column
    #[arg(short, long, value_enum, default_value_t = PsSort::Wss)]
    pub sort: PsSort,
    /// List the memory cgroups as a tree instead of processes
    #[arg(long, conflicts_with_all = ["storm", "pss"])]
    pub cgroups: bool,
    /// List at most this many levels of cgroups below the mount
    #[arg(long, value_name = "N", requires = "cgroups")]
    pub depth: Option<usize>,
    /// List only processes in a fault storm
    #[arg(long)]
    pub storm: bool,
    /// Measure proportional set sizes too, at 13 ms per GiB
    #[arg(long)]
    pub pss: bool,
    /// Repeat the list every interval until interrupted
    #[arg(short, long, conflicts_with = "json")]
    pub watch: bool,
    /// Measure rates over this many seconds
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    pub interval: f64,
    /// List at most this many processes or cgroups; 0 lists all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 0)]
    pub limit: usize,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Sort keys of `plimsoll ps`: in descending order, `pid` and `name` in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PsSort {
    /// Working set (resident), or memory of a cgroup; also `rss` and `mem`.
    #[value(aliases = ["rss", "mem"])]
    Wss,
    /// Proportional set, with --pss.
    Pss,
    /// Swapped out.
    Swap,
    /// Minor and major faults a second, or refaults of a cgroup.
    Faults,
    /// Major faults a second.
    Major,
    /// CPU time a second.
    Cpu,
    /// OOM score.
    Oom,
    /// Process id.
    Pid,
    /// Name of the process.
    Name,
}

#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["pid", "cgroup", "all"]))]
pub struct Trim {
    /// Trim this process
    pub pid: Option<u32>,
    /// Trim this memory cgroup: a path below the mount, or its folder
    #[arg(short, long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Trim every process that this user may trim
    #[arg(long)]
    pub all: bool,
    /// Reclaim at most this much, for instance 512M [default: all]
    #[arg(short, long, value_name = "BYTES")]
    pub size: Option<String>,
    /// Skip the question before --all
    #[arg(short, long)]
    pub yes: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct PagerGroup {
    #[command(subcommand)]
    pub command: PagerCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub enum PagerCommand {
    /// Print the page states, store, budget, faults and consistency of the pagers of a running process
    Stat(PagerStat),
}

#[derive(Debug, Clone, Args)]
pub struct PagerStat {
    /// Inspect this process
    pub pid: u32,
    /// Check every page against the counters and its presence
    #[arg(long, conflicts_with = "watch")]
    pub validate: bool,
    /// Print one JSON document
    #[arg(long, conflicts_with = "watch")]
    pub json: bool,
    /// Print again every second until ^C or the end of the process
    #[arg(long)]
    pub watch: bool,
}

#[derive(Debug, Clone, Args)]
pub struct Cleanup {
    /// Undo dead runs of fleet tasks alone
    #[arg(long)]
    pub tasks: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct Bench {
    /// Part to measure
    #[arg(value_enum)]
    pub measurement: BenchSubject,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchSubject {
    /// CPU cost of a sample at 10 and 100 Hz, beside `vmstat 1`.
    Sampler,
    /// Speed of each fill class on resident pages, beside memset.
    Fill,
}

#[derive(Debug, Clone, Args)]
pub struct Completions {
    /// Print completions for this shell
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Clone, Args)]
pub struct Complete {
    /// Print for this shell
    #[arg(value_enum)]
    pub shell: CompletingShell,
    /// Complete the end of this text
    #[arg(value_name = "LINE")]
    pub line: String,
    /// Print only the replacement of this end of the line, which the shell replaces
    #[arg(value_name = "WORD")]
    pub word: Option<String>,
}

/// Shells with completion of scenarios, recordings, keys and processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompletingShell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Clone, Args)]
pub struct Man {
    /// Write all man pages into this folder
    pub dir: Option<PathBuf>,
}

/// The folder of recordings in the current folder.
pub const RUNS: &str = "plimsoll-runs";
