//! A consumer of the thrashing benchmark: memory from malloc or of a pager, cycles of writes at random bytes, sleeps.
//!
//! Source: Maziero, Santos and Santin, Evaluation of desktop operating systems under thrashing conditions, 2013: each
//! process allocates a large area with malloc, waits for its turn, and then performs cycles of writes at random bytes
//! of the area, with a sleep after each.
//!
//! Place and value of a write follow from the seed and the number of the write alone. Afterwards a replay gives the
//! expected content of the memory, and the number of distinct pages of a cycle. That number counts the generator's
//! choices; it does not read the memory.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use plimsoll_os::UsageScope;
use plimsoll_pager::{MapError, Pager, Region};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::workload::Stopwatch;
use crate::workload::mix;
use crate::workload::protocol::{Reply, Verification};
use crate::workload::{Cost, Findings, PagerError, PagerRequest};
use crate::workload::{Memory, Work, WorkError, typed};
use plimsoll_model::latency::Latencies;
use plimsoll_model::scenario::workloads::thrash::finding;

/// Bytes of a page as the values count them, and of a piece that is compared.
const PAGE: u64 = 4096;
/// Of that many cycles one is counted page by page, and the first is: seldom enough that counting, which repeats the
/// cycle's choices, adds a few percent to the worker's CPU time.
const COUNTED_EVERY: u64 = 16;
/// Pages that are compared at the end, spread at random: few, so that the copies of an area do not weigh on the
/// cgroup. They show content that is wrong throughout, as of a store that returns other bytes; a page lost here and
/// there among the thousands of an area they most likely do not.
const WITNESSED: u64 = 16;
/// Step of the numbers that the writes' choices are mixed from: odd, with its bits well spread (SplitMix64's).
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Requests to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(super) enum Asked {
    /// Allocate the memory, and touch none of it.
    Allocate(Allocate),
    /// Be a consumer, from its start to the common end.
    Consume(Consume),
    /// Verify the pages that the consumer kept, after all timing.
    Verify,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Allocate {
    /// S: bytes of the memory.
    pub bytes: u64,
    /// The pager that the memory belongs to; without one it is from malloc.
    pub pager: Option<PagerRequest>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Consume {
    /// W: writes in one cycle.
    pub writes: u64,
    /// t_s: seconds of sleep between two cycles.
    pub sleep: f64,
    /// Seconds from the command to its own start.
    pub start: f64,
    /// Seconds from the command to the start of the last consumer.
    pub together: f64,
    /// Seconds from the command to the common end.
    pub end: f64,
    pub seed: u64,
}

#[derive(Default)]
pub(in crate::run) struct Consumer {
    /// The memory, until the common end.
    area: Option<Area>,
    /// The pager of the memory. It outlives the memory: other processes read its statistics until the end of the trial.
    pager: Option<Pager>,
    /// Pages that the consumer kept.
    witness: Option<Witness>,
}

/// The memory of a consumer.
#[derive(Debug)]
enum Area {
    Malloc(Vec<u8>),
    Pager(Region),
}

impl Area {
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Area::Malloc(bytes) => bytes,
            Area::Pager(region) => region.bytes_mut(),
        }
    }
}

impl Work for Consumer {
    fn carry_out(&mut self, request: &serde_json::Value, _: Option<&mut Memory>) -> Result<Reply, WorkError> {
        match typed(request)? {
            Asked::Allocate(asked) => {
                self.allocate(&asked).map_err(WorkError::of_workload)?;
                Ok(Reply::Done {
                    cost: Cost::default(),
                    verification: None,
                })
            }
            Asked::Consume(asked) => {
                let (cost, findings) = self.consume(&asked).map_err(WorkError::of_workload)?;
                Ok(Reply::Found { cost, findings })
            }
            Asked::Verify => {
                let nothing = || WorkError::of_workload(ConsumeError::NoWitness);
                let witness = self.witness.as_ref().ok_or_else(nothing)?;
                Ok(Reply::Done {
                    cost: Cost::default(),
                    verification: Some(witness.verify()),
                })
            }
        }
    }
}

/// The reason why a consumer does not carry out a request.
#[derive(Debug, thiserror::Error)]
enum ConsumeError {
    #[error("cannot allocate {bytes} bytes: it must be above 0, and fit into the addresses")]
    Size { bytes: u64 },
    #[error("cannot allocate memory of a pager: {0}")]
    Pager(#[from] PagerError),
    #[error("cannot allocate memory of a pager: {0}")]
    Region(#[from] MapError),
    #[error("cannot consume: there is no memory; send an allocate first")]
    NoMemory,
    #[error("cannot consume with {writes} writes a cycle: it must be above 0")]
    NoWrites { writes: u64 },
    #[error(
        "cannot start a consumer at {start} s that ends at {end} s and sleeps {sleep} s; times are 0 or later, the end not before the start"
    )]
    Times { start: f64, end: f64, sleep: f64 },
    #[error("cannot verify: no consumer has ended here; send a consume first")]
    NoWitness,
}

/// The choices of a seeded consumer: for every write its place and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Choices {
    seed: u64,
    bytes: u64,
}

impl Choices {
    /// Place and value of a write, by its number. Two multiplications and some shifts that do not wait for the write
    /// before, so that it is the memory that is measured.
    #[inline]
    fn of(self, number: u64) -> (usize, u8) {
        let word = mix(self.seed.wrapping_add(number.wrapping_mul(GAMMA)));
        // The upper bits choose the place (Lemire's multiplication in place of a remainder), the lowest the value.
        let place = (u128::from(word) * u128::from(self.bytes)) >> 64;
        (place as usize, word as u8)
    }
}

/// Some pages of a consumer at its end, for verification.
#[derive(Debug, PartialEq)]
struct Witness {
    choices: Choices,
    writes: u64,
    /// Number and content of each page, by number.
    pages: Vec<(u64, Vec<u8>)>,
}

impl Consumer {
    /// Allocates without a touch: the pages of calloc's large areas and of regions are zero when they are first touched.
    fn allocate(&mut self, asked: &Allocate) -> Result<(), ConsumeError> {
        let bytes = asked.bytes;
        let length = usize::try_from(bytes).ok().filter(|length| *length > 0);
        let length = length.ok_or(ConsumeError::Size { bytes })?;
        self.area = Some(match &asked.pager {
            None => Area::Malloc(vec![0; length]),
            Some(request) => {
                let pager = self.pager.insert(request.build()?);
                Area::Pager(pager.map(length)?)
            }
        });
        Ok(())
    }

    /// Waits for its start, works until the end, keeps some pages, and frees.
    fn consume(&mut self, asked: &Consume) -> Result<(Cost, Findings), ConsumeError> {
        let received = Instant::now();
        check(asked)?;
        let mut area = self.area.take().ok_or(ConsumeError::NoMemory)?;
        let memory = area.bytes_mut();
        let choices = Choices {
            seed: asked.seed,
            bytes: memory.len() as u64,
        };
        let start = received + Duration::from_secs_f64(asked.start);
        let together = received + Duration::from_secs_f64(asked.together);
        let end = received + Duration::from_secs_f64(asked.end);
        std::thread::sleep(start.saturating_duration_since(Instant::now()));
        let stalled_before = self.stalled();
        let watch = Stopwatch::start(UsageScope::Process);
        let started = Instant::now();
        let mut diary = Diary::new(choices);
        while Instant::now() < end {
            diary.cycle(memory, asked.writes, together..=end);
            let left = end.saturating_duration_since(Instant::now());
            let sleep = Duration::from_secs_f64(asked.sleep).min(left);
            if !sleep.is_zero() {
                std::thread::sleep(sleep);
                diary.sleeps += 1;
            }
        }
        let ended = Instant::now();
        let cost = watch.stop(diary.writes);
        let mut findings = diary.findings();
        if let Some((before, after)) = stalled_before.zip(self.stalled()) {
            findings.set(finding::STALLED, after.saturating_sub(before).as_secs_f64());
        }
        self.witness = Some(Witness::of(choices, diary.writes, memory));
        let freeing = Instant::now();
        drop(area);
        findings.set("start_late_s", (started - start).as_secs_f64());
        findings.set("end_late_s", ended.saturating_duration_since(end).as_secs_f64());
        findings.set("active_s", (ended - started).as_secs_f64());
        findings.set("free_s", freeing.elapsed().as_secs_f64());
        Ok((cost, findings))
    }

    /// Time that this consumer has waited for evicted pages; `None` without a pager.
    fn stalled(&self) -> Option<Duration> {
        let stats = self.pager.as_ref()?.stats();
        Some(Duration::from_micros(stats.stall_us))
    }
}

fn check(asked: &Consume) -> Result<(), ConsumeError> {
    let &Consume {
        writes,
        sleep,
        start,
        together,
        end,
        ..
    } = asked;
    if writes == 0 {
        return Err(ConsumeError::NoWrites { writes });
    }
    let possible = |seconds: f64| Duration::try_from_secs_f64(seconds).is_ok();
    if ![sleep, start, together, end].into_iter().all(possible) || end < start {
        return Err(ConsumeError::Times { start, end, sleep });
    }
    Ok(())
}

#[derive(Debug)]
struct Diary {
    choices: Choices,
    cycles: u64,
    /// Those whose last write was done by the common end.
    cycles_in_time: u64,
    /// Those of them that ended while all consumers worked.
    cycles_together: u64,
    writes: u64,
    sleeps: u64,
    latencies: Latencies,
    shortest: Duration,
    longest: Duration,
    /// One bit a page that was chosen, for the cycles that are counted.
    touched: Vec<u64>,
    counted_cycles: u64,
    counted_pages: u64,
    counting: Duration,
}

impl Diary {
    fn new(choices: Choices) -> Diary {
        let pages = choices.bytes.div_ceil(PAGE);
        Diary {
            choices,
            cycles: 0,
            cycles_in_time: 0,
            cycles_together: 0,
            writes: 0,
            sleeps: 0,
            latencies: Latencies::new(),
            shortest: Duration::MAX,
            longest: Duration::ZERO,
            touched: vec![0; pages.div_ceil(64) as usize],
            counted_cycles: 0,
            counted_pages: 0,
            counting: Duration::ZERO,
        }
    }

    /// W writes, timed; then, of some cycles, the count of the pages they fell on, which no time of a cycle holds.
    fn cycle(&mut self, memory: &mut [u8], writes: u64, together: RangeInclusive<Instant>) {
        let first = self.writes;
        let begun = Instant::now();
        write_all(memory, self.choices, first, writes);
        let written = Instant::now();
        let took = written - begun;
        self.cycles_in_time += u64::from(written <= *together.end());
        self.cycles_together += u64::from(together.contains(&written));
        self.latencies
            .record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.shortest = self.shortest.min(took);
        self.longest = self.longest.max(took);
        if self.cycles.is_multiple_of(COUNTED_EVERY) {
            let begun = Instant::now();
            self.counted_pages += self.distinct_pages(first, writes);
            self.counted_cycles += 1;
            self.counting += begun.elapsed();
        }
        self.cycles += 1;
        self.writes += writes;
    }

    /// Pages that the places chosen for the writes with these numbers are on, each once.
    fn distinct_pages(&mut self, first: u64, writes: u64) -> u64 {
        self.touched.fill(0);
        for number in first..first + writes {
            let page = self.choices.of(number).0 as u64 / PAGE;
            self.touched[(page / 64) as usize] |= 1 << (page % 64);
        }
        self.touched.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    fn findings(&self) -> Findings {
        let mut findings = Findings::default();
        findings.set("cycles", self.cycles as f64);
        findings.set("cycles_in_time", self.cycles_in_time as f64);
        findings.set("cycles_together", self.cycles_together as f64);
        findings.set("writes", self.writes as f64);
        findings.set("sleeps", self.sleeps as f64);
        findings.set("pages", self.choices.bytes.div_ceil(PAGE) as f64);
        findings.set("counted_cycles", self.counted_cycles as f64);
        findings.set("counted_pages", self.counted_pages as f64);
        findings.set("counting_s", self.counting.as_secs_f64());
        if self.cycles > 0 {
            findings.set("shortest_cycle_s", self.shortest.as_secs_f64());
            findings.set("longest_cycle_s", self.longest.as_secs_f64());
        }
        findings.latency = Some(self.latencies.to_text());
        findings
    }
}

/// The writes with the numbers from `first` on.
fn write_all(memory: &mut [u8], choices: Choices, first: u64, writes: u64) {
    for number in first..first + writes {
        let (place, value) = choices.of(number);
        memory[place] = value;
    }
}

impl Witness {
    /// Keeps some pages of the memory, chosen by the seed.
    fn of(choices: Choices, writes: u64, memory: &[u8]) -> Witness {
        let pages = choices.bytes.div_ceil(PAGE);
        // Another stream than that of the writes: the seed's bits are turned over.
        let pick = |number: u64| (u128::from(mix(!choices.seed ^ number)) * u128::from(pages)) >> 64;
        let mut numbers: Vec<u64> = (0..WITNESSED).map(|number| pick(number) as u64).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let content = |page: u64| {
            let start = (page * PAGE) as usize;
            memory[start..memory.len().min(start + PAGE as usize)].to_vec()
        };
        let pages = numbers.into_iter().map(|page| (page, content(page))).collect();
        Witness {
            choices,
            writes,
            pages,
        }
    }

    /// Replays all writes on the kept pages, and compares every byte.
    fn verify(&self) -> Verification {
        let watch = Stopwatch::start(UsageScope::Process);
        let mut expected: Vec<Vec<u8>> = self.pages.iter().map(|(_, page)| vec![0; page.len()]).collect();
        let mut slots = vec![None; self.choices.bytes.div_ceil(PAGE) as usize];
        for (slot, (number, _)) in self.pages.iter().enumerate() {
            slots[*number as usize] = Some(slot);
        }
        for number in 0..self.writes {
            let (place, value) = self.choices.of(number);
            if let Some(slot) = slots[place / PAGE as usize] {
                expected[slot][place % PAGE as usize] = value;
            }
        }
        let found: Vec<u8> = self.pages.iter().flat_map(|(_, page)| page.clone()).collect();
        let wrong = |(number, page): &(u64, Vec<u8>), expected: &[u8]| -> Vec<u64> {
            let differs = page.iter().zip(expected).enumerate();
            differs
                .filter(|(_, (found, expected))| found != expected)
                .map(|(offset, _)| number * PAGE + offset as u64)
                .collect()
        };
        let wrong: Vec<u64> = self
            .pages
            .iter()
            .zip(&expected)
            .flat_map(|(page, expected)| wrong(page, expected))
            .collect();
        Verification {
            bytes: found.len() as u64,
            wrong_bytes: wrong.len() as u64,
            first_wrong: wrong.first().copied(),
            checksum: xxh3_64(&found),
            expected_checksum: xxh3_64(&expected.concat()),
            seconds: watch.stop(0).seconds,
        }
    }
}

#[cfg(test)]
mod tests;
