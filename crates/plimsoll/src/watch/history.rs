//! The frames of the past, thinned out as they age, and summed up to what a screen can show.

use std::collections::VecDeque;
use std::ops::Range;

use crate::analysis::frame::{Frame, GAUGE_COUNT};
use crate::sample::CATEGORIES;

/// Frames kept, oldest first.
///
/// Invariant: times never decrease.
#[derive(Debug, Clone)]
pub struct History {
    frames: VecDeque<Frame>,
    period_ns: u64,
}

/// The frames of a stretch of time in one: what a column of cells shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Means. The layers sum to the mean of MemTotal.
    pub mean: Frame,
    /// The frame in which each gauge was greatest has this value; NaN where it never had one.
    max: [f32; GAUGE_COUNT],
    /// Frames summed up; at least one.
    pub frames: u32,
}

impl Bucket {
    /// Greatest value of a gauge, if it was ever known.
    pub fn max(&self, index: usize) -> Option<f64> {
        let value = self.max[index];
        (!value.is_nan()).then(|| f64::from(value))
    }
}

impl History {
    /// An empty history of frames that come each `period_ns`.
    pub fn new(period_ns: u64) -> History {
        History {
            frames: VecDeque::new(),
            period_ns: period_ns.max(1),
        }
    }

    /// Time between two ticks, in nanoseconds.
    pub fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Adds the newest frame.
    pub fn push(&mut self, frame: Frame) {
        self.frames.push_back(frame);
    }

    /// The newest frame.
    pub fn latest(&self) -> Option<&Frame> {
        self.frames.back()
    }

    /// Times of the oldest and the newest frame.
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((self.frames.front()?.t_ns, self.frames.back()?.t_ns))
    }

    /// The frames after `t_ns`, oldest first.
    pub fn after(&self, t_ns: u64) -> impl Iterator<Item = &Frame> {
        let start = self.frames.partition_point(|frame| frame.t_ns <= t_ns);
        self.frames.range(start..)
    }

    /// `count` buckets of equal length over `range`; None where no sample was taken: a gap, never interpolated.
    pub fn buckets(&self, range: Range<u64>, count: usize) -> Vec<Option<Bucket>> {
        let length = range.end.saturating_sub(range.start) as u128;
        let edge = |index: usize| range.start + (length * index as u128 / count.max(1) as u128) as u64;
        (0..count)
            .map(|index| {
                let from = self.frames.partition_point(|frame| frame.t_ns < edge(index));
                let to = self.frames.partition_point(|frame| frame.t_ns < edge(index + 1));
                sum_up(self.frames.range(from..to.max(from)))
            })
            .collect()
    }

    /// Time of the frame in which `figure` was greatest.
    pub fn peak(&self, figure: impl Fn(&Frame) -> Option<f64>) -> Option<u64> {
        let known = self
            .frames
            .iter()
            .filter_map(|frame| Some((frame.t_ns, figure(frame)?)));
        known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(t_ns, _)| t_ns)
    }
}

fn sum_up<'a>(frames: impl Iterator<Item = &'a Frame>) -> Option<Bucket> {
    let mut count = 0_u32;
    let mut last = None;
    let mut sums = [0_i128; CATEGORIES.len()];
    let mut layered = 0;
    let mut totals = [0.0; GAUGE_COUNT];
    let mut known = [0_u32; GAUGE_COUNT];
    let mut max = [f32::NAN; GAUGE_COUNT];
    for frame in frames {
        count += 1;
        last = Some(frame.t_ns);
        if let Some(layers) = frame.layers {
            layered += 1;
            for (sum, bytes) in sums.iter_mut().zip(layers) {
                *sum += i128::from(bytes);
            }
        }
        for index in 0..GAUGE_COUNT {
            if let Some(value) = frame.gauge(index) {
                totals[index] += value;
                known[index] += 1;
                max[index] = max[index].max(value as f32);
            }
        }
    }
    let mut mean = Frame::empty(last?);
    mean.layers = crate::analysis::timeline::means(&sums, layered);
    for index in 0..GAUGE_COUNT {
        if known[index] > 0 {
            mean.set_gauge(index, totals[index] / f64::from(known[index]));
        }
    }
    Some(Bucket {
        mean,
        max,
        frames: count,
    })
}
