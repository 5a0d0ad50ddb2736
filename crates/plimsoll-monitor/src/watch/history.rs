//! Past frames, thinned out as they age, and summed up for display.
//!
//! Each frame also goes into a *piece*, the sum of the frames of one second. The history drops old frames and keeps
//! their pieces. A long bucket uses whole pieces instead of their frames, so that hours are as fast to sum up as
//! minutes. A day at 10 Hz takes about 63 MB, of which 11 MB are the gauges of pagers.

mod piece;

use std::collections::VecDeque;
use std::ops::Range;

use piece::{Piece, Tally};
use plimsoll_report::analysis::frame::{Frame, GAUGE_COUNT};

/// Most frames kept individually: an hour at 10 Hz.
const WHOLE_FRAMES: usize = 36_000;
/// Frames younger than this are always kept individually.
const WHOLE_NS: u64 = 600_000_000_000;
/// Initial length of a piece.
const PIECE_NS: u64 = 1_000_000_000;
/// Most pieces: a day's. Above that, pairs of pieces merge.
const PIECES: usize = 86_400;

/// Frames and pieces, oldest first.
///
/// Invariants:
///
/// - Times never decrease.
///
/// - The frames of the first `thinned` pieces are dropped; all later frames are present, including those summed up in
///   `open`, which are the newest.
///
/// - A piece holds the frames of one multiple of `piece_ns`: all of them, unless some were dropped before the last ones
///   arrived.
///
/// Checked by `buckets_of_whole_pieces_equal_those_of_all_frames` and `the_peak_and_later_frames_survive_thinning`.
#[derive(Debug, Clone)]
pub struct History {
    frames: VecDeque<Frame>,
    pieces: VecDeque<Piece>,
    thinned: usize,
    open: Tally,
    piece_ns: u64,
    period_ns: u64,
    /// [`PIECES`]; fewer in tests.
    most_pieces: usize,
    /// [`WHOLE_FRAMES`]; fewer in tests.
    most_frames: usize,
    /// [`WHOLE_NS`]; less in tests.
    young_ns: u64,
}

/// Summary of the frames of an interval: a column of the chart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Means. The layers sum to the mean of MemTotal.
    pub mean: Frame,
    /// Maximum of each gauge; NaN if it was never known.
    max: [f32; GAUGE_COUNT],
    /// Number of frames, at least one.
    pub frames: u32,
}

impl Bucket {
    /// Maximum of a gauge, if it was ever known.
    pub fn max(&self, index: usize) -> Option<f64> {
        let value = self.max[index];
        (!value.is_nan()).then(|| f64::from(value))
    }
}

impl History {
    /// An empty history for frames with this period.
    pub fn new(period_ns: u64) -> History {
        History {
            frames: VecDeque::new(),
            pieces: VecDeque::new(),
            thinned: 0,
            open: Tally::default(),
            piece_ns: PIECE_NS,
            period_ns: period_ns.max(1),
            most_pieces: PIECES,
            most_frames: WHOLE_FRAMES,
            young_ns: WHOLE_NS,
        }
    }

    /// Time between two ticks.
    pub fn period_ns(&self) -> u64 {
        self.period_ns
    }

    pub fn push(&mut self, frame: Frame) {
        // Runs twice if pieces became longer meanwhile.
        while let Some(last_ns) = self.open.last_ns()
            && last_ns / self.piece_ns != frame.t_ns / self.piece_ns
        {
            self.pieces.extend(std::mem::take(&mut self.open).into_piece());
            if self.pieces.len() > self.most_pieces {
                self.merge_pairs();
            }
            self.thin_out(frame.t_ns);
        }
        self.open.add(&frame);
        self.frames.push_back(frame);
    }

    pub fn latest(&self) -> Option<&Frame> {
        self.frames.back()
    }

    /// Times of the oldest and the newest frame.
    pub fn span(&self) -> Option<(u64, u64)> {
        let oldest = match self.thinned {
            0 => self.frames.front()?.t_ns,
            _ => self.pieces.front()?.from_ns,
        };
        Some((oldest, self.frames.back()?.t_ns))
    }

    /// Frames after `t_ns`, oldest first; means for dropped frames.
    pub fn after(&self, t_ns: u64) -> impl Iterator<Item = &Frame> {
        let old = self.first_piece(t_ns.saturating_add(1)).min(self.thinned)..self.thinned;
        let start = self.frames.partition_point(|frame| frame.t_ns <= t_ns);
        self.pieces
            .range(old)
            .map(|piece| &piece.mean)
            .chain(self.frames.range(start..))
    }

    /// `count` buckets of equal length over `range`; None for a gap without samples, which is never interpolated.
    pub fn buckets(&self, range: Range<u64>, count: usize) -> Vec<Option<Bucket>> {
        let length = range.end.saturating_sub(range.start) as u128;
        let edge = |index: usize| range.start + (length * index as u128 / count.max(1) as u128) as u64;
        (0..count)
            .map(|index| self.bucket(edge(index), edge(index + 1)))
            .collect()
    }

    /// Time of the frame with the maximum of `metric`.
    pub fn peak(&self, metric: impl Fn(&Frame) -> Option<f64>) -> Option<u64> {
        let old = self.pieces.range(..self.thinned).map(Piece::greatest);
        let known = old
            .chain(self.frames.iter().copied())
            .filter_map(|frame| Some((frame.t_ns, metric(&frame)?)));
        known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(t_ns, _)| t_ns)
    }

    /// Sums up the frames from `from` to before `to`.
    fn bucket(&self, from: u64, to: u64) -> Option<Bucket> {
        let mut tally = Tally::default();
        let old = self.first_piece(from).min(self.thinned)..self.first_piece(to).min(self.thinned);
        self.add_pieces(old, &mut tally);
        // Intervals with frames in `open`, and later ones, are in no piece yet.
        let pieces_end = self
            .open
            .last_ns()
            .map_or(0, |t_ns| t_ns / self.piece_ns * self.piece_ns);
        let whole =
            from.next_multiple_of(self.piece_ns)..(to / self.piece_ns * self.piece_ns).min(pieces_end);
        if whole.start < whole.end {
            self.add_frames(from..whole.start, &mut tally);
            let pieces = self.first_piece(whole.start).max(self.thinned)..self.first_piece(whole.end);
            self.add_pieces(pieces, &mut tally);
            self.add_frames(whole.end..to, &mut tally);
        } else {
            self.add_frames(from..to, &mut tally);
        }
        match tally.into_piece() {
            Some(piece) => Some(piece.bucket()),
            None => self.within_a_piece(from, to),
        }
    }

    /// The thinned piece around a shorter bucket: dropped frames are no gap.
    fn within_a_piece(&self, from: u64, to: u64) -> Option<Bucket> {
        let piece = self
            .pieces
            .range(..self.thinned)
            .nth(self.first_piece(from).min(self.thinned))?;
        (piece.from_ns < to).then(|| piece.bucket())
    }

    /// Index of the first piece that ends at or after `t_ns`.
    fn first_piece(&self, t_ns: u64) -> usize {
        self.pieces.partition_point(|piece| piece.mean.t_ns < t_ns)
    }

    fn add_pieces(&self, range: Range<usize>, tally: &mut Tally) {
        if range.start < range.end {
            for piece in self.pieces.range(range) {
                tally.add_piece(piece);
            }
        }
    }

    fn add_frames(&self, range: Range<u64>, tally: &mut Tally) {
        let first = self.frames.partition_point(|frame| frame.t_ns < range.start);
        for frame in self
            .frames
            .range(first..)
            .take_while(|frame| frame.t_ns < range.end)
        {
            tally.add(frame);
        }
    }

    /// Drops the oldest frames, piece by piece, if they are many and old.
    fn thin_out(&mut self, now_ns: u64) {
        while self.frames.len() > self.most_frames
            && let Some(frame) = self.frames.front()
            && frame.t_ns + self.young_ns < now_ns
            && self.thinned < self.pieces.len()
        {
            self.thinned += 1;
            self.forget_thinned();
        }
    }

    /// Drops the frames of the thinned pieces.
    fn forget_thinned(&mut self) {
        if let Some(last) = self.thinned.checked_sub(1) {
            let last_ns = self.pieces[last].mean.t_ns;
            let gone = self.frames.partition_point(|frame| frame.t_ns <= last_ns);
            self.frames.drain(..gone);
        }
    }

    /// Doubles the length of pieces.
    fn merge_pairs(&mut self) {
        let thinned_to = self
            .thinned
            .checked_sub(1)
            .map(|last| self.pieces[last].mean.t_ns);
        self.piece_ns *= 2;
        let mut merged: VecDeque<Piece> = VecDeque::with_capacity(self.pieces.len() / 2 + 1);
        let mut tally = Tally::default();
        for piece in self.pieces.drain(..) {
            if let Some(last_ns) = tally.last_ns()
                && last_ns / self.piece_ns != piece.mean.t_ns / self.piece_ns
            {
                merged.extend(std::mem::take(&mut tally).into_piece());
            }
            tally.add_piece(&piece);
        }
        // The last pair stays open for its second half, unless some of its frames are dropped.
        if thinned_to.is_some_and(|gone_ns| Some(gone_ns) >= tally.first_ns()) {
            merged.extend(std::mem::take(&mut tally).into_piece());
        }
        self.open = tally;
        self.pieces = merged;
        // A piece with one thinned half counts as thinned.
        self.thinned = match thinned_to {
            Some(t_ns) => (self.first_piece(t_ns) + 1).min(self.pieces.len()),
            None => 0,
        };
        self.forget_thinned();
    }
}

#[cfg(test)]
mod tests;
