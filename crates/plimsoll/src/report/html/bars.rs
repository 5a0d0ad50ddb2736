//! The two bar charts: time to complete, and memory and swap use before and after the trim. Bars are medians,
//! whiskers 95% intervals, dots the runs.

use std::fmt::Write;

use super::panel::{Unit, round_step};
use super::svg;
use crate::analysis::Group;
use crate::analysis::groups::Measured;
use crate::analysis::statistics::IntervalKind;
use crate::quantity;
use crate::recording::model::TrialStatus;
use crate::report::page::MemoryUse;

const WIDTH: f64 = 620.0;
const LEFT: f64 = 176.0;
const RIGHT: f64 = 96.0;
const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
const HEADING: f64 = 26.0;
const AXIS: f64 = 34.0;

/// A row of a chart.
struct Bar<'a> {
    label: &'static str,
    /// Number of the event that it belongs to, drawn as a disc before the label.
    event: Option<u32>,
    /// Key of its colour.
    colour: &'static str,
    hatched: bool,
    /// Drawn as an outline: the state before.
    hollow: bool,
    measured: &'a Measured,
}

/// What a chart counts.
#[derive(Clone, Copy)]
enum Measure {
    Seconds,
    Bytes,
}

impl Measure {
    fn text(self, value: f64) -> String {
        match self {
            Measure::Seconds => quantity::seconds(value),
            Measure::Bytes => quantity::bytes(value),
        }
    }

    fn tick(self, value: f64) -> String {
        match self {
            Measure::Seconds => quantity::seconds(value),
            Measure::Bytes => Unit::Bytes.tick(value),
        }
    }

    fn step(self, rough: f64) -> f64 {
        match self {
            Measure::Seconds => round_step(rough),
            Measure::Bytes => 2f64.powf(rough.log2().ceil()),
        }
    }
}

/// A group's name and its bars.
type Rows<'a> = (&'a str, Vec<Bar<'a>>);

/// Time to fill, trim and restore, for each group. `None` when no group has a time.
pub(super) fn time_to_complete(groups: &[Group]) -> Option<String> {
    const KINDS: [(&str, u32); 3] = [("fill", 1), ("trim", 2), ("restore", 3)];
    fn rows(group: &Group) -> Rows<'_> {
        let bar = |(label, event): (&'static str, u32)| {
            let phase = group.phases.iter().find(|phase| phase.name == label)?;
            let measured = &phase.seconds;
            Some(Bar {
                label,
                event: Some(event),
                colour: label,
                hatched: false,
                hollow: false,
                measured,
            })
        };
        (&group.label, KINDS.into_iter().filter_map(bar).collect())
    }
    chart(
        "Time to complete",
        Measure::Seconds,
        groups.iter().map(rows).collect(),
    )
}

/// Working set, compressed store and swap before and after the trim, for each group. `None` when no group has any.
pub(super) fn memory_use(groups: &[Group], memory: &[MemoryUse]) -> Option<String> {
    fn rows<'a>((group, memory): (&'a Group, &'a MemoryUse)) -> Rows<'a> {
        let kinds = [
            ("working set", "target", &memory.working_set),
            ("compressed store", "compressed", &memory.compressed),
            ("swap used", "device0", &memory.swap_used),
        ];
        let mut bars = Vec::new();
        for (label, colour, [before, after]) in kinds {
            let hatched = colour == "target";
            let bar = |label, hatched, hollow, measured| Bar {
                label,
                event: None,
                colour,
                hatched,
                hollow,
                measured,
            };
            bars.extend(before.as_ref().map(|measured| bar(label, false, true, measured)));
            bars.extend(
                after
                    .as_ref()
                    .map(|measured| bar("after trim", hatched, false, measured)),
            );
        }
        (&group.label, bars)
    }
    let rows = groups.iter().zip(memory).map(rows).collect();
    chart(
        "Memory and swap use before and after the trim",
        Measure::Bytes,
        rows,
    )
}

fn chart(title: &str, measure: Measure, mut groups: Vec<Rows<'_>>) -> Option<String> {
    groups.retain(|(_, bars)| !bars.is_empty());
    let peak = groups
        .iter()
        .flat_map(|(_, bars)| bars)
        .map(|bar| highest(bar.measured))
        .fold(0.0, f64::max);
    if groups.is_empty() {
        return None;
    }
    let top = if peak > 0.0 { peak * 1.02 } else { 1.0 };
    let x = |value: f64| LEFT + value / top * (WIDTH - LEFT - RIGHT);
    let rows: usize = groups.iter().map(|(_, bars)| bars.len()).sum();
    let base = HEADING * groups.len() as f64 + ROW * rows as f64 + 6.0;
    let height = base + AXIS;
    let mut out =
        format!(r#"<svg class="bars" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">"#);
    let step = measure.step(top / 5.0);
    for index in 0..=(top / step) as u32 {
        let value = f64::from(index) * step;
        let at = svg::coordinate(x(value));
        let _ = write!(out, r#"<path class="grid" d="M{at} {HEADING}V{base}"/>"#);
        out += &svg::text(x(value), base + 15.0, "tick middle", &measure.tick(value));
    }
    let mut y = 0.0;
    for (label, bars) in &groups {
        let label: String = label.chars().take(70).collect();
        out += &svg::text(4.0, y + 18.0, "group", &label);
        y += HEADING;
        for bar in bars {
            draw_bar(&mut out, bar, y, measure, &x);
            y += ROW;
        }
    }
    let few = groups
        .iter()
        .flat_map(|(_, bars)| bars)
        .any(|bar| bar.measured.summary.interval.kind == IntervalKind::Range);
    let whisker = if few {
        IntervalKind::Range
    } else {
        IntervalKind::Bootstrap95
    };
    let legend = format!(
        "bar: median \u{b7} whisker: {} \u{b7} dot: one run",
        whisker.text()
    );
    out += &svg::text(WIDTH - 4.0, height - 3.0, "tick end", &legend);
    out += "</svg>";
    Some(out)
}

fn draw_bar(out: &mut String, bar: &Bar<'_>, y: f64, measure: Measure, x: &impl Fn(f64) -> f64) {
    let middle = y + ROW / 2.0;
    let top = svg::coordinate(middle - BAR / 2.0);
    let width = (x(bar.measured.summary.median) - LEFT).max(0.0);
    let words = if bar.hollow {
        format!("{}, before", bar.label)
    } else {
        bar.label.to_owned()
    };
    *out += &svg::text(LEFT - 8.0, middle + 4.0, "row end", &words);
    if let Some(event) = bar.event {
        *out += &svg::disc(LEFT - 78.0, middle, &event.to_string());
    }
    let colour = format!("var(--{})", bar.colour);
    let shape = format!(
        r#"x="{LEFT}" y="{top}" width="{}" height="{BAR}""#,
        svg::coordinate(width)
    );
    if bar.hollow {
        let _ = write!(
            out,
            r#"<rect {shape} fill="none" stroke="{colour}" stroke-width="1.5"/>"#
        );
    } else {
        let _ = write!(out, r#"<rect {shape} fill="{colour}"/>"#);
        if bar.hatched {
            let _ = write!(out, r#"<rect {shape} fill="url(#hatch)"/>"#);
        }
    }
    let interval = &bar.measured.summary.interval;
    if bar.measured.summary.n > 1 {
        let _ = write!(
            out,
            r#"<path class="whisker" d="M{0} {1}v8M{0} {2}H{3}M{3} {1}v8"/>"#,
            svg::coordinate(x(interval.low)),
            svg::coordinate(middle - 4.0),
            svg::coordinate(middle),
            svg::coordinate(x(interval.high)),
        );
    }
    for (index, dot) in bar.measured.dots.iter().enumerate() {
        // Spread over three heights, so that equal runs stay countable.
        let spread = (index % 3) as f64 * 4.0 - 4.0;
        let _ = write!(
            out,
            r#"<circle class="run{}" cx="{}" cy="{}" r="2.6"><title>{}: {}</title></circle>"#,
            if dot.status == TrialStatus::Ok {
                ""
            } else {
                " doubtful"
            },
            svg::coordinate(x(dot.value)),
            svg::coordinate(middle + spread),
            svg::escape(&dot.trial),
            measure.text(dot.value)
        );
    }
    let right = x(highest(bar.measured)) + 8.0;
    *out += &svg::text(
        right,
        middle + 4.0,
        "value",
        &measure.text(bar.measured.summary.median),
    );
}

/// The highest of the median, the interval and the runs.
fn highest(measured: &Measured) -> f64 {
    measured
        .dots
        .iter()
        .map(|dot| dot.value)
        .fold(measured.summary.interval.high, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::palette;

    #[test]
    fn colours_of_bars_are_in_the_palette() {
        let css = palette::css_variables(false);
        for key in ["fill", "trim", "restore", "target", "compressed", "device0"] {
            assert!(css.contains(&format!("--{key}:#")), "{key}");
        }
    }
}
