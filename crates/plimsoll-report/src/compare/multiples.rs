//! Runs side by side, aligned by their start: small multiples of the layers that move, on the same axes; and one layer as
//! the signed difference of two runs. Two stacks are never drawn over each other.

use crate::analysis::MetricUnit;
use crate::analysis::thinning::nearest;
use crate::contents::{Mark, Timeline};
use crate::drawing::panel::MOVED;
use crate::drawing::{palette, xy};
use crate::html::timeline::{self, Plot};

/// The layer that is compared, unless the reader chooses another.
pub(super) const LAYER: &str = "target";
/// Width of the drawing of a strand, and letters of its name that fit above it.
const WIDTH: f64 = 440.0;
const NAME_LETTERS: usize = 44;
/// Columns of the grid that two runs are compared on.
const COLUMNS: usize = 120;
/// Least top of an axis of bytes, so that small differences stay small.
const LEAST: f64 = 1048576.0;
const TIME: &str = "seconds since its start";

/// One run's timeline of a group.
pub(super) struct Strand<'a> {
    pub(super) letter: &'a str,
    pub(super) name: &'a str,
    pub(super) timeline: &'a Timeline,
    pub(super) marks: Vec<&'a Mark>,
}

impl Strand<'_> {
    /// Its letter and its name, as far as they fit above a drawing.
    pub(super) fn title(&self) -> String {
        self.full_title().chars().take(NAME_LETTERS).collect()
    }

    fn full_title(&self) -> String {
        format!("{} {}", self.letter, self.name)
    }

    /// Its first and last time; `None` without samples.
    fn ends(&self) -> Option<(f64, f64)> {
        Some((*self.timeline.t.first()?, *self.timeline.t.last()?))
    }
}

pub(super) struct Sheet<'a> {
    strands: &'a [Strand<'a>],
    /// The start of each strand, which is shown as 0.
    origins: Vec<f64>,
    /// Seconds of the longest strand.
    seconds: f64,
}

impl<'a> Sheet<'a> {
    /// `None` without strands, and if one has no samples.
    pub(super) fn new(strands: &'a [Strand<'a>]) -> Option<Sheet<'a>> {
        let ends: Vec<(f64, f64)> = strands.iter().map(Strand::ends).collect::<Option<_>>()?;
        let seconds = ends.iter().map(|(first, last)| last - first).reduce(f64::max)?;
        Some(Sheet {
            strands,
            origins: ends.into_iter().map(|(first, _)| first).collect(),
            seconds: seconds.max(1e-3),
        })
    }

    /// A drawing of each strand, then of each other strand's difference from the first one.
    pub(super) fn drawings(&self) -> Vec<String> {
        let differences = (1..self.strands.len()).filter_map(|other| self.difference(other));
        self.multiples().chain(differences).collect()
    }

    /// A drawing a strand: the layers that move, stacked.
    fn multiples(&self) -> impl Iterator<Item = String> {
        let tops = self
            .strands
            .iter()
            .map(|strand| timeline::top(MOVED, strand.timeline));
        let top = tops.fold(0.0, f64::max);
        let draw = move |(strand, &origin): (&Strand<'_>, &f64)| {
            let (title, name) = (strand.title(), strand.full_title());
            let plot = Plot {
                panel: MOVED,
                title: &title,
                keyed: false,
                top: Some(top),
            };
            let axis = timeline::Axis {
                title: TIME.to_owned(),
                width: WIDTH,
                origin,
                from: 0.0,
                to: self.seconds,
            };
            timeline::draw(strand.timeline, &strand.marks, &[plot], &axis, &name)
        };
        self.strands.iter().zip(&self.origins).map(draw)
    }

    /// [`LAYER`] of another strand minus that of the first.
    fn difference(&self, other: usize) -> Option<String> {
        let (first, second) = (self.on_grid(0)?, self.on_grid(other)?);
        let values = first.iter().zip(&second).map(|(a, b)| Some((*b)? - (*a)?));
        let letters = [other, 0].map(|strand| self.strands[strand].letter);
        let label = format!("{} \u{2212} {}", letters[0], letters[1]);
        let title = format!("{}: {label}", palette::paint_of(LAYER).label);
        // A line of one point is not seen, and has its place on the axis.
        let reached = |value: f64| vec![(0.0, Some(value))];
        xy::draw(&xy::Chart {
            x: xy::Axis::linear(TIME, MetricUnit::Seconds),
            y: xy::Axis::linear(&title, MetricUnit::Bytes),
            title,
            lines: vec![xy::Line {
                label,
                ink: other,
                points: (0..).map(|column| self.at(column)).zip(values).collect(),
                behind: vec![reached(LEAST), reached(-LEAST)],
                ..xy::Line::default()
            }],
            marks: Vec::new(),
            levels: Vec::new(),
        })
    }

    /// Time of a column of the grid.
    fn at(&self, column: usize) -> f64 {
        self.step() * column as f64
    }

    fn step(&self) -> f64 {
        self.seconds / (COLUMNS - 1) as f64
    }

    /// [`LAYER`] at [`COLUMNS`] times of the sheet: the bucket that is nearest and not further than one column. Where
    /// there is none, nothing: nothing is interpolated.
    fn on_grid(&self, strand: usize) -> Option<Vec<Option<f64>>> {
        let timeline = self.strands[strand].timeline;
        let layer = timeline.layers.iter().find(|layer| layer.key == LAYER)?;
        let step = self.step();
        let bucket = (timeline.t.last()? - timeline.t.first()?) / timeline.t.len() as f64;
        let values = (0..COLUMNS).map(|column| {
            let t = self.at(column) + self.origins[strand];
            let (index, distance) = nearest(&timeline.t, t)?;
            layer.values[index].filter(|_| distance <= step.max(bucket))
        });
        Some(values.collect())
    }
}
