//! Idle threads: many threads that each allocate and free a few blocks, then sleep. The memory that the allocator keeps
//! for each of them is unused.

use std::thread;
use std::time::Duration;

use crate::crew::{self, Member};
use crate::error::LoadError;
use crate::footprint::Resident;
use crate::random::Random;
use crate::replacement;
use crate::sizes::Sizes;
use crate::source::{Calls, Source};
use crate::value::Values;

/// How long the threads have been asleep when memory is read.
const REST: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq)]
pub struct IdleThreads {
    /// Threads, besides the calling one.
    pub threads: usize,
    /// Blocks that each allocates and frees, one after the other.
    pub blocks: usize,
    pub sizes: Sizes,
    pub seed: u64,
}

impl Default for IdleThreads {
    fn default() -> Self {
        IdleThreads {
            threads: 1000,
            blocks: 16,
            sizes: Sizes::uniform(1, 1024),
            seed: 1,
        }
    }
}

/// The results of the load of idle threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleThreadsResult {
    pub threads: u64,
    /// Resident bytes of the process before there were threads.
    pub before: u64,
    /// With threads that have allocated nothing: their stacks.
    pub with_threads: u64,
    /// With threads that have allocated and freed.
    pub after: u64,
}

impl IdleThreads {
    /// Runs the load on this process's `malloc`.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn run(&self) -> Result<IdleThreadsResult, LoadError> {
        replacement::require("threads", self.threads)?;
        let before = Resident::read()?.now;
        let readings = crew::run(self.threads + 1, |member| self.part(member))?;
        let readings = readings.into_iter().collect::<Result<Vec<_>, LoadError>>()?;
        let (with_threads, after) = readings[0].expect("the first member reads");
        Ok(IdleThreadsResult {
            threads: self.threads as u64,
            before,
            with_threads,
            after,
        })
    }

    /// The body of one thread; the first one only reads. It comes to every meeting, also after an error.
    fn part(&self, member: Member<'_>) -> Result<Option<(u64, u64)>, LoadError> {
        let blocks = if member.index == 0 { 0 } else { self.blocks };
        let mut random = Random::new(self.seed, member.index as u64);
        let stack = self.use_a_few(&mut random, 0);
        let read = || {
            thread::sleep(REST);
            Resident::read()
        };
        let with_threads = member.first(read);
        let used = self.use_a_few(&mut random, blocks);
        let after = member.first(read);
        stack.and(used)?;
        Ok(with_threads
            .transpose()?
            .zip(after.transpose()?)
            .map(|(with, after)| (with.now, after.now)))
    }

    /// Allocates and frees some blocks.
    #[inline(never)]
    fn use_a_few(&self, random: &mut Random, blocks: usize) -> Result<(), LoadError> {
        for _ in 0..blocks {
            let draw = random.draw();
            let block = Calls.allocate(self.sizes.pick(draw), draw as u32)?;
            Calls.release(block)?;
        }
        Ok(())
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

impl IdleThreadsResult {
    /// KiB a thread, its stack included.
    pub fn kib_per_thread(&self) -> f64 {
        self.per_thread(self.before)
    }

    /// KiB a thread beyond those of a thread that allocates nothing: the allocator's share.
    pub fn allocator_kib_per_thread(&self) -> f64 {
        self.per_thread(self.with_threads)
    }

    fn per_thread(&self, from: u64) -> f64 {
        self.after.saturating_sub(from) as f64 / 1024.0 / self.threads as f64
    }

    pub fn values(&self) -> Values {
        let mut values = Values::default();
        values.real("kib_per_thread", self.kib_per_thread());
        values.real("allocator_kib_per_thread", self.allocator_kib_per_thread());
        values.count("resident_before_bytes", self.before);
        values.count("resident_with_threads_bytes", self.with_threads);
        values.count("resident_bytes", self.after);
        values
    }
}
