//! What runs look like side by side: small multiples of the layers that move, on the same axes; and one layer of two
//! runs as an overlay with the signed difference below it. Two stacks are never drawn over each other.

use std::fmt::Write;

use crate::html::panel::{Unit, round_step};
use crate::html::{palette, svg};
use crate::page::{Mark, Timeline};

const WIDTH: f64 = 440.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 8.0;
const HEIGHT: f64 = 130.0;
const TITLE: f64 = 24.0;
const BOTTOM: f64 = 20.0;
/// Columns of a drawing, and of the grid that two runs are compared on.
const COLUMNS: usize = 120;

/// What a timeline is aligned by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alignment {
    /// Its start.
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

/// Strands on one pair of axes.
pub(super) struct Sheet<'a> {
    strands: &'a [Strand<'a>],
    /// Time of each strand that is shown as 0.
    origins: Vec<f64>,
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
                .find(|mark| mark.sign == number.to_string())
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
            from,
            to,
        })
    }

    fn x(&self, t: f64) -> f64 {
        LEFT + (t - self.from) / (self.to - self.from) * (WIDTH - LEFT - RIGHT)
    }

    /// A drawing a strand: the layers that move, stacked.
    pub(super) fn multiples(&self) -> Vec<String> {
        let stacks: Vec<Stack<'_>> = self.strands.iter().map(stack).collect();
        let values = stacks
            .iter()
            .flat_map(|stack| stack.iter().flat_map(|(_, curve)| curve.iter().flatten()));
        let top = values.copied().fold(1048576.0, f64::max) * 1.05;
        let draw = |index: usize| self.stack_drawing(index, &stacks[index], top);
        (0..self.strands.len()).map(draw).collect()
    }

    fn stack_drawing(&self, index: usize, stack: &Stack<'_>, top: f64) -> String {
        let strand = &self.strands[index];
        let base = TITLE + HEIGHT;
        let mut out = open(base + BOTTOM, &format!("{} {}", strand.letter, strand.name));
        let y = |value: f64| base - (value / top).clamp(0.0, 1.0) * HEIGHT;
        let name: String = format!("{} {}", strand.letter, strand.name)
            .chars()
            .take(56)
            .collect();
        out += &svg::text(4.0, 13.0, "title", &name);
        let stride = strand.timeline.t.len().div_ceil(COLUMNS).max(1);
        for (key, curve) in stack.iter().rev() {
            let points: Vec<Option<(f64, f64)>> = strand
                .timeline
                .t
                .iter()
                .zip(curve)
                .step_by(stride)
                .map(|(t, value)| Some((self.x(t - self.origins[index]), y((*value)?))))
                .collect();
            let path = svg::area_path(&points, base);
            let _ = write!(out, r#"<path class="area" fill="var(--{key})" d="{path}"/>"#);
            if palette::paint_of(key).hatched {
                let _ = write!(out, r#"<path fill="url(#hatch)" d="{path}"/>"#);
            }
        }
        grid(
            &mut out,
            Unit::Bytes
                .ticks(top, 3)
                .into_iter()
                .map(|tick| (y(tick), Unit::Bytes.tick(tick))),
        );
        for mark in &strand.marks {
            let x = self.x(mark.t - self.origins[index]);
            let _ = write!(
                out,
                r#"<path class="mark" d="M{0} {TITLE}V{base}"/>"#,
                svg::coordinate(x)
            );
            out += &svg::disc(x, TITLE, &mark.sign);
        }
        self.time(&mut out, base);
        out + "</svg>"
    }

    /// One layer of the first strand and of another, as lines.
    pub(super) fn overlay(&self, other: usize, key: &str) -> Option<String> {
        let curves = [self.on_grid(0, key)?, self.on_grid(other, key)?];
        let top = curves
            .iter()
            .flatten()
            .flatten()
            .copied()
            .fold(1048576.0, f64::max)
            * 1.05;
        let base = TITLE + HEIGHT;
        let y = |value: f64| base - (value / top).clamp(0.0, 1.0) * HEIGHT;
        let letters = [self.strands[0].letter, self.strands[other].letter];
        let title = format!(
            "{}: {} dashed, {} solid",
            palette::paint_of(key).label,
            letters[0],
            letters[1]
        );
        let mut out = open(base + BOTTOM, &title);
        out += &svg::text(4.0, 13.0, "title", &title);
        grid(
            &mut out,
            Unit::Bytes
                .ticks(top, 3)
                .into_iter()
                .map(|tick| (y(tick), Unit::Bytes.tick(tick))),
        );
        for (curve, (colour, dash)) in curves.iter().zip([("soft", "5 3"), ("ink", "")]) {
            let points: Vec<Option<(f64, f64)>> = self.points(curve, y);
            let path = svg::line_path(&points);
            let _ = write!(
                out,
                r#"<path class="line" stroke="var(--{colour})" stroke-dasharray="{dash}" d="{path}"/>"#
            );
        }
        self.time(&mut out, base);
        Some(out + "</svg>")
    }

    /// One layer of another strand minus that of the first.
    pub(super) fn difference(&self, other: usize, key: &str) -> Option<String> {
        let (first, second) = (self.on_grid(0, key)?, self.on_grid(other, key)?);
        let curve: Vec<Option<f64>> = first
            .iter()
            .zip(&second)
            .map(|(a, b)| Some((*b)? - (*a)?))
            .collect();
        let reach = curve
            .iter()
            .flatten()
            .map(|value| value.abs())
            .fold(1048576.0, f64::max)
            * 1.05;
        let (height, middle) = (HEIGHT * 0.7, TITLE + HEIGHT * 0.35);
        let base = TITLE + height;
        let y = |value: f64| middle - (value / reach).clamp(-1.0, 1.0) * height / 2.0;
        let title = format!(
            "{}: {} \u{2212} {}",
            palette::paint_of(key).label,
            self.strands[other].letter,
            self.strands[0].letter
        );
        let mut out = open(base + BOTTOM, &title);
        out += &svg::text(4.0, 13.0, "title", &title);
        let path = svg::area_path(&self.points(&curve, y), middle);
        let _ = write!(out, r#"<path class="area" fill="var(--{key})" d="{path}"/>"#);
        let half = 2f64.powf(reach.log2().floor());
        let ticks = [
            (half, format!("+{}", Unit::Bytes.tick(half))),
            (0.0, "0".to_owned()),
            (-half, Unit::Bytes.tick(-half)),
        ];
        grid(&mut out, ticks.into_iter().map(|(value, text)| (y(value), text)));
        self.time(&mut out, base);
        Some(out + "</svg>")
    }

    /// A layer at [`COLUMNS`] times of the sheet: the bucket that is nearest and not further than one column. Where
    /// there is none, nothing: nothing is interpolated.
    fn on_grid(&self, strand: usize, key: &str) -> Option<Vec<Option<f64>>> {
        let timeline = self.strands[strand].timeline;
        let layer = timeline.layers.iter().find(|layer| layer.key == key)?;
        let step = (self.to - self.from) / (COLUMNS - 1) as f64;
        let bucket = (timeline.t.last()? - timeline.t.first()?) / timeline.t.len() as f64;
        let values = (0..COLUMNS).map(|column| {
            let t = self.from + step * column as f64 + self.origins[strand];
            let after = timeline.t.partition_point(|&at| at < t);
            let near = [after.checked_sub(1), Some(after)].into_iter().flatten();
            let nearest = near
                .filter_map(|index| Some((index, (timeline.t.get(index)? - t).abs())))
                .min_by(|a, b| a.1.total_cmp(&b.1))?;
            (nearest.1 <= step.max(bucket))
                .then(|| layer.values[nearest.0])
                .flatten()
        });
        Some(values.collect())
    }

    fn points(&self, curve: &[Option<f64>], y: impl Fn(f64) -> f64) -> Vec<Option<(f64, f64)>> {
        let step = (self.to - self.from) / (COLUMNS - 1) as f64;
        curve
            .iter()
            .enumerate()
            .map(|(column, value)| Some((self.x(self.from + step * column as f64), y((*value)?))))
            .collect()
    }

    fn time(&self, out: &mut String, base: f64) {
        let step = round_step((self.to - self.from) / 5.0);
        let mut tick = (self.from / step).ceil() * step;
        while tick <= self.to {
            let x = self.x(tick);
            let _ = write!(
                out,
                r#"<path class="grid" d="M{} {base}v4"/>"#,
                svg::coordinate(x)
            );
            // -0 and what is nearly 0 are 0.
            let shown = if tick.abs() < step / 1e3 { 0.0 } else { tick };
            let decimals = usize::from(step < 1.0);
            *out += &svg::text(x, base + 15.0, "tick middle", &format!("{shown:.decimals$} s"));
            tick += step;
        }
    }
}

/// Keys of layers with the sum up to each, bottom to top.
type Stack<'a> = Vec<(&'a str, Vec<Option<f64>>)>;

fn stack<'a>(strand: &Strand<'a>) -> Stack<'a> {
    let moving = strand
        .timeline
        .layers
        .iter()
        .filter(|layer| palette::paint_of(&layer.key).moves);
    let mut sum: Vec<Option<f64>> = vec![Some(0.0); strand.timeline.t.len()];
    moving
        .map(|layer| {
            for (sum, value) in sum.iter_mut().zip(&layer.values) {
                *sum = sum.zip(*value).map(|(sum, value)| sum + value);
            }
            (palette::paint_of(&layer.key).key, sum.clone())
        })
        .collect()
}

fn open(height: f64, title: &str) -> String {
    format!(
        r#"<svg class="timeline" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#,
        svg::escape(title)
    )
}

fn grid(out: &mut String, lines: impl Iterator<Item = (f64, String)>) {
    for (at, text) in lines {
        let _ = write!(
            out,
            r#"<path class="grid" d="M{LEFT} {0}H{1}"/>"#,
            svg::coordinate(at),
            WIDTH - RIGHT
        );
        *out += &svg::text(LEFT - 6.0, at + 4.0, "tick end", &text);
    }
}
