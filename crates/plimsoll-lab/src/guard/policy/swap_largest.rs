//! The largest process is stopped and its memory paged out, until the pressure is gone (the soft swap of Solaris). Without
//! pressure, the one that has waited longest returns.

use std::collections::VecDeque;
use std::time::Duration;

use plimsoll_proc::ProcessId;

use super::{Picture, Policy};
use crate::guard::order::{Order, Reason};

/// Time between two stops.
const INTERVAL: Duration = Duration::from_secs(5);
/// Longest wait of a process.
const LONGEST: Duration = Duration::from_secs(60);
/// Time without pressure until a process returns.
const CALM: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct SwapLargest {
    /// With the begin of its wait, the earliest first.
    stopped: VecDeque<(ProcessId, Duration)>,
    /// The last stop or return.
    changed: Option<Duration>,
    /// Begin of the time without pressure.
    calm: Option<Duration>,
}

impl Policy for SwapLargest {
    fn step(&mut self, picture: &Picture<'_>) -> Vec<Order> {
        self.stopped.retain(|(id, _)| picture.get(*id).is_some());
        self.calm = match picture.is_pressed {
            true => None,
            false => Some(self.calm.unwrap_or(picture.at)),
        };
        let passed = |since: Option<Duration>, time| {
            since.is_none_or(|since| picture.at.saturating_sub(since) >= time)
        };
        match self.calm {
            // Where the others have ended, no process would work.
            _ if picture.running().next().is_none() => self.bring_in(picture),
            // Other programs may keep up the pressure.
            _ if passed(
                self.stopped.front().map(|(_, since)| *since).or(Some(picture.at)),
                LONGEST,
            ) =>
            {
                self.bring_in(picture)
            }
            None if passed(self.changed, INTERVAL) => self.swap_out(picture),
            Some(since) if passed(Some(since), CALM) && passed(self.changed, CALM) => self.bring_in(picture),
            _ => Vec::new(),
        }
    }
}

impl SwapLargest {
    fn swap_out(&mut self, picture: &Picture<'_>) -> Vec<Order> {
        let largest = picture.running().max_by_key(|one| (one.demand, one.id));
        let Some(largest) = largest.filter(|_| picture.running().count() > 1) else {
            return Vec::new();
        };
        self.changed = Some(picture.at);
        self.stopped.push_back((largest.id, picture.at));
        let (process, reason) = (largest.id, Reason::Largest);
        let bytes = largest.resident;
        vec![
            Order::Stop { process, reason },
            Order::Trim {
                process,
                bytes,
                reason,
            },
        ]
    }

    fn bring_in(&mut self, picture: &Picture<'_>) -> Vec<Order> {
        let Some((process, _)) = self.stopped.pop_front() else {
            return Vec::new();
        };
        self.changed = Some(picture.at);
        vec![Order::Continue {
            process,
            reason: Reason::Relieved,
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{MIB, Machine, candidate};
    use super::*;

    #[test]
    fn the_largest_waits_until_the_pressure_is_gone() {
        let mut machine = Machine {
            candidates: vec![candidate(1, 10), candidate(2, 90), candidate(3, 50)],
            room: 50 * MIB,
            is_pressed: true,
            ..Machine::default()
        };
        let mut policy = SwapLargest::default();
        let mut working = Vec::new();
        for second in 0..40 {
            machine.is_pressed = machine.working().contains(&2);
            machine.step(&mut policy, second);
            working.push(machine.working());
        }
        assert_eq!(working[0], [1, 3]);
        assert_eq!(working[10], [1, 3]);
        let returned = working.iter().skip(1).position(|pids| pids.contains(&2));
        assert_eq!(returned, Some(10), "{working:?}");
    }
}
