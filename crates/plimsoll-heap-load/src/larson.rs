//! Larson's load: a server whose threads come and go while its blocks stay, so that blocks are freed by other threads
//! than the ones that allocated them (Larson and Krishnan, "Memory Allocation for Long-Running Server Applications",
//! 1998).

use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock;
use crate::error::LoadError;
use crate::footprint::{Footprint, Resident};
use crate::random::Random;
use crate::rate::{Rate, Until};
use crate::replacement::{self, fill, own_cost, turn_over};
use crate::sizes::Sizes;
use crate::source::Calls;
use crate::table::Table;
use crate::value::Values;

/// Bytes of a thread's stack.
const STACK: usize = 256 << 10;

#[derive(Debug, Clone, PartialEq)]
pub struct Larson {
    /// Threads at a time.
    pub threads: usize,
    /// Blocks that each thread holds and passes on.
    pub blocks: usize,
    pub sizes: Sizes,
    /// Pairs that a thread does before it passes its blocks to a new thread and ends.
    pub pairs_a_round: u64,
    /// How long, or how many rounds of each chain of threads.
    pub until: Until,
    pub seed: u64,
}

impl Default for Larson {
    /// The talk's blocks; rounds as long as in the original, 100 pairs a block.
    fn default() -> Self {
        Larson {
            threads: 2,
            blocks: 3_000,
            sizes: Sizes::uniform(1, 1024),
            pairs_a_round: 300_000,
            until: Until::Elapsed(Duration::from_secs(1)),
            seed: 1,
        }
    }
}

/// The results of Larson's load. An operation is a pair of a free and an allocation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LarsonResult {
    /// Pairs of all threads; the CPU time is that of the whole process, making threads included.
    pub pairs: Rate,
    /// Threads that lived.
    pub generations: u64,
    /// CPU nanoseconds a pair that the generator takes by itself, in one thread, without making threads.
    pub own_cpu_ns: f64,
    /// Memory at the end, all blocks held, all threads gone.
    pub footprint: Footprint,
}

/// The state that passes from thread to thread.
struct Chain {
    table: Table,
    random: Random,
    sizes: Sizes,
    pairs_a_round: u64,
    end: End,
    pairs: u64,
    generations: u64,
    /// Where the last thread sends the chain, or any its error.
    ended: Sender<Result<Box<Chain>, LoadError>>,
}

#[derive(Clone, Copy)]
enum End {
    At(Instant),
    AfterRounds(u64),
}

/// Starts a thread that carries a chain on. It is not waited for: the chain comes back through its channel.
fn start(chain: Box<Chain>) -> Result<(), LoadError> {
    let thread = thread::Builder::new().stack_size(STACK).spawn(move || {
        let ended = chain.ended.clone();
        if let Err(error) = round(chain) {
            // The receiver is gone if another chain has failed before.
            let _ = ended.send(Err(error));
        }
    });
    thread
        .map(drop)
        .map_err(|reason| LoadError::Thread { wanted: 1, reason })
}

/// The body of one thread: replaces blocks, then passes all of them to a new thread, or ends the chain.
fn round(mut chain: Box<Chain>) -> Result<(), LoadError> {
    let until = Until::Count(chain.pairs_a_round);
    chain.pairs += turn_over(
        &mut chain.table,
        &mut Calls,
        &mut chain.random,
        chain.sizes,
        until,
    )?
    .count;
    chain.generations += 1;
    let over = match chain.end {
        End::At(end) => Instant::now() >= end,
        End::AfterRounds(rounds) => chain.generations >= rounds,
    };
    if !over {
        return start(chain);
    }
    let ended = chain.ended.clone();
    // The receiver is gone if another chain has failed before.
    let _ = ended.send(Ok(chain));
    Ok(())
}

impl Larson {
    /// Runs the load on this process's `malloc`.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn run(&self) -> Result<LarsonResult, LoadError> {
        replacement::require("threads", self.threads)?;
        replacement::require("blocks", self.blocks)?;
        if self.pairs_a_round == 0 {
            return Err(LoadError::Parameter(
                "pairs a round must be at least 1".to_owned(),
            ));
        }
        let tables: Result<Vec<Table>, _> = (0..self.threads).map(|_| Table::new(self.blocks)).collect();
        let mut tables = tables?;
        Resident::restart_peak();
        let before = Resident::read()?;
        let randoms = self.fill(&mut tables)?;
        let (cpu, began) = (clock::process_cpu(), Instant::now());
        let (sender, receiver) = mpsc::channel();
        for (table, random) in tables.into_iter().zip(randoms) {
            start(self.chain(table, random, began, sender.clone()))?;
        }
        drop(sender);
        // Each chain keeps a sender, so the channel does not end by itself.
        let ended: Result<Vec<Box<Chain>>, LoadError> = receiver.iter().take(self.threads).collect();
        let mut ended = ended?;
        let (wall, cpu) = (began.elapsed(), clock::process_cpu() - cpu);
        let after = Resident::read()?;
        let live = ended.iter().map(|chain| chain.table.live()).sum();
        for chain in &mut ended {
            chain.table.release(&mut Calls)?;
        }
        Ok(LarsonResult {
            pairs: Rate {
                count: ended.iter().map(|chain| chain.pairs).sum(),
                cpu,
                wall,
            },
            generations: ended.iter().map(|chain| chain.generations).sum(),
            own_cpu_ns: own_cost(self.blocks, self.sizes, self.seed)?,
            footprint: Footprint {
                before: before.now,
                live,
                resident: after.now,
                peak: after.peak,
            },
        })
    }

    /// Fills the tables in the calling thread: the first threads free blocks of another thread, as all later ones do.
    fn fill(&self, tables: &mut [Table]) -> Result<Vec<Random>, LoadError> {
        let filled = tables.iter_mut().enumerate().map(|(index, table)| {
            let mut random = Random::new(self.seed, index as u64);
            fill(table, &mut Calls, &mut random, self.sizes)?;
            Ok(random)
        });
        filled.collect()
    }

    fn chain(
        &self,
        table: Table,
        random: Random,
        began: Instant,
        ended: Sender<Result<Box<Chain>, LoadError>>,
    ) -> Box<Chain> {
        let end = match self.until {
            Until::Elapsed(time) => End::At(began + time),
            Until::Count(rounds) => End::AfterRounds(rounds),
        };
        let (sizes, pairs_a_round) = (self.sizes, self.pairs_a_round);
        Box::new(Chain {
            table,
            random,
            sizes,
            pairs_a_round,
            end,
            pairs: 0,
            generations: 0,
            ended,
        })
    }

    pub fn parameters(&self) -> Values {
        let mut values = Values::default();
        values.count("threads", self.threads);
        values.count("blocks", self.blocks);
        values.text("sizes", self.sizes);
        values.count("pairs_a_round", self.pairs_a_round);
        values.count("seed", self.seed);
        values
    }
}

impl LarsonResult {
    pub fn values(&self) -> Values {
        let mut values = Values::default();
        self.pairs.values("pair", &mut values);
        values.real("pair_own_cpu_ns", self.own_cpu_ns);
        values.count("generations", self.generations);
        self.footprint.values(&mut values);
        values
    }
}
