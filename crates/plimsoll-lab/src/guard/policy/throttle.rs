//! The cgroup whose processes need most is throttled under pressure, until the pressure is gone: its processes get little
//! CPU time, and most of its memory goes to swap. Without pressure, the one that has waited longest returns. The demand of the
//! one that was throttled last counts by half, so that cgroups of similar demand take turns.

use std::collections::BTreeMap;

use super::waiting::{Step, Waiting};
use super::{Candidate, Picture, Policy};
use crate::guard::order::{GroupId, Order, Reason};

#[derive(Debug, Default)]
pub(super) struct Throttle {
    waiting: Waiting<GroupId>,
    last: Option<GroupId>,
}

impl Policy for Throttle {
    fn step(&mut self, picture: &Picture<'_>) -> Vec<Order> {
        let is_throttled = |group: GroupId| picture.throttled.contains(&group);
        // A candidate whose cgroup is not throttled, because it may not be, works too.
        let mut working = picture
            .candidates
            .iter()
            .filter(|one| !one.group.is_some_and(is_throttled));
        let works = working.next().is_some();
        match self
            .waiting
            .step(picture.at, picture.is_pressed, works, is_throttled)
        {
            Step::Hold => self.throttle(picture),
            Step::Return(group) => vec![Order::Unthrottle {
                group,
                reason: Reason::Relieved,
            }],
            Step::Stay => go_on(picture),
        }
    }
}

impl Throttle {
    fn throttle(&mut self, picture: &Picture<'_>) -> Vec<Order> {
        let is_free = |one: &&Candidate| !one.group.is_some_and(|group| picture.throttled.contains(&group));
        let free: Vec<&Candidate> = picture.candidates.iter().filter(is_free).collect();
        let mut demands: BTreeMap<GroupId, u64> = BTreeMap::new();
        for (group, one) in free.iter().filter_map(|one| Some((one.group?, one))) {
            *demands.entry(group).or_default() += one.demand;
        }
        let weight = |(group, demand): &(GroupId, u64)| match self.last == Some(*group) {
            true => (demand / 2, *group),
            false => (*demand, *group),
        };
        match demands.into_iter().max_by_key(weight) {
            Some((group, _)) if free.iter().any(|one| one.group != Some(group)) => {
                self.waiting.hold(group, picture.at);
                self.last = Some(group);
                vec![order(group)]
            }
            _ => go_on(picture),
        }
    }
}

/// Goes on with the reclaim: an order reclaims for a bounded time.
fn go_on(picture: &Picture<'_>) -> Vec<Order> {
    picture.throttled.iter().map(|group| order(*group)).collect()
}

fn order(group: GroupId) -> Order {
    Order::Throttle {
        group,
        reason: Reason::Largest,
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{MIB, Machine, candidate};
    use super::*;

    fn member(pid: u32, mib: u64, group: Option<GroupId>) -> Candidate {
        Candidate {
            group,
            ..candidate(pid, mib)
        }
    }

    #[test]
    fn the_largest_cgroup_is_throttled_until_the_pressure_is_gone() {
        let mut machine = Machine {
            candidates: vec![
                member(1, 30, Some(7)),
                member(2, 30, Some(7)),
                member(3, 50, Some(8)),
                member(4, 90, None),
            ],
            room: 100 * MIB,
            is_pressed: true,
            ..Machine::default()
        };
        let mut policy = Throttle::default();
        assert_eq!(machine.step(&mut policy, 0), [order(7)]);
        assert!(machine.throttled.contains(&7));
        machine.is_pressed = false;
        assert_eq!(machine.step(&mut policy, 1), [order(7)], "the reclaim goes on");
        let back = Order::Unthrottle {
            group: 7,
            reason: Reason::Relieved,
        };
        let returned = (2..20).find(|second| machine.step(&mut policy, *second) == [back]);
        assert_eq!(returned, Some(11));
        assert!(machine.throttled.is_empty());
    }

    #[test]
    fn the_last_cgroup_works_on() {
        let mut machine = Machine {
            candidates: vec![member(1, 30, Some(7)), member(2, 30, Some(8))],
            room: 10 * MIB,
            is_pressed: true,
            ..Machine::default()
        };
        let mut policy = Throttle::default();
        let numbers: Vec<usize> = (0..200)
            .map(|second| {
                machine.step(&mut policy, second);
                machine.throttled.len()
            })
            .collect();
        assert_eq!((numbers.iter().min(), numbers.iter().max()), (Some(&0), Some(&1)));
    }

    #[test]
    fn cgroups_of_similar_demand_take_turns() {
        let mut machine = Machine {
            candidates: vec![
                member(1, 30, Some(7)),
                member(2, 40, Some(8)),
                member(3, 10, Some(9)),
            ],
            room: 50 * MIB,
            ..Machine::default()
        };
        let mut policy = Throttle::default();
        let mut throttled = Vec::new();
        for second in 0..120 {
            machine.is_pressed = machine.throttled.is_empty();
            let was_free = machine.throttled.is_empty();
            machine.step(&mut policy, second);
            throttled.extend(machine.throttled.first().copied().filter(|_| was_free));
        }
        assert!(throttled.len() > 4, "{throttled:?}");
        assert!(
            throttled.chunks_exact(2).all(|turns| turns == [8, 7]),
            "{throttled:?}"
        );
    }
}
