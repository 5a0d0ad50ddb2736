//! Latencies of visits: those that only read, those that write, and all of them; of one thread and of several.

use plimsoll_model::latency::Latencies;
use plimsoll_model::scenario::workloads::loadline::finding::{P99, READ_P99, WRITE_P99};

use crate::workload::Findings;

#[derive(Debug)]
pub(super) struct Tally {
    /// Of visits that only read, and of those that write. Of a visit without a turn it is not known: it counts as a read
    /// in the sum alone.
    reads: Latencies,
    writes: Latencies,
    unserved: Latencies,
    /// Nanoseconds of all accesses, without the time that visits waited for their turn.
    access_ns: u64,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally {
            reads: Latencies::new(),
            writes: Latencies::new(),
            unserved: Latencies::new(),
            access_ns: 0,
        }
    }

    fn of(&mut self, writes: bool) -> &mut Latencies {
        if writes { &mut self.writes } else { &mut self.reads }
    }

    /// A visit of a closed loop, which should begin every `interval_ns`.
    #[inline]
    pub(super) fn closed(&mut self, writes: bool, ns: u64, interval_ns: u64) {
        self.access_ns += ns;
        self.of(writes).record_corrected(ns, interval_ns);
    }

    /// A visit of an open loop: from when it was due, and from when it began.
    #[inline]
    pub(super) fn open(&mut self, writes: bool, since_due_ns: u64, access_ns: u64) {
        self.access_ns += access_ns;
        self.of(writes).record(since_due_ns);
    }

    /// Visits that had no turn, and how long they have waited.
    pub(super) fn unserved(&mut self, waited_ns: u64, count: u64) {
        self.unserved.record_many(waited_ns, count);
    }

    /// Adds those of another thread.
    pub(super) fn merge(&mut self, other: &Tally) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.unserved.merge(&other.unserved);
        self.access_ns += other.access_ns;
    }

    /// All visits that were due.
    pub(super) fn all(&self) -> Latencies {
        let mut all = self.reads.clone();
        all.merge(&self.writes);
        all.merge(&self.unserved);
        all
    }

    pub(super) fn find(&self, visits: u64, findings: &mut Findings) {
        let all = self.all();
        findings.latency = Some(all.to_text());
        if visits > 0 {
            findings.set("access_s", self.access_ns as f64 / 1e9 / visits as f64);
        }
        let mut set = |name: &str, of: &Latencies, percent: f64| {
            if let Some(ns) = of.percentile(percent) {
                findings.set(name, ns as f64 / 1e9);
            }
        };
        for (name, percent) in [("p50_s", 50.0), (P99, 99.0), ("p999_s", 99.9), ("max_s", 100.0)] {
            set(name, &all, percent);
        }
        if self.reads.count() > 0 && self.writes.count() > 0 {
            set("read_p50_s", &self.reads, 50.0);
            set(READ_P99, &self.reads, 99.0);
            set("write_p50_s", &self.writes, 50.0);
            set(WRITE_P99, &self.writes, 99.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_sum_of_threads_is_as_if_one_had_counted(
            visits in prop::collection::vec((0usize..5, any::<bool>(), 1u64..10_000_000), 1..300),
        ) {
            let mut threads: Vec<Tally> = (0..5).map(|_| Tally::new()).collect();
            let mut one = Tally::new();
            for (thread, writes, ns) in &visits {
                threads[*thread].open(*writes, *ns, ns / 2);
                one.open(*writes, *ns, ns / 2);
            }
            let mut sum = Tally::new();
            threads.iter().for_each(|thread| sum.merge(thread));
            let found = |tally: &Tally| {
                let mut findings = Findings::default();
                tally.find(visits.len() as u64, &mut findings);
                findings
            };
            let (sum, one) = (found(&sum), found(&one));
            prop_assert_eq!(&sum, &one);
            let both = visits.iter().any(|visit| visit.1) && visits.iter().any(|visit| !visit.1);
            prop_assert_eq!(sum.values.contains_key(READ_P99), both);
        }
    }

    #[test]
    fn visits_without_a_turn_are_in_the_percentiles_of_all() {
        let mut tally = Tally::new();
        tally.open(false, 1_000, 1_000);
        tally.open(true, 2_000, 1_000);
        tally.unserved(1_000_000, 98);
        let mut findings = Findings::default();
        tally.find(2, &mut findings);
        assert!(findings.values[P99] > 0.9e-3);
        assert!(findings.values[READ_P99] < 2e-6 && findings.values[WRITE_P99] < 3e-6);
        assert_eq!(findings.values["access_s"], 1e-6);
    }
}
