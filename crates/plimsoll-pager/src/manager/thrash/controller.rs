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
//! only if less time is lost *during* than both before and after by a margin: a load that changes meanwhile keeps nothing.
//! Measures are tried in the order of [`ThrashStep`]; one that is kept is tried again with its next level. A hold is twice as
//! long as the one before, so that trials cost less and less.
//!
//! Time lost, of all threads together: waits for evicted pages, waits of a throttled thread, work of the balance-set manager,
//! and soft faults at a share of the cost of the others. A measure that moves the loss from one of them to another is not kept.
//!
//! Invariants, checked by the property tests in `tests`:
//! 1. A measure has at most its last level; a delay is at most [`MOST_DELAY_US`].
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
/// Percent by which less time has to be lost.
const MARGIN_PERCENT: u64 = 4;
/// The first hold and the longest, in intervals.
const FIRST_HOLD: u32 = 64;
const LONGEST_HOLD: u32 = 2048;

/// The cost of a soft fault as percent of that of a hard one: 4.9 us of 6 to 8 us where both were measured.
const SOFT_PERCENT: u64 = 70;
/// A thread is throttled only if it has this percentage of the faults of an average thread.
const WORST_PERCENT: u64 = 120;
/// Others need at least this share of the faults, in percent: without them nobody gains by a throttle.
const OTHERS_PERCENT: u64 = 5;

/// Standby frames of each level, in parts of all frames.
const STANDBY_LEVELS: [u8; 3] = [1, 3, 6];
/// Times the delay of the level before: the first delay is the time from one fault of the thread to the next.
const DELAY_FACTOR: u32 = 3;
const THROTTLE_LEVELS: u8 = 3;

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

    /// The throttle of the thread with the most faults, at its first level, if it stands out.
    fn first_throttle(&self, least_percent: u64) -> Option<Throttle> {
        let (thread, faults) = self.census.worst()?;
        let share = faults.saturating_mul(100).saturating_mul(self.census.threads());
        let stands_out = share >= self.census.all().saturating_mul(least_percent);
        let delay = u32::try_from(self.us / faults).unwrap_or(u32::MAX);
        let delay_us = delay.clamp(LEAST_DELAY_US, MOST_DELAY_US);
        (stands_out && self.allows_throttle_of(thread)).then_some(Throttle { thread, delay_us })
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

/// Time lost in some intervals.
#[derive(Debug, Clone, Copy, Default)]
struct Loss {
    us: u64,
    lost_us: u64,
}

impl Loss {
    fn add(&mut self, interval: &Interval) {
        self.us = self.us.saturating_add(interval.us);
        self.lost_us = self.lost_us.saturating_add(interval.lost_us());
    }

    /// Whether less is lost than in `other`, by the margin.
    fn is_below(self, other: Loss) -> bool {
        let product =
            |lost: u64, us: u64, percent: u64| u128::from(lost) * u128::from(us) * u128::from(percent);
        product(self.lost_us, other.us, 100) < product(other.lost_us, self.us, 100 - MARGIN_PERCENT)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    During,
    After,
}

/// The trial of a measure, one step further than the one that is kept.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// The step that the measure belongs to.
    of: ThrashStep,
    /// The measures in force in the phase *during*.
    measures: Measures,
    phase: Phase,
    /// Intervals of the phase so far.
    intervals: u32,
    /// Of this phase so far, and of the phases before it.
    loss: Loss,
    before: Loss,
    during: Loss,
}

impl Trial {
    fn new(of: ThrashStep) -> Trial {
        Trial {
            of,
            measures: Measures::default(),
            phase: Phase::Before,
            intervals: 0,
            loss: Loss::default(),
            before: Loss::default(),
            during: Loss::default(),
        }
    }

    /// Counts an interval of the phase. Returns the loss of the phase when it is over.
    fn measure(&mut self, interval: &Interval) -> Option<Loss> {
        self.intervals += 1;
        if self.intervals > SETTLING {
            self.loss.add(interval);
        }
        (self.intervals == SETTLING + MEASURED).then_some(self.loss)
    }

    fn enter(&mut self, phase: Phase) {
        (self.phase, self.intervals, self.loss) = (phase, 0, Loss::default());
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
    /// The measures that trials have kept, and the level of the throttle.
    kept: Measures,
    throttle_level: u8,
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
            throttle_level: 0,
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
        (self.kept, self.throttle_level) = (Measures::default(), 0);
        self.state = State::Trials(Trial::new(ThrashStep::GrownStandby));
    }

    /// One interval of the rule [`ThrashControl::On`]. Returns the measures for the next one.
    fn advance(&mut self, interval: &Interval) -> Measures {
        match self.state {
            State::Calm => return Measures::default(),
            State::Hold { left: 0 } => self.begin(),
            State::Hold { left } => self.state = State::Hold { left: left - 1 },
            State::Trials(mut trial) => {
                self.state = match trial.measure(interval) {
                    None => State::Trials(trial),
                    Some(loss) => self.end_phase(trial, loss, interval),
                };
            }
        }
        let mut measures = match self.state {
            State::Trials(trial) if trial.phase == Phase::During => trial.measures,
            _ => self.kept,
        };
        measures.throttle = measures
            .throttle
            .filter(|throttle| interval.allows_throttle_of(throttle.thread));
        measures
    }

    /// The state after a phase of a trial, in which `loss` was lost.
    fn end_phase(&mut self, mut trial: Trial, loss: Loss, interval: &Interval) -> State {
        match trial.phase {
            Phase::Before => {
                let Some(measures) = self.raised(trial.of, interval) else {
                    return self.next(trial.of);
                };
                (trial.before, trial.measures) = (loss, measures);
                self.trials += 1;
                trial.enter(Phase::During);
            }
            Phase::During if loss.is_below(trial.before) => {
                trial.during = loss;
                trial.enter(Phase::After);
            }
            Phase::After if trial.during.is_below(loss) => {
                self.successes += 1;
                self.kept = trial.measures;
                self.throttle_level += u8::from(trial.of == ThrashStep::Throttle);
                // The same measure again, one level further.
                trial = Trial::new(trial.of);
            }
            Phase::During | Phase::After => return self.next(trial.of),
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
            ThrashStep::NoReadAhead if !measures.no_read_ahead => measures.no_read_ahead = true,
            ThrashStep::Throttle if self.throttle_level < THROTTLE_LEVELS => {
                measures.throttle = match measures.throttle {
                    None => Some(interval.first_throttle(WORST_PERCENT)?),
                    Some(throttle) => Some(throttle.raised()?),
                };
            }
            _ => return None,
        }
        Some(measures)
    }

    /// The state after the trials of a step.
    fn next(&mut self, of: ThrashStep) -> State {
        match of {
            ThrashStep::GrownStandby => State::Trials(Trial::new(ThrashStep::NoReadAhead)),
            ThrashStep::NoReadAhead => State::Trials(Trial::new(ThrashStep::Throttle)),
            _ => {
                let left = self.hold;
                self.hold = (self.hold * 2).min(LONGEST_HOLD);
                State::Hold { left }
            }
        }
    }

    /// The measures up to a step, whatever is lost.
    fn fixed(&mut self, step: ThrashStep, interval: &Interval) -> Measures {
        let former = self.kept.throttle;
        self.kept = Measures {
            standby: if step >= ThrashStep::GrownStandby {
                STANDBY_LEVELS[1]
            } else {
                0
            },
            no_read_ahead: step >= ThrashStep::NoReadAhead,
            throttle: (step >= ThrashStep::Throttle)
                .then(|| {
                    let former = former.filter(|throttle| interval.allows_throttle_of(throttle.thread));
                    former.or_else(|| interval.first_throttle(0))
                })
                .flatten(),
        };
        self.kept
    }
}

impl Throttle {
    /// The throttle of the next level; none if the delay is as long as it may be.
    fn raised(self) -> Option<Throttle> {
        let delay_us = (self.delay_us * DELAY_FACTOR).min(MOST_DELAY_US);
        (delay_us > self.delay_us).then_some(Throttle { delay_us, ..self })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
