//! The closed loop: from a reading of the level to the bytes to take or to release. Pure; it does not read the system.

use std::time::Duration;

use plimsoll_model::recording::hold::HoldGoal;

const MIB: u64 = 1 << 20;

/// Most bytes that one step takes, so that a reading follows before the next ones.
pub(super) const MOST_TAKEN: u64 = 64 * MIB;
/// Divisor of the goal: a distance below half a percent, a quarter of the tolerance, causes no step.
const SLACK_DIVISOR: u64 = 200;
/// Least slack of a level of the scope: the kernel's counters of pages lag behind by some hundred KiB a CPU.
const LEAST_SLACK: u64 = MIB;
/// Least step towards a fixed amount.
const LEAST_STEP: u64 = 4096;

/// The level to hold, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Bytes that stay available to other programs.
    Available(u64),
    /// Bytes to hold, independent of other programs; each second `leak` bytes more.
    Held { bytes: u64, leak: u64 },
}

impl From<Goal> for HoldGoal {
    fn from(goal: Goal) -> HoldGoal {
        match goal {
            Goal::Available(bytes) => HoldGoal::AvailableBytes(bytes),
            Goal::Held { bytes, .. } => HoldGoal::HeldBytes(bytes),
        }
    }
}

/// One look at the scope of the level: the machine or a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Bytes that other programs can still allocate in the scope.
    pub available: u64,
    /// Bytes that the machine has free above its reserve.
    pub spare: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Keep,
    Take(u64),
    Give(u64),
    /// The goal needs memory of the reserve: release all.
    Full,
}

/// Decides one step at a time.
#[derive(Debug, Clone)]
pub struct Controller {
    goal: Goal,
    /// Time over which the level is approached.
    ramp: Duration,
}

impl Controller {
    pub fn new(goal: Goal, ramp: Duration) -> Controller {
        Controller { goal, ramp }
    }

    /// Bytes that the level should be: available to others, or held.
    pub fn goal_now(&self, reading: Reading, held: u64, elapsed: Duration) -> u64 {
        match self.goal {
            Goal::Available(goal) => goal,
            Goal::Held { .. } => self.wanted(reading, held, elapsed),
        }
    }

    /// Bytes to hold now so that the level is the goal, were nothing to change.
    pub fn wanted(&self, reading: Reading, held: u64, elapsed: Duration) -> u64 {
        let whole = match self.goal {
            Goal::Available(goal) => held.saturating_add(reading.available).saturating_sub(goal),
            Goal::Held { bytes, leak } => bytes.saturating_add((leak as f64 * elapsed.as_secs_f64()) as u64),
        };
        // A level is approached evenly; a leak has a speed of its own.
        match self.ramp.is_zero() || elapsed >= self.ramp {
            true => whole,
            false => (whole as f64 * elapsed.as_secs_f64() / self.ramp.as_secs_f64()) as u64,
        }
    }

    /// Distance from the goal below which there is no step, in bytes.
    pub fn slack(&self) -> u64 {
        match self.goal {
            Goal::Available(goal) => (goal / SLACK_DIVISOR).max(LEAST_SLACK),
            Goal::Held { bytes, leak: 0 } => (bytes / SLACK_DIVISOR).clamp(LEAST_STEP, LEAST_SLACK),
            Goal::Held { .. } => LEAST_SLACK,
        }
    }

    /// The step after a reading, for a holder of `held` bytes. It releases memory at once, takes memory in pieces, and
    /// never takes the machine's reserve.
    pub fn step(&self, reading: Reading, held: u64, elapsed: Duration) -> Step {
        let wanted = self.wanted(reading, held, elapsed);
        if wanted > held {
            return self.grow(reading, wanted - held, elapsed);
        }
        match held - wanted {
            0 => Step::Keep,
            off if off >= self.slack() || wanted == 0 => Step::Give(off),
            _ => Step::Keep,
        }
    }

    fn grow(&self, reading: Reading, missing: u64, elapsed: Duration) -> Step {
        let (least, piece) = match self.goal {
            // A second holder may take the same bytes at the same time: half of the distance converges, all of it swings.
            Goal::Available(_) if elapsed >= self.ramp => {
                (self.slack(), (missing / 2).max(missing.min(LEAST_SLACK)))
            }
            // The steps of a ramp are small.
            Goal::Available(_) => (LEAST_SLACK, missing),
            Goal::Held { .. } => (self.slack(), missing),
        };
        let take = piece.min(MOST_TAKEN).min(reading.spare);
        match self.goal {
            _ if missing < least => Step::Keep,
            Goal::Held { .. } if reading.spare < least => Step::Full,
            _ if take >= piece.min(LEAST_SLACK) => Step::Take(take),
            _ => Step::Keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;
    const TICK: Duration = Duration::from_millis(100);

    /// A machine whose other programs hold `others` bytes of `total`.
    fn reading(total: u64, others: u64, held: u64, reserve: u64) -> Reading {
        let available = total.saturating_sub(others + held);
        Reading {
            available,
            spare: available.saturating_sub(reserve),
        }
    }

    fn apply(step: Step, held: u64) -> u64 {
        match step {
            Step::Keep | Step::Full => held,
            Step::Take(bytes) => held + bytes,
            Step::Give(bytes) => held - bytes,
        }
    }

    proptest! {
        #[test]
        fn a_level_is_reached_and_kept_while_others_come_and_go(
            goal in 600 * MIB..20 * GIB,
            others in prop::collection::vec(0..8 * GIB, 1..8),
        ) {
            let (total, reserve) = (24 * GIB, 512 * MIB);
            let controller = Controller::new(Goal::Available(goal), Duration::ZERO);
            let mut held = 0;
            for others in others {
                for _ in 0..24 * GIB / MOST_TAKEN + 16 {
                    let step = controller.step(reading(total, others, held, reserve), held, TICK);
                    held = apply(step, held);
                    let taken_too_much = held + others + goal > total + controller.slack();
                    prop_assert!(!(taken_too_much && matches!(step, Step::Take(_))));
                }
                let off = reading(total, others, held, reserve).available.abs_diff(goal);
                prop_assert!(off <= controller.slack() || held == 0, "{off} bytes off");
            }
        }

        #[test]
        fn the_reserve_is_never_taken(
            bytes in MIB..64 * GIB, leak in 0..GIB, others in 0..24 * GIB, held in 0..24 * GIB, ms in 0..100_000u64,
        ) {
            let (total, reserve) = (24 * GIB, GIB);
            let now = reading(total, others, held, reserve);
            for goal in [Goal::Held { bytes, leak }, Goal::Available(bytes)] {
                let controller = Controller::new(goal, Duration::from_secs(10));
                if let Step::Take(taken) = controller.step(now, held, Duration::from_millis(ms)) {
                    prop_assert!(taken <= now.spare && taken <= MOST_TAKEN);
                }
            }
        }

        #[test]
        fn no_more_is_given_back_than_is_held(available in 0..24 * GIB, held in 0..24 * GIB, goal in 1..24 * GIB) {
            let controller = Controller::new(Goal::Available(goal), Duration::ZERO);
            let now = Reading { available, spare: available };
            if let Step::Give(bytes) = controller.step(now, held, TICK) {
                prop_assert!(bytes <= held);
            }
        }
    }

    #[test]
    fn a_ramp_approaches_the_level_evenly() {
        let controller = Controller::new(Goal::Available(4 * GIB), Duration::from_secs(30));
        let mut held = 0;
        let mut half = 0;
        for tick in 1..=400u32 {
            let step = controller.step(reading(24 * GIB, 2 * GIB, held, GIB), held, TICK * tick);
            held = apply(step, held);
            if tick == 150 {
                half = held;
            }
        }
        assert!(half.abs_diff(9 * GIB) < GIB / 4, "{half}");
        assert!(held.abs_diff(18 * GIB) <= controller.slack(), "{held}");
    }

    #[test]
    fn a_leak_grows_by_its_rate_until_the_reserve() {
        let goal = Goal::Held {
            bytes: 100 * MIB,
            leak: 10 * MIB,
        };
        let controller = Controller::new(goal, Duration::ZERO);
        let mut held = 0;
        for tick in 1..=100u32 {
            let step = controller.step(reading(24 * GIB, 0, held, GIB), held, TICK * tick);
            held = apply(step, held);
        }
        assert!(held.abs_diff(200 * MIB) <= 2 * MIB, "{held}");
        let full = Reading {
            available: GIB,
            spare: 0,
        };
        assert_eq!(controller.step(full, held, Duration::from_secs(1000)), Step::Full);
    }

    /// Two holders read the level at the same moment: each took the whole distance, then each released it, without end.
    #[test]
    fn two_holders_that_look_at_the_same_moment_reach_the_level() {
        let controller = Controller::new(Goal::Available(4 * GIB), Duration::ZERO);
        // The distance is no multiple of two steps.
        let others = 2 * GIB + 50 * MIB;
        let (mut one, mut other) = (0, 0);
        for _ in 0..400 {
            let now = reading(24 * GIB, others, one + other, GIB);
            (one, other) = (
                apply(controller.step(now, one, TICK), one),
                apply(controller.step(now, other, TICK), other),
            );
        }
        let available = reading(24 * GIB, others, one + other, GIB).available;
        assert!(available.abs_diff(4 * GIB) <= controller.slack(), "{one} {other}");
    }

    /// Less than the slack stayed held while other programs exceeded the level.
    #[test]
    fn a_level_that_others_exceed_leaves_nothing_held() {
        let controller = Controller::new(Goal::Available(20 * GIB), Duration::ZERO);
        let held = 60 * MIB;
        let step = controller.step(reading(24 * GIB, 4 * GIB + 50 * MIB, held, GIB), held, TICK);
        assert_eq!(step, Step::Give(held));
    }

    #[test]
    fn a_small_amount_is_held_in_full() {
        let goal = Goal::Held {
            bytes: 512 << 10,
            leak: 0,
        };
        let controller = Controller::new(goal, Duration::ZERO);
        let step = controller.step(reading(24 * GIB, 0, 0, GIB), 0, TICK);
        assert_eq!(step, Step::Take(512 << 10));
    }
}
