//! Sums of frames.

use super::Bucket;
use plimsoll_model::categories::CATEGORIES;
use plimsoll_report::analysis::frame::{Frame, GAUGE_COUNT};
use plimsoll_report::analysis::thinning::means;

/// A compact sum of frames that can be summed further.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Piece {
    pub(super) from_ns: u64,
    /// Means, at the time of the last frame.
    pub(super) mean: Frame,
    max: [f32; GAUGE_COUNT],
    /// Number of frames with a known value of each gauge; saturates. A piece of a second has 100 at most.
    known: [u8; GAUGE_COUNT],
    /// Number of frames with known layers.
    layered: u16,
    frames: u32,
}

impl Piece {
    /// The sum as a bucket.
    pub(super) fn bucket(&self) -> Bucket {
        Bucket {
            mean: self.mean,
            max: self.max,
            frames: self.frames,
        }
    }

    /// The mean frame with the maximum of each gauge.
    pub(super) fn greatest(&self) -> Frame {
        let mut frame = self.mean;
        for (index, max) in self.max.iter().enumerate() {
            if !max.is_nan() {
                frame.set_gauge(index, f64::from(*max));
            }
        }
        frame
    }
}

/// A sum in progress.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    span_ns: Option<(u64, u64)>,
    frames: u32,
    layers: [i128; CATEGORIES.len()],
    layered: u32,
    totals: [f64; GAUGE_COUNT],
    known: [u32; GAUGE_COUNT],
    max: [f32; GAUGE_COUNT],
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            span_ns: None,
            frames: 0,
            layers: [0; CATEGORIES.len()],
            layered: 0,
            totals: [0.0; GAUGE_COUNT],
            known: [0; GAUGE_COUNT],
            max: [f32::NAN; GAUGE_COUNT],
        }
    }
}

impl Tally {
    /// Time of the first frame; None if empty.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.span_ns.map(|(first, _)| first)
    }

    /// Time of the last frame; None if empty.
    pub(super) fn last_ns(&self) -> Option<u64> {
        self.span_ns.map(|(_, last)| last)
    }

    pub(super) fn add(&mut self, frame: &Frame) {
        self.reach(frame.t_ns, frame.t_ns, 1);
        self.add_layers(frame, 1);
        for index in 0..GAUGE_COUNT {
            if let Some(value) = frame.gauge(index) {
                self.totals[index] += value;
                self.known[index] += 1;
                // `max` of NaN and a number is the number.
                self.max[index] = self.max[index].max(value as f32);
            }
        }
    }

    pub(super) fn add_piece(&mut self, piece: &Piece) {
        self.reach(piece.from_ns, piece.mean.t_ns, piece.frames);
        self.add_layers(&piece.mean, u32::from(piece.layered));
        for index in 0..GAUGE_COUNT {
            if let Some(value) = piece.mean.gauge(index) {
                let known = u32::from(piece.known[index]);
                self.totals[index] += value * f64::from(known);
                self.known[index] += known;
                self.max[index] = self.max[index].max(piece.max[index]);
            }
        }
    }

    fn reach(&mut self, from_ns: u64, to_ns: u64, frames: u32) {
        self.span_ns = Some((self.span_ns.map_or(from_ns, |(first, _)| first), to_ns));
        self.frames = self.frames.saturating_add(frames);
    }

    fn add_layers(&mut self, frame: &Frame, frames: u32) {
        if let Some(layers) = frame.layers {
            self.layered += frames;
            for (sum, bytes) in self.layers.iter_mut().zip(layers) {
                *sum += i128::from(bytes) * i128::from(frames);
            }
        }
    }

    /// The sum; None if empty.
    pub(super) fn into_piece(self) -> Option<Piece> {
        let (from_ns, last_ns) = self.span_ns?;
        let mut mean = Frame::empty(last_ns);
        mean.layers = means(&self.layers, i128::from(self.layered));
        for index in 0..GAUGE_COUNT {
            if self.known[index] > 0 {
                mean.set_gauge(index, self.totals[index] / f64::from(self.known[index]));
            }
        }
        Some(Piece {
            from_ns,
            mean,
            max: self.max,
            known: self.known.map(|frames| u8::try_from(frames).unwrap_or(u8::MAX)),
            layered: u16::try_from(self.layered).unwrap_or(u16::MAX),
            frames: self.frames,
        })
    }
}
