//! The visiting threads of a worker, with the latency of every visit.
//!
//! A page that is visited has three words in one cache line: its *tag*, which never changes, a *counter* that each
//! visit which writes raises, so that the page gets dirty, and the page that a chase goes to next. After a visit the
//! worker computes for a while. A separate measurement on resident memory gives the cost of that.
//!
//! Threads share the pages and nothing else; their counts are summed when they have ended.

use std::io;
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_os::{UsageScope, page_size};
use serde::{Deserialize, Serialize};

use super::cpu_time::{CpuWait, crowding, own_seconds};
use super::own_cost::{own_cost_s, steps_of};
use super::pace::{Schedule, wake_exactly};
use super::pattern;
use super::tally::Tally;
use super::visitor::{Habits, Visitor};
use super::words::{Pages, PagesError};
use crate::workload::Stopwatch;
use crate::workload::{Cost, Findings, MemoryError};
use plimsoll_model::scenario::Pattern;
use plimsoll_model::scenario::workloads::loadline::finding::{ACHIEVED, CPU_WAIT, OFFERED, VISITS};

/// Shortest time between two visits with corrected latencies: a shorter one costs as much as its correction.
const LEAST_INTERVAL_S: f64 = 1e-6;
/// Bytes of the stack of a visiting thread.
const STACK: usize = 256 << 10;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Preparation {
    pub(super) pattern: Pattern,
    /// Seconds of CPU time of computing after each visit.
    pub(super) compute: f64,
    /// Steps of computing after each visit, where an earlier worker has found how many `compute` seconds are:
    /// so the work of a visit is the same at every load.
    pub(super) steps: Option<u64>,
    pub(super) warm_up: f64,
    pub(super) seed: u64,
    pub(super) threads: u32,
    /// Percent of the visits that write.
    pub(super) write_percent: u32,
    /// Visits that are due a second when it is measured; none where each begins after the one before.
    pub(super) rate: Option<f64>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum VisitError {
    #[error("cannot visit memory that is not filled as one mapping; fill it with `request` = `bytes`")]
    Pieces,
    #[error(transparent)]
    Pages(#[from] PagesError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error("cannot visit: no memory is prepared; prepare it first")]
    Unprepared,
    #[error("cannot visit with {0} threads; ask for 1 or more")]
    Threads(u32),
    #[error(
        "cannot start a visiting thread: {0}; lower `threads` or raise the limit of processes (ulimit -u, pids.max)"
    )]
    Thread(#[source] io::Error),
}

/// The visiting threads of a worker, from their preparation on.
#[derive(Debug)]
pub(super) struct Visitors {
    /// One a thread, never empty.
    all: Vec<Visitor>,
    seed: u64,
    /// Nanoseconds from one visit of a thread to the next when nothing is in the way.
    interval_ns: u64,
    rate: Option<f64>,
}

/// Counts and latencies of a thread in a stretch.
struct Stretch {
    tally: Tally,
    /// Visits that were due, of an open loop.
    due: u64,
    /// Time that it could run and waited for a CPU.
    waited: Option<Duration>,
}

impl Visitors {
    pub(super) fn prepare(
        pages: Pages<'_>,
        asked: &Preparation,
    ) -> Result<(Visitors, Cost, Findings), VisitError> {
        if asked.threads == 0 {
            return Err(VisitError::Threads(0));
        }
        let watch = Stopwatch::start(UsageScope::Process);
        let habits = Habits {
            pattern: asked.pattern,
            write_percent: asked.write_percent,
            threads: asked.threads,
            steps: asked.steps.unwrap_or_else(|| steps_of(asked.compute)),
            seed: asked.seed,
        };
        let all = (0..asked.threads).map(|thread| Visitor::new(habits, pages.count, thread));
        let mut all: Vec<Visitor> = all.collect();
        let mut findings = Findings::default();
        if let Some(first) = all.first_mut() {
            findings.set("generator_s", pattern::cost_s(first.choices()));
        }
        let own_s = own_cost_s(habits, pages);
        let interval_s = (own_s * crowding(asked.threads)).max(LEAST_INTERVAL_S);
        findings.set("own_s", own_s);
        findings.set("expected_interval_s", interval_s);
        findings.set("compute_steps", habits.steps as f64);
        let mut visitors = Visitors {
            all,
            seed: asked.seed,
            interval_ns: (interval_s * 1e9) as u64,
            rate: asked.rate,
        };
        pages.tag(asked.pattern, asked.seed);
        // Most pages of a page cache are clean: it need not write them before it takes them.
        pages.write_back().map_err(MemoryError::WriteBack)?;
        // As fast as it goes, also where visits are due at a rate: until the pages that stay resident are.
        visitors.together(|visitor, _, start| {
            visitor.visit(pages, start, asked.warm_up, |_, _| {});
        })?;
        Ok((visitors, watch.stop(0), findings))
    }

    pub(super) fn measure(&mut self, pages: Pages<'_>, seconds: f64) -> Result<(Cost, Findings), VisitError> {
        let (rate, interval_ns, threads) = (self.rate, self.interval_ns, self.threads());
        let (visits_before, writes_before) = (self.sum(|one| one.visits), self.sum(|one| one.writes));
        let watch = Stopwatch::start(UsageScope::Process);
        let stretches = self.together(|visitor, thread, start| {
            let mut tally = Tally::new();
            let wait = CpuWait::start();
            let due = match rate {
                None => {
                    let count = |writes, ns| tally.closed(writes, ns, interval_ns);
                    visitor.visit(pages, start, seconds, count);
                    0
                }
                Some(rate) => {
                    wake_exactly();
                    let schedule = Schedule::of_thread(rate, thread, threads);
                    visitor.visit_on_schedule(pages, start, seconds, (schedule, &mut tally))
                }
            };
            Stretch {
                tally,
                due,
                waited: wait.stop(),
            }
        })?;
        // A visit works on a line of its page, which is no throughput.
        let cost = watch.stop(0);
        let visits = self.sum(|one| one.visits) - visits_before;
        let mut findings = Findings::default();
        findings.set("visits", visits as f64);
        findings.set("writes", (self.sum(|one| one.writes) - writes_before) as f64);
        find(&stretches, visits, cost, &mut findings);
        if let Some(rate) = rate {
            let due: u64 = stretches.iter().map(|stretch| stretch.due).sum();
            let achieved = visits as f64 / due.max(1) as f64;
            findings.set(OFFERED, rate);
            findings.set(ACHIEVED, achieved);
            findings.set("unserved_visits", due.saturating_sub(visits) as f64);
            findings.set(VISITS, achieved * rate);
        }
        Ok((cost, findings))
    }

    pub(super) fn check(&self, pages: Pages<'_>) -> (Cost, Findings) {
        let watch = Stopwatch::start(UsageScope::Process);
        let (mut wrong, mut counted) = (self.sum(|one| one.wrong), 0_u64);
        for page in 0..pages.count {
            let words = pages.words(page);
            wrong += u64::from(words.tag() != page ^ self.seed);
            counted = counted.wrapping_add(words.counter());
        }
        let cost = watch.stop(pages.count * page_size() as u64);
        let mut findings = Findings::default();
        findings.set("wrong_tags", wrong as f64);
        let writes = self.sum(|one| one.writes);
        findings.set("uncounted_visits", counted.abs_diff(writes) as f64);
        (cost, findings)
    }

    fn threads(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    /// Sum of a count over all threads.
    fn sum(&self, of: impl Fn(&Visitor) -> u64) -> u64 {
        self.all.iter().map(of).sum()
    }

    /// Has all threads work at a time, from one start on; one alone works on this thread. `work` gets the number of the
    /// thread.
    fn together<T: Send>(
        &mut self,
        work: impl Fn(&mut Visitor, u32, Instant) -> T + Sync,
    ) -> Result<Vec<T>, VisitError> {
        if let [one] = self.all.as_mut_slice() {
            return Ok(vec![work(one, 0, Instant::now())]);
        }
        // Closed until all threads exist; without a start if one could not be started.
        let gate: RwLock<Option<Instant>> = RwLock::new(None);
        thread::scope(|scope| {
            let mut start = gate.write().unwrap_or_else(PoisonError::into_inner);
            let (gate, work) = (&gate, &work);
            let threads: Result<Vec<_>, io::Error> = (0..)
                .zip(&mut self.all)
                .map(|(number, visitor)| {
                    let begin = move || {
                        let start = *gate.read().unwrap_or_else(PoisonError::into_inner);
                        start.map(|start| work(visitor, number, start))
                    };
                    let builder = thread::Builder::new()
                        .name("visitor".to_owned())
                        .stack_size(STACK);
                    builder.spawn_scoped(scope, begin)
                })
                .collect();
            *start = threads.is_ok().then(Instant::now);
            drop(start);
            let threads = threads.map_err(VisitError::Thread)?.into_iter();
            Ok(threads
                .filter_map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect())
        })
    }
}

/// The findings of all threads: useful work and latencies.
fn find(stretches: &[Stretch], visits: u64, cost: Cost, findings: &mut Findings) {
    let mut all = Tally::new();
    stretches.iter().for_each(|stretch| all.merge(&stretch.tally));
    all.find(visits, findings);
    let waited: Option<Duration> = stretches.iter().map(|stretch| stretch.waited).sum();
    let own = own_seconds(cost, waited, stretches.len());
    findings.set("wall_visits_per_s", visits as f64 / cost.seconds);
    findings.set(VISITS, visits as f64 / own);
    if let Some(waited) = waited {
        findings.set(CPU_WAIT, waited.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Whole;
    use plimsoll_model::latency::Latencies;

    const SEED: u64 = 0x5EED;
    const PATTERNS: [Pattern; 5] = [
        Pattern::Uniform,
        Pattern::Zipf,
        Pattern::Sequential,
        Pattern::HotCold,
        Pattern::Chase,
    ];

    fn asked(pattern: Pattern) -> Preparation {
        Preparation {
            pattern,
            compute: 0.0,
            steps: None,
            warm_up: 0.002,
            seed: SEED,
            threads: 1,
            write_percent: 100,
            rate: None,
        }
    }

    fn pages(memory: &mut [u8]) -> Pages<'_> {
        let file = &mut [];
        Pages::of(Whole { memory, file }).expect("pages")
    }

    fn prepared(asked: &Preparation, memory: &mut [u8]) -> Visitors {
        let (visitors, _, found) = Visitors::prepare(pages(memory), asked).expect("prepared");
        assert!(found.values["own_s"] > 0.0 && found.values["compute_steps"] == 0.0);
        visitors
    }

    /// Wrong tags and uncounted visits.
    fn checked(visitors: &Visitors, memory: &mut [u8]) -> (f64, f64) {
        let (_, check) = visitors.check(pages(memory));
        (check.values["wrong_tags"], check.values["uncounted_visits"])
    }

    fn counters(memory: &mut [u8]) -> u64 {
        let pages = pages(memory);
        (0..pages.count).map(|page| pages.words(page).counter()).sum()
    }

    #[test]
    fn every_visit_is_timed_and_counted_in_a_page() {
        for (pattern, threads) in PATTERNS
            .into_iter()
            .flat_map(|pattern| [(pattern, 1), (pattern, 3)])
        {
            let mut memory = vec![0xAB; 100 * page_size()];
            let mut visitors = prepared(
                &Preparation {
                    threads,
                    ..asked(pattern)
                },
                &mut memory,
            );
            let (_, found) = visitors.measure(pages(&mut memory), 0.01).expect("measured");
            let visits = found.values["visits"];
            let latencies = Latencies::from_text(found.latency.as_deref().unwrap_or("")).expect("a text");
            assert!(
                visits >= f64::from(threads) && latencies.count() as f64 >= visits,
                "{pattern:?}: {visits}"
            );
            assert!(found.values["visits_per_s"] >= found.values["wall_visits_per_s"]);
            assert_eq!(checked(&visitors, &mut memory), (0.0, 0.0), "{pattern:?}");
            assert_eq!(counters(&mut memory), visitors.sum(|one| one.visits));
            assert!(
                visitors.all.iter().all(|one| one.visits > 0),
                "each thread visits"
            );
        }
    }

    /// Four threads on three pages: with a plain addition for a count, some of them get lost.
    #[test]
    fn threads_that_visit_the_same_pages_lose_no_count() {
        let mut memory = vec![0; 3 * page_size()];
        let asked = Preparation {
            threads: 4,
            ..asked(Pattern::Uniform)
        };
        let mut visitors = prepared(&asked, &mut memory);
        visitors.measure(pages(&mut memory), 0.05).expect("measured");
        assert_eq!(checked(&visitors, &mut memory), (0.0, 0.0));
        let visited: Vec<u64> = visitors.all.iter().map(|one| one.visits).collect();
        assert_eq!(counters(&mut memory), visited.iter().sum::<u64>());
    }

    #[test]
    fn visits_that_only_read_raise_no_counter() {
        for percent in [0, 30] {
            let mut memory = vec![0; 50 * page_size()];
            let asked = Preparation {
                write_percent: percent,
                threads: 2,
                ..asked(Pattern::Zipf)
            };
            let mut visitors = prepared(&asked, &mut memory);
            let (_, found) = visitors.measure(pages(&mut memory), 0.02).expect("measured");
            assert_eq!(checked(&visitors, &mut memory), (0.0, 0.0));
            assert_eq!(counters(&mut memory), visitors.sum(|one| one.writes));
            let (writes, visits) = (found.values["writes"], found.values["visits"]);
            match percent {
                0 => assert_eq!(writes, 0.0),
                _ => assert!(writes > 0.0 && writes < visits, "{writes} of {visits}"),
            }
            assert_eq!(found.values.contains_key("read_p99_s"), percent > 0);
            assert_eq!(found.values.contains_key("write_p99_s"), percent > 0);
        }
    }

    #[test]
    fn an_open_loop_makes_the_visits_that_are_due() {
        let mut memory = vec![0; 50 * page_size()];
        let asked = Preparation {
            threads: 2,
            rate: Some(2000.0),
            ..asked(Pattern::Uniform)
        };
        let mut visitors = prepared(&asked, &mut memory);
        let (_, found) = visitors.measure(pages(&mut memory), 0.1).expect("measured");
        let value = |name: &str| found.values[name];
        assert_eq!(value("visits") + value("unserved_visits"), 200.0);
        assert_eq!(value("offered_per_s"), 2000.0);
        assert!((value("achieved_ratio") - value("visits") / 200.0).abs() < 1e-9);
        let latencies = Latencies::from_text(found.latency.as_deref().unwrap_or("")).expect("a text");
        assert_eq!(latencies.count(), 200, "each due visit once, and no other");
        assert_eq!(checked(&visitors, &mut memory), (0.0, 0.0));
    }

    /// A rate of ten times the highest that the computation allows: the queue grows, and most visits wait for a large part of the
    /// stretch.
    #[test]
    fn an_open_loop_that_is_overloaded_says_so() {
        let mut memory = vec![0; 50 * page_size()];
        let asked = Preparation {
            compute: 1e-3,
            rate: Some(10_000.0),
            ..asked(Pattern::Uniform)
        };
        let (mut visitors, ..) = Visitors::prepare(pages(&mut memory), &asked).expect("prepared");
        let (_, found) = visitors.measure(pages(&mut memory), 0.2).expect("measured");
        let value = |name: &str| found.values[name];
        assert_eq!(value("visits") + value("unserved_visits"), 2000.0);
        assert!(value("achieved_ratio") < 0.25, "{found:?}");
        assert!(value("p50_s") > 0.05, "{found:?}");
        assert!(value("visits_per_s") < 2500.0);
    }

    #[test]
    fn a_wrong_tag_and_a_lost_count_are_found() {
        let mut memory = vec![0; 10 * page_size()];
        let visitors = prepared(&asked(Pattern::Sequential), &mut memory);
        let pages = pages(&mut memory);
        let (counter, tag) = (pages.words(3).counter(), 99);
        pages.words(3).set(tag, 0);
        (0..counter).for_each(|_| pages.words(3).count(false));
        pages.words(4).count(false);
        assert_eq!(checked(&visitors, &mut memory), (1.0, 1.0));
    }

    #[test]
    fn invalid_visits_are_refused() {
        let refused = |memory: &mut [u8]| {
            Pages::of(Whole {
                memory,
                file: &mut [],
            })
            .err()
        };
        assert!(matches!(
            refused(&mut vec![0; page_size() - 1]),
            Some(PagesError::Count(0))
        ));
        let (mut page, threads) = (vec![0; page_size()], 0);
        let asked = Preparation {
            threads,
            ..asked(Pattern::Uniform)
        };
        let refused = Visitors::prepare(pages(&mut page), &asked);
        assert!(matches!(refused, Err(VisitError::Threads(0))));
    }
}
