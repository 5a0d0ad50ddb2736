//! Packs of processes that fit together take turns (Reuven and Wiseman, 2006). First-fit decreasing fills the packs anew in
//! each round.

use std::collections::VecDeque;
use std::time::Duration;

use plimsoll_proc::ProcessId;

use super::{Picture, Policy, largest_first};
use crate::guard::order::{Order, Reason};

/// Time that a pack works.
const TURN: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub(super) struct Packs {
    working: Vec<ProcessId>,
    /// The packs that follow in this round.
    waiting: VecDeque<Vec<ProcessId>>,
    /// The processes that had their turn in this round.
    worked: Vec<ProcessId>,
    since: Option<Duration>,
}

impl Policy for Packs {
    fn step(&mut self, picture: &Picture<'_>) -> Vec<Order> {
        self.working.retain(|id| picture.get(*id).is_some());
        for pack in &mut self.waiting {
            pack.retain(|id| picture.get(*id).is_some());
        }
        self.waiting.retain(|pack| !pack.is_empty());
        self.meet(picture);
        let is_over = |since: Duration| picture.at.saturating_sub(since) >= TURN;
        if self.working.is_empty() || self.since.is_none_or(is_over) {
            self.turn(picture);
        }
        self.orders(picture)
    }
}

impl Packs {
    /// Adds new candidates to a pack with room. A pack that has grown loses its last processes.
    fn meet(&mut self, picture: &Picture<'_>) {
        while self.working.len() > 1 && picture.demand_of(&self.working) > picture.room {
            self.waiting.extend(self.working.pop().map(|id| vec![id]));
        }
        if self.since.is_none() {
            return;
        }
        for candidate in picture.candidates {
            let id = candidate.id;
            let is_known = self.working.contains(&id) || self.worked.contains(&id);
            if !is_known && !self.waiting.iter().any(|pack| pack.contains(&id)) {
                let packs = std::iter::once(&mut self.working).chain(&mut self.waiting);
                let mut packs: Vec<&mut Vec<ProcessId>> = packs.collect();
                match place(id, &mut packs, picture) {
                    true => {}
                    false => self.waiting.push_back(vec![id]),
                }
            }
        }
    }

    fn turn(&mut self, picture: &Picture<'_>) {
        self.since = Some(picture.at);
        self.worked.extend_from_slice(&self.working);
        if self.waiting.is_empty() {
            self.worked.clear();
            self.waiting = pack(picture);
            // In the next round the same first pack would work twice in a row.
            if self.waiting.len() > 1 && self.waiting.front() == Some(&self.working) {
                self.waiting.rotate_left(1);
            }
        }
        self.working = self.waiting.pop_front().unwrap_or_default();
    }

    fn orders(&self, picture: &Picture<'_>) -> Vec<Order> {
        let orders = picture.candidates.iter().filter_map(|candidate| {
            let process = candidate.id;
            let works = self.working.contains(&process);
            match (works, picture.stopped.contains(&process)) {
                (true, true) => Some(Order::Continue {
                    process,
                    reason: Reason::Turn,
                }),
                (false, false) => Some(Order::Stop {
                    process,
                    reason: Reason::NoRoom,
                }),
                _ => None,
            }
        });
        orders.collect()
    }
}

/// Puts a candidate into the first pack with room for it.
fn place(id: ProcessId, packs: &mut [&mut Vec<ProcessId>], picture: &Picture<'_>) -> bool {
    let demand = picture.demand(id);
    let found = packs
        .iter_mut()
        .find(|pack| picture.demand_of(pack.iter()) + demand <= picture.fill());
    found.map(|pack| pack.push(id)).is_some()
}

/// Packs of all candidates by first-fit decreasing.
fn pack(picture: &Picture<'_>) -> VecDeque<Vec<ProcessId>> {
    let mut candidates: Vec<_> = picture.candidates.iter().collect();
    largest_first(&mut candidates, |candidate| candidate.demand);
    let mut packs: VecDeque<Vec<ProcessId>> = VecDeque::new();
    for candidate in candidates {
        let mut known: Vec<&mut Vec<ProcessId>> = packs.iter_mut().collect();
        if !place(candidate.id, &mut known, picture) {
            packs.push_back(vec![candidate.id]);
        }
    }
    packs
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{MIB, Machine, candidate};
    use super::*;

    #[test]
    fn packs_fit_and_each_process_has_a_turn_in_each_round() {
        let sizes = [60, 50, 40, 30, 20, 20, 10, 150];
        let mut machine = Machine {
            candidates: (1..).zip(sizes).map(|(pid, mib)| candidate(pid, mib)).collect(),
            room: 110 * MIB,
            ..Machine::default()
        };
        let mut packs = Packs::default();
        let mut seen: Vec<Vec<u32>> = Vec::new();
        for second in 0..240 {
            machine.step(&mut packs, second);
            let working = machine.working();
            let size: u64 = working.iter().map(|pid| sizes[*pid as usize - 1]).sum();
            assert!(size <= 110 || working.len() == 1, "{working:?}");
            if seen.last() != Some(&working) {
                seen.push(working);
            }
        }
        // 150; 60 and 40; 50, 30 and 20; 20 and 10.
        let round: Vec<Vec<u32>> = vec![vec![8], vec![1, 3], vec![2, 4, 5], vec![6, 7]];
        assert_eq!(seen[..4], round);
        assert_eq!(seen.len(), 12, "a turn lasts 20 s: {seen:?}");
    }

    #[test]
    fn newcomers_and_growth_do_not_overfill_a_pack() {
        let mut machine = Machine {
            candidates: (1..=4).map(|pid| candidate(pid, 45)).collect(),
            room: 100 * MIB,
            ..Machine::default()
        };
        let mut packs = Packs::default();
        machine.step(&mut packs, 0);
        assert_eq!(machine.working(), [1, 2]);
        machine.candidates.push(candidate(5, 45));
        machine.candidates[0].demand = 60 * MIB;
        machine.step(&mut packs, 1);
        assert_eq!(machine.working(), [1]);
        machine.candidates.clear();
        machine.stopped.clear();
        machine.step(&mut packs, 2);
        machine.candidates.push(candidate(9, 45));
        machine.step(&mut packs, 3);
        assert_eq!(machine.working(), [9]);
    }
}
