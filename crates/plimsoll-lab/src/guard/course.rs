//! The course of a guard: detect, measure, act, judge; lift and rest where a policy does not help.
//!
//! ```text
//!            thrashing                 5 s                 fits, or calm
//!   Calm ----------------> Measuring -------> Acting --------------------> Calm
//!     ^                     |    ^              | no gain
//!     +-------- calm -------+    +---- Resting <+   (the rest doubles each time)
//! ```
//!
//! [`Course::feel`] goes from `Calm` to `Measuring`, and back to `Calm`; [`Course::decide`] goes the other ways.

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_model::scenario::GuardPolicy;
use plimsoll_proc::ProcessId;

use super::decision::Event;
use super::detector::{Detector, Pressure};
use super::judge::{Span, Useful, helps};
use super::members::Look;
use super::order::{GroupId, Order, Reason, Target};
use super::policy::{Candidate, Picture, Policy, begin};

/// Time in which the work before a policy is measured.
const MEASURE: Duration = Duration::from_secs(5);
/// Time without a candidate after which a try ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that a policy gets before its work is measured: the first processes read their pages back.
const SETTLE: Duration = Duration::from_secs(15);
/// Time in which the work with a policy is measured.
const WINDOW: Duration = Duration::from_secs(20);
/// The first rest after a policy that did not help, and the longest.
const RESTS: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(960));
/// Time that a policy acts at a stretch: the processes may have changed.
const REVIEW: Duration = Duration::from_secs(600);
/// Share of the room below which a process is no candidate, as its inverse: a stop of it frees nothing.
const SMALL: u64 = 100;

#[derive(Debug)]
enum Phase {
    Calm,
    Measuring {
        since: Duration,
        /// `None` before the first look with candidates.
        span: Option<Span>,
    },
    Acting {
        policy: Box<dyn Policy>,
        since: Duration,
        /// CPUs of user time, and the stalls, before the policy.
        before: f64,
        stalls_before: f64,
        /// The interval that the next verdict is about.
        window: Option<Span>,
    },
    Resting {
        until: Duration,
    },
}

/// Orders and events of a look.
#[derive(Debug, Default)]
pub(super) struct Decided {
    pub(super) orders: Vec<Order>,
    pub(super) events: Vec<Event>,
}

#[derive(Debug)]
pub(super) struct Course {
    policy: GuardPolicy,
    dry_run: bool,
    detector: Detector,
    phase: Phase,
    pressure: Pressure,
    useful: Useful,
    /// Mean of the stalls of the last readings.
    stalls: f64,
    stopped: BTreeSet<ProcessId>,
    throttled: BTreeSet<GroupId>,
    rest: Duration,
}

impl Course {
    pub(super) fn new(policy: GuardPolicy, dry_run: bool) -> Course {
        Course {
            policy,
            dry_run,
            detector: Detector::default(),
            phase: Phase::Calm,
            pressure: Pressure::default(),
            useful: Useful::default(),
            stalls: 0.0,
            stopped: BTreeSet::new(),
            throttled: BTreeSet::new(),
            rest: RESTS.0,
        }
    }

    /// Whether nothing points to thrashing, so that only the pressure has to be read.
    pub(super) fn is_calm(&self) -> bool {
        matches!(self.phase, Phase::Calm) && !self.detector.is_rising()
    }

    pub(super) fn needs_look(&self) -> bool {
        matches!(self.phase, Phase::Measuring { .. } | Phase::Acting { .. })
    }

    /// Takes in a reading of the pressure.
    pub(super) fn feel(&mut self, at: Duration, pressure: Pressure) -> Vec<Event> {
        self.pressure = pressure;
        self.stalls = 0.8 * self.stalls + 0.2 * pressure.stalled;
        // While processes are held back, calm is the work of the policy.
        let change = match self.stopped.is_empty() && self.throttled.is_empty() {
            true => self.detector.take(at, pressure),
            false => {
                self.detector.skip();
                None
            }
        };
        match (change, &self.phase) {
            (Some(true), Phase::Calm) => {
                self.measure(at);
                vec![Event::Thrashing {
                    stalled: pressure.stalled,
                    refaults_per_s: pressure.refaults_per_s,
                }]
            }
            (Some(false), _) => {
                self.phase = Phase::Calm;
                self.rest = RESTS.0;
                vec![Event::Calm]
            }
            (_, Phase::Resting { until }) if at >= *until => {
                self.measure(at);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Begins to measure the work without a policy.
    fn measure(&mut self, at: Duration) {
        self.phase = Phase::Measuring {
            since: at,
            span: None,
        };
        self.useful = Useful::default();
    }

    /// Takes in that a process was not stopped, or a cgroup not throttled.
    pub(super) fn not_held(&mut self, target: Target) {
        match target {
            Target::Process(process) => self.stopped.remove(&process),
            Target::Group(group) => self.throttled.remove(&group),
        };
    }

    /// Decides on a look at the processes. The caller carries the orders out, in their order.
    pub(super) fn decide(&mut self, at: Duration, room: u64, look: &Look) -> Decided {
        let mut decided = Decided::default();
        let is_small = |one: &&Candidate| one.demand < room / SMALL;
        let small: u64 = look
            .candidates
            .iter()
            .filter(is_small)
            .map(|one| one.resident)
            .sum();
        let room = room.saturating_sub(small);
        let candidates = look.candidates.iter().filter(|one| !is_small(one)).copied();
        let mut candidates: Vec<Candidate> = candidates
            .map(|one| Candidate {
                group: one.group.filter(|group| look.groups.contains(group)),
                ..one
            })
            .collect();
        candidates.sort_unstable_by_key(|one| one.id);
        let candidates = &candidates;
        self.useful
            .take(candidates.iter().map(|one| (one.id, one.user_us)));
        self.release_exempt(look, &mut decided);
        match &self.phase {
            // The first look with candidates is the baseline of their work.
            Phase::Measuring { since, span: None } if !candidates.is_empty() => {
                self.phase = Phase::Measuring {
                    since: *since,
                    span: Some(Span::begin(at, &self.useful)),
                };
            }
            Phase::Measuring { since, span: None } if at.saturating_sub(*since) >= PATIENCE => {
                self.begin(at, room, 0.0, candidates, &mut decided);
            }
            Phase::Measuring { span: Some(span), .. } if span.length(at) >= MEASURE => {
                let before = span.rate(at, &self.useful);
                decided.events.push(Event::Measured { useful: before });
                self.begin(at, room, before, candidates, &mut decided);
            }
            _ => {}
        }
        if matches!(self.phase, Phase::Acting { .. }) {
            self.act(at, room, candidates, &mut decided);
        }
        decided
    }

    /// Continues stopped processes that are no candidates any more, and unthrottles such cgroups.
    fn release_exempt(&mut self, look: &Look, decided: &mut Decided) {
        let useful = &self.useful;
        self.stopped.retain(|process| {
            let stays = useful.has(*process);
            if !stays {
                decided.orders.push(Order::Continue {
                    process: *process,
                    reason: Reason::Exempt,
                });
            }
            stays
        });
        self.throttled.retain(|group| {
            let stays = look.groups.contains(group);
            if !stays {
                decided.orders.push(Order::Unthrottle {
                    group: *group,
                    reason: Reason::Exempt,
                });
            }
            stays
        });
    }

    /// Begins to act, or rests if no policy can help.
    fn begin(
        &mut self,
        at: Duration,
        room: u64,
        before: f64,
        candidates: &[Candidate],
        decided: &mut Decided,
    ) {
        let needed: u64 = candidates.iter().map(|candidate| candidate.demand).sum();
        let groups: BTreeSet<Option<GroupId>> = candidates.iter().map(|one| one.group).collect();
        let throttlable = groups.iter().flatten().count();
        // Another one must work meanwhile, if not after a kill.
        let can_hold = match self.policy {
            GuardPolicy::Kill => !candidates.is_empty(),
            GuardPolicy::Throttle => throttlable > 0 && groups.len() > 1,
            _ => candidates.len() > 1,
        };
        if !can_hold || needed <= room {
            decided.events.push(Event::Unfit {
                candidates: candidates.len(),
                cgroups: (self.policy == GuardPolicy::Throttle).then_some(throttlable),
                needed,
                room,
            });
            match candidates.is_empty() {
                // They may come at any time.
                true => self.rest_for(RESTS.0, at, decided),
                false => self.rest(at, decided),
            }
            return;
        }
        self.phase = Phase::Acting {
            policy: begin(self.policy),
            since: at,
            before,
            stalls_before: self.stalls,
            window: None,
        };
    }

    fn act(&mut self, at: Duration, room: u64, candidates: &[Candidate], decided: &mut Decided) {
        let needed: u64 = candidates.iter().map(|candidate| candidate.demand).sum();
        if needed <= room / 100 * 92 {
            self.lift(Reason::Over, decided);
            self.phase = Phase::Calm;
            self.detector = Detector::default();
            self.rest = RESTS.0;
            decided.events.push(Event::Calm);
            return;
        }
        if self.judge(at, decided) == Some(false) {
            self.lift(Reason::NoGain, decided);
            self.rest(at, decided);
            return;
        }
        let Phase::Acting { policy, since, .. } = &mut self.phase else {
            return;
        };
        if at.saturating_sub(*since) >= REVIEW {
            self.lift(Reason::Review, decided);
            self.measure(at);
            return;
        }
        let orders = policy.step(&Picture {
            at,
            room,
            is_pressed: self.pressure.is_high(),
            candidates,
            stopped: &self.stopped,
            throttled: &self.throttled,
        });
        let acts = !orders.is_empty();
        for order in orders {
            match order {
                Order::Stop { process, .. } => _ = self.stopped.insert(process),
                // The kernel refused its stop.
                Order::Continue { process, .. } if !self.stopped.remove(&process) => continue,
                Order::Throttle { group, .. } => _ = self.throttled.insert(group),
                Order::Unthrottle { group, .. } if !self.throttled.remove(&group) => continue,
                Order::Continue { .. } | Order::Unthrottle { .. } => {}
                Order::Trim { .. } | Order::Kill { .. } => {}
            }
            decided.orders.push(order);
        }
        if self.dry_run && acts {
            // Nothing is carried out, so that the next step would decide on a machine that is not there.
            self.stopped.clear();
            self.throttled.clear();
            self.rest(at, decided);
        }
    }

    /// The verdict, where one is due.
    fn judge(&mut self, at: Duration, decided: &mut Decided) -> Option<bool> {
        let Phase::Acting {
            since,
            before,
            stalls_before,
            window,
            ..
        } = &mut self.phase
        else {
            return None;
        };
        let Some(span) = *window else {
            if at.saturating_sub(*since) >= SETTLE {
                *window = Some(Span::begin(at, &self.useful));
            }
            return None;
        };
        if span.length(at) < WINDOW || self.policy == GuardPolicy::Kill {
            return None;
        }
        let with = span.rate(at, &self.useful);
        let helps = helps(*before, with, *stalls_before, self.stalls);
        *window = Some(Span::begin(at, &self.useful));
        decided.events.push(Event::Judged {
            before: *before,
            with,
            helps,
        });
        if helps {
            self.rest = RESTS.0;
        }
        Some(helps)
    }

    /// Continues all processes, and unthrottles all cgroups.
    fn lift(&mut self, reason: Reason, decided: &mut Decided) {
        let stopped = std::mem::take(&mut self.stopped).into_iter();
        let throttled = std::mem::take(&mut self.throttled).into_iter();
        let orders = stopped
            .map(|process| Order::Continue { process, reason })
            .chain(throttled.map(|group| Order::Unthrottle { group, reason }));
        decided.orders.extend(orders);
    }

    fn rest(&mut self, at: Duration, decided: &mut Decided) {
        self.rest_for(self.rest, at, decided);
        self.rest = (2 * self.rest).min(RESTS.1);
    }

    fn rest_for(&mut self, time: Duration, at: Duration, decided: &mut Decided) {
        self.phase = Phase::Resting { until: at + time };
        let seconds = time.as_secs_f64();
        decided.events.push(Event::Resting { seconds });
    }
}

#[cfg(test)]
mod tests;
