//! Units that wait, one after the other: under pressure the next one is held back, and without pressure the one that has
//! waited longest returns. The common rule of `swap-largest`, whose units are processes, and `throttle`, of cgroups.

use std::collections::VecDeque;
use std::time::Duration;

/// Time between two that are held back.
const INTERVAL: Duration = Duration::from_secs(5);
/// Longest wait of a unit.
const LONGEST: Duration = Duration::from_secs(60);
/// Time without pressure until a unit returns.
const CALM: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Waiting<Unit> {
    /// With the begin of its wait, the earliest first.
    held: VecDeque<(Unit, Duration)>,
    /// When a unit was last held back, or returned.
    changed: Option<Duration>,
    /// Begin of the time without pressure.
    calm: Option<Duration>,
}

impl<Unit> Default for Waiting<Unit> {
    fn default() -> Self {
        Waiting {
            held: VecDeque::new(),
            changed: None,
            calm: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step<Unit> {
    /// The policy may hold a unit back.
    Hold,
    Return(Unit),
    Stay,
}

impl<Unit: Copy> Waiting<Unit> {
    /// `waits` tells whether a unit is there and held back, `works` whether any other works.
    pub(super) fn step(
        &mut self,
        at: Duration,
        is_pressed: bool,
        works: bool,
        waits: impl Fn(Unit) -> bool,
    ) -> Step<Unit> {
        self.held.retain(|(unit, _)| waits(*unit));
        self.calm = match is_pressed {
            true => None,
            false => Some(self.calm.unwrap_or(at)),
        };
        let has_passed =
            |since: Option<Duration>, time| since.is_none_or(|since| at.saturating_sub(since) >= time);
        // Other programs may keep up the pressure.
        let is_over = self
            .held
            .front()
            .is_some_and(|(_, since)| has_passed(Some(*since), LONGEST));
        match self.calm {
            // Where the others have ended, none would work.
            _ if is_over || !works => self.bring_in(at),
            None if has_passed(self.changed, INTERVAL) => Step::Hold,
            Some(_) if has_passed(self.calm, CALM) && has_passed(self.changed, CALM) => self.bring_in(at),
            _ => Step::Stay,
        }
    }

    /// Takes in that the policy holds a unit back.
    pub(super) fn hold(&mut self, unit: Unit, at: Duration) {
        self.changed = Some(at);
        self.held.push_back((unit, at));
    }

    fn bring_in(&mut self, at: Duration) -> Step<Unit> {
        let Some((unit, _)) = self.held.pop_front() else {
            return Step::Stay;
        };
        self.changed = Some(at);
        Step::Return(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_waits_for_calm_and_at_most_a_minute() {
        let mut waiting = Waiting::default();
        let at = Duration::from_secs;
        assert_eq!(waiting.step(at(0), true, true, |_| true), Step::Hold);
        waiting.hold('a', at(0));
        assert_eq!(waiting.step(at(4), true, true, |_| true), Step::Stay);
        assert_eq!(waiting.step(at(5), true, true, |_| true), Step::Hold);
        waiting.hold('b', at(5));
        assert_eq!(waiting.step(at(20), false, true, |_| true), Step::Stay, "10 s");
        assert_eq!(waiting.step(at(30), false, true, |_| true), Step::Return('a'));
        assert_eq!(waiting.step(at(64), true, true, |_| true), Step::Hold);
        assert_eq!(waiting.step(at(65), true, true, |_| true), Step::Return('b'));
    }

    #[test]
    fn a_unit_returns_when_no_other_works_and_is_forgotten_when_it_ends() {
        let mut waiting = Waiting::default();
        waiting.hold('a', Duration::ZERO);
        waiting.hold('b', Duration::ZERO);
        let second = Duration::from_secs(1);
        assert_eq!(
            waiting.step(second, true, false, |unit| unit == 'b'),
            Step::Return('b')
        );
        assert_eq!(waiting.step(second, true, false, |_| true), Step::Stay);
    }
}
