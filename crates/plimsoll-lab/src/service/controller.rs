//! The controller of a cap: readings in, orders out. It reads no clock and no file.
//!
//! ```text
//!            calm interval (lower)
//!              +------+
//!              v      |    pressure (back_off), or a bound (lower)
//! start ----> Descent-+----------------------------------------------> Hold
//!              ^                                                       |  ^
//!              +------------- the time to hold is over (interval) -----+  |
//!                                                                         |
//!      any --- spike (lift) ---> Lifted --- calm again (interval) --------+
//! ```
//!
//! - Invariant: no cap below the floor, below the memory that cannot be reclaimed, or above the ceiling.
//! - Invariant: a spike, and a task that waits at the cap (v1), lift the cap in the reading that shows it.
//!
//! Checked by `any_readings_keep_the_cap_within_its_bounds` and `the_cap_finds_the_working_set_and_is_never_long_below_it`.

use std::time::Duration;

use plimsoll_model::recording::service::ServiceBound;

/// Caps are whole pages of any machine, so that the kernel shows them as they were written.
pub(super) const PAGE: u64 = 64 << 10;
/// Smallest cap.
const LEAST: u64 = 1 << 20;
/// Share of the memory by which the cap sinks: at first, after pressure, and at most.
const FIRST_STEP: f64 = 0.02;
const LEAST_STEP: f64 = 0.01;
const MOST_STEP: f64 = 0.04;
/// Growth of the step in a calm interval.
const STEP_GROWTH: f64 = 1.5;
/// Bytes of a step at most: the kernel reclaims them while the service runs.
const MOST_BYTES: u64 = 64 << 20;
/// Stall over the target in an interval that is a spike: ten times the target.
const SPIKE: f64 = 10.0;
/// Intervals without pressure after a spike before the service has its cap again.
const CALM: u32 = 3;
/// Intervals from pressure to the next attempt to lower the cap, and at most, where the attempts meet the same limit.
const FIRST_HOLD: u32 = 20;
const MOST_HOLD: u32 = 160;
/// Distance of two caps that are the same limit, as a share.
const SAME: f64 = 0.05;
/// Attempts at lowering the cap that bring nothing before reclaim is over.
const FRUITLESS: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Settings {
    /// Share of the time that tasks may stall, 0 to 1.
    pub(super) target: f64,
    /// Time between two steps.
    pub(super) interval: Duration,
    /// Bytes below which the cap never sinks.
    pub(super) floor: u64,
    /// The cap that the cgroup had before; `None` without one.
    pub(super) ceiling: Option<u64>,
}

/// The state of the service at one time. Counters grow from any start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Time on any steady clock.
    pub(super) at: Duration,
    /// Bytes of memory.
    pub(super) usage: u64,
    /// Counter: time in which tasks stalled.
    pub(super) stalled: Duration,
    /// Counter: bytes that were reclaimed and came back.
    pub(super) refaulted: u64,
    /// Bytes that the kernel cannot reclaim now.
    pub(super) unreclaimable: u64,
    /// Tasks wait at the cap until it is lifted (v1).
    pub(super) waiting: bool,
}

/// A decision about the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Keep,
    /// Set it to these bytes.
    Cap(u64),
    /// Restore the value before, at once.
    Lift,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The cap sinks by steps.
    Descent,
    /// The cap stays for so many intervals.
    Hold { left: u32 },
    /// The service has the cap that it had before; so many intervals were calm.
    Lifted { calm: u32 },
}

#[derive(Debug)]
pub(super) struct Controller {
    settings: Settings,
    state: State,
    /// The cap now; `None` for that before.
    cap: Option<u64>,
    /// The cap after the last order.
    applied: Option<u64>,
    /// Share by which the next step lowers the cap.
    step: f64,
    /// Intervals to hold after the next pressure.
    hold: u32,
    /// The reading at which this interval began.
    start: Option<Reading>,
    /// The cap at the last pressure.
    pressed: Option<u64>,
    /// The cap, or the memory, at which the descent stopped last, and the reason.
    settled: Option<(u64, ServiceBound)>,
    fruitless: u32,
}

impl Controller {
    pub(super) fn new(settings: Settings) -> Controller {
        Controller {
            settings,
            state: State::Descent,
            cap: None,
            applied: None,
            step: FIRST_STEP,
            hold: FIRST_HOLD,
            start: None,
            pressed: None,
            settled: None,
            fruitless: 0,
        }
    }

    /// The condition that holds the cap where it is; `None` while it sinks.
    pub(super) fn bound(&self) -> Option<ServiceBound> {
        self.settled.map(|(_, bound)| bound)
    }

    /// Takes the next reading. The caller carries the order out and reports the result to [`Controller::applied`].
    pub(super) fn take(&mut self, reading: Reading) -> Order {
        let Some(start) = self.start else {
            self.start = Some(reading);
            return Order::Keep;
        };
        let stalled = reading.stalled.saturating_sub(start.stalled);
        let allowed = self.settings.interval.mul_f64(self.settings.target);
        if self.cap.is_some() && (reading.waiting || stalled > allowed.mul_f64(SPIKE)) {
            return self.lift(reading);
        }
        let elapsed = reading.at.saturating_sub(start.at);
        if elapsed < self.settings.interval {
            return Order::Keep;
        }
        self.start = Some(reading);
        let pressure = stalled.as_secs_f64() / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        self.interval(reading, start, pressure)
    }

    /// Takes the cap that the cgroup has after an order; `None` for that before.
    pub(super) fn applied(&mut self, cap: Option<u64>) {
        let (now, before) = (cap.unwrap_or(u64::MAX), self.applied.unwrap_or(u64::MAX));
        self.applied = cap;
        self.fruitless = if now < before { 0 } else { self.fruitless + 1 };
        if self.fruitless >= FRUITLESS && self.state == State::Descent {
            self.fruitless = 0;
            self.settle(now, ServiceBound::Unreclaimable);
        }
        self.cap = cap;
    }

    fn interval(&mut self, reading: Reading, start: Reading, pressure: f64) -> Order {
        let pressed = pressure > self.settings.target;
        if let State::Lifted { calm } = self.state {
            let calm = if pressed { 0 } else { calm + 1 };
            let grows = reading.usage > start.usage.saturating_add(start.usage / 100);
            self.state = State::Lifted { calm };
            return match calm < CALM || grows {
                true => Order::Keep,
                false => self.cap_again(reading),
            };
        }
        if pressed {
            return self.back_off(reading.refaulted.saturating_sub(start.refaulted));
        }
        let bottom = self.bottom(reading);
        if self.cap.is_some_and(|cap| cap < bottom) {
            return self.order(bottom);
        }
        match self.state {
            State::Hold { left } if left > 0 => {
                self.state = State::Hold { left: left - 1 };
                Order::Keep
            }
            State::Hold { .. } => {
                self.state = State::Descent;
                self.step = LEAST_STEP;
                self.lower(reading, bottom)
            }
            // Half of the target is near it: the next step would exceed it.
            State::Descent if pressure > self.settings.target / 2.0 => {
                if let Some(cap) = self.cap {
                    self.settle(cap, ServiceBound::Pressure);
                }
                Order::Keep
            }
            _ => self.lower(reading, bottom),
        }
    }

    /// Lowers the cap by a step, or holds it at the bottom.
    fn lower(&mut self, reading: Reading, bottom: u64) -> Order {
        let base = reading.usage.min(self.cap.unwrap_or(u64::MAX));
        let bytes = ((base as f64 * self.step) as u64).clamp(PAGE, MOST_BYTES);
        let next = base.saturating_sub(bytes) / PAGE * PAGE;
        self.step = (self.step * STEP_GROWTH).min(MOST_STEP);
        if next > bottom {
            // Far below the place where the descent stopped, it has not stopped yet.
            if self.settled.is_some_and(|(place, _)| !is_same(next, place)) {
                self.settled = None;
            }
            return self.order(next);
        }
        let by_floor = self.settings.floor >= reading.unreclaimable;
        self.settle(
            bottom,
            match by_floor {
                true => ServiceBound::Floor,
                false => ServiceBound::Unreclaimable,
            },
        );
        match bottom < base {
            true => self.order(bottom),
            false => Order::Keep,
        }
    }

    /// Raises the cap by the memory that came back, or two steps.
    fn back_off(&mut self, refaulted: u64) -> Order {
        self.step = LEAST_STEP;
        let Some(cap) = self.cap else {
            // The pressure is not of our making.
            return Order::Keep;
        };
        let more = (cap as f64 * 2.0 * LEAST_STEP) as u64;
        let next = cap.saturating_add(more.max(refaulted).max(PAGE));
        self.meet_pressure(cap);
        self.settle(next, ServiceBound::Pressure);
        self.order(next)
    }

    /// Restores the cap before.
    fn lift(&mut self, reading: Reading) -> Order {
        if let Some(cap) = self.cap.take() {
            self.meet_pressure(cap);
            // A spike stops the descent as any pressure does, however long the service takes to be calm again.
            self.settled = Some((cap, ServiceBound::Pressure));
        }
        self.step = LEAST_STEP;
        self.start = Some(reading);
        self.state = State::Lifted { calm: 0 };
        Order::Lift
    }

    /// Caps the service at the memory that it has taken since the cap was lifted.
    fn cap_again(&mut self, reading: Reading) -> Order {
        let next = reading.usage.max(self.bottom(reading));
        self.settle(next, ServiceBound::Pressure);
        self.order(next)
    }

    /// Waits longer for the next attempt if the last one met pressure at the same cap.
    fn meet_pressure(&mut self, cap: u64) {
        self.hold = match self.pressed {
            Some(before) if is_same(cap, before) => (self.hold * 2).min(MOST_HOLD),
            _ => FIRST_HOLD,
        };
        self.pressed = Some(cap);
    }

    fn settle(&mut self, place: u64, bound: ServiceBound) {
        self.settled = Some((place, bound));
        self.state = State::Hold { left: self.hold };
    }

    /// The lowest cap that is allowed now.
    fn bottom(&self, reading: Reading) -> u64 {
        let bottom = self.settings.floor.max(reading.unreclaimable).max(LEAST);
        bottom.div_ceil(PAGE).saturating_mul(PAGE)
    }

    /// Orders the cap in whole pages; one that is no lower than before is none.
    fn order(&mut self, bytes: u64) -> Order {
        let bytes = bytes.div_ceil(PAGE).saturating_mul(PAGE);
        if self.settings.ceiling.is_some_and(|ceiling| bytes >= ceiling) {
            self.cap = None;
            return Order::Lift;
        }
        if self.cap == Some(bytes) {
            return Order::Keep;
        }
        self.cap = Some(bytes);
        Order::Cap(bytes)
    }
}

/// Whether two caps are the same limit.
fn is_same(one: u64, other: u64) -> bool {
    one.abs_diff(other) as f64 <= SAME * one.max(other) as f64
}

#[cfg(test)]
mod tests;
