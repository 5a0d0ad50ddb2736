//! Processes take turns one by one: those that fit together work, the others wait, and every few seconds the one that has
//! worked longest makes room for the one that has waited longest. So one process at a time reads its pages back, while
//! the others work.

use std::collections::VecDeque;
use std::time::Duration;

use plimsoll_proc::ProcessId;

use super::{Picture, Policy, largest_first};
use crate::guard::order::{Order, Reason};

/// Time that a process works at a stretch, where the number of working ones allows it.
const TURN: Duration = Duration::from_secs(20);
/// Shortest time between two changes.
const LEAST: Duration = Duration::from_secs(2);
/// Part of its memory in percent that the last process must have read back before the next change, within its turn.
const RETURNED: u64 = 70;

#[derive(Debug, Default)]
pub(super) struct Relay {
    /// Working processes with the begin of their turn, the earliest first.
    working: VecDeque<(ProcessId, Duration)>,
    /// Stopped processes, the earliest first.
    waiting: VecDeque<ProcessId>,
    /// The last change; at first the first step.
    changed: Option<Duration>,
}

impl Policy for Relay {
    fn step(&mut self, picture: &Picture<'_>) -> Vec<Order> {
        self.working.retain(|(id, _)| picture.get(*id).is_some());
        self.waiting.retain(|id| picture.get(*id).is_some());
        let _ = self.changed.get_or_insert(picture.at);
        let mut orders = Vec::new();
        self.meet(picture, &mut orders);
        self.shrink(picture, &mut orders);
        self.fill(picture, &mut orders);
        if self.is_due(picture) {
            self.pass_on(picture, &mut orders);
        }
        orders
    }
}

impl Relay {
    fn used(&self, picture: &Picture<'_>) -> u64 {
        picture.demand_of(self.working.iter().map(|(id, _)| id))
    }

    /// A process larger than the room works alone.
    fn fits(&self, id: ProcessId, picture: &Picture<'_>) -> bool {
        let used = self.used(picture);
        used == 0 || used + picture.demand(id) <= picture.fill()
    }

    /// Takes in new candidates: those with the most pages in RAM work on.
    fn meet(&mut self, picture: &Picture<'_>, orders: &mut Vec<Order>) {
        let is_known = |relay: &Relay, id| {
            relay.working.iter().any(|(known, _)| *known == id) || relay.waiting.contains(&id)
        };
        let mut new: Vec<_> = picture
            .candidates
            .iter()
            .filter(|candidate| !is_known(self, candidate.id))
            .collect();
        largest_first(&mut new, |candidate| candidate.resident);
        for candidate in new {
            if self.fits(candidate.id, picture) {
                self.working.push_back((candidate.id, picture.at));
            } else {
                self.waiting.push_back(candidate.id);
                orders.push(Order::Stop {
                    process: candidate.id,
                    reason: Reason::NoRoom,
                });
            }
        }
    }

    /// Stops working processes until the rest fits.
    fn shrink(&mut self, picture: &Picture<'_>, orders: &mut Vec<Order>) {
        while self.working.len() > 1 && self.used(picture) > picture.room {
            self.stop_first(Reason::Grown, orders);
        }
    }

    /// Continues waiting processes that fit beside the working ones.
    fn fill(&mut self, picture: &Picture<'_>, orders: &mut Vec<Order>) {
        while let Some(id) = self.waiting.front().copied()
            && self.fits(id, picture)
        {
            self.continue_first(picture.at, Reason::Room, orders);
        }
    }

    /// Whether the next change is due: the turn of the process that has worked longest is over, and the last one that began
    /// has its pages back.
    fn is_due(&self, picture: &Picture<'_>) -> bool {
        let interval = (TURN / self.working.len().max(1) as u32).max(LEAST);
        let has_returned = |(id, since): &(ProcessId, Duration)| {
            picture.get(*id).is_none_or(|last| {
                last.resident / 100 >= last.demand / 10_000 * RETURNED
                    || picture.at.saturating_sub(*since) >= TURN
            })
        };
        !self.waiting.is_empty()
            && self
                .changed
                .is_none_or(|changed| picture.at.saturating_sub(changed) >= interval)
            && self.working.back().is_none_or(has_returned)
    }

    /// Makes room for the process that has waited longest.
    fn pass_on(&mut self, picture: &Picture<'_>, orders: &mut Vec<Order>) {
        let Some(next) = self.waiting.front().copied() else {
            return;
        };
        self.changed = Some(picture.at);
        while !self.working.is_empty() && !self.fits(next, picture) {
            self.stop_first(Reason::TurnOver, orders);
        }
        self.continue_first(picture.at, Reason::Turn, orders);
    }

    fn stop_first(&mut self, reason: Reason, orders: &mut Vec<Order>) {
        if let Some((process, _)) = self.working.pop_front() {
            self.waiting.push_back(process);
            // A new process may have been stopped and continued in the same step.
            orders.push(Order::Stop { process, reason });
        }
    }

    fn continue_first(&mut self, at: Duration, reason: Reason, orders: &mut Vec<Order>) {
        if let Some(process) = self.waiting.pop_front() {
            self.working.push_back((process, at));
            orders.push(Order::Continue { process, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::made_up::{MIB, Machine, candidate, id};
    use super::*;

    /// Twenty-five processes of 100 MiB in 1 GiB, as in e2.
    #[test]
    fn each_process_works_in_turn_and_one_changes_at_a_time() {
        let mut machine = Machine {
            candidates: (1..=25).map(|pid| candidate(pid, 100)).collect(),
            room: 1024 * MIB,
            is_pressed: true,
            ..Machine::default()
        };
        let mut relay = Relay::default();
        let mut worked: BTreeMap<u32, u64> = BTreeMap::new();
        for second in 0..600 {
            let orders = machine.step(&mut relay, second);
            assert!(second == 0 || orders.len() <= 2, "{second} s: {orders:?}");
            let working = machine.working();
            assert_eq!(working.len(), 9, "{second} s: {working:?}");
            for pid in working {
                *worked.entry(pid).or_default() += 1;
            }
        }
        let (least, most) = (worked.values().min().unwrap(), worked.values().max().unwrap());
        assert_eq!(worked.len(), 25);
        assert!(most - least <= 60, "{worked:?}");
    }

    #[test]
    fn a_process_that_reads_slowly_is_waited_for() {
        let mut machine = Machine {
            candidates: (1..=3).map(|pid| candidate(pid, 100)).collect(),
            room: 220 * MIB,
            ..Machine::default()
        };
        let mut relay = Relay::default();
        let mut at = 0;
        machine.step(&mut relay, at);
        while machine.stopped.contains(&id(3)) {
            at += 1;
            machine.step(&mut relay, at);
        }
        machine.candidates[2].resident = 10 * MIB;
        let begun = at;
        let first_change =
            (begun + 1..begun + 60).find(|second| !machine.step(&mut relay, *second).is_empty());
        assert_eq!(first_change, Some(begun + 20), "not before its turn is over");
    }

    #[test]
    fn growth_shrinkage_and_ends_change_the_working_processes() {
        let mut machine = Machine {
            candidates: (1..=4).map(|pid| candidate(pid, 40)).collect(),
            room: 100 * MIB,
            ..Machine::default()
        };
        let mut relay = Relay::default();
        machine.step(&mut relay, 0);
        assert_eq!(machine.working(), [1, 2]);
        machine.candidates[1].demand = 80 * MIB;
        machine.step(&mut relay, 1);
        assert_eq!(machine.working(), [2], "the earlier one makes room");
        machine.candidates.remove(1);
        machine.step(&mut relay, 2);
        assert_eq!(machine.working(), [3, 4]);
        machine.room = 1000 * MIB;
        machine.step(&mut relay, 3);
        assert!(machine.stopped.is_empty());
    }

    #[test]
    fn a_process_larger_than_the_room_works_alone_in_its_turn() {
        let mut machine = Machine {
            candidates: vec![candidate(1, 10), candidate(2, 20), candidate(3, 300)],
            room: 100 * MIB,
            ..Machine::default()
        };
        let mut relay = Relay::default();
        let mut seen = Vec::new();
        for second in 0..200 {
            machine.step(&mut relay, second);
            seen.push(machine.working());
        }
        assert!(seen.contains(&vec![3]) && seen.contains(&vec![1, 2]), "{seen:?}");
        assert!(
            !seen.contains(&vec![1, 3]) && !seen.contains(&vec![2, 3]),
            "{seen:?}"
        );
    }
}
