//! The data that the report's script draws, as compact JSON: whole numbers, each series as its first value and the
//! differences from there, so that a constant value costs two characters per bucket.

use std::fmt;
use std::io;
use std::sync::Arc;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::analysis::Group;
use crate::analysis::gauges::GaugeUnit;
use crate::contents::{Index, Mark, Page, Series, Timeline};
use crate::drawing::palette;
use crate::drawing::panel::{self, Curve, Panel};
use plimsoll_model::recording::model::Trial;

/// Bytes are sent in this unit.
const KIB: f64 = 1024.0;
/// Shares and rates are sent in hundredths.
const HUNDREDTH: f64 = 0.01;

/// The page's data, written as JSON that is safe inside a `<script>` element: it holds no `<`, `>`, `&` and no line
/// separator.
pub(super) struct Document<'a> {
    page: &'a Page,
    /// For each group the trial that is drawn for it.
    representatives: Vec<Option<&'a str>>,
}

impl<'a> Document<'a> {
    pub(super) fn new(page: &'a Page, index: &Index<'a>) -> Document<'a> {
        let representative = |group| index.representative(group).map(|(trial, _)| trial.id.as_str());
        Document {
            page,
            representatives: page.groups.iter().map(representative).collect(),
        }
    }
}

impl fmt::Display for Document<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        serde_json::to_writer(Safe(f), self).map_err(|_| fmt::Error)
    }
}

/// The fields of each map are in the order of their names.
impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let page = self.page;
        let mut map = serializer.serialize_map(None)?;
        let groups = page.groups.iter().zip(&self.representatives);
        map.serialize_entry("groups", &Each::of(|| groups.clone().map(GroupData::of)))?;
        map.serialize_entry("marks", &Each::of(|| page.marks.iter().map(MarkData::of)))?;
        map.serialize_entry("memTotal", &(page.manifest.host.mem_total as f64 / KIB))?;
        let timelines = || std::iter::once(&page.overview).chain(&page.trials);
        let is_drawn = |panel: &&Panel| timelines().any(|timeline| panel.is_drawn_for(timeline));
        let panels: Vec<&Panel> = panel::drawn().filter(is_drawn).collect();
        map.serialize_entry("panels", &serde_json::json!(panels))?;
        map.serialize_entry("timelines", &Each::of(|| timelines().map(timeline)))?;
        map.serialize_entry(
            "trials",
            &Each::of(|| page.results.trials.iter().map(TrialData::of)),
        )?;
        map.end()
    }
}

/// A sequence whose elements are made while they are written.
struct Each<F>(F);

impl<I: Iterator<Item: Serialize>, F: Fn() -> I> Each<F> {
    fn of(elements: F) -> Each<F> {
        Each(elements)
    }
}

impl<I: Iterator<Item: Serialize>, F: Fn() -> I> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

#[derive(Serialize)]
struct GroupData<'a> {
    label: &'a str,
    trial: Option<&'a str>,
    #[serde(serialize_with = "texts")]
    trials: &'a [Arc<str>],
}

fn texts<S: Serializer>(texts: &[Arc<str>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(texts.iter().map(AsRef::<str>::as_ref))
}

impl<'a> GroupData<'a> {
    fn of((group, trial): (&'a Group, &Option<&'a str>)) -> GroupData<'a> {
        GroupData {
            label: &group.label,
            trial: *trial,
            trials: &group.trials,
        }
    }
}

#[derive(Serialize)]
struct MarkData<'a> {
    label: &'a str,
    name: &'a str,
    t: f64,
    trial: Option<&'a str>,
}

impl<'a> MarkData<'a> {
    fn of(mark: &'a Mark) -> MarkData<'a> {
        MarkData {
            label: &mark.label,
            name: &mark.name,
            t: mark.t,
            trial: mark.trial.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct TrialData<'a> {
    from: f64,
    id: &'a str,
    to: f64,
}

impl<'a> TrialData<'a> {
    fn of(trial: &'a Trial) -> TrialData<'a> {
        TrialData {
            from: trial.span_ns.0 as f64 / 1e9,
            id: &trial.id,
            to: trial.span_ns.1 as f64 / 1e9,
        }
    }
}

/// JSON in which no character can end a script element or a line of script; escapes mean the same inside strings,
/// and outside of strings JSON has none of these characters.
pub fn script_safe(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    // A string takes any text.
    let _ = write_safe(&mut safe, json);
    safe
}

fn write_safe(out: &mut impl fmt::Write, json: &str) -> fmt::Result {
    let mut rest = json;
    while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        let (before, unsafe_on) = rest.split_at(at);
        let mut letters = unsafe_on.chars();
        let letter = letters.next().unwrap_or_default();
        out.write_str(before)?;
        write!(out, "\\u{:04x}", u32::from(letter))?;
        rest = letters.as_str();
    }
    out.write_str(rest)
}

/// Writes the JSON of a serializer, which is text in whole characters, as [`script_safe`] does.
struct Safe<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl io::Write for Safe<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        write_safe(self.0, text).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The times of a timeline in milliseconds.
pub(crate) fn times(timeline: &Timeline) -> Value {
    let milliseconds: Vec<Option<i64>> = timeline
        .t
        .iter()
        .map(|t| Some((t * 1000.0).round() as i64))
        .collect();
    differences(&milliseconds)
}

fn timeline(timeline: &Timeline) -> Value {
    let mut panels = serde_json::Map::new();
    for panel in panel::drawn() {
        // What moved is a choice of the layers of the whole: the script takes it from there. A panel of another timeline has
        // an empty list here.
        if panel.id != "moved" {
            panels.insert(panel.id.to_owned(), series(panel, timeline));
        }
    }
    json!({ "trial": timeline.trial, "t": times(timeline), "panels": panels })
}

/// The series of a panel: of a stack, the sums from the bottom up.
pub(crate) fn series(panel: &Panel, timeline: &Timeline) -> Value {
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
