//! Large blocks: replaced at random, and grown by `realloc`. A byte of every page is written and verified, as memory
//! that is asked for is used.

use crate::block::Block;
use crate::crew::{self, Member};
use crate::error::LoadError;
use crate::footprint::{Footprint, Resident};
use crate::random::{self, Random};
use crate::rate::{Rate, Stint, Until};
use crate::replacement::{self, OWN};
use crate::sizes::Sizes;
use crate::source::{Calls, Fixed, Source};
use crate::table::Table;
use crate::value::Values;

/// Replacements between two looks at the clock; each touches a hundred pages.
const BATCH: u64 = 8;
/// The size that a growing block begins with, in bytes.
const SEEDLING: u32 = 64;

#[derive(Debug, Clone, PartialEq)]
pub struct Large {
    /// Threads; one runs in the calling thread.
    pub threads: usize,
    /// Blocks that each holds.
    pub blocks: usize,
    pub sizes: Sizes,
    /// The size that blocks are grown to, from 64 bytes, by half of their size at a time.
    pub grow_to: u32,
    /// How long each part takes, or how many replacements a thread does, and how many blocks it grows.
    pub until: Until,
    pub seed: u64,
}

impl Default for Large {
    fn default() -> Self {
        Large {
            threads: 1,
            blocks: 64,
            sizes: Sizes::uniform(16 << 10, 1 << 20),
            grow_to: 4 << 20,
            until: Until::Elapsed(std::time::Duration::from_secs(1)),
            seed: 1,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LargeResult {
    /// Of pairs of a free and an allocation.
    pub pairs: Rate,
    /// Of calls of `realloc`.
    pub grows: Rate,
    /// CPU nanoseconds a pair that the generator takes by itself.
    pub own_pair_cpu_ns: f64,
    /// CPU nanoseconds a `realloc` that the generator takes by itself.
    pub own_grow_cpu_ns: f64,
    /// Memory at the end of the replacements, all blocks held.
    pub footprint: Footprint,
}

struct Part {
    pairs: Stint,
    grows: Stint,
    live: u64,
    before: Option<Resident>,
    after: Option<Resident>,
}

impl Large {
    /// Runs the load on this process's `malloc`.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn run(&self) -> Result<LargeResult, LoadError> {
        replacement::require("threads", self.threads)?;
        replacement::require("blocks", self.blocks)?;
        if self.grow_to <= SEEDLING || self.grow_to > 1 << 30 {
            let message = format!("blocks can be grown to more than {SEEDLING} bytes and at most 1 GiB");
            return Err(LoadError::Parameter(message));
        }
        let parts = crew::run(self.threads, |member| self.part(member))?;
        let parts = parts.into_iter().collect::<Result<Vec<Part>, LoadError>>()?;
        let (before, after) = parts[0]
            .before
            .zip(parts[0].after)
            .expect("the first member reads both");
        let (own_pair_cpu_ns, own_grow_cpu_ns) = self.own_cost()?;
        Ok(LargeResult {
            pairs: Rate::of(&parts.iter().map(|part| part.pairs).collect::<Vec<_>>()),
            grows: Rate::of(&parts.iter().map(|part| part.grows).collect::<Vec<_>>()),
            own_pair_cpu_ns,
            own_grow_cpu_ns,
            footprint: Footprint {
                before: before.now,
                live: parts.iter().map(|part| part.live).sum(),
                resident: after.now,
                peak: after.peak,
            },
        })
    }

    /// The body of one thread. It comes to every meeting, also after an error.
    fn part(&self, member: Member<'_>) -> Result<Part, LoadError> {
        let mut random = Random::new(self.seed, member.index as u64);
        let table = Table::new(self.blocks);
        let before = member.first(|| {
            Resident::restart_peak();
            Resident::read()
        });
        let filled = table.and_then(|mut table| {
            self.fill(&mut table, &mut Calls, &mut random)?;
            Ok(table)
        });
        member.meet();
        let ran = filled.and_then(|mut table| {
            let pairs = self.turn_over(&mut table, &mut Calls, &mut random, self.until)?;
            Ok((table, pairs))
        });
        let after = member.first(Resident::read);
        let (mut table, pairs) = ran?;
        let live = table.live();
        table.release(&mut Calls)?;
        let grows = self.grow(&mut Calls, &mut random, self.until)?;
        Ok(Part {
            pairs,
            grows,
            live,
            before: before.transpose()?,
            after: after.transpose()?,
        })
    }

    fn fill<S: Source>(
        &self,
        table: &mut [Block],
        source: &mut S,
        random: &mut Random,
    ) -> Result<(), LoadError> {
        replacement::fill(table, source, random, self.sizes)?;
        table.iter_mut().for_each(|block| block.mark_pages(0));
        Ok(())
    }

    #[inline(never)]
    fn turn_over<S: Source>(
        &self,
        table: &mut [Block],
        source: &mut S,
        random: &mut Random,
        until: Until,
    ) -> Result<Stint, LoadError> {
        Stint::repeat(until, BATCH, || {
            let draw = random.draw();
            let victim = &mut table[random::index(draw, table.len())];
            victim.verify_pages()?;
            source.replace(victim, self.sizes.pick(draw), draw as u32)?;
            victim.mark_pages(0);
            Ok(())
        })
    }

    /// Grows blocks to their full size, one after the other; counts the calls.
    #[inline(never)]
    fn grow<S: Source>(&self, source: &mut S, random: &mut Random, until: Until) -> Result<Stint, LoadError> {
        let mut calls = 0;
        let stint = Stint::repeat(until, 1, || {
            let mut block = source.allocate(SEEDLING, random.draw() as u32)?;
            while block.size() < self.grow_to {
                let before = block.size();
                source.grow(&mut block, (before + before / 2).min(self.grow_to))?;
                block.mark_pages(before);
                calls += 1;
            }
            block.verify_pages()?;
            source.release(block)
        })?;
        Ok(stint.counting(calls))
    }

    /// CPU nanoseconds of a pair and of a `realloc` without the allocator.
    fn own_cost(&self) -> Result<(f64, f64), LoadError> {
        let mut random = Random::new(self.seed, 0);
        let mut source = Fixed::packed(self.blocks, self.sizes.high())?;
        let mut table = Table::new(source.places())?;
        self.fill(&mut table, &mut source, &mut random)?;
        let pairs = self.turn_over(&mut table, &mut source, &mut random, OWN)?;
        let grows = self.grow(&mut Fixed::roomy(1, self.grow_to)?, &mut random, OWN)?;
        Ok((
            Rate::of(&[pairs]).cpu_nanoseconds(),
            Rate::of(&[grows]).cpu_nanoseconds(),
        ))
    }

    pub fn parameters(&self) -> Values {
        let mut values = Values::default();
        values.count("threads", self.threads);
        values.count("blocks", self.blocks);
        values.text("sizes", self.sizes);
        values.count("grow_to_bytes", self.grow_to);
        values.count("seed", self.seed);
        values
    }
}

impl LargeResult {
    pub fn values(&self) -> Values {
        let mut values = Values::default();
        self.pairs.values("pair", &mut values);
        values.real("pair_own_cpu_ns", self.own_pair_cpu_ns);
        self.grows.values("grow", &mut values);
        values.real("grow_own_cpu_ns", self.own_grow_cpu_ns);
        self.footprint.values(&mut values);
        values
    }
}
