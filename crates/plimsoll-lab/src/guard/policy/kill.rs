//! The last resort: a process is killed whose end frees most and loses least.

use std::time::Duration;

use super::{Candidate, Picture, Policy};
use crate::guard::order::{Order, Reason};

/// Time of pressure without a break until the first kill, and between two.
const PATIENCE: Duration = Duration::from_secs(30);
/// CPU time whose loss weighs as much as a half of the memory.
const WORK: f64 = 60e6;

#[derive(Debug, Default)]
pub(super) struct Kill {
    /// Begin of the pressure, or the last kill.
    since: Option<Duration>,
}

impl Policy for Kill {
    fn step(&mut self, picture: &Picture<'_>) -> Vec<Order> {
        if !picture.is_pressed {
            self.since = None;
            return Vec::new();
        }
        let since = *self.since.get_or_insert(picture.at);
        if picture.at.saturating_sub(since) < PATIENCE {
            return Vec::new();
        }
        let victim = picture
            .candidates
            .iter()
            .max_by(|one, other| weight(one).total_cmp(&weight(other)));
        let Some(victim) = victim else { return Vec::new() };
        self.since = Some(picture.at);
        vec![Order::Kill {
            process: victim.id,
            reason: Reason::BestVictim,
        }]
    }
}

/// Bytes that the end of a process frees, less the more work it has done and the lower its `oom_score_adj` is.
fn weight(candidate: &Candidate) -> f64 {
    let share = (1000 + candidate.oom_adjustment.clamp(-1000, 1000)) as f64 / 1000.0;
    candidate.demand as f64 * share / (1.0 + candidate.cpu_us as f64 / WORK)
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{MIB, Machine, candidate, id};
    use super::*;
    use crate::guard::order::Target;

    #[test]
    fn a_kill_follows_lasting_pressure_and_takes_the_best_victim() {
        let mut machine = Machine {
            candidates: vec![candidate(1, 100), candidate(2, 90), candidate(3, 80)],
            room: 50 * MIB,
            ..Machine::default()
        };
        // The largest has worked for an hour; the next is wanted by its administrator.
        machine.candidates[0].cpu_us = 3_600_000_000;
        machine.candidates[1].oom_adjustment = -900;
        let mut policy = Kill::default();
        for second in 0..200 {
            // A break before each half minute is over.
            machine.is_pressed = second % 20 != 0;
            assert_eq!(machine.step(&mut policy, second), []);
        }
        machine.is_pressed = true;
        let killed = (200..).find_map(|second| Some((second, *machine.step(&mut policy, second).first()?)));
        let (second, order) = killed.unwrap();
        assert_eq!((second, order.target()), (211, Target::Process(id(3))));
        for second in second + 1..second + 30 {
            assert_eq!(machine.step(&mut policy, second), []);
        }
        assert_eq!(machine.step(&mut policy, second + 30).len(), 1);
    }
}
