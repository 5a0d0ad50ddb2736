//! The description of a metric: title, meaning, unit, direction. One table per workload.

use plimsoll_model::trust::Kinds;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Name in documents, the unit at its end.
    pub name: &'static str,
    pub title: &'static str,
    /// A sentence.
    pub meaning: &'static str,
    pub direction: Direction,
    pub headline: bool,
    /// The confounders that can spoil it; `None` of a time or a rate, which its unit tells.
    pub spoilers: Option<Kinds>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    Less,
    More,
    /// Neither: a change is to be known.
    Neither,
}

impl Direction {
    /// The direction in tables and data sets.
    pub fn text(self) -> &'static str {
        match self {
            Direction::Less => "less",
            Direction::More => "more",
            Direction::Neither => "neither",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricUnit {
    Seconds,
    /// Gigabytes (1e9 bytes) a second.
    GbPerS,
    PerSecond,
    Bytes,
    Ratio,
    Percent,
    Count,
}

impl MetricUnit {
    /// Endings of names by unit; an ending precedes its own suffixes.
    const ENDINGS: [(&str, MetricUnit); 6] = [
        ("_gb_per_s", MetricUnit::GbPerS),
        ("_per_s", MetricUnit::PerSecond),
        ("_bytes", MetricUnit::Bytes),
        ("_percent", MetricUnit::Percent),
        ("_ratio", MetricUnit::Ratio),
        ("_s", MetricUnit::Seconds),
    ];

    /// The unit by the ending of a name.
    pub fn of_name(name: &str) -> MetricUnit {
        let mut endings = Self::ENDINGS.iter();
        let found =
            endings.find(|(ending, _)| name.ends_with(ending) || name == ending.trim_start_matches('_'));
        found.map_or(MetricUnit::Count, |(_, unit)| *unit)
    }

    /// The unit in tables and data sets.
    pub fn text(self) -> &'static str {
        match self {
            MetricUnit::Seconds => "seconds",
            MetricUnit::GbPerS => "GB/s",
            MetricUnit::PerSecond => "per second",
            MetricUnit::Bytes => "bytes",
            MetricUnit::Ratio => "ratio",
            MetricUnit::Percent => "percent",
            MetricUnit::Count => "number",
        }
    }

    /// The ending for this unit; empty for a count.
    pub fn ending(self) -> &'static str {
        let mut endings = Self::ENDINGS.iter();
        endings
            .find(|(_, unit)| *unit == self)
            .map_or("", |(ending, _)| ending)
    }
}

/// Declares the table `METRICS` of a kind of work, with a name constant for each metric:
/// `CONSTANT "name" Direction headline SPOILERS "title" "meaning";`. The spoilers, a constant of
/// [`trust`](plimsoll_model::trust), are left out of times and rates.
macro_rules! metrics {
    (@spoilers) => { None };
    (@spoilers $spoilers:ident) => { Some(plimsoll_model::trust::$spoilers) };
    ($($constant:ident $name:literal $direction:ident $headline:literal $($spoilers:ident)? $title:literal $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $constant: &str = $name;)*
        /// Every metric of this kind of work, the headline ones first.
        pub const METRICS: &[$crate::analysis::Metric] = &[
            $($crate::analysis::Metric {
                name: $constant,
                title: $title,
                meaning: $meaning,
                direction: $crate::analysis::Direction::$direction,
                headline: $headline,
                spoilers: $crate::analysis::metric::metrics!(@spoilers $($spoilers)?),
            },)*
        ];
    };
}
pub(crate) use metrics;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_at_the_end_of_names() {
        for (name, unit) in [
            ("trim_gb_per_s", MetricUnit::GbPerS),
            ("scans_per_s", MetricUnit::PerSecond),
            ("recovery_s", MetricUnit::Seconds),
            ("ratio", MetricUnit::Ratio),
            ("fair", MetricUnit::Count),
        ] {
            assert_eq!(MetricUnit::of_name(name), unit, "{name}");
            assert_eq!(MetricUnit::of_name(unit.ending()), unit, "{name}");
        }
    }
}
