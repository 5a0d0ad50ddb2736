//! The policies: which candidates work, wait, lose pages or end.
//!
//! A policy is a state machine without access to the system. It sees the candidates once a second and returns orders.
//!
//! # A new policy
//!
//! 1. A variant of `GuardPolicy` in `scenario/guard_policy.rs` of `plimsoll-model`, with its name; also in `OF_TRIALS`, unless it
//!    ends processes or takes several cgroups.
//! 2. A file in this folder, its arm in this module, the reasons of its orders in `guard/decision.rs`.
//! 3. A row in `docs/src/guard.md`, and the table of keys of `docs/src/thrash.md`, which a test prints. If it is to be compared,
//!    its name in `scenarios/thrash-guard.toml`.

mod freeze_last;
mod kill;
mod packs;
mod relay;
mod swap_largest;
mod throttle;
mod token;
mod waiting;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_model::scenario::GuardPolicy;
use plimsoll_proc::ProcessId;

use super::order::{GroupId, Order};

/// A process that a policy may order about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: ProcessId,
    /// Bytes in RAM and in swap.
    pub(super) demand: u64,
    /// Bytes in RAM.
    pub(super) resident: u64,
    /// CPU time in user mode so far.
    pub(super) user_us: u64,
    /// All CPU time so far.
    pub(super) cpu_us: u64,
    /// Major faults so far.
    pub(super) faults: u64,
    /// Value of `oom_score_adj`.
    pub(super) oom_adjustment: i64,
    /// Its cgroup, if that may be throttled. Only the policy `throttle` has it.
    pub(super) group: Option<GroupId>,
}

/// One look at the candidates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Picture<'a> {
    pub(super) at: Duration,
    /// Bytes of RAM for all candidates together.
    pub(super) room: u64,
    /// Whether the last reading was one of thrashing.
    pub(super) is_pressed: bool,
    /// Ascending by id.
    pub(super) candidates: &'a [Candidate],
    /// Those that this guard has stopped.
    pub(super) stopped: &'a BTreeSet<ProcessId>,
    /// The cgroups that this guard has throttled.
    pub(super) throttled: &'a BTreeSet<GroupId>,
}

impl Picture<'_> {
    fn get(&self, id: ProcessId) -> Option<&Candidate> {
        let found = self
            .candidates
            .binary_search_by_key(&id, |candidate| candidate.id);
        found.ok().map(|at| &self.candidates[at])
    }

    fn demand(&self, id: ProcessId) -> u64 {
        self.get(id).map_or(0, |candidate| candidate.demand)
    }

    fn demand_of<'i>(&self, ids: impl IntoIterator<Item = &'i ProcessId>) -> u64 {
        ids.into_iter().map(|id| self.demand(*id)).sum()
    }

    /// Bytes up to which working processes are added: the rest is for growth, and for pages that reclaim has not freed yet.
    fn fill(&self) -> u64 {
        self.room / 100 * 92
    }

    fn running(&self) -> impl Iterator<Item = &Candidate> {
        self.candidates
            .iter()
            .filter(|candidate| !self.stopped.contains(&candidate.id))
    }
}

pub(super) trait Policy: std::fmt::Debug {
    fn step(&mut self, picture: &Picture<'_>) -> Vec<Order>;
}

/// Sorts candidates by a size, the largest first.
fn largest_first(candidates: &mut [&Candidate], size: fn(&Candidate) -> u64) {
    candidates.sort_unstable_by_key(|candidate| (Reverse(size(candidate)), candidate.id));
}

pub(super) fn begin(policy: GuardPolicy) -> Box<dyn Policy> {
    match policy {
        // The best of the measured ones: docs/src/guard.md.
        GuardPolicy::Auto | GuardPolicy::Relay => Box::<relay::Relay>::default(),
        GuardPolicy::Packs => Box::<packs::Packs>::default(),
        GuardPolicy::Token => Box::<token::Token>::default(),
        GuardPolicy::FreezeLast => Box::<freeze_last::FreezeLast>::default(),
        GuardPolicy::SwapLargest => Box::<swap_largest::SwapLargest>::default(),
        GuardPolicy::Throttle => Box::<throttle::Throttle>::default(),
        GuardPolicy::Kill => Box::<kill::Kill>::default(),
    }
}

/// Candidates for the tests of policies.
#[cfg(test)]
mod made_up {
    use super::super::order::Target;
    use super::*;

    pub(super) const MIB: u64 = 1 << 20;

    pub(super) fn id(pid: u32) -> ProcessId {
        ProcessId { pid, start_ticks: 1 }
    }

    pub(super) fn candidate(pid: u32, mib: u64) -> Candidate {
        Candidate {
            id: id(pid),
            demand: mib * MIB,
            resident: mib * MIB,
            user_us: 0,
            cpu_us: 0,
            faults: 0,
            oom_adjustment: 0,
            group: None,
        }
    }

    /// A machine that carries orders out at once.
    #[derive(Debug, Default)]
    pub(super) struct Machine {
        pub(super) candidates: Vec<Candidate>,
        pub(super) stopped: BTreeSet<ProcessId>,
        pub(super) throttled: BTreeSet<GroupId>,
        pub(super) room: u64,
        pub(super) is_pressed: bool,
    }

    impl Machine {
        pub(super) fn step(&mut self, policy: &mut dyn Policy, second: u64) -> Vec<Order> {
            let orders = policy.step(&Picture {
                at: Duration::from_secs(second),
                room: self.room,
                is_pressed: self.is_pressed,
                candidates: &self.candidates,
                stopped: &self.stopped,
                throttled: &self.throttled,
            });
            for order in &orders {
                let is_known = |one: &Candidate| match order.target() {
                    Target::Process(process) => one.id == process,
                    Target::Group(group) => one.group == Some(group),
                };
                assert!(self.candidates.iter().any(is_known), "{order:?}");
                match order {
                    Order::Stop { process, .. } => assert!(self.stopped.insert(*process), "{order:?}"),
                    Order::Continue { process, .. } => assert!(self.stopped.remove(process), "{order:?}"),
                    Order::Trim { .. } => {}
                    Order::Kill { process, .. } => self.candidates.retain(|one| one.id != *process),
                    Order::Throttle { group, .. } => _ = self.throttled.insert(*group),
                    Order::Unthrottle { group, .. } => assert!(self.throttled.remove(group), "{order:?}"),
                }
            }
            orders
        }

        pub(super) fn working(&self) -> Vec<u32> {
            let running = self
                .candidates
                .iter()
                .filter(|one| !self.stopped.contains(&one.id));
            running.map(|one| one.id.pid).collect()
        }
    }
}
