//! One process is spared, the others lose pages (the thrashing protection facility of Jiang and Zhang, 2002).
//!
//! For each fault the kernel reclaims pages in its own order, also pages of the spared process. So the guard pages out as
//! much of the other processes as the holder of the token has to read back.

use std::collections::VecDeque;
use std::time::Duration;

use plimsoll_proc::ProcessId;

use super::{Candidate, Picture, Policy, largest_first};
use crate::guard::order::{Order, Reason};

/// Time that a process keeps the token at least, and at most.
const KEEP: Duration = Duration::from_secs(5);
const MOST: Duration = Duration::from_secs(20);
/// Bytes that are paged out in one step at most: about a second of one CPU.
const STEP: u64 = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct Token {
    holder: Option<Holder>,
    /// Processes that had it, the latest last.
    recent: VecDeque<ProcessId>,
}

#[derive(Debug, Clone, Copy)]
struct Holder {
    id: ProcessId,
    since: Duration,
    /// Its major faults at the last look.
    faults: u64,
}

impl Policy for Token {
    fn step(&mut self, picture: &Picture<'_>) -> Vec<Order> {
        self.recent.retain(|id| picture.get(*id).is_some());
        self.keep_or_elect(picture);
        let holder = self.holder.and_then(|holder| picture.get(holder.id));
        match holder.filter(|_| picture.is_pressed) {
            Some(holder) => make_room(holder, picture),
            None => Vec::new(),
        }
    }
}

impl Token {
    fn keep_or_elect(&mut self, picture: &Picture<'_>) {
        if let Some(holder) = &mut self.holder
            && let Some(now) = picture.get(holder.id)
        {
            let held = picture.at.saturating_sub(holder.since);
            let faulted = now.faults > holder.faults;
            holder.faults = now.faults;
            // A holder that faults no more needs the token no more.
            if held < KEEP || (faulted && held < MOST) {
                return;
            }
        }
        // The process that never had it, or had it longest ago.
        let rank = |candidate: &&Candidate| {
            let had = self.recent.iter().position(|id| *id == candidate.id);
            (had.map_or(0, |position| position + 1), candidate.id)
        };
        let Some(next) = picture.running().min_by_key(rank) else {
            self.holder = None;
            return;
        };
        self.recent.retain(|id| *id != next.id);
        self.recent.push_back(next.id);
        self.holder = Some(Holder {
            id: next.id,
            since: picture.at,
            faults: next.faults,
        });
    }
}

/// Pages others out, the largest first, by as much as the holder lacks.
fn make_room(holder: &Candidate, picture: &Picture<'_>) -> Vec<Order> {
    let mut lacking = holder.demand.saturating_sub(holder.resident).min(STEP);
    let mut others: Vec<_> = picture
        .running()
        .filter(|candidate| candidate.id != holder.id)
        .collect();
    largest_first(&mut others, |candidate| candidate.resident);
    let mut orders = Vec::new();
    for other in others {
        let bytes = lacking.min(other.resident);
        if bytes == 0 {
            break;
        }
        lacking -= bytes;
        orders.push(Order::Trim {
            process: other.id,
            bytes,
            reason: Reason::Token,
        });
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{MIB, Machine, candidate, id};
    use super::*;
    use crate::guard::order::Target;

    #[test]
    fn the_holder_is_spared_and_each_process_holds_in_turn() {
        let mut machine = Machine {
            candidates: (1..=3).map(|pid| candidate(pid, 100)).collect(),
            room: 150 * MIB,
            is_pressed: true,
            ..Machine::default()
        };
        for candidate in &mut machine.candidates {
            candidate.resident = 50 * MIB;
        }
        let mut token = Token::default();
        let mut holders = Vec::new();
        for second in 0..70 {
            let orders = machine.step(&mut token, second);
            let holder = token.holder.unwrap().id;
            assert!(
                !orders.is_empty()
                    && orders
                        .iter()
                        .all(|order| order.target() != Target::Process(holder))
            );
            let bytes = |order: &Order| match order {
                Order::Trim { bytes, .. } => *bytes,
                other => panic!("{other:?}"),
            };
            assert_eq!(orders.iter().map(bytes).sum::<u64>(), 50 * MIB);
            if holders.last() != Some(&holder.pid) {
                holders.push(holder.pid);
            }
            for candidate in &mut machine.candidates {
                candidate.faults += 1;
            }
        }
        assert_eq!(holders, [1, 2, 3, 1]);
    }

    #[test]
    fn a_holder_without_faults_passes_the_token_on_early() {
        let mut machine = Machine {
            candidates: (1..=2).map(|pid| candidate(pid, 100)).collect(),
            room: 150 * MIB,
            ..Machine::default()
        };
        let mut token = Token::default();
        for second in 0..5 {
            assert_eq!(machine.step(&mut token, second), [], "no pressure");
        }
        assert_eq!(token.holder.unwrap().id, id(1));
        machine.step(&mut token, 5);
        assert_eq!(token.holder.unwrap().id, id(2));
    }
}
