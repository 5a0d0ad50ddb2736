//! The data that the report's script draws, as compact JSON: whole numbers, each series as its first value and the
//! differences from there, so that a constant value costs two characters per bucket.

use serde_json::{Value, json};

use crate::analysis::gauges::GaugeUnit;
use crate::contents::{Index, Page, Series, Timeline};
use crate::drawing::palette;
use crate::drawing::panel::{self, Curve, Panel};

/// Bytes are sent in this unit.
const KIB: f64 = 1024.0;
/// Shares and rates are sent in hundredths.
const HUNDREDTH: f64 = 0.01;

/// The page's data, safe inside a `<script>` element: it holds no `<`, `>`, `&` and no line separator.
pub(super) fn json(page: &Page, index: &Index<'_>) -> String {
    let timelines: Vec<Value> = std::iter::once(&page.overview)
        .chain(&page.trials)
        .map(timeline)
        .collect();
    let document = json!({
        "memTotal": page.manifest.host.mem_total as f64 / KIB,
        "panels": panel::drawn().collect::<Vec<_>>(),
        "marks": page.marks,
        "trials": page.results.trials.iter().map(|trial| json!({
            "id": trial.id,
            "from": trial.span_ns.0 as f64 / 1e9,
            "to": trial.span_ns.1 as f64 / 1e9,
        })).collect::<Vec<_>>(),
        "groups": page.groups.iter().map(|group| json!({
            "label": group.label,
            "trials": group.trials,
            "trial": index.representative(group).map(|(trial, _)| &trial.id),
        })).collect::<Vec<_>>(),
        "timelines": timelines,
    });
    script_safe(&document.to_string())
}

/// JSON in which no character can end a script element or a line of script; escapes mean the same inside strings,
/// and outside of strings JSON has none of these characters.
pub fn script_safe(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            _ => safe.push(letter),
        }
    }
    safe
}

fn timeline(timeline: &Timeline) -> Value {
    let milliseconds: Vec<Option<i64>> = timeline
        .t
        .iter()
        .map(|t| Some((t * 1000.0).round() as i64))
        .collect();
    let mut panels = serde_json::Map::new();
    for panel in panel::drawn() {
        // What moved is a choice of the layers of the whole: the script takes it from there.
        if panel.id != "moved" {
            panels.insert(panel.id.to_owned(), series(panel, timeline));
        }
    }
    json!({ "trial": timeline.trial, "t": differences(&milliseconds), "panels": panels })
}

fn series(panel: &Panel, timeline: &Timeline) -> Value {
    let unit = match panel.unit {
        GaugeUnit::Bytes | GaugeUnit::BytesPerSecond => KIB,
        GaugeUnit::Percent | GaugeUnit::Cpus | GaugeUnit::Milliseconds => HUNDREDTH,
        GaugeUnit::PerSecond | GaugeUnit::Number => 1.0,
    };
    let whole = |values: &[Option<f64>]| -> Vec<Option<i64>> {
        let round = |value: f64| (value / unit).round() as i64;
        values.iter().map(|value| value.map(round)).collect()
    };
    // Stacks are summed before they are rounded, so that the top of the memory stack is MemTotal to the byte.
    let describe = |(place, (one, curve)): (usize, Curve<'_>)| {
        let (values, peaks) = (differences(&whole(&curve)), differences(&whole(&one.peaks)));
        describe(panel, one, place, values, peaks)
    };
    panel
        .curves(timeline)
        .into_iter()
        .enumerate()
        .map(describe)
        .collect()
}

fn describe(panel: &Panel, one: &Series, place: usize, values: Value, peaks: Value) -> Value {
    if panel.shows_layers() {
        let paint = palette::paint_of(&one.key);
        return json!({
            "label": paint.label, "ink": paint.key, "hatched": paint.hatched, "moves": paint.moves, "v": values,
        });
    }
    let ink = palette::ink_of(&one.key, place);
    json!({ "label": one.label, "ink": ink.key, "dash": ink.dash, "v": values, "peaks": peaks })
}

/// Each value as its difference from the one before; a gap is null and does not move the base.
fn differences(values: &[Option<i64>]) -> Value {
    let mut last = 0;
    values
        .iter()
        .map(|value| match value {
            Some(value) => {
                let difference = value - last;
                last = *value;
                Value::from(difference)
            }
            None => Value::Null,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_end_the_script_element() {
        let hostile = json!({ "</script><img onerror=x>": "\u{2028}&\u{2029}" });
        let safe = script_safe(&hostile.to_string());
        assert!(!safe.contains(['<', '>', '&', '\u{2028}', '\u{2029}']));
        assert_eq!(serde_json::from_str::<Value>(&safe).ok(), Some(hostile));
    }

    #[test]
    fn differences_skip_gaps() {
        assert_eq!(
            differences(&[Some(5), None, Some(7), Some(7)]),
            json!([5, null, 2, 0])
        );
    }
}
