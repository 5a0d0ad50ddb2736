//! `heap-load`: runs one load on the `malloc` of this process and prints one line of JSON.
//!
//! The caller chooses the allocator: `LD_PRELOAD=libjemalloc.so.2 heap-load replacement`.

use std::fmt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use plimsoll_heap_load::{
    Aggressive, CrossThread, Fragmentation, FreeOrder, IdleThreads, Large, Larson, LoadError, Replacement,
    Scaling, Sizes, Until, Values, allocator_name, parse_bytes, to_json,
};

/// The exit code of a command line that is wrong.
const USAGE: u8 = 1;
/// The exit code of a load that failed.
const FAILED: u8 = 2;

/// Loads for the malloc of this process; preload the one to measure. Prints one line of JSON.
#[derive(Parser)]
#[command(name = "heap-load", version)]
struct Cli {
    #[command(subcommand)]
    load: Load,
}

#[derive(Subcommand)]
enum Load {
    /// Free a random block and allocate another one, in each thread
    Replacement {
        #[command(flatten)]
        blocks: Blocks,
        #[command(flatten)]
        length: Length,
    },
    /// Replace blocks in threads that pass their blocks to a new thread and end
    Larson {
        #[command(flatten)]
        blocks: Blocks,
        /// Pairs that a thread does before it ends
        #[arg(long, default_value_t = Larson::default().pairs_a_round)]
        round: u64,
        /// Time for the load
        #[arg(long, default_value = "1", value_parser = seconds)]
        seconds: Duration,
        /// Threads of each chain, instead of a time
        #[arg(long, conflicts_with = "seconds")]
        rounds: Option<u64>,
    },
    /// Allocate much memory in small blocks and free it, twice, in each thread
    Aggressive {
        /// Number of threads
        #[arg(long, default_value_t = 1)]
        threads: usize,
        /// Memory that each thread allocates
        #[arg(long, default_value = "50m", value_parser = parse_bytes)]
        bytes: u64,
        /// Size of a block in bytes
        #[arg(long, default_value_t = 32)]
        size: u32,
        /// Order in which blocks are freed
        #[arg(long, default_value = "allocated")]
        order: Order,
        #[command(flatten)]
        seed: Seed,
    },
    /// Shift block sizes at constant live memory, keep some blocks, then free all
    Fragmentation {
        /// Memory that stays live
        #[arg(long, default_value = "70m", value_parser = parse_bytes)]
        live: u64,
        /// Sizes of each phase
        #[arg(long, value_delimiter = ',', default_values_t = Fragmentation::default().phases)]
        phases: Vec<Sizes>,
        /// Percent of the blocks of each phase that stay until the end
        #[arg(long, default_value_t = Fragmentation::default().survivors_percent)]
        survivors: u32,
        /// Seconds between the last free and the measurement of resident memory
        #[arg(long, default_value = "1.5", value_parser = seconds)]
        rest: Duration,
        #[command(flatten)]
        seed: Seed,
    },
    /// Run the replacement load at 1, 2, 4 ... threads that share the blocks, each step in a process of its own
    Scaling {
        /// Blocks of all threads together
        #[arg(long, default_value_t = Scaling::default().blocks)]
        blocks: usize,
        /// The most threads
        #[arg(long, default_value_t = Scaling::default().most_threads)]
        threads: usize,
        /// Sizes of the blocks
        #[arg(long, default_value = "0-1k")]
        sizes: Sizes,
        #[command(flatten)]
        seed: Seed,
        #[command(flatten)]
        length: Length,
    },
    /// Allocate blocks in one thread and free them in another
    CrossThread {
        /// Pairs of threads
        #[arg(long, default_value_t = 1)]
        couples: usize,
        /// Blocks of a batch
        #[arg(long, default_value_t = CrossThread::default().batch)]
        batch: usize,
        /// Batches in flight between two threads
        #[arg(long, default_value_t = CrossThread::default().batches)]
        batches: usize,
        /// Sizes of the blocks
        #[arg(long, default_value = "8b-2k")]
        sizes: Sizes,
        #[command(flatten)]
        seed: Seed,
        #[command(flatten)]
        length: Length,
    },
    /// Replace large blocks at random and grow them by realloc
    Large {
        /// Number of threads
        #[arg(long, default_value_t = 1)]
        threads: usize,
        /// Blocks that each thread holds
        #[arg(long, default_value_t = Large::default().blocks)]
        blocks: usize,
        /// Sizes of the blocks
        #[arg(long, default_value = "16k-1m")]
        sizes: Sizes,
        /// Size that blocks are grown to
        #[arg(long, default_value = "4m", value_parser = parse_bytes)]
        grow_to: u64,
        #[command(flatten)]
        seed: Seed,
        #[command(flatten)]
        length: Length,
    },
    /// Allocate and free a few blocks in each of many threads, then sleep
    IdleThreads {
        /// Number of threads
        #[arg(long, default_value_t = IdleThreads::default().threads)]
        threads: usize,
        /// Blocks that each allocates and frees
        #[arg(long, default_value_t = IdleThreads::default().blocks)]
        blocks: usize,
        /// Sizes of the blocks
        #[arg(long, default_value = "0-1k")]
        sizes: Sizes,
        #[command(flatten)]
        seed: Seed,
    },
}

#[derive(Args)]
struct Blocks {
    /// Number of threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Blocks that each thread holds
    #[arg(long, default_value_t = 10_000)]
    blocks: usize,
    /// Sizes of the blocks: 0-1k, 22, 16b-1k, log:8b-1000 (mostly small ones); a unit applies to both bounds
    #[arg(long, default_value = "0-1k")]
    sizes: Sizes,
    #[command(flatten)]
    seed: Seed,
}

#[derive(Args)]
struct Seed {
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
struct Length {
    /// Time for the load
    #[arg(long, default_value = "1", value_parser = seconds)]
    seconds: Duration,
    /// Operations of each thread, instead of a time
    #[arg(long, conflicts_with = "seconds")]
    count: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Order {
    Allocated,
    Random,
}

impl From<Order> for FreeOrder {
    fn from(order: Order) -> FreeOrder {
        match order {
            Order::Allocated => FreeOrder::Allocated,
            Order::Random => FreeOrder::Random,
        }
    }
}

impl Length {
    fn until(&self) -> Until {
        self.count.map_or(Until::Elapsed(self.seconds), Until::Count)
    }
}

/// A text that is no number of seconds.
#[derive(Debug)]
struct SecondsError(String);

impl fmt::Display for SecondsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no number of seconds, such as 1 or 0.5", self.0)
    }
}

impl std::error::Error for SecondsError {}

fn seconds(text: &str) -> Result<Duration, SecondsError> {
    let number = text.parse().ok();
    number
        .and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| SecondsError(text.to_owned()))
}

/// A load's name, parameters and results.
type Outcome = Result<(&'static str, Values, Values), LoadError>;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // The terminal is gone, so no other place for the error remains.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    if let Load::Scaling {
        blocks,
        threads,
        sizes,
        seed,
        length,
    } = &cli.load
    {
        let step = Replacement {
            sizes: *sizes,
            seed: seed.seed,
            until: length.until(),
            ..Replacement::default()
        };
        return scaling(&Scaling {
            blocks: *blocks,
            most_threads: *threads,
            step,
        });
    }
    match run(cli.load) {
        Ok((load, parameters, values)) => {
            println!("{}", to_json(load, &allocator_name(), &parameters, &values));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("heap-load: {error}");
            ExitCode::from(if matches!(error, LoadError::Parameter(_)) {
                USAGE
            } else {
                FAILED
            })
        }
    }
}

/// Runs a load, and names its results.
macro_rules! outcome {
    ($name:literal, $load:expr) => {{
        let load = $load;
        Ok(($name, load.parameters(), load.run()?.values()))
    }};
}

/// An arm for each load, which turns its options into its fields.
fn run(load: Load) -> Outcome {
    match load {
        Load::Replacement { blocks, length } => outcome!("replacement", replacement(blocks, &length)),
        Load::Larson {
            blocks,
            round,
            seconds,
            rounds,
        } => {
            let until = rounds.map_or(Until::Elapsed(seconds), Until::Count);
            outcome!("larson", larson(blocks, round, until))
        }
        Load::Aggressive {
            threads,
            bytes,
            size,
            order,
            seed: Seed { seed },
        } => {
            let order = FreeOrder::from(order);
            outcome!(
                "aggressive",
                Aggressive {
                    threads,
                    bytes,
                    size,
                    order,
                    seed
                }
            )
        }
        Load::Fragmentation {
            live: live_bytes,
            phases,
            survivors: survivors_percent,
            rest,
            seed: Seed { seed },
        } => outcome!(
            "fragmentation",
            Fragmentation {
                live_bytes,
                phases,
                survivors_percent,
                rest,
                seed
            }
        ),
        Load::CrossThread {
            couples,
            batch,
            batches,
            sizes,
            seed: Seed { seed },
            length,
        } => {
            let until = length.until();
            outcome!(
                "cross-thread",
                CrossThread {
                    couples,
                    batch,
                    batches,
                    sizes,
                    until,
                    seed
                }
            )
        }
        Load::Large {
            threads,
            blocks,
            sizes,
            grow_to,
            seed: Seed { seed },
            length,
        } => {
            // Too much for a block is an error of its own, by the load.
            let grow_to = u32::try_from(grow_to).unwrap_or(u32::MAX);
            let until = length.until();
            outcome!(
                "large",
                Large {
                    threads,
                    blocks,
                    sizes,
                    grow_to,
                    until,
                    seed
                }
            )
        }
        Load::IdleThreads {
            threads,
            blocks,
            sizes,
            seed: Seed { seed },
        } => outcome!(
            "idle-threads",
            IdleThreads {
                threads,
                blocks,
                sizes,
                seed
            }
        ),
        Load::Scaling { .. } => unreachable!("scaling starts processes, in main"),
    }
}

fn replacement(blocks: Blocks, length: &Length) -> Replacement {
    Replacement {
        threads: blocks.threads,
        blocks: blocks.blocks,
        sizes: blocks.sizes,
        until: length.until(),
        seed: blocks.seed.seed,
    }
}

fn larson(blocks: Blocks, pairs_a_round: u64, until: Until) -> Larson {
    Larson {
        threads: blocks.threads,
        blocks: blocks.blocks,
        sizes: blocks.sizes,
        pairs_a_round,
        until,
        seed: blocks.seed.seed,
    }
}

/// Runs each step in a process of its own, on the allocator of this one, and prints a line for each.
fn scaling(load: &Scaling) -> ExitCode {
    for step in load.steps() {
        let this = match std::env::current_exe() {
            Ok(this) => this,
            Err(error) => {
                eprintln!("heap-load: cannot find this program's file to start it again: {error}");
                return ExitCode::from(FAILED);
            }
        };
        let length = match step.until {
            Until::Elapsed(time) => format!("--seconds={}", time.as_secs_f64()),
            Until::Count(count) => format!("--count={count}"),
        };
        let status = Command::new(&this)
            .args(["replacement", &length])
            .arg(format!("--threads={}", step.threads))
            .arg(format!("--blocks={}", step.blocks))
            .arg(format!("--sizes={}", step.sizes))
            .arg(format!("--seed={}", step.seed))
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => {
                eprintln!(
                    "heap-load: the step of {} threads ended with {status}",
                    step.threads
                );
                return ExitCode::from(status.code().map_or(FAILED, |code| code as u8));
            }
            Err(error) => {
                eprintln!("heap-load: cannot start {}: {error}", this.display());
                return ExitCode::from(FAILED);
            }
        }
    }
    ExitCode::SUCCESS
}
