//! One sample as people look at it: layers of RAM, and gauges that need the sample before it.

use super::gauges::{CPU_TIMES, GAUGES, Gauge, Reading, Scale};
use plimsoll_model::categories::{CATEGORIES, categories};
use plimsoll_model::columns::Row;

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
        let cpu_us = cpu_us(|column| row.get(column), |column| before?.get(column));
        for (gauge, slot) in GAUGES.iter().zip(&mut frame.gauges) {
            if let Some(value) = value(gauge, row, before, machine, cpu_us) {
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

    /// Sets the gauge `index`.
    pub fn set_gauge(&mut self, index: usize, value: f64) {
        self.gauges[index] = value as f32;
    }

    /// MemTotal in bytes, where the layers are known.
    pub fn mem_total(&self) -> Option<i64> {
        self.layers.map(|layers| layers.iter().sum())
    }
}

fn value(gauge: &Gauge, row: &Row, before: Option<&Row>, machine: Machine, cpu_us: i64) -> Option<f64> {
    let point = |row: &Row| Point::of(row.t_ns, gauge.columns.iter().map(|&column| row.get(column)));
    gauge.value(point(row), before.map(point), machine, cpu_us)
}

/// The time of all CPUs, idle time included, that the kernel accounted between two samples, by their columns.
///
/// A time that goes back, as that of I/O wait may, counts as 0: no kind of time is more than the whole.
pub(super) fn cpu_us(row: impl Fn(usize) -> Option<i64>, before: impl Fn(usize) -> Option<i64>) -> i64 {
    let growth = |&column: &usize| row(column)?.checked_sub(before(column)?);
    CPU_TIMES
        .iter()
        .filter_map(growth)
        .map(|us| us.max(0))
        .fold(0, i64::saturating_add)
}

/// The input of a gauge at one sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    t_ns: u64,
    /// Sum of the gauge's columns; none when all are absent.
    sum: Option<i64>,
}

impl Point {
    /// The point of a sample with the values of a gauge's columns.
    pub(super) fn of(t_ns: u64, values: impl Iterator<Item = Option<i64>>) -> Point {
        Point {
            t_ns,
            sum: values.flatten().reduce(i64::saturating_add),
        }
    }
}

impl Gauge {
    /// The gauge's value at a sample. A rate is that since the sample before; where the counter went back it is not known.
    /// `cpu_us` is the time of [`cpu_us`] between the two.
    pub(super) fn value(
        &self,
        at: Point,
        before: Option<Point>,
        machine: Machine,
        cpu_us: i64,
    ) -> Option<f64> {
        match self.reading {
            Reading::Level(factor) => Some(at.sum? as f64 * factor),
            Reading::Rate(scale) => {
                let before = before?;
                let growth = at.sum?.checked_sub(before.sum?)?;
                let seconds = at.t_ns.checked_sub(before.t_ns)? as f64 / 1e9;
                if growth < 0 || seconds <= 0.0 {
                    return None;
                }
                let accounted = cpu_us as f64 / seconds;
                Some(scale.apply(growth as f64 / seconds, machine, accounted))
            }
        }
    }
}

impl Scale {
    /// `rate`, in units of the counter a second, as it is shown. `accounted` is the time of all CPUs, in microseconds a
    /// second, that the kernel accounted in the same interval.
    ///
    /// Counters of time move in clock ticks, 10 ms for each CPU: an interval of 100 ms can hold 11 of them, and two
    /// CPUs 22. Shares of the CPUs are therefore shares of the ticks that the interval holds, of which all kinds
    /// together make 100%. Shares of other times are cut off at 100%, and the CPUs of a process at those of the machine:
    /// the counter also grows by the past time of a worker that is counted from its start.
    pub fn apply(self, rate: f64, machine: Machine, accounted: f64) -> f64 {
        let cpus = f64::from(machine.cpus.max(1));
        match self {
            Scale::One => rate,
            Scale::Page => rate * machine.page_size as f64,
            Scale::PercentOfTime => (rate * 1e-4).min(100.0),
            Scale::PercentOfOneCpu => (rate * 1e-4).min(100.0 * cpus),
            Scale::Cpus => (rate * 1e-6).min(cpus),
            Scale::PercentOfCpus => {
                let elapsed = cpus * 1e6;
                // Less than a half: the kernel, or the container, does not account idle time.
                let whole = if 2.0 * accounted < elapsed {
                    elapsed
                } else {
                    accounted
                };
                (100.0 * rate / whole).min(100.0)
            }
        }
    }
}
