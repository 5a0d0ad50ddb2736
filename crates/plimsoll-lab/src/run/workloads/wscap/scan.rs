//! Writing a byte in every page of filled memory, again and again, and counting the scans.
//!
//! The program is that of B. Dawson (randomascii), 32 MiB working sets on a 64 GiB machine, 2023.

use std::thread;
use std::time::{Duration, Instant};

use plimsoll_os::UsageScope;
use serde::{Deserialize, Serialize};

use super::balance::Balancer;
use crate::workload::Stopwatch;
use crate::workload::protocol::Reply;
use crate::workload::{
    BudgetError, CrewError, Memory, PAGER_FAULTS, Work, WorkError, Writable, in_threads, pager_since,
    set_budget, typed,
};
use crate::workload::{Cost, Findings};
use plimsoll_model::latency::Latencies;
use plimsoll_model::scenario::Wscap;
use plimsoll_model::scenario::workloads::wscap::finding;
use plimsoll_pager::Pager;

/// Pages between two looks at the clock: reading it takes about as long as writing two or three pages.
const PAGES_AT_ONCE: u64 = 256;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Scan {
    pub seconds: f64,
    /// Cap in bytes if the worker trims itself once a second; `None` if the cgroup caps it.
    pub balance: Option<u64>,
    /// Bytes of the pager's budget during the scan, for memory of a pager. The scan restores the former budget at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum ScanError {
    #[error("cannot scan for {0} s; ask for a number of seconds, 0 or more")]
    Seconds(f64),
    #[error("cannot keep the working set at its cap: {0}")]
    Balance(#[from] super::balance::BalanceError),
    #[error(transparent)]
    Budget(#[from] BudgetError),
    #[error(transparent)]
    Crew(#[from] CrewError),
}

#[derive(Default)]
pub(in crate::run) struct Scanner;

impl Work for Scanner {
    fn carry_out(
        &mut self,
        request: &serde_json::Value,
        memory: Option<&mut Memory>,
    ) -> Result<Reply, WorkError> {
        let memory = memory.ok_or(WorkError::NothingFilled { action: "scan" })?;
        let (cost, findings) = scan(memory, &typed(request)?).map_err(WorkError::of_workload)?;
        Ok(Reply::Found { cost, findings })
    }
}

/// Scans `memory` for the seconds asked, each part in a thread of its own, and on from where the scan before it ended.
///
/// A scan counts from the page that it begins with, through all others.
pub(super) fn scan(memory: &mut Memory, asked: &Scan) -> Result<(Cost, Findings), ScanError> {
    let length = Duration::try_from_secs_f64(asked.seconds).map_err(|_| ScanError::Seconds(asked.seconds))?;
    let working_set = memory.working_set();
    let balancer = asked
        .balance
        .map(|cap| Balancer::new(memory.ranges(), working_set, cap));
    let all = memory.pages();
    let pager = memory.pager().cloned();
    let former = pager.as_ref().map(|pager| pager.stats().ram);
    if let (Some(pager), Some(ram)) = (&pager, asked.ram) {
        set_budget(pager, ram)?;
    }
    let before = pager.as_ref().map(Pager::stats);
    let watch = Stopwatch::start(UsageScope::Process);
    let (counted, balanced) = thread::scope(|scope| {
        let manager = balancer.as_ref().map(|balancer| scope.spawn(|| balancer.go_on()));
        let counted = in_threads(memory.writable(), |part| Counted::of(part, all, length));
        if let Some(balancer) = &balancer {
            balancer.end();
        }
        // A thread that panicked has nothing to say.
        (counted, manager.and_then(|manager| manager.join().ok()))
    });
    let counted = Counted::together(counted?);
    let page_size = plimsoll_os::page_size() as u64;
    let cost = watch.stop(counted.pages.saturating_mul(page_size));
    let scans = counted.pages as f64 / all as f64;
    let mut findings = counted.findings(all, cost);
    if let Some((pager, before)) = pager.zip(before) {
        pager_since(&before, &pager, &mut findings);
        if let (Some(former), Some(_)) = (former, asked.ram) {
            set_budget(&pager, former)?;
        }
        // The kernel counts none of them.
        let faults = findings.values.get(PAGER_FAULTS).copied().unwrap_or(0.0);
        findings.set(finding::FAULTS, faults / scans);
    }
    if let Some(balanced) = balanced {
        let balanced = balanced?;
        findings.set(finding::LOOKS, balanced.looks as f64);
        findings.set(finding::TRIMMED, balanced.trimmed_bytes as f64);
        findings.set(finding::TRIMMING, balanced.seconds);
    }
    Ok((cost, findings))
}

/// Counts of a scan: of a thread, or of all together.
#[derive(Default)]
struct Counted {
    /// Seconds of writing, of all threads.
    seconds: f64,
    /// Scans a second of the whole memory.
    rate: f64,
    pages: u64,
    first: Option<Duration>,
    scans: Latencies,
    rates: Vec<f64>,
}

impl Counted {
    /// Writes to a part of `all` pages until `length` is over.
    fn of(mut part: Writable<'_>, all: u64, length: Duration) -> Counted {
        let own = part.pages();
        let interval = Duration::from_secs_f64(Wscap::RATE_INTERVAL_S);
        let mut counted = Counted::default();
        let start = Instant::now();
        let (mut scan_start, mut interval_start, mut interval_pages) = (start, start, 0);
        loop {
            let left = own - counted.pages % own;
            let now_marked = left.min(PAGES_AT_ONCE);
            part.mark(now_marked);
            counted.pages += now_marked;
            interval_pages += now_marked;
            let now = Instant::now();
            if now_marked == left {
                let took = now - scan_start;
                counted.first.get_or_insert(took);
                counted
                    .scans
                    .record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
                scan_start = now;
            }
            let (since, over) = (now - interval_start, now - start >= length);
            // The last interval counts if it is at least half as long as the others.
            if since >= interval || (over && since >= interval / 2) {
                let rate = interval_pages as f64 / all as f64 / since.as_secs_f64();
                counted.add_rate(rate, since);
                (interval_start, interval_pages) = (now, 0);
            }
            if over {
                counted.seconds = (now - start).as_secs_f64();
                counted.rate = counted.pages as f64 / all as f64 / counted.seconds;
                return counted;
            }
        }
    }

    /// The counts of threads that scanned at the same time: they add up. The time of a scan is that of a thread's own
    /// part; the first is over when the slowest thread has ended its own.
    fn together(threads: Vec<Counted>) -> Counted {
        let intervals = threads.iter().map(|thread| thread.rates.len()).min().unwrap_or(0);
        let mut all = Counted {
            first: threads
                .iter()
                .map(|thread| thread.first)
                .collect::<Option<Vec<_>>>()
                .and_then(|firsts| firsts.into_iter().max()),
            rates: vec![0.0; intervals],
            ..Counted::default()
        };
        for thread in threads {
            all.seconds += thread.seconds;
            all.rate += thread.rate;
            all.pages += thread.pages;
            all.scans.merge(&thread.scans);
            for (sum, rate) in all.rates.iter_mut().zip(thread.rates) {
                *sum += rate;
            }
        }
        all
    }

    /// Notes the rate of an interval: pages that took longer than one had the same rate in all that it spans.
    fn add_rate(&mut self, rate: f64, since: Duration) {
        let spanned = (since.as_secs_f64() / Wscap::RATE_INTERVAL_S).round().max(1.0) as usize;
        self.rates.extend(std::iter::repeat_n(rate, spanned));
    }

    fn findings(self, all: u64, cost: Cost) -> Findings {
        let scans = self.pages as f64 / all as f64;
        let faults = cost.minor_faults + cost.major_faults;
        let mut findings = Findings::default();
        findings.set(finding::SCANS, scans);
        findings.set(finding::RATE, self.rate);
        findings.set(finding::PAGE, self.seconds / self.pages as f64);
        findings.set(finding::FAULTS, faults as f64 / scans);
        if let (Some(first), Some(median)) = (self.first, self.scans.percentile(50.0)) {
            findings.set(finding::FIRST, first.as_secs_f64());
            findings.set(finding::MEDIAN, median as f64 / 1e9);
        }
        findings.lists.insert(finding::RATE.to_owned(), self.rates);
        findings.latency = Some(self.scans.to_text());
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::protocol::Placement;
    use crate::workload::{FillRequest, PagerBudget, PagerRequest};
    use plimsoll_model::scenario::workloads::finding::OVER_BUDGET;
    use plimsoll_model::scenario::{FillClass, PagerOptions, ThpMode};

    fn memory(bytes: u64) -> Memory {
        memory_of(bytes, 1)
    }

    fn memory_of(bytes: u64, threads: u32) -> Memory {
        let asked = FillRequest {
            bytes,
            request: bytes / 3,
            class: FillClass::Ratio(2.0),
            seed: 7,
            thp: ThpMode::Never,
            placement: Placement {
                threads,
                ..Placement::default()
            },
        };
        Memory::fill(&asked).unwrap().0
    }

    /// Memory of a pager with a budget of 32 MiB, in two parts.
    fn paged(bytes: u64, class: FillClass, options: &str) -> Memory {
        let request = FillRequest {
            bytes,
            request: bytes / 2,
            class,
            seed: 7,
            thp: ThpMode::System,
            placement: Placement {
                threads: 2,
                pager: Some(PagerRequest {
                    budget: PagerBudget::Own(32 << 20),
                    bytes,
                    options: PagerOptions::of_text(options).unwrap().unwrap(),
                    folder: "/var/tmp".into(),
                }),
                ..Placement::default()
            },
        };
        Memory::fill(&request).unwrap().0
    }

    fn asked(seconds: f64, balance: Option<u64>) -> Scan {
        Scan {
            seconds,
            balance,
            ram: None,
        }
    }

    #[test]
    fn scans_are_counted_and_every_page_holds_its_last_write() {
        let mut memory = memory(4 << 20);
        let mut all_pages = 0;
        for seconds in [0.0, 0.25] {
            let (cost, found) = scan(&mut memory, &asked(seconds, None)).unwrap();
            let pages = cost.bytes / plimsoll_os::page_size() as u64;
            all_pages += pages;
            let scans = pages as f64 / memory.pages() as f64;
            assert!((found.values[finding::SCANS] - scans).abs() < 1e-9);
            let latencies = Latencies::from_text(&found.latency.unwrap()).unwrap();
            assert_eq!(latencies.count(), scans as u64, "whole scans have a latency");
            assert!(memory.restore().unwrap().1.holds());
        }
        assert!(all_pages > memory.pages(), "a quarter of a second is many scans");
    }

    #[test]
    fn each_rate_is_that_of_its_interval() {
        let mut memory = memory(1 << 20);
        let (_, found) = scan(&mut memory, &asked(0.52, None)).unwrap();
        let (rates, mean) = (&found.lists[finding::RATE], found.values[finding::RATE]);
        assert!((4..=6).contains(&rates.len()), "{rates:?}");
        let of_rates = rates.iter().sum::<f64>() / rates.len() as f64;
        assert!((of_rates / mean - 1.0).abs() < 0.5, "{rates:?} around {mean}");
    }

    #[test]
    fn a_scan_refuses_invalid_seconds() {
        let mut memory = memory(1 << 20);
        for seconds in [-1.0, f64::NAN, f64::INFINITY] {
            let error = scan(&mut memory, &asked(seconds, None)).unwrap_err();
            assert!(
                matches!(error, ScanError::Seconds(asked) if asked.to_bits() == seconds.to_bits()),
                "{error:?}"
            );
        }
    }

    #[test]
    fn a_manager_with_an_ample_cap_looks_and_trims_nothing() {
        let mut memory = memory(1 << 20);
        let (_, found) = scan(&mut memory, &asked(0.05, Some(1 << 40))).unwrap();
        assert!(found.values[finding::LOOKS] >= 1.0);
        assert_eq!(found.values[finding::TRIMMED], 0.0);
        assert!(memory.restore().unwrap().1.holds());
    }

    #[test]
    fn threads_scan_their_parts_and_the_counts_add_up() {
        let mut memory = memory_of(4 << 20, 3);
        for seconds in [0.0, 0.25] {
            let (cost, found) = scan(&mut memory, &asked(seconds, Some(1 << 40))).unwrap();
            let pages = cost.bytes / plimsoll_os::page_size() as u64;
            let scans = pages as f64 / memory.pages() as f64;
            assert!((found.values[finding::SCANS] - scans).abs() < 1e-9);
            assert!(found.values[finding::RATE] > 0.0);
            assert!(memory.restore().unwrap().1.holds());
        }
    }

    /// The budget caps the pager at once, and its end lets every page come back.
    #[test]
    fn a_budget_caps_the_scans_of_a_pager() {
        for options in ["pager:lz4", "pager:lz4,trim=per-fault"] {
            let mut memory = paged(16 << 20, FillClass::Ratio(4.0), options);
            let mut scanned = |ram: u64| {
                let pager = memory.pager().cloned().unwrap();
                let asked = Scan {
                    ram: Some(ram),
                    ..asked(0.3, None)
                };
                let (_, found) = scan(&mut memory, &asked).unwrap();
                assert_eq!(pager.stats().ram, 32 << 20, "{options}: the cap is gone");
                assert!(memory.in_core().unwrap() <= ram, "{options}");
                (found.values[finding::FAULTS], found.values[finding::SCANS])
            };
            let (uncapped, _) = scanned(32 << 20);
            let (capped, scans) = scanned(10 << 20);
            assert_eq!(uncapped, 0.0, "{options}");
            assert!(capped * scans > 0.0, "{options}");
            scanned(32 << 20);
            assert!(memory.restore().unwrap().1.holds(), "{options}");
            let small = scan(
                &mut memory,
                &Scan {
                    ram: Some(4096),
                    ..asked(0.0, None)
                },
            );
            assert!(matches!(small, Err(ScanError::Budget(BudgetError::Refused(_)))));
        }
    }

    /// The worker emptied the working set before the runner lifted the cap: with compressed data as large as the cap, 5% of the
    /// pages stayed resident.
    #[test]
    fn memory_is_emptied_without_the_cap_of_the_scan_before() {
        let bytes = 16 << 20;
        let mut memory = paged(bytes, FillClass::Ratio(2.0), "pager:lz4");
        let capped = Scan {
            ram: Some(bytes / 2),
            ..asked(0.1, None)
        };
        let (_, found) = scan(&mut memory, &capped).unwrap();
        assert!(found.values[OVER_BUDGET] > 0.0, "the store alone fills the cap");
        memory.trim().unwrap();
        assert_eq!(memory.in_core().unwrap(), 0);
        assert!(memory.restore().unwrap().1.holds());
    }

    #[test]
    fn rates_of_threads_add_up_and_the_slowest_ends_the_first_scan() {
        let thread = |rates: &[f64], first: Option<u64>| Counted {
            seconds: 2.0,
            rate: 3.0,
            pages: 10,
            first: first.map(Duration::from_millis),
            rates: rates.to_vec(),
            ..Counted::default()
        };
        let two = Counted::together(vec![
            thread(&[1.0, 2.0], Some(7)),
            thread(&[10.0, 20.0, 30.0], Some(9)),
        ]);
        assert_eq!(
            (two.rates, two.first),
            (vec![11.0, 22.0], Some(Duration::from_millis(9)))
        );
        assert_eq!((two.seconds, two.rate, two.pages), (4.0, 6.0, 20));
        let unended = Counted::together(vec![thread(&[1.0], None), thread(&[1.0], Some(9))]);
        assert_eq!(unended.first, None, "a part was not scanned to its end");
    }
}
