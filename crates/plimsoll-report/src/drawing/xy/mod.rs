//! Charts of values against values: lines, dots, bands, on linear or logarithmic axes.

mod scale;
mod words;

use std::fmt::Write;

use super::{palette, svg};
use crate::analysis::MetricUnit;
use crate::analysis::thinning::extremes;
pub(crate) use scale::Scale;
use scale::usable;
pub(crate) use words::{tick, value};

const WIDTH: f64 = 680.0;
const LEFT: f64 = 66.0;
const HEIGHT: f64 = 270.0;
/// Room on the right where no line has a name at its end.
const MARGIN: f64 = 14.0;
/// Room below the plot, for ticks and the axis' title.
const BOTTOM: f64 = 40.0;
/// Least distance of words along the axes: words of ticks are up to 50 wide, and 12 high.
const APART: (f64, f64) = (66.0, 30.0);
/// Points of a line from which those that share a pixel are drawn as their extremes.
const MANY_POINTS: usize = 1000;
/// Points of a line that are dots at most: more would touch each other.
const MOST_DOTS: usize = 120;

#[derive(Debug, Clone)]
pub(crate) struct Chart {
    /// Its label for screen readers.
    pub(crate) title: String,
    /// The horizontal axis: as wide as its values.
    pub(crate) x: Axis,
    /// The vertical axis: a linear one has 0 on it.
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
    /// Places on the horizontal axis that are marked.
    pub(crate) marks: Vec<(f64, String)>,
    /// Levels on the vertical axis that are marked.
    pub(crate) levels: Vec<(f64, String)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) unit: MetricUnit,
    /// Whether the axis is logarithmic; it omits values of 0 or less.
    pub(crate) log: bool,
}

impl Axis {
    pub(crate) fn linear(title: impl Into<String>, unit: MetricUnit) -> Axis {
        Axis {
            title: title.into(),
            unit,
            log: false,
        }
    }

    pub(crate) fn logarithmic(title: impl Into<String>, unit: MetricUnit) -> Axis {
        Axis {
            log: true,
            ..Axis::linear(title, unit)
        }
    }

    /// The title with the unit.
    fn words(&self) -> String {
        with_unit(&self.title, self.unit)
    }
}

/// The title of an axis with the unit of its values, if it does not state it.
pub(crate) fn with_unit(title: &str, unit: MetricUnit) -> String {
    let (known, words) = match unit {
        MetricUnit::Seconds => ("second", "seconds"),
        MetricUnit::GbPerS => ("GB/s", "GB/s"),
        MetricUnit::PerSecond => ("second", "per second"),
        MetricUnit::Bytes => ("byte", "bytes"),
        MetricUnit::Ratio => ("factor", "factor"),
        MetricUnit::Percent => ("percent", "percent"),
        // The title names the things counted.
        MetricUnit::Count => return title.to_owned(),
    };
    match title.to_lowercase().contains(&known.to_lowercase()) {
        true => title.to_owned(),
        false => format!("{title} ({words})"),
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Line {
    pub(crate) label: String,
    /// Number of the colour and dash: lines of one number in several charts look alike.
    pub(crate) ink: usize,
    /// The points, by x; a point without a value breaks the line.
    pub(crate) points: Vec<(f64, Option<f64>)>,
    /// Whether each point is a dot as well.
    pub(crate) dots: bool,
    /// The spread around the line: x, low and high.
    pub(crate) band: Vec<(f64, f64, f64)>,
    /// Thin, pale lines behind it: raw values, single repeats.
    pub(crate) behind: Vec<Vec<(f64, Option<f64>)>>,
}

/// Points of a line in the drawing; none where it breaks.
type Path = Vec<Option<(f64, f64)>>;

/// The chart as SVG; none where no line has a point.
pub(crate) fn draw(chart: &Chart) -> Option<String> {
    let shown = |(x, y): &(f64, Option<f64>)| {
        usable(&chart.x, *x).is_some() && y.and_then(|y| usable(&chart.y, y)).is_some()
    };
    if !chart.lines.iter().any(|line| line.points.iter().any(shown)) {
        return None;
    }
    let (legend, legend_height) = words::legend(&chart.lines, WIDTH - 8.0);
    let right = WIDTH - MARGIN.max(words::margin(&chart.lines));
    let x = Scale::new(&chart.x, chart.all_x(), false, (LEFT, right));
    let (marks, marks_height) = words::marks(&chart.marks, &chart.x, &x, right);
    let top = legend_height + 20.0 + marks_height;
    let base = top + HEIGHT;
    let y = Scale::new(&chart.y, chart.all_y(), true, (base, top));
    let frame = Frame {
        chart,
        x,
        y,
        top,
        base,
        right,
    };
    let mut out = svg::open("xy", WIDTH, base + BOTTOM, &chart.title);
    out += &legend;
    out += &svg::text(4.0, legend_height + 12.0, "title", &chart.y.words());
    frame.axes(&mut out);
    for line in &chart.lines {
        frame.background(&mut out, line);
    }
    for mark in &marks {
        mark.draw(&mut out, legend_height + 20.0, top, base);
    }
    for line in &chart.lines {
        frame.line(&mut out, line);
    }
    frame.levels(&mut out);
    words::ends(&mut out, &chart.lines, &frame.ends(), (top, base), right);
    out += "</svg>";
    Some(out)
}

impl Chart {
    fn all_x(&self) -> impl Iterator<Item = f64> {
        let points = self.lines.iter().flat_map(|line| {
            let behind = line.behind.iter().flatten();
            let band = line.band.iter().map(|(x, _, _)| *x);
            line.points.iter().chain(behind).map(|(x, _)| *x).chain(band)
        });
        points.chain(self.marks.iter().map(|(x, _)| *x))
    }

    fn all_y(&self) -> impl Iterator<Item = f64> {
        let points = self.lines.iter().flat_map(|line| {
            let behind = line.behind.iter().flatten();
            let band = line.band.iter().flat_map(|(_, low, high)| [*low, *high]);
            line.points
                .iter()
                .chain(behind)
                .filter_map(|(_, y)| *y)
                .chain(band)
        });
        points.chain(self.levels.iter().map(|(y, _)| *y))
    }
}

/// The plot of a chart in its drawing.
struct Frame<'a> {
    chart: &'a Chart,
    x: Scale,
    y: Scale,
    top: f64,
    base: f64,
    right: f64,
}

impl Frame<'_> {
    fn place(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        let x = usable(&self.chart.x, x).and_then(|x| self.x.place(x))?;
        let y = usable(&self.chart.y, y).and_then(|y| self.y.place(y))?;
        Some((x, y))
    }

    fn path(&self, points: &[(f64, Option<f64>)]) -> Path {
        let places: Path = points
            .iter()
            .map(|(x, y)| y.and_then(|y| self.place(*x, y)))
            .collect();
        if places.len() > MANY_POINTS {
            thinned(&places)
        } else {
            places
        }
    }

    fn axes(&self, out: &mut String) {
        let (top, base, right) = (
            svg::coordinate(self.top),
            svg::coordinate(self.base),
            svg::coordinate(self.right),
        );
        let mut minor = String::new();
        for at in self
            .x
            .minor_ticks()
            .into_iter()
            .filter_map(|tick| self.x.place(tick))
        {
            let _ = write!(minor, "M{} {base}V{top}", svg::coordinate(at));
        }
        for at in self
            .y
            .minor_ticks()
            .into_iter()
            .filter_map(|tick| self.y.place(tick))
        {
            let _ = write!(minor, "M{LEFT} {}H{right}", svg::coordinate(at));
        }
        if !minor.is_empty() {
            let _ = write!(out, r#"<path class="grid minor" d="{minor}"/>"#);
        }
        let mut grid = String::new();
        let ticks = self.x.ticks(APART.0);
        for (tick, at) in ticks
            .iter()
            .filter_map(|tick| Some((*tick, self.x.place(*tick)?)))
        {
            let _ = write!(grid, "M{} {base}V{top}", svg::coordinate(at));
            let words = words::tick(self.chart.x.unit, tick);
            *out += &svg::text(at, self.base + 15.0, "tick middle", &words);
        }
        let ticks = self.y.ticks(APART.1);
        for (tick, at) in ticks
            .iter()
            .filter_map(|tick| Some((*tick, self.y.place(*tick)?)))
        {
            let _ = write!(grid, "M{LEFT} {}H{right}", svg::coordinate(at));
            let words = words::tick(self.chart.y.unit, tick);
            *out += &svg::text(LEFT - 6.0, at + 4.0, "tick end", &words);
        }
        let _ = write!(out, r#"<path class="grid" d="{grid}"/>"#);
        let _ = write!(out, r#"<path class="axis" d="M{LEFT} {base}H{right}"/>"#);
        let middle = (LEFT + self.right) / 2.0;
        *out += &svg::text(middle, self.base + 33.0, "tick middle", &self.chart.x.words());
    }

    /// Draws the background: bands and pale lines.
    fn background(&self, out: &mut String, line: &Line) {
        let (key, _) = palette::line(line.ink);
        let edge = |high: bool| -> Path {
            let place = |(x, low, high_value): &(f64, f64, f64)| {
                // A low end that a logarithmic axis cannot show is drawn where the axis starts.
                let low = usable(&self.chart.y, *low).unwrap_or(self.y.from());
                self.place(*x, if high { *high_value } else { low })
            };
            line.band.iter().map(place).collect()
        };
        let band = svg::band_path(&edge(true), &edge(false));
        if !band.is_empty() {
            let _ = write!(out, r#"<path class="band" fill="var(--{key})" d="{band}"/>"#);
        }
        for points in &line.behind {
            let path = svg::line_path(&self.path(points));
            let _ = write!(out, r#"<path class="behind" stroke="var(--{key})" d="{path}"/>"#);
        }
    }

    fn line(&self, out: &mut String, line: &Line) {
        let (key, dash) = palette::line(line.ink);
        let path = svg::line_path(&self.path(&line.points));
        let _ = write!(
            out,
            r#"<path class="line" stroke="var(--{key})" stroke-dasharray="{}" d="{path}"><title>{}</title></path>"#,
            svg::dashes(dash),
            svg::escape(&line.label)
        );
        // A point between two gaps is no line: it is seen as a dot alone.
        let alone = |index: usize| {
            let gap = |index: Option<usize>| {
                index
                    .and_then(|index| line.points.get(index))
                    .is_none_or(|(_, y)| y.is_none())
            };
            gap(index.checked_sub(1)) && gap(Some(index + 1))
        };
        let dots = line.dots && line.points.len() <= MOST_DOTS;
        for (index, (x, y)) in line.points.iter().enumerate() {
            let Some(value) = y.filter(|_| dots || alone(index)) else {
                continue;
            };
            let Some((at, height)) = self.place(*x, value) else {
                continue;
            };
            let words = format!(
                "{}: {}, {}",
                line.label,
                words::value(self.chart.x.unit, *x),
                words::value(self.chart.y.unit, value)
            );
            let _ = write!(
                out,
                r#"<circle class="dot" fill="var(--{key})" cx="{}" cy="{}" r="3"><title>{}</title></circle>"#,
                svg::coordinate(at),
                svg::coordinate(height),
                svg::escape(&words)
            );
        }
    }

    fn levels(&self, out: &mut String) {
        for (value, words) in &self.chart.levels {
            let Some(at) = usable(&self.chart.y, *value).and_then(|value| self.y.place(value)) else {
                continue;
            };
            let _ = write!(
                out,
                r#"<path class="mark" d="M{LEFT} {}H{}"/>"#,
                svg::coordinate(at),
                svg::coordinate(self.right)
            );
            // Above the line, below it where there is no room.
            let y = if at - self.top < 16.0 { at + 13.0 } else { at - 5.0 };
            let near = |ends: &[Option<(f64, f64)>]| {
                let distances = ends.iter().flatten().map(|(_, end)| (end - at).abs());
                distances.fold(f64::INFINITY, f64::min)
            };
            // Where the lines are farther away.
            *out += &match near(&self.starts()) < near(&self.ends()) {
                true => svg::text(self.right - 6.0, y, "on end", words),
                false => svg::text(LEFT + 6.0, y, "on", words),
            };
        }
    }

    fn starts(&self) -> Vec<Option<(f64, f64)>> {
        let start = |line: &Line| {
            let mut points = line.points.iter();
            points.find_map(|(x, y)| y.and_then(|y| self.place(*x, y)))
        };
        self.chart.lines.iter().map(start).collect()
    }

    fn ends(&self) -> Vec<Option<(f64, f64)>> {
        let end = |line: &Line| {
            let mut points = line.points.iter().rev();
            points.find_map(|(x, y)| y.and_then(|y| self.place(*x, y)))
        };
        self.chart.lines.iter().map(end).collect()
    }
}

/// Of points that share a pixel, the lowest and the highest, in their order; gaps stay.
fn thinned(points: &[Option<(f64, f64)>]) -> Path {
    let pixel = |point: &Option<(f64, f64)>| point.map(|(x, _)| x.round() as i64);
    let mut kept = Path::new();
    for column in points.chunk_by(|a, b| pixel(a) == pixel(b)) {
        kept.extend(extremes(column, |point| point.map_or(0.0, |(_, y)| y)));
    }
    kept
}

#[cfg(test)]
mod tests;
