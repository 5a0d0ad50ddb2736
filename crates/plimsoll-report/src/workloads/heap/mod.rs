//! Metrics of loads on malloc, and the ranking of allocators in otherwise equal tests.

mod headline;
mod section;

pub(crate) use headline::subjects as heap_subjects;

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{WorkloadReport, verification};
use crate::analysis::metric::metrics;
use crate::analysis::{Group, ratio};
use plimsoll_model::recording::model::Trial;
use plimsoll_model::scenario::Subject;

metrics! {
    OPERATION_CPU "operation_cpu_s" Less true "CPU per operation" "CPU time of the process for an allocation and a free, including the allocator's threads and the load.";
    LIVE_SHARE "live_percent" More true RESIDENT "live of RSS" "Live bytes of the program in percent of the RAM taken for them; for the fragmentation load, the minimum.";
    LEFT "left_bytes" Less true RESIDENT "left after free" "Growth of resident bytes from before the load to the end of the rest after all blocks were freed.";
    OPERATIONS "operations_per_s" More true "operations" "Pairs of allocation and free per wall-clock second, all threads together.";
    RESIDENT "resident_growth_bytes" Less false RESIDENT "taken" "Growth of resident bytes from before the first block to the time when all blocks are live.";
    PEAK "peak_growth_bytes" Less false RESIDENT "taken, peak" "Peak growth of resident bytes since before the first block.";
    LIVE "live_bytes" Neither false NOTHING "live" "Live bytes of the program at the time of the memory reading.";
    LAST_LIVE_SHARE "last_live_percent" More false RESIDENT "live of RSS at the end" "Fragmentation load: live bytes in percent of the RAM taken, once sizes are the initial ones again.";
    FREE_BLOCKS "free_blocks" Less false NOTHING "free blocks" "Fragmentation load on Plimsoll's heap: free blocks of the back end at the end with all blocks live, as `heap stat` counts them.";
    UNCOMMITTED_RANGES "uncommitted_ranges" Less false NOTHING "uncommitted ranges" "Fragmentation load on Plimsoll's heap: ranges returned to the kernel or never used.";
    EXTERNAL_FRAGMENTATION "external_fragmentation_percent" Less false NOTHING "external fragmentation" "Fragmentation load on Plimsoll's heap: share of free memory in committed memory.";
    VIRTUAL_FRAGMENTATION "virtual_fragmentation_percent" Less false NOTHING "virtual-address fragmentation" "Fragmentation load on Plimsoll's heap: share of uncommitted memory between committed ranges.";
    COLD_CPU "cold_cpu_s" Less false "cold allocation" "CPU time of an allocation in a fresh process, first touches included.";
    STEADY_CPU "steady_cpu_s" Less false "warm allocation" "CPU time of an allocation of blocks that were allocated and freed before.";
    FREE_CPU "free_cpu_s" Less false "free" "CPU time of a free of the aggressive load, in the order of `free-order`.";
    REALLOC_CPU "realloc_cpu_s" Less false "realloc" "CPU time of a `realloc` that grows a block by half, from 64 bytes to 4 MiB; with the new pages.";
    AGGRESSIVE "aggressive_s" Less false "aggressive load" "Wall time of all allocations and frees of the aggressive load.";
    IDLE_THREAD "idle_thread_bytes" Less true RESIDENT "RAM of an idle thread" "Growth of resident bytes with a thread that allocated and freed some blocks, its stack included.";
    IDLE_THREAD_HEAP "idle_thread_heap_bytes" Less false RESIDENT "the allocator's RAM of an idle thread" "Growth of resident bytes with the allocations and frees of a thread, without its stack.";
    GENERATOR_CPU "generator_cpu_s" Neither false "load alone" "CPU time of the load itself per operation, without an allocator.";
    GENERATOR_FREE_CPU "generator_free_cpu_s" Neither false "load alone, free" "CPU time of the aggressive load itself per free, without an allocator.";
    GENERATOR_REALLOC_CPU "generator_realloc_cpu_s" Neither false "load alone, realloc" "CPU time of the load itself per `realloc`, without an allocator.";
    THREADS_LIVED "threads_lived" Neither false TIME "threads" "Threads that Larson's load started in succession.";
}

pub(super) const REPORT: WorkloadReport = WorkloadReport {
    known: METRICS,
    metrics: |of| metrics(of.trial),
    headline: headline::told,
    section: Some(section::section),
    timed_phases: None,
    verification: &verification::DATA_AND_COUNTS,
    criteria: None,
};

/// The metrics of a trial, from the values of its phases; unknown ones are absent.
pub fn metrics(trial: &Trial) -> BTreeMap<String, f64> {
    let known = |name: &str| METRICS.iter().any(|metric| metric.name == name);
    let values = trial.phases.iter().flat_map(|phase| &phase.values);
    values
        .filter(|(name, value)| known(name) && value.is_finite())
        .map(|(name, value)| (name.clone(), *value))
        .collect()
}

/// A test: groups that differ only in their allocator.
#[derive(Debug, Clone)]
pub struct Test<'a> {
    /// Its parameters without the threads: `block-size=0-1k`. Empty if all tests share them.
    pub panel: String,
    /// Threads; 1 by default.
    pub threads: u32,
    /// The groups, one an allocator, in their order.
    pub groups: Vec<&'a Group>,
}

impl<'a> Test<'a> {
    /// Its name in a sentence or on an axis.
    pub fn name(&self) -> String {
        let threads = match self.threads {
            1 => "1 thread".to_owned(),
            several => format!("{several} threads"),
        };
        match self.panel.as_str() {
            "" => threads,
            panel => format!("{panel}, {threads}"),
        }
    }

    /// The median of a metric on an allocator.
    pub fn median(&self, subject: &str, metric: &str) -> Option<f64> {
        let group = self.groups.iter().find(|group| group.subject == subject)?;
        Some(group.metrics.get(metric)?.summary.median)
    }

    /// The allocator with the lowest value of a metric among those that `counts` accepts.
    pub fn least(&self, metric: &str, counts: impl Fn(&str) -> bool) -> Option<(&'a str, f64)> {
        let groups = self.groups.iter().filter(|group| counts(&group.subject));
        groups
            .filter_map(|group| Some((group.subject.as_str(), group.metrics.get(metric)?.summary.median)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Parameters that are the allocator's, or the axis of a chart.
const APART: [&str; 3] = ["subject", "library", "threads"];

/// The key of a test: section, threads, other parameters.
type Asked = (String, u32, Vec<(String, String)>);

fn asked(group: &Group) -> Asked {
    let section = group.identity().split('/').next().unwrap_or_default();
    let threads = group
        .params
        .get("threads")
        .and_then(|threads| threads.parse().ok());
    let others = group
        .params
        .iter()
        .filter(|(name, _)| !APART.contains(&name.as_str()));
    let others = others.map(|(name, value)| (name.clone(), value.clone()));
    (section.to_owned(), threads.unwrap_or(1), others.collect())
}

/// The tests of these groups, by the order of the groups and then by their threads.
pub fn tests<'a>(groups: &[&'a Group]) -> Vec<Test<'a>> {
    let mut tests: Vec<(Asked, Vec<&'a Group>)> = Vec::new();
    let mut places: HashMap<Asked, usize> = HashMap::new();
    for group in groups {
        let place = *places.entry(asked(group)).or_insert(tests.len());
        if place == tests.len() {
            tests.push((asked(group), Vec::new()));
        }
        tests[place].1.push(group);
    }
    let mut uses: HashMap<&(String, String), usize> = HashMap::new();
    for param in tests.iter().flat_map(|((_, _, others), _)| others) {
        *uses.entry(param).or_insert(0) += 1;
    }
    let differs = |param: &(String, String)| uses.get(param) != Some(&tests.len());
    // Where it is all that tells two tests apart.
    let without_section: HashSet<_> = tests
        .iter()
        .map(|((_, threads, others), _)| (threads, others))
        .collect();
    let sections = without_section.len() < tests.len();
    let panel = |(section, _, others): &Asked| {
        let told = others.iter().filter(|param| differs(param));
        let told = told.map(|(name, value)| format!("{name}={value}"));
        let section = sections.then(|| section.clone());
        section.into_iter().chain(told).collect::<Vec<_>>().join(" ")
    };
    let named = tests.iter().map(|(key, groups)| Test {
        panel: panel(key),
        threads: key.1,
        groups: groups.clone(),
    });
    let mut named: Vec<Test<'a>> = named.collect();
    named.sort_by(|a, b| (&a.panel, a.threads).cmp(&(&b.panel, b.threads)));
    named
}

/// The margin of an allocator against the best other one, over tests.
#[derive(Debug, Clone, PartialEq)]
pub struct Margin {
    /// Geometric mean of its value over that of the best other one in each test; below 1 it is ahead.
    pub mean: f64,
    pub tests: usize,
    /// The other allocators that were best in a test, the most frequent first.
    pub best: Vec<String>,
    /// Its worst ratio, with the test and the best other allocator there.
    pub worst: (f64, String, String),
}

/// The margin of `subject` in a metric where less is better, against the best other one that `counts` accepts.
pub fn margin(
    tests: &[Test<'_>],
    subject: &str,
    metric: &str,
    counts: impl Fn(&str) -> bool,
) -> Option<Margin> {
    let against = tests.iter().filter_map(|test| {
        let own = test.median(subject, metric)?;
        let (best, least) = test.least(metric, |other| other != subject && counts(other))?;
        let share = ratio(own, least).filter(|share| *share > 0.0)?;
        Some((share, test.name(), best.to_owned()))
    });
    let against: Vec<(f64, String, String)> = against.collect();
    let worst = against.iter().max_by(|a, b| a.0.total_cmp(&b.0))?.clone();
    let logs: f64 = against.iter().map(|(share, ..)| share.ln()).sum();
    let mut wins: Vec<(String, usize)> = Vec::new();
    for (_, _, best) in &against {
        match wins.iter_mut().find(|(name, _)| name == best) {
            Some((_, count)) => *count += 1,
            None => wins.push((best.clone(), 1)),
        }
    }
    wins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Some(Margin {
        mean: (logs / against.len() as f64).exp(),
        tests: against.len(),
        best: wins.into_iter().map(|(name, _)| name).collect(),
        worst,
    })
}

/// Geometric mean over tests of RAM over live bytes.
pub fn ram_per_live(tests: &[Test<'_>], subject: &str) -> Option<f64> {
    let shares = tests.iter().filter_map(|test| test.median(subject, LIVE_SHARE));
    let logs: Vec<f64> = shares
        .filter(|share| *share > 0.0)
        .map(|share| (100.0 / share).ln())
        .collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Whether a subject is a front end of Plimsoll's heap.
pub fn is_ours(subject: &str) -> bool {
    use plimsoll_model::scenario::Allocator;
    matches!(subject.parse(), Ok(Subject::Allocator(Allocator::Plimsoll(..))))
}

#[cfg(test)]
mod unit_tests {
    use super::*;
    use crate::analysis::groups;

    fn trial(subject: &str, threads: u32, cpu_ns: f64) -> Trial {
        let mut trial = Trial::made_up("heap", Vec::new());
        trial.id = format!("heap/{subject}/threads={threads}#1");
        trial.subject = subject.to_owned();
        trial.params = BTreeMap::from([
            ("subject".to_owned(), subject.to_owned()),
            ("threads".to_owned(), threads.to_string()),
            ("library".to_owned(), format!("lib{subject}.so")),
        ]);
        trial.metrics = BTreeMap::from([(OPERATION_CPU.to_owned(), cpu_ns * 1e-9)]);
        trial
    }

    #[test]
    fn allocators_stand_against_the_best_of_the_others_test_by_test() {
        let trials = [
            trial("plimsoll:lfh", 1, 9.0),
            trial("plimsoll:standard", 1, 5.0),
            trial("jemalloc", 1, 10.0),
            trial("mimalloc", 1, 18.0),
            trial("plimsoll:lfh", 4, 40.0),
            trial("jemalloc", 4, 30.0),
            trial("mimalloc", 4, 20.0),
        ];
        let groups = groups(&trials);
        let groups: Vec<&Group> = groups.iter().collect();
        let tests = tests(&groups);
        let names: Vec<String> = tests.iter().map(Test::name).collect();
        assert_eq!(names, ["1 thread", "4 threads"]);
        let found = margin(&tests, "plimsoll:lfh", OPERATION_CPU, |other| !is_ours(other)).unwrap();
        assert!((found.mean - (0.9f64 * 2.0).sqrt()).abs() < 1e-9, "{found:?}");
        assert_eq!((found.tests, found.best.len()), (2, 2));
        assert_eq!(
            (found.worst.1.as_str(), found.worst.2.as_str()),
            ("4 threads", "mimalloc")
        );
        assert_eq!(margin(&tests, "hoard", OPERATION_CPU, |_| true), None);
    }
}
