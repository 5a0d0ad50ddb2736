//! Blocks that one thread allocates and another frees: pairs of a producer and a consumer, blocks passed in batches,
//! after Lever and Boreham's xmalloc ("malloc() Performance in a Multithreaded Linux Environment", 2000).

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::crew::{self, Member};
use crate::error::LoadError;
use crate::footprint::Resident;
use crate::random::Random;
use crate::rate::{Rate, Stint, Until};
use crate::replacement::{self, OWN, fill};
use crate::sizes::Sizes;
use crate::source::{Calls, Fixed, Source};
use crate::table::Table;
use crate::value::Values;

#[derive(Debug, Clone, PartialEq)]
pub struct CrossThread {
    /// Pairs of a producer and a consumer: twice as many threads.
    pub couples: usize,
    /// Blocks of a batch.
    pub batch: usize,
    /// Batches on their way between two threads.
    pub batches: usize,
    pub sizes: Sizes,
    /// How long, or how many blocks a producer, in whole batches.
    pub until: Until,
    pub seed: u64,
}

impl Default for CrossThread {
    fn default() -> Self {
        CrossThread {
            couples: 1,
            batch: 256,
            batches: 16,
            sizes: Sizes::uniform(8, 2048),
            until: Until::Elapsed(Duration::from_secs(1)),
            seed: 1,
        }
    }
}

/// The results of the cross-thread load. An operation is an allocation in one thread and the free in another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossThreadResult {
    /// Of blocks, freed by the consumers; the CPU time is that of both sides, handing over included.
    pub blocks: Rate,
    /// Blocks that the producers allocated; equal to those freed.
    pub allocated: u64,
    /// CPU nanoseconds a block that the generator takes by itself, with one couple.
    pub own_cpu_ns: f64,
    /// The most resident memory above that before the first block.
    pub peak_growth: u64,
    /// Resident memory above that before the first block, after the last one was freed.
    pub left: u64,
}

/// One end of a couple's channels: tables come in by one and go out by the other. Full ones go one way, empty ones
/// back.
struct End {
    incoming: Receiver<Table>,
    outgoing: SyncSender<Table>,
}

/// The result of one thread.
struct Part {
    stint: Stint,
    before: Option<Resident>,
    after: Option<Resident>,
}

impl CrossThread {
    /// Runs the load on this process's `malloc`.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn run(&self) -> Result<CrossThreadResult, LoadError> {
        let measured = self.measure(|| Ok(Calls))?;
        let own = CrossThread {
            couples: 1,
            until: OWN,
            ..self.clone()
        };
        // A place comes round again when its block was freed: no more batches are about than the channel and the two
        // threads hold.
        let own = own.measure(|| Fixed::packed(self.batch * (self.batches + 2), self.sizes.high()))?;
        Ok(CrossThreadResult {
            own_cpu_ns: own.blocks.cpu_nanoseconds(),
            ..measured
        })
    }

    /// Runs the load on a source made for each thread, without the generator's own cost.
    fn measure<S: Source>(
        &self,
        source: impl Fn() -> Result<S, LoadError> + Sync,
    ) -> Result<CrossThreadResult, LoadError> {
        replacement::require("couples", self.couples)?;
        replacement::require("the batch", self.batch)?;
        replacement::require("batches", self.batches)?;
        let mut ends = Vec::with_capacity(2 * self.couples);
        for _ in 0..self.couples {
            ends.extend(self.couple()?.map(|end| Mutex::new(Some(end))));
        }
        let parts = crew::run(ends.len(), |member| {
            let end = ends[member.index]
                .lock()
                .expect("no thread panics with it")
                .take();
            self.part(member, end.expect("each member takes its own, once"), source())
        })?;
        let parts = parts.into_iter().collect::<Result<Vec<Part>, LoadError>>()?;
        let stints: Vec<Stint> = parts.iter().map(|part| part.stint).collect();
        let counted = |side: usize| stints.iter().skip(side).step_by(2).map(|stint| stint.count).sum();
        let (before, after) = parts[0]
            .before
            .zip(parts[0].after)
            .expect("the first member reads both");
        Ok(CrossThreadResult {
            blocks: Rate {
                count: counted(1),
                ..Rate::of(&stints)
            },
            allocated: counted(0),
            own_cpu_ns: f64::NAN,
            peak_growth: after.peak.saturating_sub(before.now),
            left: after.now.saturating_sub(before.now),
        })
    }

    /// The producer's and the consumer's end, all tables empty and on their way to the producer.
    fn couple(&self) -> Result<[End; 2], LoadError> {
        let (full, filled) = sync_channel(self.batches);
        let (empty, emptied) = sync_channel(self.batches);
        for _ in 0..self.batches {
            empty
                .send(Table::new(self.batch)?)
                .expect("there is room, and a receiver");
        }
        Ok([
            End {
                incoming: emptied,
                outgoing: full,
            },
            End {
                incoming: filled,
                outgoing: empty,
            },
        ])
    }

    /// The body of one thread. It comes to every meeting, also after an error; and its source lasts until the second
    /// one, when no thread uses its blocks any more.
    fn part<S: Source>(
        &self,
        member: Member<'_>,
        end: End,
        source: Result<S, LoadError>,
    ) -> Result<Part, LoadError> {
        let before = member.first(|| {
            Resident::restart_peak();
            Resident::read()
        });
        let done = source.map(|mut source| {
            let stint = if member.index.is_multiple_of(2) {
                self.produce(end, &mut source, Random::new(self.seed, member.index as u64))
            } else {
                consume(end, &mut source)
            };
            // Kept also after an error.
            (stint, source)
        });
        let after = member.first(Resident::read);
        let (stint, _source) = done?;
        Ok(Part {
            stint: stint?,
            before: before.transpose()?,
            after: after.transpose()?,
        })
    }

    /// Fills tables and passes them on, until the time is up or the consumer has failed.
    fn produce<S: Source>(&self, end: End, source: &mut S, mut random: Random) -> Result<Stint, LoadError> {
        let began = Instant::now();
        let over = |count: u64| match self.until {
            Until::Elapsed(time) => began.elapsed() >= time,
            Until::Count(wanted) => count >= wanted,
        };
        Stint::of(|| {
            let mut count = 0;
            for mut table in end.incoming {
                fill(&mut table, source, &mut random, self.sizes)?;
                count += table.len() as u64;
                if end.outgoing.send(table).is_err() || over(count) {
                    break;
                }
            }
            Ok(count)
        })
    }

    pub fn parameters(&self) -> Values {
        let mut values = Values::default();
        values.count("couples", self.couples);
        values.count("batch", self.batch);
        values.count("batches", self.batches);
        values.text("sizes", self.sizes);
        values.count("seed", self.seed);
        values
    }
}

impl CrossThreadResult {
    pub fn values(&self) -> Values {
        let mut values = Values::default();
        self.blocks.values("block", &mut values);
        values.real("block_own_cpu_ns", self.own_cpu_ns);
        values.count("allocated_count", self.allocated);
        values.count("peak_growth_bytes", self.peak_growth);
        values.count("left_bytes", self.left);
        values
    }
}

/// Frees the blocks of each table and returns the table, until the producer has ended.
fn consume<S: Source>(end: End, source: &mut S) -> Result<Stint, LoadError> {
    Stint::of(|| {
        let mut count = 0;
        for mut table in end.incoming {
            table.release(source)?;
            count += table.len() as u64;
            // A producer that has ended needs no more tables.
            let _ = end.outgoing.send(table);
        }
        Ok(count)
    })
}
