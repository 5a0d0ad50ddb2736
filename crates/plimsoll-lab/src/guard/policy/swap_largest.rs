//! The largest process is stopped and its memory paged out, until the pressure is gone (the soft swap of Solaris). Without
//! pressure, the one that has waited longest returns.

use plimsoll_proc::ProcessId;

use super::waiting::{Step, Waiting};
use super::{Picture, Policy};
use crate::guard::order::{Order, Reason};

#[derive(Debug, Default)]
pub(super) struct SwapLargest {
    waiting: Waiting<ProcessId>,
}

impl Policy for SwapLargest {
    fn step(&mut self, picture: &Picture<'_>) -> Vec<Order> {
        let works = picture.running().next().is_some();
        let waits = |id| picture.get(id).is_some();
        match self.waiting.step(picture.at, picture.is_pressed, works, waits) {
            Step::Hold => self.swap_out(picture),
            Step::Return(process) => vec![Order::Continue {
                process,
                reason: Reason::Relieved,
            }],
            Step::Stay => Vec::new(),
        }
    }
}

impl SwapLargest {
    fn swap_out(&mut self, picture: &Picture<'_>) -> Vec<Order> {
        let largest = picture.running().max_by_key(|one| (one.demand, one.id));
        let Some(largest) = largest.filter(|_| picture.running().count() > 1) else {
            return Vec::new();
        };
        self.waiting.hold(largest.id, picture.at);
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
