//! External fragmentation: 70 MB stay live while their sizes shift from phase to phase, some blocks of each phase
//! surviving to the end. Then all is freed, and the memory that the allocator keeps is measured.

use std::thread;
use std::time::Duration;

use crate::block::Block;
use crate::error::LoadError;
use crate::footprint::{Footprint, Resident};
use crate::random::Random;
use crate::replacement;
use crate::sizes::Sizes;
use crate::source::{Calls, Source};
use crate::table::Table;
use crate::value::Values;

/// The fragmentation load. It runs in the calling thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Fragmentation {
    /// Bytes that are held in every phase.
    pub live_bytes: u64,
    pub phases: Vec<Sizes>,
    /// Percent of the blocks of each phase that stay until the end.
    pub survivors_percent: u32,
    /// How long after freeing all the rest is measured; the process sleeps meanwhile.
    pub rest: Duration,
    pub seed: u64,
}

impl Default for Fragmentation {
    fn default() -> Self {
        Fragmentation {
            live_bytes: 70 << 20,
            phases: vec![
                Sizes::uniform(16, 64),
                Sizes::uniform(64, 256),
                Sizes::uniform(256, 1024),
                Sizes::uniform(1024, 4096),
                Sizes::uniform(16, 64),
            ],
            survivors_percent: 2,
            rest: Duration::from_millis(1500),
            seed: 1,
        }
    }
}

/// The end of one phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShiftedPhase {
    /// The sizes that were allocated in it.
    pub sizes: Sizes,
    /// Memory at its end; the peak is of all phases so far.
    pub footprint: Footprint,
}

/// The load after its last phase, when all blocks are still held: the moment to look at the heap.
#[derive(Debug)]
pub struct Shifted {
    pub phases: Vec<ShiftedPhase>,
    /// Resident bytes before the first block, with the tables of the blocks, which are there as long as this.
    before: u64,
    population: Population,
}

impl Shifted {
    /// Verifies and frees every block.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn release<S: Source>(&mut self, source: &mut S) -> Result<(), LoadError> {
        self.population.release(source)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct FragmentationResult {
    pub phases: Vec<ShiftedPhase>,
    /// Resident bytes above those before the first block, right after all blocks were freed.
    pub left_at_once: u64,
    /// The same after the rest.
    pub left: u64,
}

impl Fragmentation {
    /// Runs the load on this process's `malloc`.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn run(&self) -> Result<FragmentationResult, LoadError> {
        self.run_on(&mut Calls)
    }

    /// Runs the load on another source.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn run_on<S: Source>(&self, source: &mut S) -> Result<FragmentationResult, LoadError> {
        let mut shifted = self.shift_on(source)?;
        shifted.release(source)?;
        let left_at_once = Resident::read()?.now.saturating_sub(shifted.before);
        thread::sleep(self.rest);
        let left = Resident::read()?.now.saturating_sub(shifted.before);
        Ok(FragmentationResult {
            phases: shifted.phases,
            left_at_once,
            left,
        })
    }

    /// Runs the phases, and keeps the blocks of the last one.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn shift_on<S: Source>(&self, source: &mut S) -> Result<Shifted, LoadError> {
        let Some(lowest) = self.phases.iter().map(|sizes| sizes.low()).min() else {
            return Err(LoadError::Parameter(
                "fragmentation needs at least one phase".to_owned(),
            ));
        };
        if self.survivors_percent > 100 {
            return Err(LoadError::Parameter(
                "survivors are at most 100 percent".to_owned(),
            ));
        }
        // At most one block begins below the target and ends above it.
        let capacity = usize::try_from(self.live_bytes / u64::from(lowest) + 1).unwrap_or(usize::MAX);
        replacement::require("the number of blocks", capacity)?;
        let mut population = Population::new(capacity)?;
        let mut random = Random::new(self.seed, 0);
        Resident::restart_peak();
        let before = Resident::read()?.now;
        let mut phases = Vec::with_capacity(self.phases.len());
        for &sizes in &self.phases {
            population.choose_survivors(self.survivors_percent, &mut random);
            population.shift(self.live_bytes, sizes, source, &mut random)?;
            let resident = Resident::read()?;
            phases.push(ShiftedPhase {
                sizes,
                footprint: Footprint {
                    before,
                    live: population.live,
                    resident: resident.now,
                    peak: resident.peak,
                },
            });
        }
        Ok(Shifted {
            phases,
            before,
            population,
        })
    }

    pub fn parameters(&self) -> Values {
        let mut values = Values::default();
        values.count("live_bytes_wanted", self.live_bytes);
        let phases: Vec<String> = self.phases.iter().map(Sizes::to_string).collect();
        values.text("phases", phases.join(","));
        values.count("survivors_percent", self.survivors_percent);
        values.real("rest_seconds", self.rest.as_secs_f64());
        values.count("seed", self.seed);
        values
    }
}

impl FragmentationResult {
    /// The most memory there was for the live bytes at the end of a phase; 1 is ideal.
    pub fn worst(&self) -> f64 {
        self.phases
            .iter()
            .map(|phase| phase.footprint.per_live())
            .fold(0.0, f64::max)
    }

    pub fn values(&self) -> Values {
        let mut values = Values::default();
        values.real("worst_resident_per_live", self.worst());
        let last = self
            .phases
            .last()
            .map_or(f64::NAN, |phase| phase.footprint.per_live());
        values.real("last_resident_per_live", last);
        values.count("left_at_once_bytes", self.left_at_once);
        values.count("left_bytes", self.left);
        let phases = self.phases.iter().map(|phase| {
            let mut values = Values::default();
            values.text("sizes", phase.sizes);
            phase.footprint.values(&mut values);
            values
        });
        values.groups("phases", phases.collect());
        values
    }
}

/// The blocks: survivors of earlier phases first, then the blocks of the last phase.
///
/// Invariant: blocks below `held` exist, others do not, and `live` is the sum of their sizes.
#[derive(Debug)]
struct Population {
    blocks: Table,
    survivors: usize,
    held: usize,
    live: u64,
    /// Empty but during a shift.
    arriving: Table,
}

impl Population {
    fn new(capacity: usize) -> Result<Population, LoadError> {
        let (blocks, arriving) = (Table::new(capacity)?, Table::new(capacity)?);
        Ok(Population {
            blocks,
            survivors: 0,
            held: 0,
            live: 0,
            arriving,
        })
    }

    /// Puts the blocks of the last phase in a random order and has the first of them survive.
    fn choose_survivors(&mut self, percent: u32, random: &mut Random) {
        let last = &mut self.blocks[self.survivors..self.held];
        random.shuffle(last);
        self.survivors += last.len() * percent as usize / 100;
    }

    /// Frees the blocks that do not survive, one by one, and allocates new ones whenever too little is live.
    fn shift<S: Source>(
        &mut self,
        target: u64,
        sizes: Sizes,
        source: &mut S,
        random: &mut Random,
    ) -> Result<(), LoadError> {
        let mut arrived = 0;
        loop {
            while self.live < target {
                let draw = random.draw();
                let block = source.allocate(sizes.pick(draw), draw as u32)?;
                self.live += u64::from(block.size());
                self.arriving[arrived] = block;
                arrived += 1;
            }
            if self.held == self.survivors {
                break;
            }
            self.held -= 1;
            let block = std::mem::replace(&mut self.blocks[self.held], Block::NONE);
            self.live -= u64::from(block.size());
            source.release(block)?;
        }
        for block in &mut self.arriving[..arrived] {
            self.blocks[self.held] = std::mem::replace(block, Block::NONE);
            self.held += 1;
        }
        debug_assert!(self.is_valid());
        Ok(())
    }

    fn release<S: Source>(&mut self, source: &mut S) -> Result<(), LoadError> {
        (self.survivors, self.held, self.live) = (0, 0, 0);
        self.blocks.release(source)
    }

    fn is_valid(&self) -> bool {
        self.live == self.blocks.live()
            && self.blocks[..self.held].iter().all(|block| block.size() > 0)
            && self.survivors <= self.held
    }
}
