//! One sample as people look at it: layers of RAM, and gauges that need the sample before it.

use super::gauges::{CPU_TIMES, GAUGES, Gauge, Reading, Scale};
use plimsoll_model::categories::{CATEGORIES, categories};
use plimsoll_model::columns::{Row, col};

pub const GAUGE_COUNT: usize = GAUGES.len();

/// Properties of the machine that a frame needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of a page.
    pub page_size: u64,
    pub cpus: u32,
}

/// One sample, or the mean of several.
///
/// Invariant: the layers, where there are any, sum to MemTotal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    /// Nanoseconds since the start of the recording.
    pub t_ns: u64,
    /// Bytes of each of [`CATEGORIES`], in that order.
    pub layers: Option<[i64; CATEGORIES.len()]>,
    /// NaN where a gauge has no value.
    gauges: [f32; GAUGE_COUNT],
}

impl Frame {
    /// A frame in which nothing is known.
    pub fn empty(t_ns: u64) -> Frame {
        Frame {
            t_ns,
            layers: None,
            gauges: [f32::NAN; GAUGE_COUNT],
        }
    }

    /// The frame of `row`, with the rates since `before`; without it, there are levels alone.
    pub fn of(row: &Row, before: Option<&Row>, machine: Machine) -> Frame {
        let mut frame = Frame::empty(row.t_ns);
        frame.layers = categories(row).map(|categories| categories.bytes());
        let cpu_time = cpu_time(|column| row.get(column), |column| before?.get(column));
        for (gauge, slot) in GAUGES.iter().zip(&mut frame.gauges) {
            if let Some(value) = value(gauge, row, before, machine, cpu_time) {
                *slot = value as f32;
            }
        }
        frame
    }

    /// Value of the gauge `index` (see [`super::gauges::gauge`]), if it is known.
    pub fn gauge(&self, index: usize) -> Option<f64> {
        let value = self.gauges[index];
        (!value.is_nan()).then(|| f64::from(value))
    }

    pub fn set_gauge(&mut self, index: usize, value: f64) {
        self.gauges[index] = value as f32;
    }

    /// MemTotal in bytes, where the layers are known.
    pub fn mem_total(&self) -> Option<i64> {
        self.layers.map(|layers| layers.iter().sum())
    }
}

fn value(gauge: &Gauge, row: &Row, before: Option<&Row>, machine: Machine, cpu_time: CpuTime) -> Option<f64> {
    let point = |row: &Row| Point::of(row.t_ns, gauge.columns.iter().map(|&column| row.get(column)));
    gauge.value(point(row), before.map(point), machine, cpu_time)
}

/// The time of all CPUs that the kernel accounted between two samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuTime {
    us: i64,
    /// Whether it includes idle time, which some containers hide.
    with_idle: bool,
}

/// The time of all CPUs between two samples, by their columns.
///
/// A time that goes back, as that of I/O wait may, counts as 0: no kind of time is more than the whole.
pub(super) fn cpu_time(row: impl Fn(usize) -> Option<i64>, before: impl Fn(usize) -> Option<i64>) -> CpuTime {
    let growth = |column: usize| row(column)?.checked_sub(before(column)?);
    let growths = CPU_TIMES.iter().filter_map(|&column| growth(column));
    CpuTime {
        us: growths.map(|us| us.max(0)).fold(0, i64::saturating_add),
        with_idle: growth(col::CPU_IDLE_US).is_some(),
    }
}

impl CpuTime {
    /// The time of which shares are taken, in microseconds a second: all that was accounted, where that is about the
    /// time of all CPUs; otherwise that time, if it is more.
    fn whole(self, seconds: f64, machine: Machine) -> f64 {
        let accounted = self.us as f64 / seconds;
        let elapsed = f64::from(machine.cpus.max(1)) * 1e6;
        if self.with_idle && accounted >= 0.8 * elapsed {
            accounted
        } else {
            accounted.max(elapsed)
        }
    }
}

/// The input of a gauge at one sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    t_ns: u64,
    /// Sum of the gauge's columns; none when all are absent.
    sum: Option<i64>,
    /// The first of them.
    first: Option<i64>,
}

impl Point {
    /// The point of a sample with the values of a gauge's columns.
    pub(super) fn of(t_ns: u64, values: impl Iterator<Item = Option<i64>>) -> Point {
        let mut values = values.peekable();
        Point {
            t_ns,
            first: values.peek().copied().flatten(),
            sum: values.flatten().reduce(i64::saturating_add),
        }
    }
}

impl Gauge {
    /// The gauge's value at a sample. A rate is that since the sample before; where the counter went back it is not known.
    /// `cpu_time` is that of all CPUs between the two.
    pub(super) fn value(
        &self,
        at: Point,
        before: Option<Point>,
        machine: Machine,
        cpu_time: CpuTime,
    ) -> Option<f64> {
        match self.reading {
            Reading::Level(factor) => Some(at.sum? as f64 * factor),
            Reading::Rest => {
                let parts = at.sum?.saturating_sub(at.first?);
                Some(at.first?.saturating_sub(parts).max(0) as f64)
            }
            Reading::Rate(scale) => {
                let before = before?;
                let growth = at.sum?.checked_sub(before.sum?)?;
                let seconds = at.t_ns.checked_sub(before.t_ns)? as f64 / 1e9;
                if growth < 0 || seconds <= 0.0 {
                    return None;
                }
                let whole = cpu_time.whole(seconds, machine);
                Some(scale.apply(growth as f64 / seconds, machine, whole))
            }
        }
    }
}

impl Scale {
    /// `rate`, in units of the counter a second, as it is shown. `cpu_whole` is the time of all CPUs, in microseconds a
    /// second, of which shares are taken.
    ///
    /// Counters of time move in clock ticks, 10 ms for each CPU: an interval of 100 ms can hold 11 of them, and two
    /// CPUs 22. Shares of the CPUs are therefore shares of the ticks that the interval holds, of which all kinds
    /// together make 100%. Shares of other times are cut off at 100%, and the CPUs of a process at those of the machine:
    /// the counter also grows by the past time of a worker that is counted from its start.
    fn apply(self, rate: f64, machine: Machine, cpu_whole: f64) -> f64 {
        let cpus = f64::from(machine.cpus.max(1));
        match self {
            Scale::One => rate,
            Scale::Page => rate * machine.page_size as f64,
            Scale::PercentOfTime => (rate * 1e-4).min(100.0),
            Scale::PercentOfOneCpu => (rate * 1e-4).min(100.0 * cpus),
            Scale::Cpus => (rate * 1e-6).min(cpus),
            Scale::PercentOfCpus => (100.0 * rate / cpu_whole).min(100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::gauges::gauge;

    const MACHINE: Machine = Machine {
        page_size: 4096,
        cpus: 2,
    };
    const TICK_US: i64 = 10_000;

    fn row(ms: u64, ticks: &[(usize, i64)]) -> Row {
        let mut row = Row::empty(ms * 1_000_000);
        for &(column, ticks) in ticks {
            row.set(column, ticks * TICK_US);
        }
        row
    }

    #[test]
    fn standby_pages_are_told_apart_by_priority() {
        let standby = |values: &[(usize, i64)]| {
            let mut row = Row::empty(1);
            values.iter().for_each(|&(column, value)| row.set(column, value));
            let frame = Frame::of(&row, None, MACHINE);
            [gauge::PAGER_STANDBY, gauge::PAGER_STANDBY_LOW].map(|index| frame.gauge(index))
        };
        let (all, low) = (col::TARGET_PAGER_STANDBY, col::TARGET_PAGER_STANDBY_LOW);
        assert_eq!(
            standby(&[(all, 12288), (low, 4096)]),
            [Some(8192.0), Some(4096.0)]
        );
        assert_eq!(standby(&[(all, 12288)]), [Some(12288.0), None]);
        assert_eq!(standby(&[]), [None, None]);
        // Another process changes them between the two readings.
        assert_eq!(standby(&[(all, 4096), (low, 8192)]), [Some(0.0), Some(8192.0)]);
    }

    fn shares(before: &Row, row: &Row) -> [f64; 6] {
        let frame = Frame::of(row, Some(before), MACHINE);
        [
            gauge::USER,
            gauge::NICE,
            gauge::SYSTEM,
            gauge::INTERRUPTS,
            gauge::STEAL,
            gauge::IOWAIT,
        ]
        .map(|index| frame.gauge(index).unwrap_or(0.0))
    }

    /// Two busy CPUs, sampled after 98 ms instead of 100: the clock of the kernel has moved by 21 ticks, of which 98 ms
    /// hold 19.6. The stack of the shares was 107% high.
    #[test]
    fn the_shares_of_the_cpus_are_never_more_than_the_whole() {
        let before = row(
            0,
            &[
                (col::CPU_USER_US, 100),
                (col::CPU_SYSTEM_US, 50),
                (col::CPU_IDLE_US, 7),
            ],
        );
        let now = row(
            98,
            &[
                (col::CPU_USER_US, 115),
                (col::CPU_SYSTEM_US, 56),
                (col::CPU_IDLE_US, 7),
            ],
        );
        let shares = shares(&before, &now);
        assert!((shares[0] - 100.0 * 15.0 / 21.0).abs() < 0.01, "{shares:?}");
        assert!((shares.iter().sum::<f64>() - 100.0).abs() < 0.01, "{shares:?}");
    }

    /// I/O wait goes back when a task that waited moves to another CPU.
    #[test]
    fn a_time_that_goes_back_makes_no_other_share_larger_than_the_whole() {
        let before = row(
            0,
            &[
                (col::CPU_USER_US, 0),
                (col::CPU_IDLE_US, 0),
                (col::CPU_IOWAIT_US, 90),
            ],
        );
        let now = row(
            100,
            &[
                (col::CPU_USER_US, 20),
                (col::CPU_IDLE_US, 0),
                (col::CPU_IOWAIT_US, 80),
            ],
        );
        let shares = shares(&before, &now);
        assert_eq!((shares[0], shares[5]), (100.0, 0.0));
    }

    /// Some containers show the time of programs without idle time: the interval is the whole then, also on a busy machine.
    #[test]
    fn without_idle_time_the_interval_is_the_whole() {
        for (ticks, share) in [(5, 25.0), (19, 95.0), (22, 100.0)] {
            let before = row(0, &[(col::CPU_USER_US, 0)]);
            let now = row(100, &[(col::CPU_USER_US, ticks)]);
            assert!((shares(&before, &now)[0] - share).abs() < 0.01);
        }
    }

    #[test]
    fn a_target_uses_a_number_of_cpus_which_the_machine_bounds() {
        let used = |ticks| {
            let before = row(0, &[(col::TARGET_CPU_US, 0)]);
            let now = row(100, &[(col::TARGET_CPU_US, ticks)]);
            Frame::of(&now, Some(&before), MACHINE).gauge(gauge::TARGET_CPU)
        };
        assert!((used(17).unwrap() - 1.7).abs() < 1e-6);
        // A new worker brings the time since its start into the counter.
        assert_eq!(used(300), Some(2.0));
    }

    proptest::proptest! {
        /// Whatever the counters do, and however long the interval is.
        #[test]
        fn the_stack_of_the_cpus_is_at_most_full(
            ms in 1_u64..2000,
            times in proptest::collection::vec((0_i64..1000, -3_i64..400), 8),
        ) {
            let at = |now: bool| -> Vec<(usize, i64)> {
                let ticks = |&(before, growth): &(i64, i64)| if now { before + growth } else { before };
                CPU_TIMES.iter().copied().zip(times.iter().map(ticks)).collect()
            };
            let shares = shares(&row(0, &at(false)), &row(ms, &at(true)));
            let sum: f64 = shares.iter().sum();
            proptest::prop_assert!(sum <= 100.01, "{:?}", shares);
            proptest::prop_assert!(shares.iter().all(|share| (0.0..=100.0).contains(share)));
        }
    }
}
