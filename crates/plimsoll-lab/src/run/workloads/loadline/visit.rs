//! Visiting the pages of filled memory by a pattern, with the latency of every visit.
//!
//! A page that is visited has three words in one cache line: its *tag*, which never changes, a *counter* that each
//! visit raises, so that the page gets dirty, and the page that a chase goes to next. After a visit the worker
//! computes for a while. A separate measurement on resident memory gives the cost of that.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use plimsoll_os::{UsageScope, page_size};
use plimsoll_proc::schedstat::Schedstat;
use serde::{Deserialize, Serialize};

use super::pattern::{self, Choices};
use crate::workload::Stopwatch;
use crate::workload::mix;
use crate::workload::protocol::Reply;
use crate::workload::{Cost, Findings};
use crate::workload::{Memory, Work, WorkError, typed};
use plimsoll_model::latency::Latencies;
use plimsoll_model::scenario::Pattern;

/// Bytes of a cache line: the words of a page are in one.
const LINE: usize = 64;
/// Pages that the own cost is measured on: few enough for the second-level cache.
const OWN_PAGES: u64 = 64;
/// Seconds of each pass that measures the own cost, and how many of them: the best counts.
const OWN_SECONDS: f64 = 0.001;
const OWN_PASSES: u32 = 20;
/// Steps of computing in a pass that measures how long one takes, and how many of them: the best counts.
const STEPS: u64 = 10_000;
const STEP_PASSES: u32 = 50;
/// Shortest time between two visits with corrected latencies: a shorter one costs as much as its correction.
const LEAST_INTERVAL_S: f64 = 1e-6;

/// Requests, in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(super) enum Visit {
    /// Set the words of every page, measure the own cost, and visit for a while without counting latencies.
    Prepare {
        pattern: Pattern,
        /// Seconds of CPU time of computing after each visit.
        compute: f64,
        /// Steps of computing after each visit, where an earlier worker has found how many `compute` seconds are:
        /// so the work of a visit is the same at every load.
        steps: Option<u64>,
        warm_up: f64,
        seed: u64,
    },
    /// Visit for so long, with the latency of every visit.
    Measure { seconds: f64 },
    /// Read every page: are all tags right, and do the counters sum to the visits?
    Check,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum VisitError {
    #[error("cannot visit memory that is not filled as one mapping; fill it with `request` = `bytes`")]
    Pieces,
    #[error("cannot visit {0} pages; ask for 1 to 2^32 - 1")]
    Pages(u64),
    #[error("cannot visit: no memory is prepared; prepare it first")]
    Unprepared,
}

#[derive(Default)]
pub(in crate::run) struct Visits {
    /// The visitor, after `Prepare`.
    visitor: Option<Visitor>,
}

impl Work for Visits {
    fn carry_out(
        &mut self,
        request: &serde_json::Value,
        memory: Option<&mut Memory>,
    ) -> Result<Reply, WorkError> {
        let memory = memory.ok_or(WorkError::NothingFilled { action: "visit" })?;
        let found = self.visit(memory.whole_mut(), &typed(request)?);
        let (cost, findings) = found.map_err(WorkError::of_workload)?;
        Ok(Reply::Found { cost, findings })
    }

    fn released(&mut self) {
        self.visitor = None;
    }
}

impl Visits {
    fn visit(&mut self, memory: Option<&mut [u8]>, asked: &Visit) -> Result<(Cost, Findings), VisitError> {
        match *asked {
            Visit::Prepare {
                pattern,
                compute,
                steps,
                warm_up,
                seed,
            } => {
                let (visitor, cost, findings) =
                    Visitor::prepare(memory, (pattern, compute, steps), warm_up, seed)?;
                self.visitor = Some(visitor);
                Ok((cost, findings))
            }
            Visit::Measure { seconds } => {
                let visitor = self.visitor.as_mut().ok_or(VisitError::Unprepared)?;
                visitor.measure(memory, seconds)
            }
            Visit::Check => {
                let visitor = self.visitor.as_ref().ok_or(VisitError::Unprepared)?;
                visitor.check(memory)
            }
        }
    }
}

/// A worker's visits, from its preparation on.
#[derive(Debug)]
pub(super) struct Visitor {
    choices: Choices,
    seed: u64,
    /// Steps of computing after a visit.
    steps: u64,
    /// Nanoseconds from one visit to the next when nothing is in the way.
    interval_ns: u64,
    /// The page that a chase goes to next.
    next: u64,
    visits: u64,
    /// Of them, those of a page with a wrong tag.
    wrong: u64,
}

impl Visitor {
    pub(super) fn prepare(
        memory: Option<&mut [u8]>,
        (pattern, compute, steps): (Pattern, f64, Option<u64>),
        warm_up: f64,
        seed: u64,
    ) -> Result<(Visitor, Cost, Findings), VisitError> {
        let mut pages = Pages::of(memory.ok_or(VisitError::Pieces)?)?;
        let watch = Stopwatch::start(UsageScope::Process);
        let steps = steps.unwrap_or_else(|| steps_of(compute));
        let mut choices = Choices::new(pattern, pages.count, seed);
        let mut findings = Findings::default();
        findings.set("generator_s", pattern::cost_s(&mut choices));
        let own_s = own_cost_s(pattern, steps, seed);
        let interval_s = own_s.max(LEAST_INTERVAL_S);
        findings.set("own_s", own_s);
        findings.set("expected_interval_s", interval_s);
        findings.set("compute_steps", steps as f64);
        let mut visitor = Visitor {
            choices,
            seed,
            steps,
            interval_ns: (interval_s * 1e9) as u64,
            next: 0,
            visits: 0,
            wrong: 0,
        };
        pages.tag(pattern, seed);
        visitor.visit(&mut pages, warm_up, |_| {});
        Ok((visitor, watch.stop(0), findings))
    }

    pub(super) fn measure(
        &mut self,
        memory: Option<&mut [u8]>,
        seconds: f64,
    ) -> Result<(Cost, Findings), VisitError> {
        let mut pages = Pages::of(memory.ok_or(VisitError::Pieces)?)?;
        let mut latencies = Latencies::new();
        let interval_ns = self.interval_ns;
        let mut access_ns = 0;
        let before = self.visits;
        let waited = cpu_wait();
        let watch = Stopwatch::start(UsageScope::Process);
        self.visit(&mut pages, seconds, |ns| {
            access_ns += ns;
            latencies.record_corrected(ns, interval_ns);
        });
        let visits = self.visits - before;
        // A visit works on a line of its page, which is no throughput.
        let cost = watch.stop(0);
        let waited = waited.zip(cpu_wait()).map(|(from, to)| to.saturating_sub(from));
        let mut findings = Findings {
            latency: Some(latencies.to_text()),
            ..Findings::default()
        };
        findings.set("visits", visits as f64);
        findings.set("wall_visits_per_s", visits as f64 / cost.seconds);
        findings.set("visits_per_s", visits as f64 / own_seconds(cost, waited));
        if let Some(waited) = waited {
            findings.set("cpu_wait_s", waited.as_secs_f64());
        }
        findings.set("access_s", access_ns as f64 / 1e9 / visits as f64);
        for (name, percent) in [
            ("p50_s", 50.0),
            ("p99_s", 99.0),
            ("p999_s", 99.9),
            ("max_s", 100.0),
        ] {
            if let Some(ns) = latencies.percentile(percent) {
                findings.set(name, ns as f64 / 1e9);
            }
        }
        Ok((cost, findings))
    }

    pub(super) fn check(&self, memory: Option<&mut [u8]>) -> Result<(Cost, Findings), VisitError> {
        let mut pages = Pages::of(memory.ok_or(VisitError::Pieces)?)?;
        let watch = Stopwatch::start(UsageScope::Process);
        let (mut wrong, mut counted) = (self.wrong, 0_u64);
        for page in 0..pages.count {
            let words = pages.words(page);
            wrong += u64::from(words.tag() != page ^ self.seed);
            counted = counted.wrapping_add(words.counter());
        }
        let cost = watch.stop(pages.count * page_size() as u64);
        let mut findings = Findings::default();
        findings.set("wrong_tags", wrong as f64);
        findings.set("uncounted_visits", counted.abs_diff(self.visits) as f64);
        Ok((cost, findings))
    }

    /// Visits for `seconds`, at least once, and hands out the nanoseconds of each visit.
    ///
    /// A visit is timed from before its access to after it: the computation is not in its latency.
    fn visit(&mut self, pages: &mut Pages<'_>, seconds: f64, mut timed: impl FnMut(u64)) {
        let start = Instant::now();
        let lasts = Duration::from_secs_f64(seconds);
        let (seed, steps) = (self.seed, self.steps);
        let (mut visits, mut wrong, mut successor) = (0, 0, self.next);
        let mut work = seed;
        let mut before = Duration::ZERO;
        self.choices.each(self.next, |page| {
            let mut words = pages.words(page);
            wrong += u64::from(words.tag() != page ^ seed);
            words.count();
            successor = words.successor();
            let after = start.elapsed();
            visits += 1;
            timed(after.saturating_sub(before).as_nanos() as u64);
            work = compute(work, steps);
            before = start.elapsed();
            (before < lasts).then_some(successor)
        });
        black_box(work);
        self.next = successor;
        self.visits += visits;
        self.wrong += wrong;
    }
}

/// Time that this thread could run and waited for a CPU since it began; none where the kernel does not count it.
fn cpu_wait() -> Option<Duration> {
    waited(&fs::read("/proc/thread-self/schedstat").ok()?)
}

fn waited(schedstat: &[u8]) -> Option<Duration> {
    let spent = Schedstat::parse(schedstat)?;
    // A thread that was never on a CPU has no counts.
    (spent.on_cpu_ns > 0).then(|| Duration::from_nanos(spent.waited_ns.unsigned_abs()))
}

/// Seconds of work without those waited for a CPU; never less than the CPU time, which is counted apart from the wait, and
/// never more than all seconds: CPU time is read around them, and may be some microseconds longer.
fn own_seconds(cost: Cost, waited: Option<Duration>) -> f64 {
    let waited = waited.unwrap_or_default().as_secs_f64();
    (cost.seconds - waited)
        .max(cost.cpu_user_s + cost.cpu_system_s)
        .min(cost.seconds)
}

/// Steps of arithmetic, none of which can begin before the one before it has ended.
fn compute(work: u64, steps: u64) -> u64 {
    (0..steps).fold(work, |work, _| mix(work))
}

/// Number of steps that take `seconds` on an idle CPU.
fn steps_of(seconds: f64) -> u64 {
    if seconds == 0.0 {
        return 0;
    }
    let mut best = f64::INFINITY;
    for pass in 0..STEP_PASSES {
        let start = Instant::now();
        black_box(compute(black_box(pass.into()), STEPS));
        best = best.min(start.elapsed().as_secs_f64());
    }
    ((seconds / best * STEPS as f64) as u64).max(1)
}

/// Seconds of a visit on memory that is surely resident and cached: choice, clock, computing.
fn own_cost_s(pattern: Pattern, steps: u64, seed: u64) -> f64 {
    let mut memory = vec![0; OWN_PAGES as usize * page_size()];
    let Ok(mut pages) = Pages::of(&mut memory) else {
        unreachable!("a constant number of pages");
    };
    pages.tag(pattern, seed);
    let mut visitor = Visitor {
        choices: Choices::new(pattern, pages.count, seed),
        seed,
        steps,
        interval_ns: 0,
        next: 0,
        visits: 0,
        wrong: 0,
    };
    let mut latencies = Latencies::new();
    let mut best = f64::INFINITY;
    for _ in 0..OWN_PASSES {
        let before = visitor.visits;
        let start = Instant::now();
        visitor.visit(&mut pages, OWN_SECONDS, |ns| latencies.record(ns));
        best = best.min(start.elapsed().as_secs_f64() / (visitor.visits - before) as f64);
    }
    black_box(latencies);
    best
}

struct Pages<'m> {
    memory: &'m mut [u8],
    page_size: usize,
    count: u64,
}

impl<'m> Pages<'m> {
    fn of(memory: &'m mut [u8]) -> Result<Pages<'m>, VisitError> {
        let page_size = page_size();
        let count = (memory.len() / page_size) as u64;
        if !(1..1 << 32).contains(&count) {
            return Err(VisitError::Pages(count));
        }
        Ok(Pages {
            memory,
            page_size,
            count,
        })
    }

    /// The words of a page. They are in another line of each page: the first lines of all would share a few sets of the
    /// caches.
    #[inline]
    fn words(&mut self, page: u64) -> Words<'_> {
        // Below the length of the memory, which is a usize.
        let page = page as usize;
        let at = page * self.page_size + (page * LINE) % self.page_size;
        Words(&mut self.memory[at..at + LINE])
    }

    /// Sets the words of every page, from the last page on: those that were filled last are most likely resident.
    fn tag(&mut self, pattern: Pattern, seed: u64) {
        let successors = match pattern {
            Pattern::Chase => pattern::cycle(self.count, seed),
            _ => Vec::new(),
        };
        for page in (0..self.count).rev() {
            let successor = successors.get(page as usize).copied().unwrap_or(0);
            self.words(page).set(page ^ seed, u64::from(successor));
        }
    }
}

struct Words<'m>(&'m mut [u8]);

impl Words<'_> {
    #[inline]
    fn get(&self, word: usize) -> u64 {
        let (words, _) = self.0.as_chunks::<8>();
        u64::from_ne_bytes(words[word])
    }

    #[inline]
    fn put(&mut self, word: usize, value: u64) {
        let (words, _) = self.0.as_chunks_mut::<8>();
        words[word] = value.to_ne_bytes();
    }

    fn set(&mut self, tag: u64, successor: u64) {
        self.put(0, tag);
        self.put(1, 0);
        self.put(2, successor);
    }

    fn tag(&self) -> u64 {
        self.get(0)
    }

    fn counter(&self) -> u64 {
        self.get(1)
    }

    fn count(&mut self) {
        self.put(1, self.get(1).wrapping_add(1));
    }

    fn successor(&self) -> u64 {
        self.get(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 0x5EED;

    fn prepared(pattern: Pattern, memory: &mut [u8]) -> Visitor {
        let (visitor, _, found) =
            Visitor::prepare(Some(memory), (pattern, 0.0, None), 0.002, SEED).expect("prepared");
        assert!(found.figures["own_s"] > 0.0 && found.figures["compute_steps"] == 0.0);
        visitor
    }

    #[test]
    fn every_visit_is_timed_and_counted_in_a_page() {
        for pattern in [
            Pattern::Uniform,
            Pattern::Zipf,
            Pattern::Sequential,
            Pattern::HotCold,
            Pattern::Chase,
        ] {
            let mut memory = vec![0xAB; 100 * page_size()];
            let mut visitor = prepared(pattern, &mut memory);
            let (_, found) = visitor.measure(Some(&mut memory), 0.01).expect("measured");
            let visits = found.figures["visits"];
            let latencies = Latencies::from_text(found.latency.as_deref().unwrap_or("")).expect("a text");
            assert!(
                visits >= 100.0 && latencies.count() as f64 >= visits,
                "{pattern:?}: {visits}"
            );
            let (_, check) = visitor.check(Some(&mut memory)).expect("checked");
            assert_eq!(
                (check.figures["wrong_tags"], check.figures["uncounted_visits"]),
                (0.0, 0.0),
                "{pattern:?}"
            );
            let words: u64 = (0..100)
                .map(|page| Pages::of(&mut memory).expect("pages").words(page).counter())
                .sum();
            assert_eq!(words, visitor.visits);
        }
    }

    #[test]
    fn a_wrong_tag_and_a_lost_count_are_found() {
        let mut memory = vec![0; 10 * page_size()];
        let visitor = prepared(Pattern::Sequential, &mut memory);
        let mut pages = Pages::of(&mut memory).expect("pages");
        pages.words(3).put(0, 99);
        pages.words(4).count();
        let (_, check) = visitor.check(Some(&mut memory)).expect("checked");
        assert_eq!(
            (check.figures["wrong_tags"], check.figures["uncounted_visits"]),
            (1.0, 1.0)
        );
    }

    #[test]
    fn a_visit_leaves_the_rest_of_a_page_as_it_was() {
        let mut memory = vec![0xAB; 10 * page_size()];
        let mut visitor = prepared(Pattern::Chase, &mut memory);
        visitor.measure(Some(&mut memory), 0.002).expect("measured");
        let untouched = memory.iter().filter(|&&byte| byte == 0xAB).count();
        assert!(untouched >= 10 * (page_size() - 24));
    }

    #[test]
    fn the_wait_for_a_cpu_is_the_second_field() {
        assert_eq!(waited(b"123456 789 5\n"), Some(Duration::from_nanos(789)));
        for nothing in ["0 0 0\n", "12", "", "a b c"] {
            assert_eq!(waited(nothing.as_bytes()), None, "{nothing:?}");
        }
    }

    #[test]
    fn own_seconds_exclude_the_wait_for_a_cpu() {
        let cost = Cost {
            seconds: 2.0,
            cpu_user_s: 0.25,
            cpu_system_s: 0.25,
            ..Cost::default()
        };
        let own = |waited| own_seconds(cost, Some(Duration::from_secs_f64(waited)));
        assert_eq!((own_seconds(cost, None), own(0.5), own(1.9)), (2.0, 1.5, 0.5));
        let read_late = Cost {
            cpu_user_s: 1.8,
            ..cost
        };
        assert_eq!(own_seconds(read_late, None), 2.0);
    }

    #[test]
    fn computing_takes_about_its_time() {
        let steps = steps_of(1e-3);
        let start = Instant::now();
        black_box(compute(1, black_box(steps)));
        // On a busy machine it takes longer, never much less.
        assert!(start.elapsed().as_secs_f64() > 0.5e-3, "{steps} steps");
        assert_eq!(steps_of(0.0), 0);
    }

    #[test]
    fn invalid_visits_are_refused() {
        let refused = |memory| Visitor::prepare(memory, (Pattern::Uniform, 0.0, None), 0.0, 1).err();
        assert!(matches!(refused(None), Some(VisitError::Pieces)));
        assert!(matches!(refused(Some(&mut [0; 16])), Some(VisitError::Pages(0))));
    }
}
