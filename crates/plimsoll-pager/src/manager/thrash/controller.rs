//! The decisions of thrash control, from the counters of one interval after another: no clock, no input or output.
//!
//! ```text
//!                          enough thrashing intervals in a row
//!            +--------+ ----------------------------------------> +----------+
//!            |  calm  |   `detect`, then `begin` or `go_on`       |  trials  | <-+
//!            +--------+ <---------------------------------------- +----------+   |
//!                 ^          enough quiet intervals: `detect`          |         |
//!                 |                                          `next`: no measure  | `tick`: the hold
//!                 |                                          is left to be tried | is over
//!                 |    enough quiet intervals: `detect`                v         |
//!                 +--------------------------------------------- +----------+    |
//!                                                                |   hold   | ---+
//!                                                                +----------+
//! ```
//!
//! | state | measures in force |
//! |---|---|
//! | calm | none |
//! | trials | those that were kept, and in the phase *during* of a trial the one on trial |
//! | hold | those that were kept |
//!
//! A trial has three phases of the same length: *before*, *during* and *after* the measure is in force. The measure is kept
//! only if *during* costs less than both before and after by a margin: a load that changes meanwhile keeps nothing. Measures
//! are tried in the order of [`ThrashStep`]; a grown standby share that is kept is tried again one level larger. A hold is
//! twice as long as the one before, so that trials cost less and less.
//!
//! The cost is the time that all threads together lose: waits for evicted pages, work of the balance-set manager, and soft
//! faults at a share of the cost of the others. A measure that moves the loss from one of them to another is not kept. A
//! throttle has another cost, the faults of all other threads: it does not slow them, so that they can only have fewer if
//! their pages stay. The thread with the most faults is tried, then the second one, unless the two are alike. If the throttle
//! of either helps the others, both take turns: of two alike threads none is slowed for ever.
//!
//! Invariants, checked by the property tests in `tests`:
//! 1. The standby share has at most its last level; a delay is at most [`MOST_DELAY_US`].
//! 2. After [`QUIET_INTERVALS`] quiet intervals it is calm, and no measure is in force.
//! 3. The throttled thread had faults in the last interval, and so had others.
//! 4. Without the rule [`ThrashControl::On`] no trial takes place.

use super::census::Census;
use super::step::{Measures, ThrashControl, ThrashStep, Throttle};

/// The longest wait of a throttled thread at one fault.
pub(crate) const MOST_DELAY_US: u32 = 10_000;
/// The shortest: a sleep takes longer than that in any case.
const LEAST_DELAY_US: u32 = 20;

/// Thrashing: the threads lose this share of the time of a CPU, in percent, and this share of the refaults is near.
const THRASHING_PERCENT: u64 = 20;
const NEAR_PERCENT: u64 = 25;
/// Fewer refaults a second than this are no thrashing.
const LEAST_REFAULTS: u64 = 500;
/// Quiet: the threads lose less than this share of the time of a CPU, in percent.
const QUIET_PERCENT: u64 = 5;
/// Intervals in a row until thrashing begins, and until it ends.
pub(crate) const THRASHING_INTERVALS: u32 = 4;
pub(crate) const QUIET_INTERVALS: u32 = 8;

/// Intervals at the start of a phase that do not count, and those that do.
const SETTLING: u32 = 1;
const MEASURED: u32 = 3;
/// Percent by which less time has to be lost, and by which the other threads must have fewer faults.
const MARGIN_PERCENT: u64 = 4;
const THROTTLE_MARGIN_PERCENT: u64 = 20;
/// The first hold and the longest, in intervals.
const FIRST_HOLD: u32 = 64;
const LONGEST_HOLD: u32 = 2048;

/// The cost of a soft fault as percent of that of a hard one: 4.9 us of 6 to 8 us where both were measured.
const SOFT_PERCENT: u64 = 70;
/// Others need at least this share of the faults, in percent: without them no thread gains by a throttle.
const OTHERS_PERCENT: u64 = 1;

/// A thread with at least this percentage of another one's faults is like it.
const ALIKE_PERCENT: u64 = 75;

/// Standby frames of each level, in parts of all frames.
const STANDBY_LEVELS: [u8; 3] = [1, 3, 6];
/// Intervals after which the throttle goes to the other of two threads.
pub(crate) const TURN: u32 = 8;

/// The counters of one interval.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Interval {
    /// Its length.
    pub(crate) us: u64,
    /// Time that all threads waited for evicted pages.
    pub(crate) stall_us: u64,
    /// Time that throttled threads waited.
    pub(crate) throttled_us: u64,
    /// Time that the balance-set manager worked.
    pub(crate) balancer_us: u64,
    pub(crate) soft_faults: u64,
    pub(crate) hard_faults: u64,
    /// Pages that streams restored ahead of their faults.
    pub(crate) stream_pages: u64,
    /// Evicted pages that were restored.
    pub(crate) refaults: u64,
    /// Those of them that were evicted at most as many evictions ago as the pager has frames.
    pub(crate) near: u64,
    /// Faults on evicted pages by thread.
    pub(crate) census: Census,
    /// Whether measures can be taken: the pager keeps a stock of spare frames.
    pub(crate) can_act: bool,
}

impl Interval {
    /// Time that the program lost.
    fn lost_us(&self) -> u64 {
        let of_one = self.stall_us / self.hard_faults.max(1);
        let soft = self
            .soft_faults
            .saturating_mul(of_one)
            .saturating_mul(SOFT_PERCENT)
            / 100;
        let waits = self.stall_us.saturating_add(self.throttled_us);
        waits.saturating_add(self.balancer_us).saturating_add(soft)
    }

    fn is_above(&self, percent: u64) -> bool {
        let waits = self.stall_us.saturating_add(self.throttled_us);
        waits.saturating_mul(100) >= self.us.saturating_mul(percent)
    }

    fn is_thrashing(&self) -> bool {
        let is_often = self.refaults.saturating_mul(1_000_000) >= self.us.saturating_mul(LEAST_REFAULTS);
        let is_near = self.near.saturating_mul(100) >= self.refaults.saturating_mul(NEAR_PERCENT);
        is_often && is_near && self.is_above(THRASHING_PERCENT)
    }

    fn is_quiet(&self) -> bool {
        !self.is_above(QUIET_PERCENT)
    }

    /// The throttle of the thread with the most faults but `passed`: it waits as long as from one of its faults to the next.
    fn throttle(&self, passed: Option<usize>) -> Option<Throttle> {
        let (thread, faults) = self.census.worst_but(passed)?;
        let delay = u32::try_from(self.us / faults).unwrap_or(u32::MAX);
        let delay_us = delay.clamp(LEAST_DELAY_US, MOST_DELAY_US);
        self.allows_throttle_of(thread)
            .then_some(Throttle { thread, delay_us })
    }

    /// The throttle of the other thread with the most faults if it has about as many as this one.
    fn alike(&self, thread: usize) -> Option<Throttle> {
        let other = self.throttle(Some(thread))?;
        let faults = self.census.of(other.thread).saturating_mul(100);
        let is_alike = faults >= self.census.of(thread).saturating_mul(ALIKE_PERCENT);
        is_alike.then_some(other)
    }

    /// Whether a thread has faults, and others have some too.
    fn allows_throttle_of(&self, thread: usize) -> bool {
        let (own, all) = (self.census.of(thread), self.census.all());
        let others = all.saturating_sub(own);
        own > 0 && others > 0 && others.saturating_mul(100) >= all.saturating_mul(OTHERS_PERCENT)
    }
}

/// The outcome of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Decision {
    /// The measures to have in force.
    pub(crate) measures: Measures,
    /// The step to report.
    pub(crate) step: ThrashStep,
    /// Trials so far, and those of them whose measure was kept.
    pub(crate) trials: u64,
    pub(crate) kept: u64,
    /// Whether the next decision is due soon.
    pub(crate) is_at_work: bool,
}

/// The cost of some intervals.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    us: u64,
    cost: u64,
}

impl Cost {
    /// Whether it is below another one by a margin, for the same time.
    fn is_below(self, other: Cost, margin_percent: u64) -> bool {
        let product = |cost: u64, us: u64, percent: u64| {
            (u128::from(cost) * u128::from(us)).saturating_mul(percent.into())
        };
        product(self.cost, other.us, 100) < product(other.cost, self.us, 100 - margin_percent)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    During,
    After,
}

/// The trial of a measure.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// The step that the measure belongs to.
    of: ThrashStep,
    /// The measures in force in the phase *during*; none until the first interval is over.
    measures: Option<Measures>,
    phase: Phase,
    /// Intervals of the phase so far.
    intervals: u32,
    /// The cost of this phase so far, and of the phases before it.
    cost: Cost,
    before: Cost,
    during: Cost,
}

impl Trial {
    fn new(of: ThrashStep) -> Trial {
        Trial {
            of,
            measures: None,
            phase: Phase::Before,
            intervals: 0,
            cost: Cost::default(),
            before: Cost::default(),
            during: Cost::default(),
        }
    }

    /// Counts an interval of the phase. Returns whether the phase is over.
    fn measure(&mut self, interval: &Interval) -> bool {
        self.intervals += 1;
        if self.intervals > SETTLING {
            let throttle = self.measures.and_then(|measures| measures.throttle);
            let cost = match throttle.filter(|_| self.of == ThrashStep::Throttle) {
                Some(throttle) => interval.census.all() - interval.census.of(throttle.thread),
                None => interval.lost_us(),
            };
            self.cost.us = self.cost.us.saturating_add(interval.us);
            self.cost.cost = self.cost.cost.saturating_add(cost);
        }
        self.intervals == SETTLING + MEASURED
    }

    fn is_cheaper(&self, other: Cost) -> bool {
        let margin = match self.of {
            ThrashStep::Throttle => THROTTLE_MARGIN_PERCENT,
            _ => MARGIN_PERCENT,
        };
        self.during.is_below(other, margin)
    }

    /// Enters a phase. Returns the cost of the one before.
    fn enter(&mut self, phase: Phase) -> Cost {
        (self.phase, self.intervals) = (phase, 0);
        std::mem::take(&mut self.cost)
    }
}

#[derive(Debug, Clone, Copy)]
enum State {
    Calm,
    Trials(Trial),
    Hold { left: u32 },
}

/// The state machine.
#[derive(Debug)]
pub(crate) struct Controller {
    rule: ThrashControl,
    state: State,
    /// Whether it thrashes, and the intervals in a row that say otherwise.
    is_thrashing: bool,
    streak: u32,
    /// The measures that trials have kept, without the throttle.
    kept: Measures,
    /// The throttles that were tried, and whether each one was kept.
    throttles: [Option<(Throttle, bool)>; 2],
    /// Intervals of holds so far.
    held: u32,
    /// The length of the next hold.
    hold: u32,
    /// Intervals since it was calm again.
    calm: u32,
    trials: u64,
    successes: u64,
}

impl Controller {
    pub(crate) fn new(rule: ThrashControl) -> Controller {
        Controller {
            rule,
            state: State::Calm,
            is_thrashing: false,
            streak: 0,
            kept: Measures::default(),
            throttles: [None; 2],
            held: 0,
            hold: FIRST_HOLD,
            calm: u32::MAX,
            trials: 0,
            successes: 0,
        }
    }

    /// Decides after an interval.
    pub(crate) fn tick(&mut self, interval: &Interval) -> Decision {
        self.detect(interval);
        let measures = match self.rule {
            _ if !interval.can_act => Measures::default(),
            ThrashControl::Off => Measures::default(),
            ThrashControl::Fixed(step) => self.fixed(step, interval),
            ThrashControl::On => self.advance(interval),
        };
        let step = match measures.step() {
            ThrashStep::Thrashing if !self.is_thrashing => ThrashStep::Calm,
            step => step,
        };
        Decision {
            measures,
            step,
            trials: self.trials,
            kept: self.successes,
            is_at_work: match self.rule {
                ThrashControl::Off => false,
                ThrashControl::On => self.is_thrashing || self.streak > 0,
                ThrashControl::Fixed(_) => true,
            },
        }
    }

    /// Begins and ends thrashing.
    fn detect(&mut self, interval: &Interval) {
        let (is_other, needed) = match self.is_thrashing {
            false => (interval.is_thrashing(), THRASHING_INTERVALS),
            true => (interval.is_quiet(), QUIET_INTERVALS),
        };
        self.streak = if is_other { self.streak + 1 } else { 0 };
        self.calm = self.calm.saturating_add(1);
        if self.streak < needed {
            return;
        }
        self.streak = 0;
        self.is_thrashing = !self.is_thrashing;
        if !self.is_thrashing {
            self.state = State::Calm;
            self.calm = 0;
        } else if self.calm < self.hold {
            self.go_on();
        } else {
            self.hold = FIRST_HOLD;
            self.begin();
        }
    }

    /// After a short calm: the measures that were kept are in force again.
    fn go_on(&mut self) {
        self.state = State::Hold {
            left: self.hold - self.calm,
        };
    }

    /// Tries all measures, one after another.
    fn begin(&mut self) {
        (self.kept, self.throttles) = (Measures::default(), [None; 2]);
        self.state = State::Trials(Trial::new(ThrashStep::GrownStandby));
    }

    /// One interval of the rule [`ThrashControl::On`]. Returns the measures for the next one.
    fn advance(&mut self, interval: &Interval) -> Measures {
        match self.state {
            State::Calm => {}
            State::Hold { left: 0 } => self.begin(),
            State::Hold { left } => {
                self.held = self.held.wrapping_add(1);
                self.state = State::Hold { left: left - 1 };
            }
            State::Trials(trial) => self.state = self.try_on(trial, interval),
        }
        let mut measures = match self.state {
            State::Calm => Measures::default(),
            State::Trials(Trial {
                phase: Phase::During,
                measures: Some(measures),
                ..
            }) => measures,
            State::Trials(_) => self.kept,
            State::Hold { .. } => Measures {
                throttle: self.kept_throttle(),
                ..self.kept
            },
        };
        measures.throttle = measures
            .throttle
            .filter(|throttle| interval.allows_throttle_of(throttle.thread));
        measures
    }

    /// The throttle of a hold: of two that were kept, each has its turns.
    fn kept_throttle(&self) -> Option<Throttle> {
        let kept = |number: usize| {
            self.throttles[number]
                .filter(|(_, is_kept)| *is_kept)
                .map(|(throttle, _)| throttle)
        };
        match (kept(0), kept(1)) {
            (Some(first), Some(second)) if self.held / TURN % 2 == 1 => Some(Throttle {
                thread: second.thread,
                ..first
            }),
            (first, second) => first.or(second),
        }
    }

    /// The state after an interval of a trial.
    fn try_on(&mut self, mut trial: Trial, interval: &Interval) -> State {
        if trial.measures.is_none() {
            trial.measures = self.raised(trial.of, interval);
            if trial.measures.is_none() {
                return match trial.of {
                    ThrashStep::Throttle => self.hold(),
                    of => self.next(of, false),
                };
            }
        }
        if !trial.measure(interval) {
            return State::Trials(trial);
        }
        match trial.phase {
            Phase::Before => {
                trial.before = trial.enter(Phase::During);
                self.trials += 1;
            }
            Phase::During => {
                trial.during = trial.enter(Phase::After);
                if !trial.is_cheaper(trial.before) {
                    return self.end_trial(&trial, false, interval);
                }
            }
            Phase::After => return self.end_trial(&trial, trial.is_cheaper(trial.cost), interval),
        }
        State::Trials(trial)
    }

    /// The kept measures with that of a step raised by a level; none if it has no further one, or cannot be taken now.
    fn raised(&self, of: ThrashStep, interval: &Interval) -> Option<Measures> {
        let mut measures = self.kept;
        match of {
            ThrashStep::GrownStandby => {
                let further = STANDBY_LEVELS.into_iter().find(|level| *level > measures.standby);
                measures.standby = further?;
            }
            ThrashStep::NoReadAhead if interval.stream_pages == 0 => return None,
            ThrashStep::NoReadAhead => measures.no_read_ahead = true,
            _ => {
                let tried = self.throttles[0].map(|(throttle, _)| throttle.thread);
                measures.throttle = Some(interval.throttle(tried)?);
            }
        }
        Some(measures)
    }

    /// The state after a trial, whose last interval this was.
    fn end_trial(&mut self, trial: &Trial, is_kept: bool, interval: &Interval) -> State {
        self.successes += u64::from(is_kept);
        let measures = trial.measures.unwrap_or_default();
        if let Some(throttle) = measures.throttle {
            let free = usize::from(self.throttles[0].is_some());
            self.throttles[free] = Some((throttle, is_kept));
            if free == 0 && is_kept {
                self.throttles[1] = interval.alike(throttle.thread).map(|other| (other, true));
            }
        } else if is_kept {
            self.kept = measures;
        }
        self.next(trial.of, is_kept)
    }

    /// The state after a trial of a step that was kept or not.
    fn next(&mut self, of: ThrashStep, is_kept: bool) -> State {
        let next = match of {
            ThrashStep::GrownStandby if is_kept => ThrashStep::GrownStandby,
            ThrashStep::GrownStandby => ThrashStep::NoReadAhead,
            ThrashStep::NoReadAhead => ThrashStep::Throttle,
            // The thread with the most faults was tried, then the second one.
            _ if self.throttles[1].is_some() => return self.hold(),
            _ => ThrashStep::Throttle,
        };
        State::Trials(Trial::new(next))
    }

    fn hold(&mut self) -> State {
        let left = self.hold;
        self.hold = (self.hold * 2).min(LONGEST_HOLD);
        State::Hold { left }
    }

    /// The measures up to a step, whatever they cost.
    fn fixed(&mut self, step: ThrashStep, interval: &Interval) -> Measures {
        let former = self.kept.throttle;
        let former = former.filter(|throttle| interval.allows_throttle_of(throttle.thread));
        let throttle = former.or_else(|| interval.throttle(None));
        self.kept = Measures {
            standby: match step >= ThrashStep::GrownStandby {
                true => STANDBY_LEVELS[1],
                false => 0,
            },
            no_read_ahead: step >= ThrashStep::NoReadAhead,
            throttle: throttle.filter(|_| step >= ThrashStep::Throttle),
        };
        self.kept
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
