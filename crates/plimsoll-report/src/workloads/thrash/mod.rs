//! Metrics of the thrash scenario: useful work, its cost in paging and CPU time, and the effect on neighbours.

mod headline;
mod section;

use std::collections::BTreeMap;

use super::{WorkloadReport, verification};
use crate::analysis::metric::metrics;
use plimsoll_model::quantity::ratio;
use plimsoll_model::recording::model::{Phase, Trial};
use plimsoll_model::scenario::Thrash;
use plimsoll_model::scenario::Workload;
use plimsoll_model::scenario::workloads::thrash::Distinct;

metrics! {
    CYCLES "cycles_per_s" More true "useful work" "Write cycles finished per second by all consumers together, from the first start to the common end; cycles that end later do not count.";
    TOGETHER "together_cycles_per_s" More true "useful work, together" "Write cycles finished per second by all consumers while all of them work, from the start of the last to the common end.";
    DONE "cycles_done_percent" More true TIME "work done" "Finished write cycles, in percent of the number possible if every cycle took as long as the fastest.";
    FAIRNESS "fairness_ratio" More true TIME "fairness" "Jain's index of the consumers' cycles per active second: 1 if all are equal, 1/N if one consumer does all the work.";
    PAGES_IN "load_pages_in_per_s" Less true "pages in" "Pages swapped in per second, from the first start to the common end; with pagers, pages restored from their stores.";
    PAGES_OUT "load_pages_out_per_s" Less true "pages out" "Pages swapped out per second, from the first start to the common end; with pagers, pages saved in their stores.";
    SYSTEM "load_system_percent" Less true TIME "system CPU" "CPU time in the kernel, in percent of all CPUs, from the first start to the common end.";
    WAKEUP "load_wakeup_p99_s" Less true "wake-up p99" "99th percentile of the wake-up latency of a process in the same cgroup that wakes up 1000 times per second, under load.";
    LAUNCH "load_launch_p99_s" Less true "launch p99" "99th percentile of the time to start a program in the same cgroup, under load; failed starts have no time and count separately.";
    SMALL_SET "small_set_slowdown_ratio" Less true TIME "neighbour slowdown" "Mean time to read a working set of 4 MiB in the same cgroup under load, over the mean time at rest.";
    RECOVERY "recovery_s" Less true "recovery" "Seconds from the common end until paging, stalls, wake-up latency and small set are as at rest again; absent if they did not recover within the observed time.";
    USER "load_user_percent" Neither false TIME "user CPU" "CPU time in user space, in percent of all CPUs, from the first start to the common end.";
    ALL_PAGES_IN "all_active_pages_in_per_s" Less false "pages in, all active" "The same as pages in, while all consumers are active.";
    ALL_PAGES_OUT "all_active_pages_out_per_s" Less false "pages out, all active" "The same as pages out, while all consumers are active.";
    STALLED "load_stalled_percent" Less false TIME "stalled" "Share of time in which at least one process of the machine waits for memory (PSI some), under load. Absent with pagers, whose waits the kernel does not count.";
    PAGER_STALLED "pager_stalled_percent" Less false TIME "waits for the pager" "Time in which consumers wait for evicted pages of their pagers, in percent of the time in which they are active. Absent without pagers.";
    PAGER_HARD "pager_hard_faults_per_s" Less false "pager hard faults" "Faults per second of all pagers on pages in a store or a page file, under load.";
    PAGER_SOFT "pager_soft_faults_per_s" Neither false "pager soft faults" "Faults per second of all pagers on trimmed pages that are still in RAM, under load.";
    PAGER_TRIMS "pager_trims_per_s" Less false "pager trims" "Pages per second that all pagers move out of their working sets, under load.";
    OVER_BUDGET "over_budget_bytes" Less false TIME "above the budget" "The most bytes that all pagers together were seen to have above their budget and 2% of it.";
    WAKEUP_P50 "load_wakeup_p50_s" Less false "wake-up p50" "Median wake-up latency of that process under load.";
    WAKEUP_MAX "load_wakeup_max_s" Less false "wake-up max" "Maximum wake-up latency of that process under load.";
    SECOND_HALF_WAKEUP "second_half_wakeup_p99_s" Less false "wake-up p99, second half" "99th percentile of the wake-up latency in the second half of the time in which all consumers work. With a long `together`, it excludes the time in which a guard detects thrashing.";
    SECOND_HALF_LAUNCH "second_half_launch_p99_s" Less false "launch p99, second half" "99th percentile of the launch latency in the second half of the time in which all consumers work. With a long `together`, it excludes the time in which a guard detects thrashing.";
    SECOND_HALF "second_half_s" Neither false "second half, measured" "Seconds from the answer of all probes in the middle of the time in which all consumers work, to the common end: half of that time, or less if a probe answers late. Absent if one answers after the common end.";
    REST_WAKEUP "rest_wakeup_p99_s" Less false "wake-up p99, at rest" "99th percentile of the wake-up latency before the first consumer starts: the latency of the idle machine.";
    CYCLE_P50 "cycle_p50_s" Less false "cycle p50" "Median time of the writes of a cycle.";
    CYCLE_P99 "cycle_p99_s" Less false "cycle p99" "99th percentile of the time of the writes of a cycle.";
    CYCLE_MAX "longest_cycle_s" Less false "longest cycle" "Maximum time of the writes of a cycle.";
    END_LATE "end_late_s" Less false "late end" "Time from the common end to the end of the last consumer, which finishes its cycle first.";
    DISTINCT "distinct_pages_ratio" Neither false NOTHING "pages chosen" "Distinct pages among the random places of a cycle, over the expected number n(1-(1-1/n)^W) of n pages.";
    GUARD_STOPS "guard_stops" Neither false TIME "stops by the guard" "Stops of consumers by the guard, from the rest to the end of the recovery. Absent without a guard.";
    GUARD_TRIMS "guard_trims" Neither false TIME "page-outs by the guard" "Page-outs of consumers by the guard. Absent without a guard.";
    GUARD_CPU "guard_cpu_percent" Less false TIME "CPU of the guard" "CPU time of the guard, in percent of one CPU, from the rest to the end of the recovery. Absent without a guard.";
    RECOVERED "recovered_ratio" More false TIME "recovered" "1 if paging, stalls, wake-up latency and small set were as at rest again within 30 s after the end of the last consumer, otherwise 0.";
}

/// Jain's fairness index (Jain, Chiu and Hawe, 1984): 1 when all are equal, 1/n when one has all; none of nothing.
pub fn fairness(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    ratio(sum * sum, shares.len() as f64 * squares)
}

pub(super) const REPORT: WorkloadReport = WorkloadReport {
    known: METRICS,
    metrics: |of| match &of.settings.workload {
        Workload::Thrash(settings) => metrics(of.trial, settings),
        _ => BTreeMap::new(),
    },
    headline: headline::told,
    section: Some(section::section),
    timed_phases: None,
    verification: &verification::DATA_AND_COUNTS,
    // Its consumers write single random bytes into zeros.
    criteria: None,
};

/// The metrics of a trial; unknown ones are absent.
pub fn metrics(trial: &Trial, thrash: &Thrash) -> BTreeMap<String, f64> {
    let mut metrics = BTreeMap::new();
    let mut set = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            metrics.insert(name.to_owned(), value);
        }
    };
    let phase = |name: &str| trial.phases.iter().find(|phase| phase.name == name);
    let value = |phase: Option<&Phase>, name: &str| phase?.values.get(name).copied();
    let (rest, load, recovery) = (phase("rest"), phase("load"), phase("recovery"));
    for name in [CYCLES, TOGETHER, DONE, FAIRNESS, DISTINCT] {
        set(name, of_consumers(name, trial, thrash));
    }
    for (name, of_load) in [
        (PAGES_IN, "pages_in_per_s"),
        (PAGES_OUT, "pages_out_per_s"),
        (ALL_PAGES_IN, ALL_PAGES_IN),
        (ALL_PAGES_OUT, ALL_PAGES_OUT),
        (USER, "user_percent"),
        (SYSTEM, "system_percent"),
        (STALLED, "stalled_percent"),
        (WAKEUP_P50, "wakeup_p50_s"),
        (WAKEUP, "wakeup_p99_s"),
        (WAKEUP_MAX, "wakeup_max_s"),
        (LAUNCH, "launch_p99_s"),
        (CYCLE_P50, CYCLE_P50),
        (CYCLE_P99, CYCLE_P99),
        (CYCLE_MAX, CYCLE_MAX),
        (END_LATE, END_LATE),
        (PAGER_STALLED, PAGER_STALLED),
        (PAGER_HARD, PAGER_HARD),
        (PAGER_SOFT, PAGER_SOFT),
        (PAGER_TRIMS, PAGER_TRIMS),
        (OVER_BUDGET, OVER_BUDGET),
        (SECOND_HALF_WAKEUP, SECOND_HALF_WAKEUP),
        (SECOND_HALF_LAUNCH, SECOND_HALF_LAUNCH),
        (SECOND_HALF, SECOND_HALF),
    ] {
        set(name, value(load, of_load));
    }
    set(REST_WAKEUP, value(rest, "wakeup_p99_s"));
    let visits = |phase| value(phase, "small_set_mean_s");
    set(
        SMALL_SET,
        visits(load)
            .zip(visits(rest))
            .and_then(|(load, rest)| ratio(load, rest)),
    );
    for name in [RECOVERY, RECOVERED, GUARD_STOPS, GUARD_TRIMS, GUARD_CPU] {
        set(name, value(recovery, name));
    }
    metrics
}

/// The metrics computed from the values of each consumer.
fn of_consumers(name: &str, trial: &Trial, thrash: &Thrash) -> Option<f64> {
    let list = |name: &str| trial.lists.get(name).map(Vec::as_slice).unwrap_or_default();
    let sum = |name: &str| list(name).iter().sum::<f64>();
    let (cycles, active) = (list("consumer_cycles"), list("consumer_active_s"));
    if cycles.is_empty() {
        return None;
    }
    match name {
        CYCLES => {
            let in_time = list("consumer_cycles_in_time");
            if in_time.is_empty() {
                return None;
            }
            ratio(in_time.iter().sum(), thrash.seconds())
        }
        TOGETHER => {
            let together = list("consumer_cycles_together");
            if together.is_empty() {
                return None;
            }
            ratio(together.iter().sum(), thrash.together())
        }
        DONE => {
            let shortest = list("consumer_shortest_cycle_s").iter().copied();
            let fastest = shortest.filter(|&seconds| seconds > 0.0).reduce(f64::min)?;
            ratio(
                100.0 * sum("consumer_cycles") * (thrash.sleep + fastest),
                active.iter().sum(),
            )
        }
        FAIRNESS => {
            let rates = cycles.iter().zip(active);
            let rates: Option<Vec<f64>> = rates.map(|(cycles, active)| ratio(*cycles, *active)).collect();
            fairness(&rates?)
        }
        _ => {
            let touched = ratio(sum("consumer_counted_pages"), sum("consumer_counted_cycles"))?;
            ratio(touched, Distinct::expected(thrash).mean)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics_of(recovery: &[(&str, f64)], lists: &[(&str, &[f64])]) -> BTreeMap<String, f64> {
        let phase = |name: &str, values: &[(&str, f64)]| Phase {
            name: name.to_owned(),
            values: values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            ..Phase::default()
        };
        let phases = vec![
            phase("rest", &[("small_set_mean_s", 0.001)]),
            phase("load", &[("small_set_mean_s", 0.003)]),
            phase("recovery", recovery),
        ];
        let lists = lists.iter();
        let trial = Trial {
            lists: lists
                .map(|(name, values)| ((*name).to_owned(), values.to_vec()))
                .collect(),
            ..Trial::made_up("thrash", phases)
        };
        let thrash = Thrash {
            consumers: 3,
            consumer_size: 1 << 20,
            writes: 100,
            sleep: 0.1,
            stagger: 2.5,
            hold: 0.0,
            together: None,
            guard: None,
        };
        metrics(&trial, &thrash)
    }

    #[test]
    fn a_recovery_that_did_not_happen_is_none() {
        let found = metrics_of(&[(RECOVERED, 0.0)], &[]);
        assert_eq!((found.get(RECOVERY), found[RECOVERED]), (None, 0.0));
        let found = metrics_of(&[(RECOVERED, 1.0), (RECOVERY, 4.5)], &[]);
        assert_eq!((found[RECOVERY], found[RECOVERED]), (4.5, 1.0));
        assert!((found[SMALL_SET] - 3.0).abs() < 1e-9);
    }

    #[test]
    fn cycles_that_ended_late_are_no_useful_work() {
        let consumers: [(&str, &[f64]); 3] = [
            ("consumer_cycles", &[60.0, 31.0, 12.0]),
            ("consumer_cycles_in_time", &[59.0, 30.0, 11.0]),
            ("consumer_active_s", &[10.5, 7.5, 5.0]),
        ];
        // Three consumers, 2.5 s apart, and as long again after the last start: 10 s.
        assert!((metrics_of(&[], &consumers)[CYCLES] - 10.0).abs() < 1e-9);
        assert_eq!(metrics_of(&[], &consumers[..1]).get(CYCLES), None);
    }
}
