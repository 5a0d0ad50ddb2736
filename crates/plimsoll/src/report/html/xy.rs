//! Charts of values against values: lines, dots, bands, on linear or logarithmic axes.

use crate::analysis::MetricUnit;

/// A chart.
#[derive(Debug, Clone)]
pub(super) struct Chart {
    /// What it shows, for those who cannot see it.
    pub(super) title: String,
    /// The horizontal axis.
    pub(super) x: Axis,
    /// The vertical axis.
    pub(super) y: Axis,
    /// The lines, each with its legend.
    pub(super) lines: Vec<Line>,
    /// Places on the horizontal axis that are marked.
    pub(super) marks: Vec<(f64, String)>,
    /// Levels on the vertical axis that are marked.
    pub(super) levels: Vec<(f64, String)>,
}

/// An axis.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    /// What it counts.
    pub(super) title: String,
    /// In what.
    pub(super) unit: MetricUnit,
    /// Whether each step is a factor. What is not above 0 is then left out.
    pub(super) log: bool,
}

/// A line of a chart.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    /// Words of the legend.
    pub(super) label: String,
    /// Number of the colour and dash: lines of one number in several charts look alike.
    pub(super) ink: usize,
    /// The points, by x; a point without a value breaks the line.
    pub(super) points: Vec<(f64, Option<f64>)>,
    /// Whether each point is a dot as well.
    pub(super) dots: bool,
    /// The spread around the line: x, low and high.
    pub(super) band: Vec<(f64, f64, f64)>,
    /// Thin, pale lines behind it: raw values, single repeats.
    pub(super) behind: Vec<Vec<(f64, Option<f64>)>>,
}

/// The chart as SVG; none where no line has a point.
pub(super) fn draw(chart: &Chart) -> Option<String> {
    let any = chart
        .lines
        .iter()
        .any(|line| line.points.iter().any(|(_, y)| y.is_some()));
    any.then(|| {
        format!(
            r#"<svg class="xy" role="img" aria-label="{}"></svg>"#,
            super::svg::escape(&chart.title)
        )
    })
}
