//! The comparison as CSV: one line a metric, group and run.

use std::fmt::Write as _;

use super::words;
use crate::comparison::{Comparison, Direction};
use crate::csv::field;

const HEADER: &str = "baseline,run,group,metric,unit,better,baseline_n,run_n,baseline_median,run_median,change,\
    interval_low,interval_high,calibrated_by,calibrated_change,p,p_holm,restates,verdict,remark\n";

/// The rows as CSV (RFC 4180, lines ended by LF), a header first. Changes are shares: 0.1 is 10%.
pub fn csv(comparison: &Comparison) -> String {
    let mut text = HEADER.to_owned();
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for row in &comparison.rows {
        let better = match row.direction {
            Direction::Less => "less",
            Direction::More => "more",
            Direction::Neither => "",
        };
        let unit = serde_json::to_value(row.unit).unwrap_or_default();
        let normalised = row.normalised.as_ref();
        let fields = [
            field(&comparison.runs[0].name),
            field(&comparison.runs[row.run].name),
            field(&row.group),
            field(&row.metric),
            unit.as_str().unwrap_or_default().to_owned(),
            better.to_owned(),
            row.baseline.values.len().to_string(),
            row.other.values.len().to_string(),
            row.baseline.median.to_string(),
            row.other.median.to_string(),
            number(row.change),
            number(row.interval.map(|ends| ends.0)),
            number(row.interval.map(|ends| ends.1)),
            normalised.map(|one| one.by.to_owned()).unwrap_or_default(),
            number(normalised.map(|one| one.change)),
            number(row.p),
            number(row.p_holm),
            row.restates.as_deref().map(field).unwrap_or_default(),
            words::verdict(row.verdict).1.to_owned(),
            field(&row.remark),
        ];
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", fields.join(","));
    }
    text
}
