//! Values of hosts as dots in a row per class, over the class's quartiles and median.

use std::fmt::Write;

use super::names::cut;
use super::svg;
use super::xy::{Axis, Scale, tick, value};
use crate::analysis::MetricUnit;

const WIDTH: f64 = 680.0;
const LEFT: f64 = 216.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 6.0;
const AXIS: f64 = 24.0;
/// Least distance of words along the axis.
const APART: f64 = 66.0;
/// Height of a row with dots in one layer, and of each layer beyond it.
const ROW: f64 = 40.0;
const LAYER: f64 = 5.0;
const RADIUS: f64 = 3.0;
/// Layers of dots at one place; further ones cover them.
const MOST_LAYERS: usize = 8;
const LABEL_LETTERS: usize = 28;
const NAME_LETTERS: usize = 30;
/// Outliers of a row that have their name beside the dot.
const MOST_NAMES: usize = 6;

/// The hosts of a class.
#[derive(Debug, Clone)]
pub struct Strip {
    pub label: String,
    pub dots: Vec<StripDot>,
    /// First quartile, median, third quartile of the trustworthy values.
    pub quartiles: Option<(f64, f64, f64)>,
}

#[derive(Debug, Clone)]
pub struct StripDot {
    pub name: String,
    pub value: f64,
    pub outlier: bool,
    /// Whether it is untrustworthy, so that quartiles leave it out.
    pub doubtful: bool,
}

/// The chart as SVG; none without a finite value.
pub(crate) fn chart(title: &str, unit: MetricUnit, strips: &[Strip]) -> Option<String> {
    let values = || strips.iter().flat_map(|strip| &strip.dots).map(|dot| dot.value);
    if !values().any(f64::is_finite) {
        return None;
    }
    let scale = Scale::new(&Axis::linear("", unit), values(), false, (LEFT, WIDTH - RIGHT));
    let rows: Vec<Row<'_>> = strips.iter().map(|strip| Row::new(strip, &scale)).collect();
    let base = TOP + rows.iter().map(Row::height).sum::<f64>();
    let mut out = svg::open("bars", WIDTH, base + AXIS, title);
    for at in scale.ticks(APART) {
        if let Some(x) = scale.place(at) {
            out += &svg::tick("grid", x, (TOP, base), &tick(unit, at));
        }
    }
    let mut y = TOP;
    for row in &rows {
        row.draw(&mut out, y, unit, &scale);
        y += row.height();
    }
    Some(out + "</svg>")
}

/// A strip with the place of each dot: horizontal, and its layer.
struct Row<'a> {
    strip: &'a Strip,
    places: Vec<(&'a StripDot, f64, usize)>,
}

impl<'a> Row<'a> {
    fn new(strip: &'a Strip, scale: &Scale) -> Row<'a> {
        let mut dots: Vec<(&StripDot, f64)> = strip
            .dots
            .iter()
            .filter_map(|dot| Some((dot, scale.place(dot.value)?)))
            .collect();
        dots.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.name.cmp(&b.0.name)));
        // The right end of the last dot of each layer.
        let mut ends = [f64::NEG_INFINITY; MOST_LAYERS];
        let place = |(dot, x): (&'a StripDot, f64)| {
            let free = ends.iter().position(|end| x - end >= 2.0 * RADIUS);
            let layer = free.unwrap_or(MOST_LAYERS - 1);
            ends[layer] = x;
            (dot, x, layer)
        };
        Row {
            strip,
            places: dots.into_iter().map(place).collect(),
        }
    }

    fn height(&self) -> f64 {
        let layers = self.places.iter().map(|(_, _, layer)| *layer).max();
        ROW + LAYER * layers.unwrap_or(0) as f64
    }

    fn draw(&self, out: &mut String, top: f64, unit: MetricUnit, scale: &Scale) {
        let line = top + self.height() - 10.0;
        let middle = line - 8.0;
        *out += &svg::text(
            LEFT - 8.0,
            middle + 4.0,
            "row end",
            &cut(&self.strip.label, LABEL_LETTERS),
        );
        if let Some((low, median, high)) = self.strip.quartiles {
            let place = |value| scale.place(value).map(svg::coordinate);
            if let (Some(from), Some(at), Some(to)) = (place(low), place(median), place(high)) {
                let y = svg::coordinate(line);
                let _ = write!(out, r#"<path class="quartiles" d="M{from} {y}H{to}"/>"#);
                let _ = write!(
                    out,
                    r#"<path class="median" d="M{at} {}V{}"/>"#,
                    svg::coordinate(line - 5.0),
                    svg::coordinate(line + 5.0)
                );
            }
        }
        let mut names = 0;
        for (dot, x, layer) in &self.places {
            let y = middle - LAYER * *layer as f64;
            let class = match (dot.outlier, dot.doubtful) {
                (true, _) => "host bad",
                (false, true) => "host doubt",
                (false, false) => "host",
            };
            let note = if dot.doubtful { ", untrustworthy" } else { "" };
            let _ = write!(
                out,
                r#"<circle class="{class}" cx="{}" cy="{}" r="{RADIUS}"><title>{}: {}{note}</title></circle>"#,
                svg::coordinate(*x),
                svg::coordinate(y),
                svg::escape(&dot.name),
                value(unit, dot.value)
            );
            if dot.outlier && names < MOST_NAMES {
                names += 1;
                let (end, at) = match *x > (LEFT + WIDTH) / 2.0 {
                    true => (" end", x - 6.0),
                    false => ("", x + 6.0),
                };
                let class = format!("bad on{end}");
                *out += &svg::text(at, y - 4.0, &class, &cut(&dot.name, NAME_LETTERS));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(values: &[f64]) -> Strip {
        let dot = |(index, value): (usize, &f64)| StripDot {
            name: format!("<host{index}>"),
            value: *value,
            outlier: index == 0,
            doubtful: false,
        };
        Strip {
            label: "a & b".to_owned(),
            dots: values.iter().enumerate().map(dot).collect(),
            quartiles: Some((1.0, 2.0, 3.0)),
        }
    }

    #[test]
    fn each_host_is_a_dot_and_an_outlier_has_its_name() {
        let svg = chart(
            "A chart",
            MetricUnit::Seconds,
            &[strip(&[9.0, 1.0, 2.0, 2.0, 3.0])],
        )
        .unwrap();
        assert_eq!(svg.matches("<circle").count(), 5, "{svg}");
        assert_eq!(svg.matches("&lt;host0&gt;").count(), 2, "{svg}");
        assert!(svg.contains("a &amp; b") && !svg.contains("<host"), "{svg}");
        // Equal values lie above one another.
        let heights: Vec<&str> = svg
            .split("cy=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        assert_eq!(
            heights.iter().collect::<std::collections::BTreeSet<_>>().len(),
            2,
            "{svg}"
        );
    }

    #[test]
    fn many_equal_and_extreme_values_are_drawn() {
        for values in [
            vec![5.0; 1000],
            vec![f64::MAX, f64::MIN, 0.0],
            vec![f64::NAN, 1.0],
        ] {
            let svg = chart("A chart", MetricUnit::Bytes, &[strip(&values)]).unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        assert_eq!(chart("A chart", MetricUnit::Bytes, &[strip(&[f64::NAN])]), None);
    }
}
