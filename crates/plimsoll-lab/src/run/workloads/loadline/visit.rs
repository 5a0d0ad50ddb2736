//! The runner's requests to a worker that visits its memory.

use serde::{Deserialize, Serialize};

use super::visitors::{Preparation, VisitError, Visitors};
use super::words::Pages;
use crate::workload::protocol::Reply;
use crate::workload::{Cost, Findings};
use crate::workload::{Memory, Work, WorkError, pager_since, typed};
use plimsoll_model::scenario::workloads::loadline::finding::FILE_IN_RAM;
use plimsoll_pager::Pager;

/// Requests, in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(super) enum Visit {
    /// Set the words of every page, measure the own cost, and visit for a while without counting latencies.
    Prepare(Preparation),
    /// Visit for so long, with the latency of every visit.
    Measure { seconds: f64 },
    /// Read every page: are all tags right, and do the counters sum to the visits that wrote?
    Check,
}

#[derive(Default)]
pub(in crate::run) struct Visits {
    /// The visitors, after `Prepare`.
    visitors: Option<Visitors>,
}

impl Work for Visits {
    fn carry_out(
        &mut self,
        request: &serde_json::Value,
        memory: Option<&mut Memory>,
    ) -> Result<Reply, WorkError> {
        let memory = memory.ok_or(WorkError::NothingFilled { action: "visit" })?;
        let found = self.visit(memory, &typed(request)?);
        let (cost, findings) = found.map_err(WorkError::of_workload)?;
        Ok(Reply::Found { cost, findings })
    }

    fn released(&mut self) {
        self.visitors = None;
    }
}

impl Visits {
    fn visit(&mut self, memory: &mut Memory, asked: &Visit) -> Result<(Cost, Findings), VisitError> {
        let pager = memory.pager().cloned();
        let whole = memory.whole_mut().ok_or(VisitError::Pieces)?;
        let pages = Pages::of(whole)?;
        match asked {
            Visit::Prepare(preparation) => {
                let (visitors, cost, findings) = Visitors::prepare(pages, preparation)?;
                self.visitors = Some(visitors);
                Ok((cost, findings))
            }
            Visit::Measure { seconds } => {
                let visitors = self.visitors.as_mut().ok_or(VisitError::Unprepared)?;
                let before = pager.as_ref().map(Pager::stats);
                let (cost, mut findings) = visitors.measure(pages, *seconds)?;
                if let Some((pager, before)) = pager.zip(before) {
                    pager_since(&before, &pager, &mut findings);
                }
                if let Some(bytes) = memory.file_in_core()? {
                    findings.set(FILE_IN_RAM, bytes as f64);
                }
                Ok((cost, findings))
            }
            Visit::Check => {
                let visitors = self.visitors.as_ref().ok_or(VisitError::Unprepared)?;
                Ok(visitors.check(pages))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::protocol::Placement;
    use crate::workload::{FillRequest, PagerBudget, PagerRequest};
    use plimsoll_model::scenario::workloads::finding::{OVER_BUDGET, PAGER_HARD_FAULTS, PAGER_STORE};
    use plimsoll_model::scenario::{FillClass, PagerOptions, Pattern, ThpMode};
    use plimsoll_os::page_size;

    /// Memory of `pages` pages, of which `of_file` are those of a file.
    fn filled(pages: usize, of_file: usize, request: usize) -> Memory {
        let bytes = |pages: usize| (pages * page_size()) as u64;
        let asked = FillRequest {
            bytes: bytes(pages),
            request: bytes(request),
            class: FillClass::Random,
            seed: 7,
            thp: ThpMode::System,
            placement: Placement {
                folder: "/var/tmp".into(),
                file_bytes: bytes(of_file),
                ..Placement::default()
            },
        };
        Memory::fill(&asked).expect("filled").0
    }

    fn prepare(pattern: Pattern) -> Visit {
        Visit::Prepare(Preparation {
            pattern,
            compute: 0.0,
            steps: None,
            warm_up: 0.002,
            seed: 7,
            threads: 2,
            write_percent: 50,
            rate: None,
        })
    }

    /// With any share of the file, each page of both parts is visited, counted and found again.
    #[test]
    fn pages_of_memory_and_of_a_file_are_visited_alike() {
        for of_file in [0, 1, 20, 39, 40] {
            for pattern in [Pattern::Uniform, Pattern::Sequential, Pattern::Chase] {
                let (mut memory, mut visits) = (filled(40, of_file, 40), Visits::default());
                let mut asked = |memory: &mut Memory, visit: &Visit| {
                    visits.visit(memory, visit).expect("visited").1.values
                };
                asked(&mut memory, &prepare(pattern));
                let (mut all, mut writes, mut rounds) = (0.0, 0.0, 0);
                // As often as it takes: on a busy machine, a thread may not run at all in this time.
                while all <= 40.0 || !all_counted(&mut memory, 40) {
                    let measured = asked(&mut memory, &Visit::Measure { seconds: 0.02 });
                    all += measured["visits"];
                    writes += measured["writes"];
                    let in_ram = (of_file > 0).then(|| (of_file * page_size()) as f64);
                    let found = measured.get(FILE_IN_RAM).copied();
                    assert_eq!(found, in_ram, "without pressure all of it");
                    rounds += 1;
                    assert!(rounds < 5000, "{of_file} {pattern:?}: {all} visits");
                }
                assert!(writes < all, "{writes} of {all}");
                let check = asked(&mut memory, &Visit::Check);
                assert_eq!((check["wrong_tags"], check["uncounted_visits"]), (0.0, 0.0));
            }
        }
    }

    fn all_counted(memory: &mut Memory, count: u64) -> bool {
        let pages = Pages::of(memory.whole_mut().expect("whole")).expect("pages");
        (0..count).all(|page| pages.words(page).counter() > 0)
    }

    /// Four times the budget: visits fault on the pager, and no page loses a tag or a count.
    #[test]
    fn pages_of_a_pager_are_visited_as_any_others() {
        let bytes = 16 << 20;
        for (options, budget, fits) in [("pager:lz4", 4 << 20, false), ("pager", 32 << 20, true)] {
            let asked = FillRequest {
                bytes,
                request: bytes,
                class: FillClass::Constant,
                seed: 7,
                thp: ThpMode::System,
                placement: Placement {
                    pager: Some(PagerRequest {
                        budget: PagerBudget::Own(budget),
                        bytes,
                        options: PagerOptions::of_text(options).expect("a pager").expect("options"),
                        folder: "/var/tmp".into(),
                    }),
                    ..Placement::default()
                },
            };
            let mut memory = Memory::fill(&asked).expect("filled").0;
            let mut visits = Visits::default();
            visits
                .visit(&mut memory, &prepare(Pattern::Uniform))
                .expect("prepared");
            let mut faults = 0.0;
            let mut rounds = 0;
            while rounds < 5 || (!fits && faults == 0.0) {
                let (_, found) = visits
                    .visit(&mut memory, &Visit::Measure { seconds: 0.02 })
                    .expect("measured");
                faults += found.values[PAGER_HARD_FAULTS];
                assert!(found.values[PAGER_STORE] > 0.0 && !found.values.contains_key(OVER_BUDGET));
                rounds += 1;
                assert!(rounds < 5000, "{options}: no fault");
            }
            assert_eq!(faults > 0.0, !fits, "{options}: {faults}");
            let (_, check) = visits.visit(&mut memory, &Visit::Check).expect("checked");
            assert_eq!(
                (check.values["wrong_tags"], check.values["uncounted_visits"]),
                (0.0, 0.0)
            );
        }
    }

    #[test]
    fn a_wrong_tag_of_a_file_page_is_found() {
        let (mut memory, mut visits) = (filled(10, 10, 10), Visits::default());
        visits
            .visit(&mut memory, &prepare(Pattern::Uniform))
            .expect("prepared");
        let whole = memory.whole_mut().expect("whole");
        assert!(whole.memory.is_empty());
        Pages::of(whole).expect("pages").words(3).set(99, 0);
        let (_, check) = visits.visit(&mut memory, &Visit::Check).expect("checked");
        assert_eq!(check.values["wrong_tags"], 1.0);
    }

    #[test]
    fn invalid_visits_are_refused() {
        let mut visits = Visits::default();
        let in_pieces = visits.visit(&mut filled(2, 0, 1), &prepare(Pattern::Uniform));
        assert!(matches!(in_pieces, Err(VisitError::Pieces)));
        let unprepared = visits.visit(&mut filled(1, 0, 1), &Visit::Check);
        assert!(matches!(unprepared, Err(VisitError::Unprepared)));
    }
}
