//! The process that became active last is stopped for 20 seconds, and its pages go (FreeBSD). If the pressure stays, the next
//! one follows.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_proc::ProcessId;

use super::{Candidate, Picture, Policy};
use crate::guard::order::{Order, Reason};

/// Time that a process is stopped.
const STOPPED: Duration = Duration::from_secs(20);
/// Time between two stops: the pressure has to show the effect of the one before.
const INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct FreezeLast {
    stopped: BTreeMap<ProcessId, Duration>,
    last: Option<Duration>,
    /// CPU time at the last look.
    cpu: BTreeMap<ProcessId, u64>,
}

impl Policy for FreezeLast {
    fn step(&mut self, picture: &Picture<'_>) -> Vec<Order> {
        self.stopped.retain(|id, _| picture.get(*id).is_some());
        let mut orders = Vec::new();
        // Where the others have ended, no process would work.
        let first = match picture.running().next() {
            Some(_) => None,
            None => self.stopped.iter().min_by_key(|(_, since)| **since),
        };
        let first = first.map(|(id, _)| *id);
        self.stopped.retain(|id, since| {
            let is_over = picture.at.saturating_sub(*since) >= STOPPED || first == Some(*id);
            if is_over {
                orders.push(Order::Continue {
                    process: *id,
                    reason: Reason::TurnOver,
                });
            }
            !is_over
        });
        let is_due = self
            .last
            .is_none_or(|last| picture.at.saturating_sub(last) >= INTERVAL);
        let next = self.last_active(picture);
        if let Some(last) = next.filter(|_| picture.is_pressed && is_due) {
            self.last = Some(picture.at);
            self.stopped.insert(last.id, picture.at);
            let (process, reason) = (last.id, Reason::LastActive);
            orders.push(Order::Stop { process, reason });
            orders.push(Order::Trim {
                process,
                bytes: last.resident,
                reason,
            });
        }
        self.cpu = picture
            .candidates
            .iter()
            .map(|candidate| (candidate.id, candidate.cpu_us))
            .collect();
        orders
    }
}

impl FreezeLast {
    /// Of the processes that used the CPU since the last look, the youngest. None if it is the only one that runs.
    fn last_active<'p>(&self, picture: &Picture<'p>) -> Option<&'p Candidate> {
        let candidates = picture.candidates.iter();
        let running: Vec<&Candidate> = candidates
            .filter(|candidate| !picture.stopped.contains(&candidate.id))
            .collect();
        if running.len() < 2 {
            return None;
        }
        let was_active = |candidate: &Candidate| {
            let before = self.cpu.get(&candidate.id);
            before.is_none_or(|before| candidate.cpu_us > *before)
        };
        running
            .into_iter()
            .max_by_key(|candidate| (was_active(candidate), candidate.id.start_ticks, candidate.id.pid))
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{MIB, Machine, candidate};
    use super::*;

    #[test]
    fn processes_are_stopped_until_the_pressure_is_gone_and_return_after_20_s() {
        let mut machine = Machine {
            candidates: (1..=4).map(|pid| candidate(pid, 100)).collect(),
            room: 150 * MIB,
            is_pressed: true,
            ..Machine::default()
        };
        let mut policy = FreezeLast::default();
        let mut working = Vec::new();
        for second in 0..30 {
            machine.is_pressed = machine.stopped.len() < 2;
            // The third one rests.
            for candidate in machine.candidates.iter_mut().filter(|one| one.id.pid != 3) {
                candidate.cpu_us += 1;
            }
            machine.step(&mut policy, second);
            working.push(machine.working().len());
        }
        assert_eq!(working[0..3], [3, 3, 2]);
        assert!(working[3..20].iter().all(|number| *number == 2), "{working:?}");
        assert!(!machine.stopped.iter().any(|id| id.pid == 3), "it was not active");
    }

    #[test]
    fn the_only_process_works_on() {
        let mut machine = Machine {
            candidates: vec![candidate(1, 100)],
            room: 50 * MIB,
            is_pressed: true,
            ..Machine::default()
        };
        assert_eq!(machine.step(&mut FreezeLast::default(), 0), []);
    }
}
