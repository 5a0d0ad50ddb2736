//! The values of all consumers in the load phase.

use crate::run::phase::Worked;
use crate::run::trial_error::TrialError;
use crate::workload::protocol::Reply;
use crate::workload::{Cost, Findings};
use plimsoll_model::latency::Latencies;
use plimsoll_model::quantity::ratio;
use plimsoll_model::scenario::workloads::thrash::finding;

/// Sums over the consumers.
#[derive(Default)]
pub(super) struct Load {
    pub(super) cost: Cost,
    /// Values of each consumer, in the order of their starts.
    pub(super) lists: Vec<(String, Vec<f64>)>,
    latencies: Latencies,
    /// Seconds that counting the pages of some cycles took, which no cycle holds.
    counting_s: f64,
    /// Seconds that consumers waited for evicted pages; `None` without pagers.
    stalled_s: Option<f64>,
}

/// Metrics that each consumer reports, with the name of the list.
const LISTED: [(&str, &str); 11] = [
    ("cycles", "consumer_cycles"),
    ("cycles_in_time", "consumer_cycles_in_time"),
    ("cycles_together", "consumer_cycles_together"),
    ("sleeps", "consumer_sleeps"),
    ("active_s", "consumer_active_s"),
    ("start_late_s", "consumer_start_late_s"),
    ("end_late_s", "consumer_end_late_s"),
    ("shortest_cycle_s", "consumer_shortest_cycle_s"),
    ("longest_cycle_s", "consumer_longest_cycle_s"),
    ("counted_cycles", "consumer_counted_cycles"),
    ("counted_pages", "consumer_counted_pages"),
];

impl Load {
    /// Takes in the answer of the next consumer.
    pub(super) fn take(&mut self, reply: Reply) -> Result<(), TrialError> {
        let Worked { cost, findings, .. } = Worked::of_reply(reply)?;
        self.cost = self.cost.and(cost);
        if let Some(stalled) = findings.values.get(finding::STALLED) {
            *self.stalled_s.get_or_insert(0.0) += stalled;
        }
        self.counting_s += findings.values.get("counting_s").copied().unwrap_or(0.0);
        if let Some(found) = findings.latency.and_then(|text| Latencies::from_text(&text).ok()) {
            self.latencies.merge(&found);
        }
        for (metric, list) in LISTED {
            let value = findings.values.get(metric).copied().unwrap_or(0.0);
            match self.lists.iter_mut().find(|(name, _)| name == list) {
                Some((_, values)) => values.push(value),
                None => self.lists.push((list.to_owned(), vec![value])),
            }
        }
        Ok(())
    }

    pub(super) fn list(&self, name: &str) -> &[f64] {
        let found = self.lists.iter().find(|(list, _)| list == name);
        found.map_or(&[], |(_, values)| values)
    }

    pub(super) fn findings(&self) -> Findings {
        let mut findings = Findings::default();
        let largest = |name: &str| self.list(name).iter().copied().reduce(f64::max);
        let smallest = |name: &str| self.list(name).iter().copied().reduce(f64::min);
        let mut set = |name: &str, value: Option<f64>| {
            if let Some(value) = value {
                findings.set(name, value);
            }
        };
        let percentile = |percent: f64| self.latencies.percentile(percent).map(|ns| ns as f64 / 1e9);
        set("cycle_p50_s", percentile(50.0));
        set("cycle_p99_s", percentile(99.0));
        set("longest_cycle_s", largest("consumer_longest_cycle_s"));
        set("shortest_cycle_s", smallest("consumer_shortest_cycle_s"));
        set("start_late_s", largest("consumer_start_late_s"));
        set("end_late_s", largest("consumer_end_late_s"));
        let cpu_s = self.cost.cpu_user_s + self.cost.cpu_system_s;
        set("counting_s", Some(self.counting_s));
        set("counting_percent", ratio(100.0 * self.counting_s, cpu_s));
        let active_s: f64 = self.list("consumer_active_s").iter().sum();
        let stalled = self
            .stalled_s
            .and_then(|stalled| ratio(100.0 * stalled, active_s));
        set(finding::PAGER_STALLED, stalled);
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(values: &[(&str, f64)]) -> Reply {
        let mut findings = Findings::default();
        for (name, value) in values {
            findings.set(name, *value);
        }
        Reply::Found {
            cost: Cost::default(),
            findings,
        }
    }

    /// Memory of malloc has no pager to wait for: that is not 0.
    #[test]
    fn the_wait_for_pagers_is_a_share_of_the_active_time() {
        let stalled = |answers: &[&[(&str, f64)]]| {
            let mut load = Load::default();
            for values in answers {
                load.take(answer(values)).unwrap();
            }
            load.findings().values.get(finding::PAGER_STALLED).copied()
        };
        let first = [("active_s", 6.0), (finding::STALLED, 1.0)];
        let second = [("active_s", 4.0), (finding::STALLED, 3.0)];
        assert_eq!(stalled(&[&first, &second]), Some(40.0));
        assert_eq!(stalled(&[&first[..1], &second[..1]]), None);
    }
}
