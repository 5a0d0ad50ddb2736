//! Metrics of the contention scenario: the start of trimming, the trimmed program, and the place of the pages.

mod headline;
mod section;

use std::collections::BTreeMap;

use super::criteria::{Criteria, Measure, TIME_ALONE};
use super::{WorkloadReport, verification};
use crate::analysis::metric::metrics;
use crate::analysis::{ratio, statistics};
use plimsoll_model::recording::model::{Phase, Trial};
use plimsoll_model::scenario::workloads::contention::finding;

metrics! {
    TRIM_START "trim_start_bytes" Neither true PLACE "trimming starts at" "Total bytes requested by the second program when the first program had lost more than 2% of its memory. Absent if it never lost as much.";
    TRIM_START_PERCENT "trim_start_percent" Neither true PLACE "demand at the start" "Memory demand of both programs at that request, in percent of the limit.";
    HOLDER_LOST "holder_lost_percent" Less true PLACE "first program lost" "Share of its resident memory that the first program had lost after the last request.";
    ASKER_LOST "asker_lost_percent" Less true PLACE "second program lost" "Share of the second program's requested memory that was in swap after the last request; of a pager, in its store or page file alone.";
    SLOWEST_ASK "slowest_ask_s" Less true "slowest request" "Duration of the slowest request.";
    SLOWEST_RATIO "slowest_ask_ratio" Less false TIME "slowest / before" "Duration of the slowest request over the median before trimming began. Absent if trimming never began.";
    HOLDER_SWAPPED "holder_swapped_bytes" Neither false PLACE "first program in swap" "Memory of the first program in swap after the last request; of a pager, in its store or page file alone.";
    ASKER_SWAPPED "asker_swapped_bytes" Neither false PLACE "second program in swap" "Memory of the second program in swap after the last request; of a pager, in its store or page file alone.";
    COMPRESSED "compressed_growth_bytes" Neither false STORE "compressed store" "Growth of the compressed store in RAM from before the first request to after the last; of pagers, their stores after the last.";
    CACHED "swap_cache_growth_bytes" Neither false PLACE "swap cache" "Growth of the swap cache from before the first request to after the last: memory in RAM, but in no working set. Absent with pagers.";
    HOLDER_RESTORE "holder_restore_s" Less false "first program reads" "Time that the first program takes to read all its memory after the last request.";
    ASKER_RESTORE "asker_restore_s" Less false "second program reads" "Time that the second program takes to read all its memory after the first has read its own.";
}

const RANKED_SLOWEST: Measure = Measure {
    metric: SLOWEST_ASK,
    noun: "slowest request",
};

const CRITERIA: Criteria = Criteria {
    first: RANKED_SLOWEST,
    second: Measure {
        metric: HOLDER_RESTORE,
        noun: "time until the first program has its memory back",
    },
    opposing: true,
    setting: RANKED_SLOWEST,
    limit: TIME_ALONE,
    all_subjects: true,
};

pub(super) const REPORT: WorkloadReport = WorkloadReport {
    known: METRICS,
    metrics: |of| metrics(of.trial),
    headline: headline::told,
    section: Some(section::section),
    timed_phases: None,
    verification: &verification::DATA_AND_COUNTS,
    criteria: Some(&CRITERIA),
};

/// The metrics of a trial; unknown ones are absent.
pub fn metrics(trial: &Trial) -> BTreeMap<String, f64> {
    let asks = asks(trial);
    let mut known: Vec<(&str, Option<f64>)> = Vec::new();
    let start = asks.iter().position(|ask| value(ask, "trimmed") == Some(1.0));
    if let Some(start) = start {
        known.push((TRIM_START, value(asks[start], "asked_bytes")));
        known.push((TRIM_START_PERCENT, value(asks[start], "demand_percent")));
    }
    let times: Vec<f64> = asks.iter().filter_map(|ask| value(ask, "ask_s")).collect();
    let slowest = times.iter().copied().reduce(f64::max);
    let before = start.and_then(|start| statistics::median(&times[..start.min(times.len())]));
    known.push((SLOWEST_ASK, slowest));
    known.push((
        SLOWEST_RATIO,
        slowest.zip(before).and_then(|(slow, usual)| ratio(slow, usual)),
    ));
    if let (Some(first), Some(last)) = (asks.first(), asks.last()) {
        let percent = |part: &str, whole: f64| ratio(100.0 * value(last, part)?, whole);
        let held = value(last, "holder_lost_bytes").zip(value(last, "holder_resident_bytes"));
        known.push((
            HOLDER_LOST,
            held.and_then(|(lost, kept)| percent("holder_lost_bytes", lost + kept)),
        ));
        let asked = value(last, "asked_bytes");
        known.push((
            ASKER_LOST,
            asked.and_then(|asked| percent("asker_swapped_bytes", asked)),
        ));
        known.push((HOLDER_SWAPPED, value(last, "holder_swapped_bytes")));
        known.push((ASKER_SWAPPED, value(last, "asker_swapped_bytes")));
        // The stores of pagers are in the programs: what grows beside them is another program's.
        let stores = value(last, finding::STORES);
        let of_machine: &[(&str, &str)] = match stores {
            Some(_) => &[],
            None => &[(COMPRESSED, "compressed"), (CACHED, "swap_cache")],
        };
        known.push((COMPRESSED, stores));
        for &(name, category) in of_machine {
            let grown = first.before.get(category).zip(last.after.get(category));
            known.push((name, grown.map(|(before, after)| (after - before).max(0) as f64)));
        }
    }
    for (name, phase) in [
        (HOLDER_RESTORE, "restore-holder"),
        (ASKER_RESTORE, "restore-asker"),
    ] {
        let found = trial.phases.iter().find(|found| found.name == phase);
        known.push((name, found.map(|phase| phase.seconds)));
    }
    let values = known
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    values.collect()
}

/// The phases with a request of the second program, in their order.
pub fn asks(trial: &Trial) -> Vec<&Phase> {
    let asks = trial.phases.iter().filter(|phase| phase.name.starts_with("ask-"));
    asks.collect()
}

fn value(phase: &Phase, name: &str) -> Option<f64> {
    phase.values.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metrics of requests that took so many seconds, each with whether the first program was trimmed.
    fn metrics_of(asks: &[(f64, f64)]) -> BTreeMap<String, f64> {
        let ask = |(place, &(seconds, trimmed)): (usize, &(f64, f64))| Phase {
            name: format!("ask-{}", place + 1),
            values: [("ask_s", seconds), ("trimmed", trimmed)]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            ..Phase::default()
        };
        let phases = asks.iter().enumerate().map(ask).collect();
        metrics(&Trial::made_up("contention", phases))
    }

    /// The growth of the machine's store counted, which another program makes.
    #[test]
    fn pagers_have_their_stores_in_the_programs() {
        let ask = |stores: Option<f64>| Phase {
            name: "ask-1".to_owned(),
            values: stores
                .map(|bytes| (finding::STORES.to_owned(), bytes))
                .into_iter()
                .collect(),
            before: [("compressed", 5), ("swap_cache", 1)].into_iter().collect(),
            after: [("compressed", 9), ("swap_cache", 4)].into_iter().collect(),
            ..Phase::default()
        };
        let of = |stores| metrics(&Trial::made_up("contention", vec![ask(stores)]));
        let (kernel, pager) = (of(None), of(Some(70.0)));
        assert_eq!(
            (kernel.get(COMPRESSED), kernel.get(CACHED)),
            (Some(&4.0), Some(&3.0))
        );
        assert_eq!((pager.get(COMPRESSED), pager.get(CACHED)), (Some(&70.0), None));
    }

    #[test]
    fn an_ask_is_slow_against_those_before_trimming_alone() {
        let trimmed = metrics_of(&[(1.0, 0.0), (1.0, 0.0), (4.0, 1.0)]);
        assert_eq!(trimmed.get(SLOWEST_RATIO), Some(&4.0));
        let never = metrics_of(&[(1.0, 0.0), (3.0, 0.0)]);
        assert_eq!(never.get(SLOWEST_RATIO), None);
        assert_eq!(never.get(SLOWEST_ASK), Some(&3.0));
    }
}
