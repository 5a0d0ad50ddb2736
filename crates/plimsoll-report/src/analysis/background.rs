//! The level of memory that the runner held on the machine during a trial.

use super::{Direction, Metric};
use plimsoll_model::recording::background::{CPU, HELD, WITHIN};
use plimsoll_model::trust::{Kinds, NOTHING, TIME};

const fn neutral(name: &'static str, spoilers: Kinds, title: &'static str, meaning: &'static str) -> Metric {
    Metric {
        name,
        title,
        meaning,
        direction: Direction::Neither,
        headline: false,
        spoilers: Some(spoilers),
    }
}

pub const METRICS: &[Metric] = &[
    neutral(
        HELD,
        NOTHING,
        "background held",
        "Memory that the background of the trial held, on average.",
    ),
    neutral(
        WITHIN,
        NOTHING,
        "background within 2%",
        "Share of the looks at the level of the background, ten a second, at which it was within 2%.",
    ),
    neutral(
        CPU,
        TIME,
        "background CPU",
        "CPU time of the background, in percent of one CPU.",
    ),
];
