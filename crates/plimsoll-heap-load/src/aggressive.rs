//! Aggressive allocation: each thread allocates 50 MB in small blocks, then frees all, and both once more. The talk's
//! last test.

use std::time::Duration;

use crate::block::Block;
use crate::clock;
use crate::crew::{self, Member};
use crate::error::LoadError;
use crate::footprint::{Footprint, Resident};
use crate::random::Random;
use crate::rate::{Rate, Stint};
use crate::replacement;
use crate::source::{Calls, Fixed, Source};
use crate::table::Table;
use crate::value::Values;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreeOrder {
    Allocated,
    Random,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Aggressive {
    /// Threads; one runs in the calling thread.
    pub threads: usize,
    /// Bytes that each allocates.
    pub bytes: u64,
    pub size: u32,
    pub order: FreeOrder,
    pub seed: u64,
}

impl Default for Aggressive {
    fn default() -> Self {
        Aggressive {
            threads: 1,
            bytes: 50 << 20,
            size: 32,
            order: FreeOrder::Allocated,
            seed: 1,
        }
    }
}

/// The results of the aggressive load. An operation is one allocation or one free.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AggressiveResult {
    /// Allocating from an allocator that has no memory yet.
    pub cold: Rate,
    pub free: Rate,
    /// Allocating the same once more.
    pub steady: Rate,
    /// Freeing it once more.
    pub steady_free: Rate,
    /// CPU nanoseconds of the whole process for a block that is allocated and freed, threads of the allocator included; and
    /// the drawing of the order, where that is random.
    pub process_cpu_ns: f64,
    /// CPU nanoseconds an allocation that the generator takes by itself.
    pub own_allocate_cpu_ns: f64,
    /// CPU nanoseconds a free that the generator takes by itself.
    pub own_free_cpu_ns: f64,
    /// Memory with all blocks of the cold part held.
    pub footprint: Footprint,
}

struct Part {
    stints: [Stint; 4],
    live: u64,
    before: Option<Resident>,
    after: Option<Resident>,
    process_cpu: Option<Duration>,
}

/// The readings of the first member while the others wait. Reading memory is no part of the load, so CPU time is read
/// at both ends of it.
struct Pause {
    begin: Duration,
    resident: Result<Resident, LoadError>,
    end: Duration,
}

impl Pause {
    fn take() -> Pause {
        let begin = clock::process_cpu();
        let resident = Resident::read();
        Pause {
            begin,
            resident,
            end: clock::process_cpu(),
        }
    }
}

impl Aggressive {
    /// Runs the load on this process's `malloc`.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn run(&self) -> Result<AggressiveResult, LoadError> {
        replacement::require("threads", self.threads)?;
        replacement::require("the size", self.size as usize)?;
        replacement::require("blocks", self.count())?;
        let parts = crew::run(self.threads, |member| self.part(member))?;
        let parts = parts.into_iter().collect::<Result<Vec<Part>, LoadError>>()?;
        let rate = |nth: usize| Rate::of(&parts.iter().map(|part| part.stints[nth]).collect::<Vec<_>>());
        let first = &parts[0];
        let (before, after) = first
            .before
            .zip(first.after)
            .expect("the first member reads both");
        let process_cpu = first.process_cpu.expect("the first member reads it");
        let (cold, steady) = (rate(0), rate(2));
        let (own_allocate_cpu_ns, own_free_cpu_ns) = self.own_cost()?;
        Ok(AggressiveResult {
            cold,
            free: rate(1),
            steady,
            steady_free: rate(3),
            process_cpu_ns: process_cpu.as_nanos() as f64 / (cold.count + steady.count) as f64,
            own_allocate_cpu_ns,
            own_free_cpu_ns,
            footprint: Footprint {
                before: before.now,
                live: parts.iter().map(|part| part.live).sum(),
                resident: after.now,
                peak: after.peak,
            },
        })
    }

    fn count(&self) -> usize {
        usize::try_from(self.bytes / u64::from(self.size)).unwrap_or(usize::MAX)
    }

    /// The body of one thread. It comes to every meeting, also after an error.
    fn part(&self, member: Member<'_>) -> Result<Part, LoadError> {
        let mut random = Random::new(self.seed, member.index as u64);
        let table = Table::new(self.count());
        let before = member.first(|| {
            Resident::restart_peak();
            Pause::take()
        });
        let cold = table.and_then(|mut table| {
            let stint = self.allocate_all(&mut table, &mut Calls)?;
            Ok((table, stint))
        });
        let after = member.first(Pause::take);
        let freed = cold.and_then(|(mut table, cold)| {
            let live = table.live();
            self.put_in_order(&mut table, &mut random);
            let free = free_all(&mut table, &mut Calls)?;
            Ok((table, live, [cold, free]))
        });
        member.meet();
        let steady = freed.and_then(|(mut table, live, [cold, free])| {
            let steady = self.allocate_all(&mut table, &mut Calls)?;
            self.put_in_order(&mut table, &mut random);
            Ok((table, live, [cold, free, steady]))
        });
        member.meet();
        let freed_again = steady.and_then(|(mut table, live, [cold, free, steady])| {
            Ok((live, [cold, free, steady, free_all(&mut table, &mut Calls)?]))
        });
        let end = member.first(clock::process_cpu);
        let (live, stints) = freed_again?;
        let process_cpu = match (&before, &after, end) {
            (Some(before), Some(after), Some(end)) => Some(after.begin - before.end + (end - after.end)),
            _ => None,
        };
        let resident = |pause: Option<Pause>| pause.map(|pause| pause.resident).transpose();
        Ok(Part {
            stints,
            live,
            before: resident(before)?,
            after: resident(after)?,
            process_cpu,
        })
    }

    #[inline(never)]
    fn allocate_all<S: Source>(&self, table: &mut [Block], source: &mut S) -> Result<Stint, LoadError> {
        Stint::of(|| {
            for (at, block) in table.iter_mut().enumerate() {
                *block = source.allocate(self.size, (at as u32).wrapping_mul(0x9E37_79B9) >> 16)?;
            }
            Ok(table.len() as u64)
        })
    }

    fn put_in_order(&self, table: &mut [Block], random: &mut Random) {
        if self.order == FreeOrder::Random {
            random.shuffle(table);
        }
    }

    /// CPU nanoseconds of an allocation and of a free without the allocator.
    fn own_cost(&self) -> Result<(f64, f64), LoadError> {
        let mut source = Fixed::packed(self.count(), self.size)?;
        let mut table = Table::new(source.places())?;
        let allocated = self.allocate_all(&mut table, &mut source)?;
        self.put_in_order(&mut table, &mut Random::new(self.seed, 0));
        let freed = free_all(&mut table, &mut source)?;
        Ok((
            Rate::of(&[allocated]).cpu_nanoseconds(),
            Rate::of(&[freed]).cpu_nanoseconds(),
        ))
    }

    pub fn parameters(&self) -> Values {
        let mut values = Values::default();
        values.count("threads", self.threads);
        values.count("bytes_a_thread", self.bytes);
        values.count("size_bytes", self.size);
        let order = match self.order {
            FreeOrder::Allocated => "allocated",
            FreeOrder::Random => "random",
        };
        values.text("free_order", order);
        values.count("seed", self.seed);
        values
    }
}

impl AggressiveResult {
    pub fn values(&self) -> Values {
        let mut values = Values::default();
        self.cold.values("cold", &mut values);
        self.free.values("free", &mut values);
        self.steady.values("steady", &mut values);
        self.steady_free.values("steady_free", &mut values);
        values.real("pair_process_cpu_ns", self.process_cpu_ns);
        values.real("allocate_own_cpu_ns", self.own_allocate_cpu_ns);
        values.real("free_own_cpu_ns", self.own_free_cpu_ns);
        self.footprint.values(&mut values);
        values
    }
}

#[inline(never)]
fn free_all<S: Source>(table: &mut [Block], source: &mut S) -> Result<Stint, LoadError> {
    Stint::of(|| {
        for block in table.iter_mut() {
            source.release(std::mem::replace(block, Block::NONE))?;
        }
        Ok(table.len() as u64)
    })
}
