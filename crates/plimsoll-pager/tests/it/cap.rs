//! The budget as the kernel counts it: another process stops the one with the pager at any moment, and reads its `smaps`.

mod sampler;

use std::io::{BufRead, stdin};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_pager::{Pager, Region};
use plimsoll_testkit::role;

use crate::pages::{PAGE, fill, is_as_filled};
use sampler::{Samples, sample};

const MIB: usize = 1 << 20;
const THREADS: usize = 16;
const RAM: usize = 32 * MIB;

/// The highest sample: 2% above the budget.
const MOST: u64 = RAM as u64 / 100 * 102;

/// Runs `work` in a process of its own, the program, and looks at it from this one.
fn program_under_a_cap(test: &str, work: impl FnOnce(&Program)) {
    if role().is_some() {
        return Program::run(work);
    }
    let Samples {
        highest,
        median,
        counted,
        facts,
    } = sample(test, 60);
    let [faults, forced, adopted] = facts[..] else {
        panic!("the program states three facts: {facts:?}")
    };
    eprintln!("highest {highest}, median {median} of {RAM} in {counted} samples; {faults} hard faults");
    assert!(highest <= MOST, "{highest} bytes of {RAM}");
    // The pager was at its cap, and at work, while it was looked at.
    assert!(median >= RAM as u64 / 100 * 85, "{median} bytes of {RAM}");
    assert!(faults > counted * 100, "{faults} faults in {counted} samples");
    assert_eq!(forced, 0, "frames over the budget");
    if test.contains("native") {
        assert!(adopted > 0, "no native page was adopted");
    }
}

/// The process with the pager. Its threads have used their stacks before the first look, so that all that is new is the
/// pager's.
struct Program {
    start: Barrier,
    is_over: AtomicBool,
    /// The last round of each thread; set by the first thread that sees the end.
    last_round: AtomicU64,
}

impl Program {
    fn run(work: impl FnOnce(&Program)) {
        let program = Program {
            start: Barrier::new(THREADS + 1),
            is_over: AtomicBool::new(false),
            last_round: AtomicU64::new(u64::MAX),
        };
        work(&program);
    }

    /// Whether a thread's round `count` is its last. Threads that meet in each round make the same number of rounds: the one that
    /// sees the end first makes another one, in which all others see its choice.
    fn ends_after(&self, count: u64) -> bool {
        if self.is_over.load(Ordering::Relaxed) {
            self.last_round.fetch_min(count + 1, Ordering::SeqCst);
        }
        count >= self.last_round.load(Ordering::SeqCst)
    }

    /// Has each thread work on the pager until the sampler has seen enough; `round` gets the number of the thread and of
    /// its round, from 1 on.
    fn threads(&self, pager: impl FnOnce() -> Pager, round: impl Fn(&Pager, usize, u64) + Sync) {
        let built = std::sync::OnceLock::<Pager>::new();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..THREADS)
                .map(|number| {
                    let (built, round) = (&built, &round);
                    scope.spawn(move || {
                        use_stack();
                        self.start.wait();
                        self.start.wait();
                        let pager = built.get().expect("it is built before the start");
                        for count in 1.. {
                            round(pager, number, count);
                            if self.ends_after(count) {
                                break;
                            }
                        }
                    })
                })
                .collect();
            self.start.wait();
            let mut lines = stdin().lock().lines();
            say("idle");
            lines.next();
            assert!(built.set(pager()).is_ok());
            self.start.wait();
            say("working");
            lines.next();
            self.is_over.store(true, Ordering::Relaxed);
            for worker in workers {
                worker.join().expect("every byte is as written");
            }
        });
        let pager = built.get().expect("it was built");
        assert_eq!(pager.validate(), []);
        let stats = pager.stats();
        let faults = stats.hard_faults + stats.stream_pages;
        say(&format!(
            "facts {faults} {} {}",
            stats.forced_frames, stats.adopted_pages
        ));
    }
}

/// Prints a line for the sampler; the test program has begun one.
fn say(line: &str) {
    println!("\n{line}");
}

/// Touches the stack as deep as faults use it.
#[inline(never)]
fn use_stack() {
    let mut stack = [0_u8; 256 << 10];
    for byte in stack.iter_mut().step_by(PAGE) {
        *std::hint::black_box(byte) = 1;
    }
}

fn pager() -> Pager {
    let pager = crate::modes::builder()
        .ram(RAM as u64)
        .address_space(1 << 30)
        .build();
    pager.expect("userfaultfd is allowed")
}

#[test]
fn sixteen_faulting_threads_stay_within_two_percent_of_the_cap() {
    let test = "cap::sixteen_faulting_threads_stay_within_two_percent_of_the_cap";
    program_under_a_cap(test, |program| {
        let regions = [const { std::sync::Mutex::new(None::<Region>) }; THREADS];
        program.threads(pager, |pager, number, round| {
            let mut slot = regions[number].lock().expect("one thread uses it");
            let region = slot.get_or_insert_with(|| pager.map(6 * MIB).expect("addresses are free"));
            fill(region.bytes_mut(), number, round);
            assert!(is_as_filled(region.bytes(), number, round));
        });
        drop(regions);
    });
}

/// Parts of one region that fit into the budget together are the kernel's, and fully present. Then others are committed, and fit
/// no more, so that faults of 16 threads meet the end of that.
#[test]
fn native_parts_of_a_region_stay_within_two_percent_of_the_cap() {
    let test = "cap::native_parts_of_a_region_stay_within_two_percent_of_the_cap";
    program_under_a_cap(test, |program| {
        let (meet, most_native) = (Barrier::new(THREADS), AtomicU64::new(0));
        let region = std::sync::OnceLock::<Region>::new();
        program.threads(pager, |pager, number, round| {
            let region = region.get_or_init(|| pager.map(512 * MIB).expect("addresses are free"));
            #[allow(unsafe_code, reason = "a part of the region for each thread")]
            let part = |start: usize, bytes| {
                // SAFETY: inside of the region, and of this thread alone.
                unsafe { std::slice::from_raw_parts_mut(region.as_ptr().add(start), bytes) }
            };
            let (first, other) = (number * 2 * MIB, 256 * MIB + number * 4 * MIB);
            region.commit(first..first + 2 * MIB).expect("inside");
            most_native.fetch_max(pager.stats().native_pages, Ordering::Relaxed);
            fill(part(first, 2 * MIB), number, round);
            meet.wait();
            region.commit(other..other + 4 * MIB).expect("inside");
            fill(part(other, 4 * MIB), 100 + number, round);
            assert!(is_as_filled(part(first, 2 * MIB), number, round));
            assert!(is_as_filled(part(other, 4 * MIB), 100 + number, round));
            for range in [first..first + 2 * MIB, other..other + 4 * MIB] {
                #[allow(unsafe_code, reason = "the thread's own part")]
                // SAFETY: no reference to the range exists.
                unsafe { region.decommit_unborrowed(range) }.expect("nothing is pinned");
            }
            meet.wait();
        });
        assert!(most_native.into_inner() >= (20 * MIB / PAGE) as u64);
    });
}

/// Regions that fit into the budget together are the kernel's, and fully present. Then others are mapped, so that faults
/// of 16 threads convert the first ones; then all are unmapped, and so on.
#[test]
fn native_regions_that_are_converted_stay_within_two_percent_of_the_cap() {
    const NATIVE: usize = 14;
    let test = "cap::native_regions_that_are_converted_stay_within_two_percent_of_the_cap";
    program_under_a_cap(test, |program| {
        let (meet, most_native) = (Barrier::new(THREADS), AtomicU64::new(0));
        program.threads(pager, |pager, number, round| {
            let mut native = (number < NATIVE).then(|| pager.map(2 * MIB).expect("addresses are free"));
            meet.wait();
            most_native.fetch_max(pager.stats().native_pages, Ordering::Relaxed);
            if let Some(region) = &mut native {
                fill(region.bytes_mut(), number, round);
            }
            meet.wait();
            let mut other = pager.map(4 * MIB).expect("addresses are free");
            fill(other.bytes_mut(), 100 + number, round);
            if let Some(region) = &native {
                assert!(is_as_filled(region.bytes(), number, round));
            }
            assert!(is_as_filled(other.bytes(), 100 + number, round));
            drop((native, other));
            meet.wait();
        });
        assert_eq!(most_native.into_inner(), (NATIVE * 2 * MIB / PAGE) as u64);
    });
}
