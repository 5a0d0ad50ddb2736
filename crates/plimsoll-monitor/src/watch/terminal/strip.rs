//! The strips below the chart: their gauges, labels and scales.

use super::numbers;
use super::theme::Ink;
use crate::watch::history::Bucket;
use plimsoll_report::analysis::frame::Frame;
use plimsoll_report::analysis::gauges::{GAUGES, Gauge, GaugeUnit, Panel, gauge};

/// A row of bars below the chart.
#[derive(Debug, PartialEq)]
pub(super) struct Strip {
    /// Text on the left.
    pub(super) label: &'static str,
    /// Text on the right.
    pub(super) title: &'static str,
    gauges: &'static [usize],
    /// Label and gauge of a second value on the right.
    pub(super) beside: Option<(&'static str, usize)>,
    pub(super) ink: Ink,
    /// Smallest screen height with this strip.
    pub(super) from_height: u16,
}

macro_rules! strips {
    ($($label:literal $title:literal $ink:ident $from_height:literal [$($gauge:ident),+] $beside:expr;)*) => {
        pub(super) const STRIPS: &[Strip] = &[
            $(Strip {
                label: $label,
                title: $title,
                gauges: &[$(gauge::$gauge),+],
                beside: $beside,
                ink: Ink::$ink,
                from_height: $from_height,
            },)*
        ];
    };
}

strips! {
    "in" "swap in" In 16 [SWAP_IN] None;
    "out" "swap out" Out 16 [SWAP_OUT] None;
    "refl" "refault" Stall 18 [REFAULT, REFAULT_FILE] None;
    "major" "major flt" Stall 28 [MAJOR] None;
    "zero" "zero-fill" Plain 22 [ZERO_FILLED] None;
    "read" "block in" In 32 [DISK_IN] None;
    "write" "block out" Out 32 [DISK_OUT] None;
    "mem" "PSI mem" Stall 16 [MEMORY_SOME] Some(("full", gauge::MEMORY_FULL));
    "io" "PSI I/O" In 20 [IO_SOME] None;
    "stall" "PSI CPU" Out 28 [CPU_SOME] None;
    "cpu" "CPU" Cpu 16 [USER, NICE, SYSTEM, INTERRUPTS, STEAL] Some(("wait", gauge::IOWAIT));
}

impl Strip {
    pub(super) fn value(&self, frame: &Frame) -> Option<f64> {
        sum(self.gauges, |index| frame.gauge(index))
    }

    /// Maximum within a bucket. For several gauges, the sum of their maxima, which may be slightly too high.
    pub(super) fn greatest(&self, bucket: &Bucket) -> Option<f64> {
        match self.gauges {
            [index] => bucket.max(*index),
            _ => self.value(&bucket.mean),
        }
    }

    fn first(&self) -> &'static Gauge {
        &GAUGES[self.gauges[0]]
    }

    pub(super) fn text(&self, value: f64) -> String {
        match self.first().unit {
            GaugeUnit::BytesPerSecond => numbers::rate(value),
            GaugeUnit::Percent => numbers::percent(value),
            _ => numbers::events(value),
        }
    }

    /// The value of a full bar: the lowest of 10, 25, 50 and 100 above all values for percent, 100 for CPU time,
    /// otherwise the largest visible value.
    pub(super) fn full(&self, greatest: f64) -> f64 {
        match self.first().unit {
            GaugeUnit::Percent if self.first().panel == Panel::Cpu => 100.0,
            GaugeUnit::Percent => [10.0, 25.0, 50.0]
                .into_iter()
                .find(|&full| greatest <= full)
                .unwrap_or(100.0),
            GaugeUnit::BytesPerSecond => greatest.max(4096.0),
            _ => greatest.max(1.0),
        }
    }
}

fn sum(gauges: &[usize], value: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    gauges
        .iter()
        .filter_map(|&index| value(index))
        .reduce(|a, b| a + b)
}
