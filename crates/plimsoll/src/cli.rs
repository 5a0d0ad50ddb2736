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
    /// Make the report of a recording again, or export it
    Report(Report),
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
    /// Name of a built-in scenario (see `plimsoll list`) or path of a scenario file
    pub scenario: String,
    /// Shrink the scenario to about a minute
    #[arg(long)]
    pub quick: bool,
    /// Times that each combination is repeated
    #[arg(long, value_name = "N")]
    pub repeat: Option<u32>,
    /// Set a key of the scenario: `key=value` or `section.key=value`; a list makes a sweep
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
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
    #[arg(long, value_name = "RUN", conflicts_with_all = ["quick", "repeat", "set", "seed", "show", "check", "dry_run"])]
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
