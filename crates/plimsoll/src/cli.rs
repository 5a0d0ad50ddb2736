//! The command line: what a user can type, and the help for it. Settings are resolved elsewhere.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const EXIT_CODES: &str = "Exit codes:\n  0 done   1 usage   2 workload failed   3 capability or resource missing   4 unsupported\n  \
    5 killed by a signal or the OOM killer   6 regression against the baseline   7 metrics not trustworthy";

const HEAP_RUN: &str = "The library is unpacked into $XDG_CACHE_HOME/plimsoll or ~/.cache/plimsoll, where that cannot be had into a \
    private folder in $TMPDIR, and named in LD_PRELOAD; programs that the program starts run on the heap too.\n\n\
    Ends as the program does; 127 where it was not found, 126 where it could not be started, 4 where a library cannot be \
    preloaded into it (static, set-user-ID, of another machine, with a malloc of its own), 3 where there is no place for the library.";

/// See where memory is, measure what happens when it runs short, and stretch it.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, styles = STYLES, max_term_width = 110, after_help = EXIT_CODES)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How much to say.
    #[command(flatten)]
    pub talk: Talk,
}

/// How much to say, and how.
#[derive(Debug, Clone, Args)]
pub struct Talk {
    /// Say less: no progress, only results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more: every change of the system, every step
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// When to use colour (NO_COLOR is honoured)
    #[arg(long, global = true, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    pub color: When,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario and write a recording and a report
    Run(Run),
    /// List the built-in scenarios
    List(Json),
    /// Print a built-in scenario file: it says what it does
    Show(Show),
    /// Make the report of a recording again
    Report(Report),
    /// Compare runs: what changed, by how much, and whether that is more than chance
    Compare(Compare),
    /// Write a recording in the form of another program
    Export(Export),
    /// Watch where the memory of the machine is, live or from a recording
    Watch(Watch),
    /// List processes with their working sets, swap, faults and caps, and find fault storms
    Ps(Ps),
    /// Take pages out of working sets, and say how many left and how many came back
    Trim(Trim),
    /// Run programs on the low-fragmentation heap, and look into their heaps
    Heap(HeapGroup),
    /// Say what this machine allows, what is lost without the rest, and what enables it
    Doctor(Json),
    /// Undo what a killed run left behind (swap, zram, cgroups, files, settings)
    Cleanup(Cleanup),
    /// Measure what measuring costs, and how fast fills are
    Bench(Bench),
    /// Print shell completions
    Completions(Completions),
    /// Print the man page, or write all man pages into a folder
    Man(Man),
    /// The worker process of an experiment; driven by the runner
    #[command(hide = true)]
    Worker,
}

/// `plimsoll run`.
#[derive(Debug, Clone, Args)]
pub struct Run {
    /// Name of a built-in scenario (see `plimsoll list`) or path of a scenario file [default: tour]
    pub scenario: Option<String>,
    /// Set keys of the scenario, as `--set` does: `plimsoll run thrash N=5 S=10M`
    #[arg(value_name = "KEY=VALUE")]
    pub changes: Vec<String>,
    /// Shrink the scenario to about a minute
    #[arg(long)]
    pub quick: bool,
    /// Times that each combination is repeated
    #[arg(long, value_name = "N")]
    pub repeat: Option<u32>,
    /// Set a key of the scenario: `key=value` or `section.key=value`; a list makes a sweep
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Shrink memory and time together, of scenarios that know how: the same as `--set scale=F`
    #[arg(long, value_name = "F")]
    pub scale: Option<String>,
    /// Seed of the fill streams and of the order of the trials
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print the scenario with every value resolved for this machine, and stop
    #[arg(long, conflicts_with_all = ["check", "dry_run"])]
    pub show: bool,
    /// Check the scenario file, and stop
    #[arg(long, conflicts_with = "dry_run")]
    pub check: bool,
    /// Print the plan with its memory, disk and time, and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Go on with an unfinished recording of the same scenario, as it was resolved then: finished trials are not
    /// run again
    #[arg(long, value_name = "RUN", conflicts_with_all = ["quick", "repeat", "set", "changes", "scale", "seed", "show", "check", "dry_run"])]
    pub resume: Option<PathBuf>,
    /// Folder that recordings are written into
    #[arg(short, long, value_name = "DIR", default_value = "plimsoll-runs")]
    pub output: PathBuf,
    /// Samples a second
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub hz: u32,
    /// Wait for another run to end instead of being refused; at most this many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "3600", require_equals = true)]
    pub wait: Option<u64>,
    /// Print one JSON document (the results) on standard output instead of the summary
    #[arg(long)]
    pub json: bool,
}

/// A command whose only choice is JSON.
#[derive(Debug, Clone, Args)]
pub struct Json {
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll show`.
#[derive(Debug, Clone, Args)]
pub struct Show {
    /// Name of a built-in scenario
    pub name: String,
}

/// `plimsoll report`.
#[derive(Debug, Clone, Args)]
pub struct Report {
    /// Folder of the recording
    pub run: PathBuf,
    /// What to make
    #[arg(short, long, value_enum, default_value_t = Format::Html, conflicts_with = "json")]
    pub format: Format,
    /// File to write; `-` is standard output [default: report.html in the recording for html, otherwise `-`]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print one JSON document (the results) on standard output
    #[arg(long)]
    pub json: bool,
}

/// Formats of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The self-contained page.
    Html,
    /// The summary for a terminal.
    Text,
    /// One line a metric of a trial.
    Csv,
    /// The summary table, environment and warnings.
    Markdown,
    /// `results.json`, computed anew.
    Json,
}

/// `plimsoll compare`.
#[derive(Debug, Clone, Args)]
pub struct Compare {
    /// Folders of the recordings; the first is the baseline
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// End with exit code 6 when a metric is worse than this, for instance `restore.seconds>10%`
    #[arg(long, value_name = "METRIC>LIMIT")]
    pub fail_on: Vec<String>,
    /// Least change of a median that counts, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub threshold: f64,
    /// What to make
    #[arg(short, long, value_enum, default_value_t = CompareFormat::Text, conflicts_with = "json")]
    pub format: CompareFormat,
    /// File to write; `-` is standard output [default: compare.html for html, otherwise `-`]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// Formats of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// The table for a terminal.
    Text,
    /// The self-contained page.
    Html,
    /// The table, for a pull request.
    Markdown,
    /// One line a metric.
    Csv,
    /// One document.
    Json,
}

/// `plimsoll export`.
#[derive(Debug, Clone, Args)]
pub struct Export {
    /// Folder of the recording
    pub run: PathBuf,
    /// Form to write
    #[arg(short, long, value_enum)]
    pub format: ExportFormat,
    /// File to write; `-` is standard output, which parquet is not written to when it is a terminal
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// Forms that a recording is exported in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// The samples as Apache Parquet.
    Parquet,
    /// The samples as comma-separated values.
    Csv,
    /// The whole recording as one JSON document.
    Json,
    /// The results, and the last of the samples, in Prometheus' text format.
    Prometheus,
}

/// `plimsoll watch`.
#[derive(Debug, Clone, Args)]
pub struct Watch {
    /// Watch this process and its descendants
    #[arg(short, long, value_name = "PID", group = "target")]
    pub pid: Option<u32>,
    /// Watch this memory cgroup: a path below the mount, or of the folder
    #[arg(short, long, value_name = "PATH", group = "target")]
    pub cgroup: Option<PathBuf>,
    /// Start this program and watch it
    #[arg(last = true, value_name = "COMMAND", group = "target")]
    pub program: Vec<std::ffi::OsString>,
    /// Write a recording into this folder, which must not exist yet
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Show a recording, finished or still being written, instead of this machine
    #[arg(long, value_name = "DIR", conflicts_with_all = ["target", "record", "hz"])]
    pub replay: Option<PathBuf>,
    /// Draw nothing: for servers; ends on a signal, with the program, or after --duration
    #[arg(long, conflicts_with = "replay")]
    pub headless: bool,
    /// Serve the page at this address instead of drawing on the terminal
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "headless", value_parser = address)]
    pub serve: Option<std::net::SocketAddr>,
    /// Let the served page trim, release and mark
    #[arg(long, requires = "serve", conflicts_with = "replay")]
    pub allow_actions: bool,
    /// Samples a second
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub hz: u32,
    /// End after this many seconds; a program that was started gets a SIGTERM then
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<f64>,
    /// Print the summary as one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll ps`.
#[derive(Debug, Clone, Args)]
pub struct Ps {
    /// Column to sort by
    #[arg(short, long, value_enum, default_value_t = PsSort::Wss)]
    pub sort: PsSort,
    /// Only processes in a fault storm: pinned at a cap while they refault
    #[arg(long)]
    pub storm: bool,
    /// Measure proportional set sizes too: 13 ms a GiB, in which the process may stall
    #[arg(long)]
    pub pss: bool,
    /// Go on, a list each interval, until interrupted
    #[arg(short, long, conflicts_with = "json")]
    pub watch: bool,
    /// Seconds over which rates are measured, and between lists
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    pub interval: f64,
    /// Most processes listed; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 0)]
    pub limit: usize,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// Columns that `plimsoll ps` sorts by: the largest first, but for `pid` and `name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PsSort {
    /// Working set (resident).
    Wss,
    /// Proportional set, with --pss.
    Pss,
    /// Swapped out.
    Swap,
    /// Minor and major faults a second.
    Faults,
    /// Major faults a second.
    Major,
    /// CPU.
    Cpu,
    /// OOM score.
    Oom,
    /// Process id.
    Pid,
    /// Name.
    Name,
}

/// `plimsoll trim`.
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["pid", "cgroup", "all"]))]
pub struct Trim {
    /// Process to trim
    pub pid: Option<u32>,
    /// Memory cgroup to trim: a path below the mount, or of the folder
    #[arg(short, long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Trim every process that this user may trim
    #[arg(long)]
    pub all: bool,
    /// Take out at most this much, for instance 512M [default: all of it]
    #[arg(short, long, value_name = "BYTES")]
    pub size: Option<String>,
    /// Do not ask before --all
    #[arg(short, long)]
    pub yes: bool,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll heap`.
#[derive(Debug, Clone, Args)]
pub struct HeapGroup {
    /// What to do.
    #[command(subcommand)]
    pub command: HeapCommand,
}

/// The commands of `plimsoll heap`.
#[derive(Debug, Clone, Subcommand)]
pub enum HeapCommand {
    /// Run a program with this heap in the place of its malloc
    #[command(after_help = HEAP_RUN)]
    Run(HeapRun),
    /// Print what the heaps of a process hold, how fragmented they are, and whether they are sound, while it runs
    Stat(HeapStat),
}

/// `plimsoll heap stat`.
#[derive(Debug, Clone, Args)]
#[command(override_usage = "plimsoll heap stat [OPTIONS] <PID|--all-heaps>")]
pub struct HeapStat {
    /// The process; without one, `--all-heaps` looks at every process that runs on this heap
    #[arg(required_unless_present = "all_heaps")]
    pub pid: Option<u32>,
    /// Every heap in full; without PID, the heaps of every process of the machine
    #[arg(long)]
    pub all_heaps: bool,
    /// Walk and check everything: units, lists, free blocks, slots
    #[arg(long, conflicts_with = "watch")]
    pub validate: bool,
    /// Print one JSON document
    #[arg(long, conflicts_with = "watch")]
    pub json: bool,
    /// Print anew each second, until ^C or the end of the process
    #[arg(long)]
    pub watch: bool,
    /// Write a page with a picture of the units as well
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pub html: Option<PathBuf>,
}

/// `plimsoll heap run`.
#[derive(Debug, Clone, Args)]
pub struct HeapRun {
    /// Who serves blocks of up to 16 KiB
    #[arg(long, value_enum, default_value_t = HeapFrontEnd::Lfh, value_name = "FRONT-END")]
    pub front_end: HeapFrontEnd,
    /// Find more mistakes of the program, at a cost: guard pages, quarantine, zeroed memory on free
    #[arg(long)]
    pub hardened: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub program: Vec<std::ffi::OsString>,
}

/// Front ends of a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HeapFrontEnd {
    /// One lock over coalescing blocks, as heaps were.
    Standard,
    /// Low fragmentation: buckets, and slots bounded by the number of processors.
    Lfh,
}

/// `plimsoll cleanup`.
#[derive(Debug, Clone, Args)]
pub struct Cleanup {
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll bench`.
#[derive(Debug, Clone, Args)]
pub struct Bench {
    /// What to measure
    #[arg(value_enum)]
    pub what: BenchSubject,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// What `plimsoll bench` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchSubject {
    /// CPU cost of a sample at 10 and 100 Hz, beside `vmstat 1`.
    Sampler,
    /// Speed of each fill class on resident pages, beside memset.
    Fill,
}

/// `plimsoll completions`.
#[derive(Debug, Clone, Args)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `plimsoll man`.
#[derive(Debug, Clone, Args)]
pub struct Man {
    /// Folder to write all man pages into
    pub dir: Option<PathBuf>,
}

/// Longest duration in seconds: ten years.
const LONGEST: f64 = 3.2e8;

/// Why the value of an option cannot be taken.
#[derive(Debug, thiserror::Error)]
enum ValueError {
    #[error("give a number of seconds")]
    NoNumber,
    #[error("give seconds from 0 to {LONGEST}")]
    Seconds,
    #[error("give an address and a port, for instance 127.0.0.1:8080; port 0 is any that is free")]
    Address,
}

/// Parses a duration in seconds.
fn seconds(text: &str) -> Result<f64, ValueError> {
    let seconds: f64 = text.parse().map_err(|_| ValueError::NoNumber)?;
    match (0.0..=LONGEST).contains(&seconds) {
        true => Ok(seconds),
        false => Err(ValueError::Seconds),
    }
}

/// Parses the address of a page; `localhost` is 127.0.0.1.
fn address(text: &str) -> Result<std::net::SocketAddr, ValueError> {
    let named = text
        .strip_prefix("localhost:")
        .map(|port| format!("127.0.0.1:{port}"));
    let address = named.as_deref().unwrap_or(text).parse();
    address.map_err(|_| ValueError::Address)
}
