//! The closed loop of a pressure: from readings of the stalled time to the threads of the worker that read pages. Pure; nothing here reads the system.

use std::collections::VecDeque;
use std::time::Duration;

/// Time constant of the measure, as that of `avg10`.
const MEASURE_S: f64 = 10.0;
/// Time over which the loop takes the pressure that its last steps made.
const WINDOW: Duration = Duration::from_secs(1);
/// Correction a second, as a share of the distance: at 1/s and more the delay of the window makes the loop swing.
const GAIN: f64 = 0.6;
/// Bounds of the stalled time for each thread that reads: few pages wait, or others wait, too.
const SLOPES: (f64, f64) = (0.1, 2.0);
/// Below this many reading threads, the effect is too small to measure.
const LEAST_KNOWN: f64 = 0.02;

/// The stalled time of a scope, as the kernel's `avg10` shows it, from the totals alone: the average moves at each
/// reading, not every 2 s.
#[derive(Debug, Default)]
pub(super) struct Meter {
    last: Option<(Duration, u64)>,
    average: f64,
}

impl Meter {
    /// Adds a reading: a time, and the microseconds that were a stall. Returns the average, 0 to 1.
    pub(super) fn add(&mut self, now: Duration, total_us: u64) -> f64 {
        if let Some((before, total_before)) = self.last {
            let seconds = now.saturating_sub(before).as_secs_f64();
            if seconds <= 0.0 {
                return self.average;
            }
            let share = (total_us.saturating_sub(total_before) as f64 / 1e6 / seconds).min(1.0);
            self.average += (share - self.average) * (1.0 - (-seconds / MEASURE_S).exp());
        }
        self.last = Some((now, total_us));
        self.average
    }
}

#[derive(Debug)]
pub(super) struct Controller {
    goal: f64,
    ramp: Duration,
    readings: VecDeque<(Duration, u64)>,
    /// Threads of the worker, all of which may read.
    threads: f64,
    /// Threads that read. The last of them reads for a share of its time.
    reading: f64,
    last: Duration,
    /// The time of the last halving of `reading`.
    halved: Duration,
}

impl Controller {
    /// A loop to `goal`, 0 to 1, that is approached over `ramp`, for a worker with so many threads.
    pub(super) fn new(goal: f64, ramp: Duration, threads: u32) -> Controller {
        Controller {
            goal,
            ramp,
            readings: VecDeque::with_capacity(16),
            threads: f64::from(threads),
            reading: 0.0,
            last: Duration::ZERO,
            halved: Duration::ZERO,
        }
    }

    /// The threads that read from now on.
    pub(super) fn step(&mut self, now: Duration, total_us: u64) -> f64 {
        self.readings.push_back((now, total_us));
        while self
            .readings
            .get(1)
            .is_some_and(|(time, _)| now.saturating_sub(*time) >= WINDOW)
        {
            self.readings.pop_front();
        }
        let goal = match self.ramp.is_zero() {
            true => self.goal,
            false => self.goal * (now.as_secs_f64() / self.ramp.as_secs_f64()).min(1.0),
        };
        let seconds = now.saturating_sub(self.last).as_secs_f64().min(1.0);
        self.last = now;
        let Some(stalled) = self.stalled() else {
            return self.reading;
        };
        // Several threads read beside programs that keep the CPUs busy. Once these end, all tasks stall all the time.
        let is_far_above = stalled > 2.0 * goal && self.reading > 1.0;
        if is_far_above && now.saturating_sub(self.halved) >= WINDOW {
            self.halved = now;
            self.reading /= 2.0;
            return self.reading;
        }
        let slope = match self.reading > LEAST_KNOWN {
            true => (stalled / self.reading).clamp(SLOPES.0, SLOPES.1),
            false => 1.0,
        };
        let correction = GAIN * seconds * (goal - stalled) / slope;
        self.reading = (self.reading + correction).clamp(0.0, self.threads);
        self.reading
    }

    /// Stalled share of the window; `None` before half of it has passed.
    fn stalled(&self) -> Option<f64> {
        let ((first, before), (last, after)) = (self.readings.front()?, self.readings.back()?);
        let seconds = last.saturating_sub(*first).as_secs_f64();
        (seconds * 2.0 >= WINDOW.as_secs_f64())
            .then(|| (after.saturating_sub(*before) as f64 / 1e6 / seconds).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICK: Duration = Duration::from_millis(100);

    /// Averages of the last 20 s of a minute, on a machine where a unit of reading stalls for `slope`, and other
    /// programs stall for `others`.
    fn averages(goal: f64, slope: f64, others: f64) -> Vec<f64> {
        let (mut controller, mut meter) = (Controller::new(goal, Duration::ZERO, 1), Meter::default());
        let (mut total, mut reading) = (0.0, 0.0);
        let mut averages = Vec::new();
        for tick in 1..=600u32 {
            let now = TICK * tick;
            total += 0.1e6 * (reading * slope + others).min(1.0);
            reading = controller.step(now, total as u64);
            averages.push(meter.add(now, total as u64));
        }
        averages.split_off(400)
    }

    proptest! {
        #[test]
        fn a_pressure_is_reached_and_kept_whatever_reading_costs(
            goal in 0.01..0.6_f64, slope in 0.15..1.8_f64, others in 0.0..1.0_f64,
        ) {
            let others = others * goal;
            prop_assume!(slope + others > goal * 1.1);
            for average in averages(goal, slope, others) {
                prop_assert!((average - goal).abs() < 0.02 + goal * 0.05, "{} in place of {}", average, goal);
            }
        }
    }

    #[test]
    fn the_worker_rests_while_others_stall_for_more() {
        let mut controller = Controller::new(0.1, Duration::ZERO, 1);
        let readings = (1..=100u64).map(|tick| controller.step(TICK * tick as u32, tick * 30_000));
        assert!(readings.last().is_some_and(|reading| reading <= 0.0));
    }

    /// Beside programs that take the CPUs, a thread stalls for a tenth of its time: on two CPUs, two threads reached 9.6% in
    /// place of 15%.
    #[test]
    fn more_threads_read_where_one_does_not_stall_for_long() {
        let mut controller = Controller::new(0.15, Duration::ZERO, 8);
        let (mut total, mut reading) = (0.0, 0.0);
        for tick in 1..=600u32 {
            total += 0.1e6 * 0.05 * reading;
            reading = controller.step(TICK * tick, total as u64);
        }
        assert!((reading - 3.0).abs() < 0.1, "{reading} threads");
    }

    /// Eight threads read when the busy programs ended: it took 4 s, in which all tasks stalled, until fewer did.
    #[test]
    fn threads_are_halved_while_all_tasks_stall() {
        let mut controller = Controller::new(0.3, Duration::ZERO, 8);
        let mut total = 0.0;
        let mut after = |ticks: std::ops::Range<u32>, slope: f64| {
            let reading = ticks.map(|tick| {
                total += 0.1e6 * (slope * controller.reading).min(1.0);
                controller.step(TICK * tick, total as u64)
            });
            reading.last().expect("ticks")
        };
        let busy = after(1..600, 0.02);
        assert!(busy > 7.9, "{busy} threads");
        let rested = after(600..630, 0.6);
        assert!(rested < 1.5, "{rested} threads 3 s after the others");
        let held = after(630..900, 0.6);
        assert!((held - 0.5).abs() < 0.05, "{held} threads");
    }

    /// The kernel's `avg10` after a constant stall of 30%: 1 - exp(-t / 10 s) of it.
    #[test]
    fn the_meter_shows_the_average_of_the_kernel() {
        let mut meter = Meter::default();
        let averages: Vec<f64> = (0..=300u64)
            .map(|tick| meter.add(TICK * tick as u32, tick * 30_000))
            .collect();
        for (tick, expected) in [
            (100, 0.3 * (1.0 - (-1.0_f64).exp())),
            (300, 0.3 * (1.0 - (-3.0_f64).exp())),
        ] {
            assert!((averages[tick] - expected).abs() < 1e-6, "{}", averages[tick]);
        }
    }
}
