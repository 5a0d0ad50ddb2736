//! Which panels a timeline has: the one list that the static drawing and the interactive one share.

use super::palette;
use crate::page::{Series, Timeline};
use plimsoll_model::quantity;

/// What the vertical axis of a panel counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// Events a second.
    PerSecond,
    /// Percent.
    Percent,
}

/// How the series of a panel are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Areas, each on top of the one before.
    Stack,
    /// Lines.
    Lines,
}

/// A panel: what it shows and how, without the data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panel {
    /// Stable name.
    pub(super) id: &'static str,
    /// Title for people.
    pub(super) title: &'static str,
    /// Unit of its axis.
    pub(super) unit: Unit,
    /// How it is drawn.
    pub(super) shape: Shape,
    /// Height of the plot in pixels.
    pub(super) height: u32,
    /// Value that the axis reaches at least, so that a small or empty panel is not blown up.
    pub(super) least_top: f64,
}

/// The panels, top to bottom.
pub(super) const PANELS: &[Panel] = &[
    panel(
        "whole",
        "RAM, stacked to MemTotal",
        Unit::Bytes,
        Shape::Stack,
        150,
        0.0,
    ),
    panel(
        "moved",
        "What moved: the target and its pages, in RAM",
        Unit::Bytes,
        Shape::Stack,
        170,
        1048576.0,
    ),
    panel(
        "swap",
        "Swap used, by device",
        Unit::Bytes,
        Shape::Stack,
        80,
        1048576.0,
    ),
    panel(
        "io",
        "Page I/O",
        Unit::BytesPerSecond,
        Shape::Lines,
        80,
        1048576.0,
    ),
    panel("faults", "Faults", Unit::PerSecond, Shape::Lines, 70, 10.0),
    panel(
        "pressure",
        "Pressure stall (PSI)",
        Unit::Percent,
        Shape::Lines,
        70,
        1.0,
    ),
    panel("cpu", "CPU, all cores", Unit::Percent, Shape::Stack, 70, 100.0),
];

const fn panel(
    id: &'static str,
    title: &'static str,
    unit: Unit,
    shape: Shape,
    height: u32,
    least_top: f64,
) -> Panel {
    Panel {
        id,
        title,
        unit,
        shape,
        height,
        least_top,
    }
}

impl Panel {
    /// The series that a timeline has for this panel.
    pub(super) fn series<'a>(&self, timeline: &'a Timeline) -> Vec<&'a Series> {
        match self.id {
            "whole" => timeline.layers.iter().collect(),
            "moved" => timeline
                .layers
                .iter()
                .filter(|series| palette::paint_of(&series.key).moves)
                .collect(),
            "swap" => timeline.swap.iter().collect(),
            "io" => timeline.io.iter().collect(),
            "faults" => timeline.faults.iter().collect(),
            "pressure" => timeline.pressure.iter().collect(),
            _ => timeline.cpu.iter().collect(),
        }
    }

    /// Whether its series are layers of the memory stack.
    pub(super) fn shows_layers(&self) -> bool {
        matches!(self.id, "whole" | "moved")
    }

    /// CSS variable that colours a series of this panel.
    pub(super) fn colour(&self, series: &Series, place: usize) -> String {
        let key = if self.shows_layers() {
            palette::paint_of(&series.key).key
        } else {
            palette::ink_of(&series.key, place).key
        };
        format!("var(--{key})")
    }
}

impl Unit {
    /// Name in the page's data.
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes-per-second",
            Unit::PerSecond => "per-second",
            Unit::Percent => "percent",
        }
    }

    /// A value of this unit as text.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Unit::Bytes => quantity::bytes(value),
            Unit::BytesPerSecond if value == 0.0 => "0".to_owned(),
            Unit::BytesPerSecond => format!("{}/s", quantity::bytes(value)),
            Unit::PerSecond if value >= 9999.5 => format!("{}k/s", quantity::significant(value / 1e3)),
            Unit::PerSecond if value == 0.0 => "0".to_owned(),
            Unit::PerSecond => format!("{value:.0}/s"),
            Unit::Percent => format!(
                "{}%",
                if value < 10.0 && value.fract() != 0.0 {
                    format!("{value:.1}")
                } else {
                    format!("{value:.0}")
                }
            ),
        }
    }

    /// A value of an axis as text: as [`Unit::text`], without decimals that say nothing.
    pub(crate) fn tick(self, value: f64) -> String {
        let text = self.text(value);
        match text.split_once(' ') {
            Some((number, unit)) if number.contains('.') => {
                format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
            }
            _ => text,
        }
    }

    /// Axis values from 0 to at most `top`: about `wanted` of them, round in this unit.
    pub(crate) fn ticks(self, top: f64, wanted: u32) -> Vec<f64> {
        if !top.is_finite() || top <= 0.0 {
            return vec![0.0];
        }
        let rough = top / f64::from(wanted.max(1));
        let step = match self {
            Unit::Bytes | Unit::BytesPerSecond => 2f64.powf(rough.log2().ceil()),
            Unit::PerSecond | Unit::Percent => round_step(rough),
        };
        let count = (top / step + 1e-9) as u32;
        (0..=count).map(|index| f64::from(index) * step).collect()
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below `rough`.
pub(crate) fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(power * 10.0)
}
