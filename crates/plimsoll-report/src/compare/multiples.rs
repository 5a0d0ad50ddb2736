//! Runs side by side: small multiples of the layers that move, on the same axes; and one layer of two
//! runs as an overlay with the signed difference below it. Two stacks are never drawn over each other.

use crate::analysis::MetricUnit;
use crate::analysis::thinning::nearest;
use crate::contents::{Mark, Timeline};
use crate::drawing::panel::MOVED;
use crate::drawing::{palette, xy};
use crate::html::timeline::{self, Plot};

/// Width of the drawing of a strand, and letters of its name that fit above it.
const WIDTH: f64 = 440.0;
const NAME_LETTERS: usize = 44;
/// Columns of the grid that two runs are compared on.
const COLUMNS: usize = 120;
/// Least top of an axis of bytes, so that small differences stay small.
const LEAST: f64 = 1048576.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alignment {
    Start,
    /// The mark with this number.
    Mark(u32),
}

/// One run's timeline of a group.
pub(super) struct Strand<'a> {
    pub(super) letter: &'a str,
    pub(super) name: &'a str,
    pub(super) timeline: &'a Timeline,
    pub(super) marks: Vec<&'a Mark>,
}

pub(super) struct Sheet<'a> {
    strands: &'a [Strand<'a>],
    /// Time of each strand that is shown as 0.
    origins: Vec<f64>,
    time: String,
    from: f64,
    to: f64,
}

impl<'a> Sheet<'a> {
    /// None where a strand lacks the mark or has no samples.
    pub(super) fn new(strands: &'a [Strand<'a>], alignment: Alignment) -> Option<Sheet<'a>> {
        let origin = |strand: &Strand<'_>| match alignment {
            Alignment::Start => strand.timeline.t.first().copied(),
            Alignment::Mark(number) => strand
                .marks
                .iter()
                .find(|mark| mark.label == number.to_string())
                .map(|mark| mark.t),
        };
        let origins: Vec<f64> = strands.iter().map(origin).collect::<Option<_>>()?;
        let ends = || {
            strands.iter().zip(&origins).filter_map(|(strand, origin)| {
                Some((
                    strand.timeline.t.first()? - origin,
                    strand.timeline.t.last()? - origin,
                ))
            })
        };
        let from = ends().map(|(from, _)| from).reduce(f64::min)?;
        let to = ends().map(|(_, to)| to).reduce(f64::max)?.max(from + 1e-3);
        Some(Sheet {
            strands,
            origins,
            time: match alignment {
                Alignment::Start => "seconds since its start".to_owned(),
                Alignment::Mark(number) => format!("seconds since mark {number}"),
            },
            from,
            to,
        })
    }

    /// A drawing a strand: the layers that move, stacked.
    pub(super) fn multiples(&self) -> Vec<String> {
        let tops = self
            .strands
            .iter()
            .map(|strand| timeline::top(MOVED, strand.timeline));
        let top = tops.fold(0.0, f64::max);
        let draw = |(strand, &origin): (&Strand<'_>, &f64)| {
            let name: String = format!("{} {}", strand.letter, strand.name);
            let title: String = name.chars().take(NAME_LETTERS).collect();
            let plot = Plot {
                panel: MOVED,
                title: &title,
                keyed: false,
                top: Some(top),
            };
            let axis = timeline::Axis {
                title: self.time.clone(),
                width: WIDTH,
                origin,
                from: self.from,
                to: self.to,
            };
            timeline::draw(strand.timeline, &strand.marks, &[plot], &axis, &name)
        };
        self.strands.iter().zip(&self.origins).map(draw).collect()
    }

    /// One layer of the first strand and of another.
    pub(super) fn overlay(&self, other: usize, key: &str) -> Option<String> {
        let lines = [0, other].into_iter().enumerate();
        let lines = lines.map(|(ink, strand)| {
            let values = self.on_grid(strand, key)?;
            Some(self.line(self.strands[strand].letter, ink, values, &[LEAST]))
        });
        self.chart(
            palette::paint_of(key).label.to_owned(),
            lines.collect::<Option<_>>()?,
        )
    }

    /// One layer of another strand minus that of the first.
    pub(super) fn difference(&self, other: usize, key: &str) -> Option<String> {
        let (first, second) = (self.on_grid(0, key)?, self.on_grid(other, key)?);
        let values = first.iter().zip(&second).map(|(a, b)| Some((*b)? - (*a)?));
        let letters = [other, 0].map(|strand| self.strands[strand].letter);
        let label = format!("{} \u{2212} {}", letters[0], letters[1]);
        let line = self.line(&label, 0, values.collect(), &[LEAST, -LEAST]);
        self.chart(format!("{}: {label}", palette::paint_of(key).label), vec![line])
    }

    fn line(&self, label: &str, ink: usize, values: Vec<Option<f64>>, reached: &[f64]) -> xy::Line {
        xy::Line {
            label: label.to_owned(),
            ink,
            // A line of one point is not seen, and has its place on the axis.
            behind: reached
                .iter()
                .map(|&value| vec![(self.from, Some(value))])
                .collect(),
            points: (0..).map(|column| self.at(column)).zip(values).collect(),
            ..xy::Line::default()
        }
    }

    fn chart(&self, title: String, lines: Vec<xy::Line>) -> Option<String> {
        xy::draw(&xy::Chart {
            x: xy::Axis::linear(&self.time, MetricUnit::Seconds),
            y: xy::Axis::linear(&title, MetricUnit::Bytes),
            title,
            lines,
            marks: Vec::new(),
            levels: Vec::new(),
        })
    }

    /// Time of a column of the grid.
    fn at(&self, column: usize) -> f64 {
        self.from + self.step() * column as f64
    }

    fn step(&self) -> f64 {
        (self.to - self.from) / (COLUMNS - 1) as f64
    }

    /// A layer at [`COLUMNS`] times of the sheet: the bucket that is nearest and not further than one column. Where
    /// there is none, nothing: nothing is interpolated.
    fn on_grid(&self, strand: usize, key: &str) -> Option<Vec<Option<f64>>> {
        let timeline = self.strands[strand].timeline;
        let layer = timeline.layers.iter().find(|layer| layer.key == key)?;
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
