//! The strips below the chart: their gauges, labels and scales.

use super::figures;
use super::theme::Ink;
use crate::watch::history::Bucket;
use plimsoll_report::analysis::frame::Frame;
use plimsoll_report::analysis::gauges::{GAUGES, Gauge, GaugeUnit, Panel, gauge};

/// A row of bars.
#[derive(Debug, PartialEq)]
pub(super) struct Strip {
    /// What stands on its left.
    pub(super) label: &'static str,
    /// What stands on its right.
    pub(super) title: &'static str,
    /// What is summed up.
    gauges: &'static [usize],
    /// What is said beside it, in brackets.
    pub(super) beside: Option<(&'static str, usize)>,
    pub(super) ink: Ink,
    /// The pages that have room for it.
    pub(super) from_height: u16,
}

macro_rules! strips {
    ($($label:literal $title:literal $ink:ident $from_height:literal [$($gauge:ident),+] $beside:expr;)*) => {
        /// Every strip, from top to bottom.
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

    /// Greatest value within a bucket. Of several gauges it is the sum of their greatest, which may be too much by a bit.
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
            GaugeUnit::BytesPerSecond => figures::rate(value),
            GaugeUnit::Percent => figures::percent(value),
            _ => figures::events(value),
        }
    }

    /// What its full height is: of percent the lowest of 10, 25, 50 and 100 that holds every value, of CPU time all of
    /// it, else the greatest value that can be seen.
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
