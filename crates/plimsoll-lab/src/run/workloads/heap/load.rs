//! A load on malloc, in a process that was started with the allocator under test preloaded.
//!
//! ```text
//! Which -> Load -> [Free] -> Left
//! ```
//! The runner asks first which allocator the process really has: a library that the loader did not take must not pass
//! for one that it did.

use std::time::Duration;

use plimsoll_heap_load::{
    Aggressive, AggressiveResult, Calls, CrossThread, CrossThreadResult, Footprint, Fragmentation, FreeOrder,
    IdleThreads, IdleThreadsResult, Large, LargeResult, Larson, LarsonResult, LoadError, Rate, Replacement,
    ReplacementResult, Resident, Shifted, ShiftedPhase, SizesError, Until, allocator_name,
};
use plimsoll_os::UsageScope;
use serde::{Deserialize, Serialize};

use crate::workload::Stopwatch;
use crate::workload::protocol::Reply;
use crate::workload::{Cost, Findings};
use crate::workload::{Memory, Work, WorkError, typed};
use plimsoll_model::scenario::workloads::heap::finding;
use plimsoll_model::scenario::{Heap, HeapFreeOrder, HeapLoad};

/// Pairs that a thread of Larson's load does for each of its blocks before it ends, as in the original, and the most of
/// them: the end of the time is seen between two threads.
const PAIRS_A_BLOCK: u64 = 100;
const MOST_PAIRS: u64 = 300_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub(super) enum HeapStep {
    /// Answer with the library that malloc comes from.
    Which,
    /// Run the load, and free its blocks; the fragmentation load keeps its last blocks for the heap's inspection. The
    /// load checks every block before it frees it. Finds the values of [`finding`] that the load has.
    Load {
        heap: Heap,
        /// Seed of the sizes and of the order.
        seed: u64,
    },
    /// Free the blocks that the load kept.
    Free,
    /// Finds `left_bytes`: resident bytes above those before the load.
    Left,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum HeapError {
    #[error("{0}")]
    Load(#[from] LoadError),
    #[error("{0}")]
    Sizes(#[from] SizesError),
    #[error("cannot do `left`: out of order; run a load first")]
    OutOfOrder,
    #[error("cannot do `free`: out of order; run the fragmentation load first")]
    NothingKept,
}

/// The worker's side: the state between steps.
#[derive(Default)]
pub(in crate::run) struct Load {
    before: Option<Resident>,
    /// Blocks of the fragmentation load at its end.
    kept: Option<Shifted>,
}

impl Work for Load {
    fn carry_out(&mut self, request: &serde_json::Value, _: Option<&mut Memory>) -> Result<Reply, WorkError> {
        step(self, &typed(request)?).map_err(WorkError::of_workload)
    }
}

fn step(loaded: &mut Load, step: &HeapStep) -> Result<Reply, HeapError> {
    let (cost, findings) = match step {
        HeapStep::Which => {
            return Ok(Reply::Named {
                name: allocator_name(),
            });
        }
        HeapStep::Load { heap, seed } => {
            loaded.before = Some(Resident::read()?);
            load(heap, *seed, &mut loaded.kept)?
        }
        HeapStep::Free => {
            let mut kept = loaded.kept.take().ok_or(HeapError::NothingKept)?;
            let live = kept.phases.last().map_or(0, |phase| phase.footprint.live);
            let watch = Stopwatch::start(UsageScope::Process);
            kept.release(&mut Calls)?;
            (watch.stop(live), Findings::default())
        }
        HeapStep::Left => {
            let before = loaded.before.ok_or(HeapError::OutOfOrder)?;
            let mut findings = Findings::default();
            let left = Resident::read()?.now.saturating_sub(before.now);
            findings.set(finding::LEFT, left as f64);
            (Cost::default(), findings)
        }
    };
    Ok(Reply::Found { cost, findings })
}

fn load(heap: &Heap, seed: u64, kept: &mut Option<Shifted>) -> Result<(Cost, Findings), HeapError> {
    let sizes = heap.sizes.sizes()?;
    let threads = heap.threads as usize;
    let blocks = heap.blocks_a_thread();
    let until = Until::Elapsed(Duration::from_secs_f64(heap.duration));
    let mut findings = Findings::default();
    let watch = Stopwatch::start(UsageScope::Process);
    match heap.load {
        HeapLoad::Replacement | HeapLoad::Scaling => {
            let blocks = blocks as usize;
            let load = Replacement {
                threads,
                blocks,
                sizes,
                until,
                seed,
            };
            replaced(&load.run()?, &mut findings);
        }
        HeapLoad::Larson => {
            let pairs_a_round = (PAIRS_A_BLOCK * u64::from(blocks)).min(MOST_PAIRS);
            let blocks = blocks as usize;
            let load = Larson {
                threads,
                blocks,
                sizes,
                pairs_a_round,
                until,
                seed,
            };
            handed_on(&load.run()?, &mut findings);
        }
        HeapLoad::Aggressive => {
            // The scenario gives one size.
            let (bytes, size) = (heap.volume, sizes.high());
            let order = match heap.free_order {
                HeapFreeOrder::Allocated => FreeOrder::Allocated,
                HeapFreeOrder::Random => FreeOrder::Random,
            };
            let load = Aggressive {
                threads,
                bytes,
                size,
                order,
                seed,
            };
            grown(&load.run()?, &mut findings);
        }
        HeapLoad::Fragmentation => {
            let load = Fragmentation {
                live_bytes: heap.volume,
                // The runner waits, and then measures the rest.
                rest: Duration::ZERO,
                seed,
                ..Fragmentation::default()
            };
            let ended = load.shift_on(&mut Calls)?;
            shifted(&ended.phases, &mut findings);
            *kept = Some(ended);
        }
        HeapLoad::CrossThread => {
            let load = CrossThread {
                couples: heap.pairs_of_threads() as usize,
                sizes,
                until,
                seed,
                ..CrossThread::default()
            };
            passed_on(&load.run()?, &mut findings);
        }
        HeapLoad::Large => {
            let load = Large {
                threads,
                blocks: blocks as usize,
                sizes,
                until,
                seed,
                ..Large::default()
            };
            resized(&load.run()?, &mut findings);
        }
        HeapLoad::IdleThreads => {
            let blocks = blocks as usize;
            let load = IdleThreads {
                threads,
                blocks,
                sizes,
                seed,
            };
            idle(&load.run()?, &mut findings);
        }
    }
    let live = findings.values.get(finding::LIVE).copied().unwrap_or(0.0);
    Ok((watch.stop(live as u64), findings))
}

fn replaced(result: &ReplacementResult, into: &mut Findings) {
    into.set(finding::OPERATION_CPU, result.process_cpu_ns / 1e9);
    into.set(finding::OPERATIONS, result.pairs.per_second());
    into.set(finding::GENERATOR_CPU, result.own_cpu_ns / 1e9);
    footprint(&result.footprint, into);
}

fn handed_on(result: &LarsonResult, into: &mut Findings) {
    into.set(finding::OPERATION_CPU, result.pairs.cpu_nanoseconds() / 1e9);
    into.set(finding::OPERATIONS, result.pairs.per_second());
    into.set(finding::GENERATOR_CPU, result.own_cpu_ns / 1e9);
    into.set(finding::THREADS_LIVED, result.generations as f64);
    footprint(&result.footprint, into);
}

fn grown(result: &AggressiveResult, into: &mut Findings) {
    let parts = [result.cold, result.free, result.steady, result.steady_free];
    let sum = |of: fn(&Rate) -> f64| parts.iter().map(of).sum::<f64>();
    // Each block is allocated and freed twice.
    let operations = sum(|rate| rate.count as f64) / 2.0;
    let wall = sum(|rate| rate.wall.as_secs_f64());
    into.set(finding::OPERATION_CPU, result.process_cpu_ns / 1e9);
    into.set(finding::OPERATIONS, operations / wall);
    let own = result.own_allocate_cpu_ns + result.own_free_cpu_ns;
    into.set(finding::GENERATOR_CPU, own / 1e9);
    into.set(finding::GENERATOR_FREE_CPU, result.own_free_cpu_ns / 1e9);
    into.set(finding::COLD_CPU, result.cold.cpu_nanoseconds() / 1e9);
    into.set(finding::STEADY_CPU, result.steady.cpu_nanoseconds() / 1e9);
    into.set(finding::FREE_CPU, result.free.cpu_nanoseconds() / 1e9);
    into.set(finding::AGGRESSIVE, wall);
    footprint(&result.footprint, into);
}

fn shifted(phases: &[ShiftedPhase], into: &mut Findings) {
    let by_share = |a: &&Footprint, b: &&Footprint| a.per_live().total_cmp(&b.per_live());
    let ends = || phases.iter().map(|phase| &phase.footprint);
    if let Some(worst) = ends().max_by(by_share) {
        footprint(worst, into);
    }
    if let Some(share) = ends().next_back().and_then(live_share) {
        into.set(finding::LAST_LIVE_SHARE, share);
    }
}

/// Memory is read while blocks are in flight: how many of them are live is not known.
fn passed_on(result: &CrossThreadResult, into: &mut Findings) {
    into.set(finding::OPERATION_CPU, result.blocks.cpu_nanoseconds() / 1e9);
    into.set(finding::OPERATIONS, result.blocks.per_second());
    into.set(finding::GENERATOR_CPU, result.own_cpu_ns / 1e9);
    into.set(finding::PEAK, result.peak_growth as f64);
}

fn resized(result: &LargeResult, into: &mut Findings) {
    into.set(finding::OPERATION_CPU, result.pairs.cpu_nanoseconds() / 1e9);
    into.set(finding::OPERATIONS, result.pairs.per_second());
    into.set(finding::GENERATOR_CPU, result.own_pair_cpu_ns / 1e9);
    into.set(finding::REALLOC_CPU, result.grows.cpu_nanoseconds() / 1e9);
    into.set(finding::GENERATOR_REALLOC_CPU, result.own_grow_cpu_ns / 1e9);
    footprint(&result.footprint, into);
}

fn idle(result: &IdleThreadsResult, into: &mut Findings) {
    const KIB: f64 = 1024.0;
    into.set(finding::IDLE_THREAD, result.kib_per_thread() * KIB);
    into.set(finding::IDLE_THREAD_HEAP, result.allocator_kib_per_thread() * KIB);
    let growth = result.after.saturating_sub(result.before);
    into.set(finding::RESIDENT, growth as f64);
}

fn footprint(found: &Footprint, into: &mut Findings) {
    into.set(finding::LIVE, found.live as f64);
    into.set(finding::RESIDENT, found.growth() as f64);
    into.set(finding::PEAK, found.peak.saturating_sub(found.before) as f64);
    if let Some(share) = live_share(found) {
        into.set(finding::LIVE_SHARE, share);
    }
}

/// The live bytes in percent of the RAM taken for them. None where it is not known: blocks that fit into pages that were
/// resident before (220 KB of them took 160 KB, "137%"), and so few bytes that such pages may be a part of their RAM.
fn live_share(found: &Footprint) -> Option<f64> {
    const LEAST_LIVE: u64 = 512 << 10;
    (found.live >= LEAST_LIVE && found.growth() >= found.live).then(|| 100.0 / found.per_live())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::scenario::BlockSizes;

    #[test]
    fn blocks_in_pages_that_were_resident_before_have_no_share() {
        let share = |live: u64, growth: u64| {
            live_share(&Footprint {
                before: 3 << 20,
                live,
                resident: (3 << 20) + growth,
                peak: 16 << 20,
            })
        };
        assert_eq!(share(220_000, 160_000), None);
        assert_eq!(share(220_000, 0), None);
        assert_eq!(share(220_000, 400_000), None);
        assert_eq!(share(4 << 20, 3 << 20), None);
        assert_eq!(share(4 << 20, 5 << 20), Some(80.0));
    }

    fn heap(load: HeapLoad) -> Heap {
        Heap {
            load,
            threads: 2,
            blocks: 500,
            sizes: BlockSizes::uniform(1, 256),
            volume: 1 << 20,
            free_order: HeapFreeOrder::Random,
            duration: 0.02,
            hold: 0.0,
        }
    }

    fn found(loaded: &mut Load, asked: &HeapStep) -> Findings {
        match step(loaded, asked).unwrap() {
            Reply::Found { findings, .. } => findings,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_load_has_the_common_metrics() {
        for load in [
            HeapLoad::Replacement,
            HeapLoad::Larson,
            HeapLoad::Aggressive,
            HeapLoad::Fragmentation,
            HeapLoad::Scaling,
            HeapLoad::CrossThread,
            HeapLoad::Large,
            HeapLoad::IdleThreads,
        ] {
            let mut loaded = Load::default();
            let heap = heap(load);
            let findings = found(&mut loaded, &HeapStep::Load { heap, seed: 1 });
            let values = &findings.values;
            let live = values.get(finding::LIVE).is_some_and(|bytes| *bytes > 0.0);
            let is_live_at_the_end = !matches!(load, HeapLoad::CrossThread | HeapLoad::IdleThreads);
            assert_eq!(live, is_live_at_the_end, "{load:?}: {values:?}");
            let timed = values
                .get(finding::OPERATION_CPU)
                .is_some_and(|seconds| *seconds > 0.0);
            let is_timed = !matches!(load, HeapLoad::Fragmentation | HeapLoad::IdleThreads);
            assert_eq!(timed, is_timed, "{load:?}: {values:?}");
            // One load alone keeps anything.
            assert_eq!(
                step(&mut loaded, &HeapStep::Free).is_ok(),
                load == HeapLoad::Fragmentation
            );
            assert!(step(&mut loaded, &HeapStep::Free).is_err());
            assert!(
                found(&mut loaded, &HeapStep::Left)
                    .values
                    .contains_key(finding::LEFT)
            );
        }
    }

    #[test]
    fn left_is_refused_before_a_load() {
        assert!(step(&mut Load::default(), &HeapStep::Left).is_err());
    }
}
