//! Bar charts: groups of horizontal bars with their values, each with its whisker and the runs that it sums up.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use super::names::shortened;
use super::svg;
use super::xy::{Scale, tick, value, with_unit};
use crate::analysis::MetricUnit;
use crate::analysis::groups::{Dot, Measured};
use crate::analysis::statistics::{Interval, IntervalKind};
use plimsoll_model::recording::model::TrialStatus;

const WIDTH: f64 = 680.0;
const RIGHT: f64 = 96.0;
const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
const HEADING: f64 = 26.0;
const AXIS: f64 = 52.0;
/// Height of the value above a bar that has a spread.
const LABEL: f64 = 13.0;
/// Width of a label's letter, on average, and the room that labels have at least and at most.
const LETTER: f64 = 7.0;
const LEAST_LEFT: f64 = 96.0;
const MOST_LEFT: f64 = 280.0;
/// Room for the disc of an event before a label.
const DISC: f64 = 24.0;
/// Least distance of the words of ticks.
const APART: f64 = 64.0;
/// Letters of a group's name that fit above its bars.
const GROUP_LETTERS: usize = 90;

/// Bars that belong together, with a name above them.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    /// The name; empty for no heading.
    pub(crate) name: String,
    /// The bars, top to bottom.
    pub(crate) bars: Vec<Bar>,
}

#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) label: Cow<'static, str>,
    /// Number of the event that it belongs to, drawn as a disc before the label.
    pub(crate) event: Option<u32>,
    /// Key of its colour in the palette.
    pub(crate) colour: &'static str,
    /// Whether a hatch is drawn over it.
    pub(crate) hatched: bool,
    /// Drawn as an outline: the state before, a value that nothing was subtracted from.
    pub(crate) hollow: bool,
    /// How long it is: a median, where it sums up runs.
    pub(crate) value: f64,
    pub(crate) whisker: Option<Interval>,
    pub(crate) dots: Vec<BarDot>,
}

#[derive(Debug, Clone)]
pub(crate) struct BarDot {
    pub(crate) trial: Arc<str>,
    pub(crate) value: f64,
    /// Whether it is untrustworthy.
    pub(crate) doubtful: bool,
}

impl Bar {
    pub(crate) fn new(label: impl Into<Cow<'static, str>>, colour: &'static str, value: f64) -> Bar {
        Bar {
            label: label.into(),
            event: None,
            colour,
            hatched: false,
            hollow: false,
            value,
            whisker: None,
            dots: Vec::new(),
        }
    }

    /// The bar of a value over the repeats: its median, interval and runs.
    pub(crate) fn of(label: impl Into<Cow<'static, str>>, colour: &'static str, measured: &Measured) -> Bar {
        let summary = &measured.summary;
        let dot = |dot: &Dot| BarDot {
            trial: Arc::clone(&dot.trial),
            value: dot.value,
            doubtful: dot.status != TrialStatus::Ok,
        };
        Bar {
            whisker: (summary.n > 1).then_some(summary.interval),
            dots: measured.dots.iter().map(dot).collect(),
            ..Bar::new(label, colour, summary.median)
        }
    }

    pub(crate) fn hollow(mut self) -> Bar {
        self.hollow = true;
        self
    }

    /// Whether it sums up several values, which stand around its end: its value stands above it then.
    fn has_spread(&self) -> bool {
        self.whisker.is_some() || self.dots.len() > 1
    }

    fn height(&self) -> f64 {
        if self.has_spread() { ROW + LABEL } else { ROW }
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let whisker = self
            .whisker
            .iter()
            .flat_map(|interval| [interval.low, interval.high]);
        let dots = self.dots.iter().map(|dot| dot.value);
        std::iter::once(self.value).chain(whisker).chain(dots)
    }
}

/// The chart as SVG, its axis from 0; none where no group has a bar. A bar whose value is no number is left out.
pub(crate) fn chart(title: &str, unit: MetricUnit, groups: &[Bars]) -> Option<String> {
    let groups: Vec<(&str, Vec<&Bar>)> = groups
        .iter()
        .map(|group| {
            (
                group.name.as_str(),
                group.bars.iter().filter(|bar| bar.value.is_finite()).collect(),
            )
        })
        .filter(|(_, bars): &(_, Vec<_>)| !bars.is_empty())
        .collect();
    if groups.is_empty() {
        return None;
    }
    let all = || groups.iter().flat_map(|(_, bars)| bars.iter().copied());
    let left = all().map(label_width).fold(LEAST_LEFT, f64::max).min(MOST_LEFT);
    let scale = Scale::linear(unit, all().flat_map(Bar::values), (left, WIDTH - RIGHT));
    let heights = groups
        .iter()
        .map(|(name, bars)| heading(name) + bars.iter().map(|bar| bar.height()).sum::<f64>());
    let base = heights.sum::<f64>() + 6.0;
    let height = base + AXIS;
    let mut out = svg::open("bars", WIDTH, height, title);
    let top = heading(groups[0].0);
    for (words, at) in scale
        .ticks(APART)
        .into_iter()
        .filter_map(|value| Some((tick(unit, value), scale.place(value)?)))
    {
        out += &svg::tick("grid", at, (top, base), &words);
    }
    let middle = (left + WIDTH - RIGHT) / 2.0;
    out += &svg::text(middle, base + 31.0, "tick middle", &with_unit(title, unit));
    let names: Vec<&str> = groups.iter().map(|(name, _)| *name).collect();
    let names = shortened(&names, GROUP_LETTERS);
    let mut y = 0.0;
    for ((name, bars), name_shown) in groups.iter().zip(names) {
        if !name.is_empty() {
            out += &svg::text(4.0, y + 18.0, "group", &name_shown);
        }
        y += heading(name);
        let labels: Vec<&str> = bars.iter().map(|bar| &*bar.label).collect();
        let labels = shortened(&labels, ((left - 14.0) / LETTER) as usize);
        for (bar, label) in bars.iter().zip(labels) {
            draw_bar(&mut out, bar, &label, y, left, unit, &scale);
            y += bar.height();
        }
    }
    out += &svg::text(WIDTH - 4.0, height - 3.0, "tick end", &legend(all()));
    out += "</svg>";
    Some(out)
}

fn heading(name: &str) -> f64 {
    if name.is_empty() { 4.0 } else { HEADING }
}

fn label_width(bar: &Bar) -> f64 {
    let disc = if bar.event.is_some() { DISC + 40.0 } else { 0.0 };
    bar.label.chars().count() as f64 * LETTER + 14.0 + disc
}

/// The legend of the symbols in the chart.
fn legend<'a>(bars: impl Iterator<Item = &'a Bar> + Clone) -> String {
    let mut words = Vec::new();
    if bars.clone().any(|bar| !bar.dots.is_empty()) {
        words.push("bar: median".to_owned());
    }
    let kinds = || {
        bars.clone()
            .filter_map(|bar| bar.whisker.map(|whisker| whisker.kind))
    };
    let few = kinds().any(|kind| kind == IntervalKind::Range);
    let kind = if few {
        IntervalKind::Range
    } else {
        IntervalKind::Bootstrap95
    };
    if kinds().next().is_some() {
        words.push(format!("whisker: {}", kind.text()));
    }
    if bars.clone().any(|bar| !bar.dots.is_empty()) {
        words.push("dot: one run".to_owned());
    }
    words.join(" \u{b7} ")
}

fn draw_bar(out: &mut String, bar: &Bar, label: &str, y: f64, left: f64, unit: MetricUnit, scale: &Scale) {
    // Finite values, as all are that reach this, have a place on a linear axis.
    let x = |value: f64| scale.place(value).unwrap_or(left);
    let middle = y + bar.height() - ROW / 2.0;
    *out += &svg::text(left - 8.0, middle + 4.0, "row end", label);
    if let Some(event) = bar.event {
        *out += &svg::disc(left - 78.0, middle, &event.to_string());
    }
    draw_body(out, bar, (x(0.0), x(bar.value)), middle);
    if let Some(interval) = &bar.whisker {
        *out += &svg::whisker("whisker", (x(interval.low), x(interval.high)), middle);
    }
    for (index, dot) in bar.dots.iter().filter(|dot| dot.value.is_finite()).enumerate() {
        // Spread over three heights, so that equal runs stay countable.
        let spread = (index % 3) as f64 * 4.0 - 4.0;
        let _ = write!(
            out,
            r#"<circle class="run{}" cx="{}" cy="{}" r="2.6"><title>{}: {}</title></circle>"#,
            if dot.doubtful { " doubtful" } else { "" },
            svg::coordinate(x(dot.value)),
            svg::coordinate(middle + spread),
            svg::escape(&dot.trial),
            value(unit, dot.value)
        );
    }
    let (end, words) = (x(bar.value), value(unit, bar.value));
    *out += &match bar.has_spread() {
        // Above the end of the bar: beside it stand the spread and the runs.
        true => svg::text(end, middle - BAR / 2.0 - 4.0, "value middle on", &words),
        false => svg::text(end.max(x(0.0)) + 8.0, middle + 4.0, "value", &words),
    };
}

/// The bar itself, between 0 and its value, on either side of 0.
fn draw_body(out: &mut String, bar: &Bar, (zero, end): (f64, f64), middle: f64) {
    let colour = format!("var(--{})", bar.colour);
    let shape = format!(
        r#"x="{}" y="{}" width="{}" height="{BAR}""#,
        svg::coordinate(zero.min(end)),
        svg::coordinate(middle - BAR / 2.0),
        svg::coordinate((end - zero).abs())
    );
    if bar.hollow {
        let _ = write!(
            out,
            r#"<rect {shape} fill="none" stroke="{colour}" stroke-width="1.5"/>"#
        );
        return;
    }
    let _ = write!(out, r#"<rect {shape} fill="{colour}"/>"#);
    if bar.hatched {
        let _ = write!(out, r#"<rect {shape} fill="url(#hatch)"/>"#);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::palette;
    use super::*;

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(chart("none", MetricUnit::Seconds, &[]), None);
        let empty = Bars {
            name: "empty".to_owned(),
            bars: vec![Bar::new("no number", "line0", f64::NAN)],
        };
        assert_eq!(chart("none", MetricUnit::Seconds, &[empty]), None);
    }

    #[test]
    fn names_of_others_are_harmless() {
        let group = Bars {
            name: "<b>".to_owned(),
            bars: vec![Bar::new("<i>", "line0", 1.0)],
        };
        let svg = chart("\"><u>", MetricUnit::Ratio, &[group]).unwrap();
        for tag in ["<b>", "<i>", "<u>"] {
            assert!(!svg.contains(tag), "{svg}");
        }
    }

    #[test]
    fn a_value_below_zero_is_drawn_to_the_left_of_it() {
        let bars = vec![Bar::new("less", "line0", -1.0), Bar::new("more", "line1", 1.0)];
        let group = Bars {
            name: String::new(),
            bars,
        };
        let svg = chart("signs", MetricUnit::Seconds, &[group]).unwrap();
        let starts: Vec<&str> = svg
            .split("<rect x=\"")
            .skip(1)
            .filter_map(|part| part.split('"').next())
            .collect();
        let [less, more] = starts[..] else {
            panic!("two bars in {svg}")
        };
        assert!(less.parse::<f64>().unwrap() < more.parse::<f64>().unwrap());
        assert!(!svg.contains("width=\"-"), "{svg}");
    }

    #[test]
    fn colours_of_lines_are_in_the_palette() {
        let css = palette::css_variables(false);
        for number in 0..20 {
            assert!(
                css.contains(&format!("--{}:#", palette::line(number).0)),
                "{number}"
            );
        }
    }

    #[test]
    fn the_value_stands_on_the_median_and_beside_a_bar_without_spread() {
        let dot = |value: f64| BarDot {
            trial: "a#1".into(),
            value,
            doubtful: false,
        };
        let several = Bar {
            dots: vec![dot(1.0), dot(2.0), dot(9.0)],
            ..Bar::new("several", "line0", 2.0)
        };
        let group = Bars {
            name: String::new(),
            bars: vec![several, Bar::new("one", "line1", 2.0)],
        };
        let svg = chart("medians", MetricUnit::Seconds, &[group]).unwrap();
        let number = |text: &str, name: &str| -> f64 {
            let value = text
                .split(&format!("{name}=\""))
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            value.and_then(|value| value.parse().ok()).unwrap()
        };
        let ends: Vec<f64> = svg
            .split("<rect ")
            .skip(1)
            .map(|rect| number(rect, "x") + number(rect, "width"))
            .collect();
        let values: Vec<f64> = svg
            .split("<text ")
            .filter(|text| text.contains("class=\"value"))
            .map(|text| number(text, "x"))
            .collect();
        assert!((values[0] - ends[0]).abs() < 0.2, "{values:?} {ends:?}");
        assert!(values[1] > ends[1], "{values:?} {ends:?}");
    }

    #[test]
    fn labels_that_differ_at_the_end_stay_different() {
        let long = |end: &str| format!("{} pattern={end}", "word ".repeat(30));
        let bars = vec![
            Bar::new(long("uniform"), "line0", 1.0),
            Bar::new(long("hot-cold"), "line1", 2.0),
        ];
        let group = Bars {
            name: String::new(),
            bars,
        };
        let svg = chart("labels", MetricUnit::Seconds, &[group]).unwrap();
        assert!(
            svg.contains(">pattern=uniform<") && svg.contains(">pattern=hot-cold<"),
            "{svg}"
        );
    }

    proptest! {
        #[test]
        fn any_values_make_a_sound_drawing(values in prop::collection::vec(any::<f64>(), 0..8)) {
            let bars = values.iter().map(|value| Bar::new("a bar", "line0", *value)).collect();
            let group = Bars { name: "group".to_owned(), bars };
            if let Some(svg) = chart("any", MetricUnit::Count, &[group]) {
                prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
            }
        }
    }
}
