//! Each load, tiny: it makes the requested number of calls and frees all its blocks. Other tests run beside these, in
//! the same process: `command.rs` tests the memory of the process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_heap_load::{
    Aggressive, Block, Calls, CrossThread, Fragmentation, FreeOrder, Large, Larson, LoadError, Replacement,
    Scaling, Sizes, Source, Spread, Until,
};

/// Counts the calls.
#[derive(Default)]
struct Counts {
    allocated: AtomicU64,
    released: AtomicU64,
}

struct Counted<'a>(&'a Counts);

impl Source for Counted<'_> {
    fn allocate(&mut self, size: u32, tag: u32) -> Result<Block, LoadError> {
        self.0.allocated.fetch_add(1, Ordering::Relaxed);
        Calls.allocate(size, tag)
    }

    fn release(&mut self, block: Block) -> Result<(), LoadError> {
        self.0
            .released
            .fetch_add(u64::from(block.size() > 0), Ordering::Relaxed);
        Calls.release(block)
    }

    fn grow(&mut self, block: &mut Block, size: u32) -> Result<(), LoadError> {
        Calls.grow(block, size)
    }
}

fn uniform(low: u32, high: u32) -> Sizes {
    Sizes::new(low, high, Spread::Uniform).expect("right")
}

#[test]
fn replacement_does_as_many_pairs_as_asked_and_frees_all() {
    let counts = Counts::default();
    let load = Replacement {
        threads: 3,
        blocks: 200,
        until: Until::Count(1000),
        ..Replacement::default()
    };
    let result = load.run_on(|_| Counted(&counts)).expect("the allocator works");
    assert_eq!(result.pairs.count, 3 * 1000);
    assert_eq!(counts.allocated.load(Ordering::Relaxed), 3 * (200 + 1000));
    assert_eq!(counts.released.load(Ordering::Relaxed), 3 * (200 + 1000));
    assert!(result.pairs.cpu > Duration::ZERO && result.own_cpu_ns > 0.0);
    assert!(result.process_cpu_ns >= result.pairs.cpu_nanoseconds() * 0.5);
    assert!(result.footprint.peak >= result.footprint.resident);
}

#[test]
fn live_bytes_are_those_held() {
    let load = Replacement {
        threads: 2,
        blocks: 500,
        until: Until::Count(100),
        ..Replacement::default()
    };
    let fixed = Replacement {
        sizes: uniform(22, 22),
        ..load.clone()
    };
    assert_eq!(
        fixed.run().expect("the allocator works").footprint.live,
        2 * 500 * 22
    );
    let once = load.run().expect("the allocator works").footprint.live;
    assert_eq!(
        load.run().expect("the allocator works").footprint.live,
        once,
        "the same seed"
    );
    let other = Replacement { seed: 2, ..load }
        .run()
        .expect("the allocator works");
    assert_ne!(other.footprint.live, once, "another seed");
}

#[test]
fn a_time_is_kept() {
    let time = Duration::from_millis(60);
    let load = Replacement {
        threads: 2,
        blocks: 100,
        until: Until::Elapsed(time),
        ..Replacement::default()
    };
    let result = load.run().expect("the allocator works");
    assert!(result.pairs.wall >= time, "{:?}", result.pairs.wall);
    assert!(result.pairs.count >= 2 * 256, "each thread took part");
}

#[test]
fn large_replaces_and_grows_as_often_as_asked() {
    let sizes = uniform(1 << 20, 1 << 20);
    let load = Large {
        threads: 2,
        blocks: 8,
        sizes,
        grow_to: 1 << 20,
        until: Until::Count(20),
        ..Large::default()
    };
    let result = load.run().expect("the allocator works");
    assert_eq!(result.pairs.count, 40);
    // From 64 bytes to 1 MiB by half of the size each time takes 24 calls.
    assert_eq!(result.grows.count, 2 * 20 * 24);
    assert_eq!(result.footprint.live, 16 << 20);
}

#[test]
fn larson_hands_blocks_from_thread_to_thread() {
    let load = Larson {
        threads: 3,
        blocks: 100,
        pairs_a_round: 500,
        until: Until::Count(4),
        ..Larson::default()
    };
    let result = load.run().expect("the allocator works");
    assert_eq!(result.generations, 3 * 4);
    assert_eq!(result.pairs.count, 3 * 4 * 500);
    assert!(result.footprint.live > 0);
}

#[test]
fn aggressive_allocates_and_frees_all_twice() {
    for order in [FreeOrder::Allocated, FreeOrder::Random] {
        let load = Aggressive {
            threads: 2,
            bytes: 64 << 10,
            order,
            ..Aggressive::default()
        };
        let result = load.run().expect("the allocator works");
        for part in [result.cold, result.free, result.steady, result.steady_free] {
            assert_eq!(part.count, 2 * 2048);
            assert!(part.cpu > Duration::ZERO);
        }
        assert_eq!(result.footprint.live, 2 * (64 << 10));
    }
}

/// As an allocator's background thread is one of the process, and none of the load's.
#[test]
fn aggressive_counts_threads_that_are_not_its_own() {
    let ended = AtomicBool::new(false);
    let load = Aggressive {
        bytes: 16 << 20,
        ..Aggressive::default()
    };
    let result = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let result = load.run();
        ended.store(true, Ordering::Relaxed);
        result.expect("the allocator works")
    });
    let parts = [result.cold, result.free, result.steady, result.steady_free];
    let own = parts.map(|part| part.cpu).iter().sum::<Duration>();
    let blocks = result.cold.count + result.steady.count;
    let of_process = result.process_cpu_ns * blocks as f64;
    // The other thread has as much of the processors as the load, or more.
    assert!(of_process > own.as_nanos() as f64 * 1.2, "{of_process} {own:?}");
}

#[test]
fn fragmentation_keeps_as_much_live_in_each_phase() {
    let counts = Counts::default();
    let load = Fragmentation {
        live_bytes: 1 << 20,
        survivors_percent: 10,
        rest: Duration::from_millis(1),
        ..Fragmentation::default()
    };
    let result = load.run_on(&mut Counted(&counts)).expect("the allocator works");
    assert_eq!(result.phases.len(), 5);
    for phase in &result.phases {
        let live = phase.footprint.live;
        assert!(
            (1 << 20..(1 << 20) + 4096).contains(&live),
            "{live} bytes live with {}",
            phase.sizes
        );
    }
    assert_eq!(
        counts.allocated.load(Ordering::Relaxed),
        counts.released.load(Ordering::Relaxed)
    );
    assert!(result.worst() >= result.phases[4].footprint.per_live());
}

#[test]
fn what_one_thread_allocates_another_frees() {
    let load = CrossThread {
        couples: 2,
        batch: 64,
        batches: 4,
        until: Until::Count(1000),
        ..CrossThread::default()
    };
    let result = load.run().expect("the allocator works");
    assert_eq!(result.allocated, 2 * 1024, "in whole batches");
    assert_eq!(result.blocks.count, result.allocated);
    assert!(result.own_cpu_ns > 0.0);
}

#[test]
fn scaling_divides_its_blocks_among_more_and_more_threads() {
    let steps = Scaling {
        blocks: 1000,
        most_threads: 20,
        ..Scaling::default()
    }
    .steps();
    let seen: Vec<_> = steps.iter().map(|step| (step.threads, step.blocks)).collect();
    assert_eq!(seen, [(1, 1000), (2, 500), (4, 250), (8, 125), (16, 62)]);
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let parameter = |error: LoadError| assert!(matches!(error, LoadError::Parameter(_)), "{error}");
    parameter(
        Replacement {
            threads: 0,
            ..Replacement::default()
        }
        .run()
        .expect_err("no threads"),
    );
    parameter(
        Replacement {
            blocks: 0,
            ..Replacement::default()
        }
        .run()
        .expect_err("no blocks"),
    );
    parameter(
        Larson {
            pairs_a_round: 0,
            ..Larson::default()
        }
        .run()
        .expect_err("no pairs"),
    );
    parameter(
        Aggressive {
            size: 0,
            ..Aggressive::default()
        }
        .run()
        .expect_err("no size"),
    );
    parameter(
        Fragmentation {
            phases: vec![],
            ..Fragmentation::default()
        }
        .run()
        .expect_err("no phases"),
    );
    parameter(
        Fragmentation {
            survivors_percent: 101,
            ..Fragmentation::default()
        }
        .run()
        .expect_err("too many"),
    );
    parameter(
        CrossThread {
            couples: 0,
            ..CrossThread::default()
        }
        .run()
        .expect_err("no couples"),
    );
    parameter(
        Large {
            grow_to: 1,
            ..Large::default()
        }
        .run()
        .expect_err("nothing to grow"),
    );
}
