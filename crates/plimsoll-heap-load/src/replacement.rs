//! Replacement: each thread holds blocks, frees one at random and allocates another in its stead. The talk's main test.

use std::time::Duration;

use crate::block::Block;
use crate::clock;
use crate::crew::{self, Member};
use crate::error::LoadError;
use crate::footprint::{Footprint, Resident};
use crate::random::{self, Random};
use crate::rate::{BATCH, Rate, Stint, Until};
use crate::sizes::Sizes;
use crate::source::{Calls, Fixed, Source};
use crate::table::Table;
use crate::value::Values;

/// How long the generator is measured without the allocator.
pub(crate) const OWN: Until = Until::Elapsed(Duration::from_millis(50));

#[derive(Debug, Clone, PartialEq)]
pub struct Replacement {
    /// Threads; one runs in the calling thread.
    pub threads: usize,
    /// Blocks that each thread holds.
    pub blocks: usize,
    pub sizes: Sizes,
    /// How long, or how many pairs a thread.
    pub until: Until,
    pub seed: u64,
}

impl Default for Replacement {
    fn default() -> Self {
        Replacement {
            threads: 1,
            blocks: 10_000,
            sizes: Sizes::uniform(1, 1024),
            until: Until::Elapsed(Duration::from_secs(1)),
            seed: 1,
        }
    }
}

/// The results of the replacement load. An operation is a pair of a free and an allocation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplacementResult {
    pub pairs: Rate,
    /// CPU nanoseconds a pair of the whole process, threads of the allocator included.
    pub process_cpu_ns: f64,
    /// CPU nanoseconds a pair that the generator takes by itself, in one thread.
    pub own_cpu_ns: f64,
    /// Memory at the end of the timed part, all blocks held.
    pub footprint: Footprint,
}

/// The result of one thread.
struct Part {
    stint: Stint,
    live: u64,
    before: Option<Resident>,
    after: Option<Resident>,
    process_cpu: Option<Duration>,
}

impl Replacement {
    /// Runs the load on this process's `malloc`.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn run(&self) -> Result<ReplacementResult, LoadError> {
        self.run_on(|_| Calls)
    }

    /// Runs the load on another source, made for each thread by its index.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn run_on<S: Source>(
        &self,
        source: impl Fn(usize) -> S + Sync,
    ) -> Result<ReplacementResult, LoadError> {
        require("threads", self.threads)?;
        require("blocks", self.blocks)?;
        let parts = crew::run(self.threads, |member| {
            self.part(member, &mut source(member.index))
        })?;
        let parts = parts.into_iter().collect::<Result<Vec<Part>, LoadError>>()?;
        let stints: Vec<Stint> = parts.iter().map(|part| part.stint).collect();
        let pairs = Rate::of(&stints);
        let first = &parts[0];
        let (before, after) = (first.before, first.after);
        let (before, after) = before.zip(after).expect("the first member reads both");
        let process_cpu = first.process_cpu.expect("the first member reads it");
        Ok(ReplacementResult {
            pairs,
            process_cpu_ns: process_cpu.as_nanos() as f64 / pairs.count as f64,
            own_cpu_ns: own_cost(self.blocks, self.sizes, self.seed)?,
            footprint: Footprint {
                before: before.now,
                live: parts.iter().map(|part| part.live).sum(),
                resident: after.now,
                peak: after.peak,
            },
        })
    }

    /// The body of one thread. It comes to every meeting, also after an error.
    fn part<S: Source>(&self, member: Member<'_>, source: &mut S) -> Result<Part, LoadError> {
        let mut random = Random::new(self.seed, member.index as u64);
        let table = Table::new(self.blocks);
        let before = member.first(|| {
            Resident::restart_peak();
            Resident::read()
        });
        let filled = table.and_then(|mut table| {
            fill(&mut table, source, &mut random, self.sizes)?;
            Ok(table)
        });
        let cpu_before = member.first(clock::process_cpu);
        let ran = filled.and_then(|mut table| {
            let stint = turn_over(&mut table, source, &mut random, self.sizes, self.until)?;
            Ok((table, stint))
        });
        let cpu_after = member.first(clock::process_cpu);
        let after = member.first(Resident::read);
        let (mut table, stint) = ran?;
        let live = table.live();
        table.release(source)?;
        Ok(Part {
            stint,
            live,
            before: before.transpose()?,
            after: after.transpose()?,
            process_cpu: cpu_after.zip(cpu_before).map(|(after, before)| after - before),
        })
    }

    pub fn parameters(&self) -> Values {
        let mut values = Values::default();
        values.count("threads", self.threads);
        values.count("blocks", self.blocks);
        values.text("sizes", self.sizes);
        values.count("seed", self.seed);
        values
    }
}

impl ReplacementResult {
    pub fn values(&self) -> Values {
        let mut values = Values::default();
        self.pairs.values("pair", &mut values);
        values.real("pair_process_cpu_ns", self.process_cpu_ns);
        values.real("pair_own_cpu_ns", self.own_cpu_ns);
        self.footprint.values(&mut values);
        values
    }
}

/// CPU nanoseconds of a pair without the allocator: on blocks that lie packed and never move.
pub(crate) fn own_cost(blocks: usize, sizes: Sizes, seed: u64) -> Result<f64, LoadError> {
    let mut source = Fixed::packed(blocks, sizes.high())?;
    let mut random = Random::new(seed, 0);
    let mut table = Table::new(source.places())?;
    fill(&mut table, &mut source, &mut random, sizes)?;
    let stint = turn_over(&mut table, &mut source, &mut random, sizes, OWN)?;
    Ok(Rate::of(&[stint]).cpu_nanoseconds())
}

/// An error for a parameter that must not be 0.
pub(crate) fn require(name: &str, value: usize) -> Result<(), LoadError> {
    if value == 0 {
        return Err(LoadError::Parameter(format!("{name} must be at least 1")));
    }
    if u32::try_from(value).is_err() {
        return Err(LoadError::Parameter(format!("{name} must be below 2^32")));
    }
    Ok(())
}

/// Allocates a block for each empty place of a table.
pub(crate) fn fill<S: Source>(
    table: &mut [Block],
    source: &mut S,
    random: &mut Random,
    sizes: Sizes,
) -> Result<(), LoadError> {
    for block in table {
        let draw = random.draw();
        *block = source.allocate(sizes.pick(draw), draw as u32)?;
    }
    Ok(())
}

#[inline(never)]
pub(crate) fn turn_over<S: Source>(
    table: &mut [Block],
    source: &mut S,
    random: &mut Random,
    sizes: Sizes,
    until: Until,
) -> Result<Stint, LoadError> {
    Stint::repeat(until, BATCH, || {
        let draw = random.draw();
        let victim = &mut table[random::index(draw, table.len())];
        source.replace(victim, sizes.pick(draw), draw as u32)
    })
}
