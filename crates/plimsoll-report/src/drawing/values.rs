//! A chart of values over an axis: lines or, where all values stand at one place of the axis, bars.

use super::bars::{self, Bar, Bars};
use super::palette;
use super::xy::{self, Chart, Line, value};
use crate::analysis::statistics::{Interval, IntervalKind};

/// The chart as SVG; none where no line has a point.
pub(crate) fn draw(chart: &Chart) -> Option<String> {
    match only_x(chart) {
        Some(x) => bars_at(chart, x),
        None => xy::draw(chart),
    }
}

/// The place of all points, if it is one.
fn only_x(chart: &Chart) -> Option<f64> {
    let mut places = chart.lines.iter().flat_map(|line| {
        let behind = line.behind.iter().flatten();
        let points = line.points.iter().chain(behind);
        points.filter_map(|(x, y)| y.filter(|y| y.is_finite()).map(|_| *x))
    });
    let first = places.next()?;
    places.all(|x| x == first).then_some(first)
}

/// A bar for each line, and an outline for each level.
fn bars_at(chart: &Chart, x: f64) -> Option<String> {
    let bar = |line: &Line| {
        let (_, height) = line.points.iter().find(|(at, y)| *at == x && y.is_some())?;
        let spread = line.band.iter().find(|(at, ..)| *at == x);
        let (colour, _) = palette::line(line.ink);
        Some(Bar {
            whisker: spread
                .filter(|(_, low, high)| low < high)
                .map(|(_, low, high)| Interval {
                    low: *low,
                    high: *high,
                    kind: IntervalKind::Range,
                }),
            ..Bar::new(line.label.clone(), colour, (*height)?)
        })
    };
    let levels = chart.levels.iter().map(|(level, words)| {
        let (colour, _) = palette::line(chart.lines.len());
        Bar::new(words.clone(), colour, *level).hollow()
    });
    let group = Bars {
        name: format!("{}: {}", chart.x.title, value(chart.x.unit, x)),
        bars: chart.lines.iter().filter_map(bar).chain(levels).collect(),
    };
    bars::chart(&chart.title, chart.y.unit, &[group])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::MetricUnit;
    use crate::drawing::xy::Axis;

    fn chart(points: &[(f64, Option<f64>)]) -> Chart {
        let axis = |title: &str| Axis::logarithmic(title, MetricUnit::Ratio);
        Chart {
            title: "A chart".to_owned(),
            x: axis("size over cap"),
            y: axis("slowdown"),
            lines: vec![Line {
                label: "zram".to_owned(),
                points: points.to_vec(),
                dots: true,
                band: vec![(2.0, 90.0, 140.0)],
                ..Line::default()
            }],
            marks: Vec::new(),
            levels: vec![(250.0, "original".to_owned())],
        }
    }

    #[test]
    fn values_at_one_place_are_bars_with_their_spread_and_levels() {
        let svg = draw(&chart(&[(2.0, Some(120.0))])).unwrap();
        assert!(svg.starts_with("<svg class=\"bars\""), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 2, "{svg}");
        assert_eq!(svg.matches("class=\"whisker\"").count(), 1, "{svg}");
        assert!(svg.contains("size over cap: 2.00\u{d7}"), "{svg}");
    }

    #[test]
    fn values_at_several_places_are_lines() {
        let svg = draw(&chart(&[(1.0, Some(1.0)), (2.0, Some(120.0))])).unwrap();
        assert!(svg.starts_with("<svg class=\"xy\""), "{svg}");
        assert_eq!(draw(&chart(&[(1.0, None)])), None);
    }
}
