//! The panels of a timeline: the one table that the static drawing, the report's script and the monitor's script share.

use serde::Serialize;

use super::palette;
use crate::analysis::gauges::{self, GaugeUnit};
use crate::contents::{Series, Timeline};
use plimsoll_model::quantity;

/// A panel without its data. Both scripts draw from its serialized form.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Panel {
    pub id: &'static str,
    pub title: &'static str,
    heading: &'static str,
    pub unit: GaugeUnit,
    /// Whether its series are areas, each on top of the one before; lines otherwise.
    pub stack: bool,
    /// Height of the plot in pixels; 0 for values in the table alone.
    pub height: u32,
    /// Value that the axis reaches at least, so that a small or empty panel is not blown up.
    #[serde(rename = "least")]
    pub least_top: f64,
    #[serde(skip)]
    contents: Contents,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Contents {
    Layers,
    Moving,
    Of(gauges::Panel),
}

macro_rules! panels {
    ($($id:literal $title:literal $heading:literal $unit:ident $stack:literal $height:literal $least_top:literal $contents:expr;)*) => {
        /// The panels, top to bottom.
        pub const PANELS: &[Panel] = &[
            $(Panel {
                id: $id,
                title: $title,
                heading: $heading,
                unit: GaugeUnit::$unit,
                stack: $stack,
                height: $height,
                least_top: $least_top,
                contents: $contents,
            },)*
        ];
    };
}

use Contents::{Layers, Moving, Of};
use gauges::Panel::{Cpu, Faults, Io, Monitor, Pager, Pressure, Swap, Target};

panels! {
    "whole" "RAM, stacked to MemTotal" "In RAM" Bytes true 150 0.0 Layers;
    "moved" "Moving layers: the target and its pages, in RAM" "" Bytes true 170 1048576.0 Moving;
    "target" "Target" "Target" Bytes false 0 0.0 Of(Target);
    "pager" "Pages of the target's pagers, by state" "Pagers" Bytes true 90 1048576.0 Of(Pager);
    "swap" "Swap used, by device" "Swap" Bytes true 80 1048576.0 Of(Swap);
    "io" "Page I/O" "Page I/O" BytesPerSecond false 80 1048576.0 Of(Io);
    "faults" "Faults" "Faults" PerSecond false 70 10.0 Of(Faults);
    "pressure" "Pressure stall (PSI)" "Pressure" Percent false 70 1.0 Of(Pressure);
    "cpu" "CPU, all cores" "CPU" Percent true 70 100.0 Of(Cpu);
    "monitor" "Monitor" "Monitor" Percent false 0 0.0 Of(Monitor);
}

/// All layers.
pub const WHOLE: &Panel = &PANELS[0];
const _: () = assert!(matches!(WHOLE.contents, Layers));

/// The layers that the experiment moves, without the others.
pub const MOVED: &Panel = &PANELS[1];
const _: () = assert!(matches!(MOVED.contents, Moving));

pub fn drawn() -> impl Iterator<Item = &'static Panel> {
    PANELS.iter().filter(|panel| panel.height > 0)
}

/// The drawn panels whose series are those of gauges.
pub(crate) fn drawn_gauges() -> impl Iterator<Item = gauges::Panel> {
    drawn().filter_map(|panel| match panel.contents {
        Of(panel) => Some(panel),
        Layers | Moving => None,
    })
}

/// A series and its drawn values.
pub type Curve<'a> = (&'a Series, Vec<Option<f64>>);

impl Panel {
    /// The series that a timeline has for this panel.
    fn series<'a>(&self, timeline: &'a Timeline) -> Vec<&'a Series> {
        match self.contents {
            Layers => timeline.layers.iter().collect(),
            Moving => {
                let moves = |series: &&Series| palette::paint_of(&series.key).moves;
                timeline.layers.iter().filter(moves).collect()
            }
            Of(panel) => timeline.of(panel).iter().collect(),
        }
    }

    /// Its series with their drawn values: in a stack the sums from the bottom up; a gap in one is a gap in all above it.
    pub fn curves<'a>(&self, timeline: &'a Timeline) -> Vec<Curve<'a>> {
        let mut sum = vec![Some(0.0); timeline.t.len()];
        let curve = |series: &'a Series| {
            if !self.stack {
                return (series, series.values.clone());
            }
            for (sum, value) in sum.iter_mut().zip(&series.values) {
                *sum = sum.zip(*value).map(|(sum, value)| sum + value);
            }
            (series, sum.clone())
        };
        self.series(timeline).into_iter().map(curve).collect()
    }

    /// Whether it is drawn for a timeline: a panel of pagers is there only with a pager.
    pub fn is_drawn_for(&self, timeline: &Timeline) -> bool {
        self.contents != Of(Pager) || !timeline.of(Pager).is_empty()
    }

    /// Whether its series are layers of the memory stack.
    pub fn shows_layers(&self) -> bool {
        matches!(self.contents, Layers | Moving)
    }

    /// CSS variable that colours a series of this panel.
    pub fn colour(&self, series: &Series, place: usize) -> String {
        let key = if self.shows_layers() {
            palette::paint_of(&series.key).key
        } else {
            palette::ink_of(&series.key, place).key
        };
        format!("var(--{key})")
    }
}

impl GaugeUnit {
    /// A value of this unit as text.
    pub fn text(self, value: f64) -> String {
        match self {
            GaugeUnit::Bytes => quantity::bytes(value),
            GaugeUnit::BytesPerSecond | GaugeUnit::PerSecond if value == 0.0 => "0".to_owned(),
            GaugeUnit::BytesPerSecond => format!("{}/s", quantity::bytes(value)),
            GaugeUnit::PerSecond if value >= 9999.5 => format!("{}k/s", quantity::significant(value / 1e3)),
            GaugeUnit::PerSecond => format!("{value:.0}/s"),
            GaugeUnit::Percent if value < 10.0 && value.fract() != 0.0 => format!("{value:.1}%"),
            GaugeUnit::Percent => format!("{value:.0}%"),
            GaugeUnit::Cpus => format!("{value:.2} CPUs"),
            GaugeUnit::Milliseconds => format!("{} ms", quantity::significant(value)),
            GaugeUnit::Number => format!("{value:.0}"),
        }
    }

    /// A value of an axis as text: as `Unit::text`, without decimals that say nothing.
    pub fn tick(self, value: f64) -> String {
        let text = self.text(value);
        match text.split_once(' ') {
            Some((number, unit)) if number.contains('.') => {
                format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
            }
            _ => text,
        }
    }

    /// Axis values from 0 to at most `top`: about `wanted` of them, round in this unit.
    pub fn ticks(self, top: f64, wanted: u32) -> Vec<f64> {
        if !top.is_finite() || top <= 0.0 {
            return vec![0.0];
        }
        let rough = top / f64::from(wanted.max(1));
        let step = match self {
            GaugeUnit::Bytes | GaugeUnit::BytesPerSecond => 2f64.powf(rough.log2().ceil()),
            _ => round_step(rough),
        };
        let count = (top / step + 1e-9) as u32;
        (0..=count).map(|index| f64::from(index) * step).collect()
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below `rough`.
pub fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(power * 10.0)
}
