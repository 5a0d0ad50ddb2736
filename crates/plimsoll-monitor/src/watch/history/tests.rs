use proptest::prelude::*;

use super::*;
use plimsoll_model::categories::CATEGORIES;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const TOTAL: i64 = 24 << 30;

/// A frame whose layers sum to [`TOTAL`] and whose gauge 0 is `value`.
fn frame(t_ns: u64, value: Option<u16>) -> Frame {
    let mut frame = Frame::empty(t_ns);
    if let Some(value) = value {
        let mut layers = [0; CATEGORIES.len()];
        layers[1] = i64::from(value) << 12;
        layers[8] = TOTAL - layers[1];
        frame.layers = Some(layers);
        frame.set_gauge(0, f64::from(value));
    }
    frame
}

/// A history with little room, so that thinning out and merging begin soon.
fn small() -> History {
    History {
        most_frames: 60,
        young_ns: 5 * SECOND,
        most_pieces: 40,
        ..History::new(100 * MS)
    }
}

/// A model of the history that keeps all frames.
struct Model(Vec<Frame>);

/// Frames, mean and greatest value of gauge 0, and MemTotal.
type Sum = (u32, Option<f64>, Option<f64>, Option<i64>);

impl Model {
    fn bucket(&self, range: Range<u64>) -> Option<Sum> {
        let frames: Vec<&Frame> = self
            .0
            .iter()
            .filter(|frame| range.contains(&frame.t_ns))
            .collect();
        let values: Vec<f64> = frames.iter().filter_map(|frame| frame.gauge(0)).collect();
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let max = values.iter().copied().reduce(f64::max);
        let total = frames.iter().find_map(|frame| frame.mem_total());
        (!frames.is_empty()).then_some((frames.len() as u32, mean, max, total))
    }
}

fn assert_same(bucket: Option<&Bucket>, model: &Model, range: Range<u64>) {
    let wanted = model.bucket(range.clone());
    let found = bucket.map(|bucket| {
        let mean = bucket.mean.gauge(0);
        (bucket.frames, mean, bucket.max(0), bucket.mean.mem_total())
    });
    match (wanted, found) {
        (None, None) => {}
        (Some(wanted), Some(found)) => {
            assert_eq!(
                (wanted.0, wanted.2, wanted.3),
                (found.0, found.2, found.3),
                "{range:?}"
            );
            match (wanted.1, found.1) {
                (Some(wanted), Some(found)) => {
                    assert!(
                        (wanted - found).abs() <= 1e-3 * wanted.max(1.0),
                        "{wanted} {found} {range:?}"
                    );
                }
                (wanted, found) => assert_eq!(wanted, found, "{range:?}"),
            }
        }
        (wanted, found) => panic!("{range:?}: {wanted:?} but {found:?}"),
    }
}

/// Steps between frames: mostly a period, now and then a gap of seconds. None is a frame in which nothing is known.
fn steps() -> impl Strategy<Value = Vec<(u64, Option<u16>)>> {
    let step = prop_oneof![9 => Just(100 * MS), 1 => (50 * MS)..(9 * SECOND)];
    prop::collection::vec((step, prop::option::weighted(0.9, any::<u16>())), 1..900)
}

fn filled(steps: &[(u64, Option<u16>)]) -> (History, Model) {
    let (mut history, mut model, mut t_ns) = (small(), Model(Vec::new()), 0);
    for (step, value) in steps {
        t_ns += step;
        history.push(frame(t_ns, *value));
        model.0.push(frame(t_ns, *value));
    }
    (history, model)
}

/// Upper bound of the kept frames. Closing a piece drops frames down to the young ones or to `most_frames`; the frames of
/// the open piece, which may be long, come on top.
fn most_kept(history: &History, model: &Model) -> usize {
    let piece = |frame: &&Frame| frame.t_ns / history.piece_ns;
    let newest = model.0.last().unwrap().t_ns / history.piece_ns;
    let (closed, open): (Vec<&Frame>, Vec<&Frame>) = model.0.iter().partition(|frame| piece(frame) < newest);
    let young = |frame: &&&Frame| frame.t_ns + history.young_ns >= open[0].t_ns;
    history.most_frames.max(closed.iter().filter(young).count()) + open.len()
}

/// Regression: after hours with gaps pieces are long, and the open one keeps all its frames. A bound without the length
/// of pieces failed by chance.
#[test]
fn a_long_open_piece_keeps_its_frames() {
    let gaps = std::iter::repeat_n((8 * SECOND, Some(1)), 80);
    let steps: Vec<_> = gaps
        .chain(std::iter::repeat_n((100 * MS, Some(2)), 319))
        .collect();
    let (history, model) = filled(&steps);
    // The last gap begins a piece, which holds all later frames.
    assert_eq!(history.piece_ns, 32 * SECOND);
    let kept = history.frames.len();
    assert!(
        kept >= 320 && kept <= most_kept(&history, &model),
        "{kept} frames"
    );
}

/// Regression: a piece without frames was reopened to wait for its second half. Its peak was then in neither the frames
/// nor the pieces.
#[test]
fn a_thinned_piece_is_not_reopened() {
    let mut history = History {
        piece_ns: 4 * SECOND,
        most_frames: 0,
        most_pieces: 3,
        ..small()
    };
    let mut model = Model(Vec::new());
    for (second, value) in [(0, 1), (4, 1), (8, 9), (14, 1), (16, 1)] {
        history.push(frame(second * SECOND, Some(value)));
        model.0.push(frame(second * SECOND, Some(value)));
    }
    assert_eq!(history.piece_ns, 8 * SECOND);
    assert_eq!(history.peak(|frame| frame.gauge(0)), Some(14 * SECOND));
    for from in [0, 8 * SECOND, 16 * SECOND] {
        let range = from..from + 8 * SECOND;
        assert_same(history.buckets(range.clone(), 1)[0].as_ref(), &model, range);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn buckets_of_whole_pieces_equal_those_of_all_frames(steps in steps(), length in 1_u64..8, start in 0_u64..30) {
        let (history, model) = filled(&steps);
        let piece_ns = history.piece_ns;
        let length = length * piece_ns;
        let count = (model.0.last().unwrap().t_ns / length + 2) as usize;
        let range = start * piece_ns..start * piece_ns + count as u64 * length;
        let buckets = history.buckets(range.clone(), count);
        for (index, bucket) in buckets.iter().enumerate() {
            let from = range.start + index as u64 * length;
            assert_same(bucket.as_ref(), &model, from..from + length);
        }
        prop_assert!(history.frames.len() <= most_kept(&history, &model), "{} frames", history.frames.len());
        prop_assert!(history.pieces.len() <= 41);
    }

    #[test]
    fn buckets_of_young_frames_are_exact_wherever_they_begin(
        steps in steps(), length in 1_u64..20_000, offset in 0_u64..(3 * SECOND)
    ) {
        let (history, model) = filled(&steps);
        let oldest = history.frames.front().unwrap().t_ns;
        let from = oldest + offset;
        let count = 50;
        let range = from..from + count * length * MS;
        for (index, bucket) in history.buckets(range, count as usize).iter().enumerate() {
            let from = from + index as u64 * length * MS;
            assert_same(bucket.as_ref(), &model, from..from + length * MS);
        }
    }

    #[test]
    fn the_peak_and_later_frames_survive_thinning(steps in steps(), known in 0.0_f64..1.0) {
        let (history, model) = filled(&steps);
        let greatest = model.0.iter().filter_map(|frame| frame.gauge(0)).reduce(f64::max);
        let peak = history.peak(|frame| frame.gauge(0));
        prop_assert_eq!(peak.is_some(), greatest.is_some());
        if let (Some(peak), Some(greatest)) = (peak, greatest) {
            let piece = peak / history.piece_ns * history.piece_ns;
            let there = model.bucket(piece..piece + history.piece_ns).and_then(|bucket| bucket.2);
            prop_assert_eq!(there, Some(greatest));
        }
        let after = (known * history.span().unwrap().1 as f64) as u64;
        let times: Vec<u64> = history.after(after).map(|frame| frame.t_ns).collect();
        prop_assert!(times.iter().all(|t_ns| *t_ns > after) && times.is_sorted());
        prop_assert_eq!(times.last(), model.0.last().map(|frame| &frame.t_ns).filter(|last| **last > after));
        prop_assert_eq!(history.span(), Some((model.0[0].t_ns, model.0.last().unwrap().t_ns)));
    }
}

#[test]
fn gaps_stay_gaps_and_thinned_frames_become_none() {
    let mut history = small();
    for t_ns in (0..100).chain(300..500).map(|tick| tick * 100 * MS) {
        history.push(frame(t_ns, Some(7)));
    }
    assert!(history.thinned > 15, "{}", history.thinned);
    // Ten columns a second, where a second is all that is left.
    let columns = history.buckets(0..50 * SECOND, 500);
    let gap = |column: usize| columns[column].is_none();
    assert!(
        (0..99).all(|column| !gap(column)),
        "{:?}",
        (0..99).find(|column| gap(*column))
    );
    assert!(
        (100..300).all(gap),
        "{:?}",
        (100..300).find(|column| !gap(*column))
    );
    assert!((300..500).all(|column| !gap(column)));
}

#[test]
fn a_day_fits_in_memory_and_an_hour_has_no_gaps() {
    let mut history = History::new(100 * MS);
    for tick in 0..36_000_u64 * 3 {
        history.push(frame(tick * 100 * MS, Some(tick as u16)));
    }
    let (frames, pieces) = (size_of::<Frame>(), size_of::<Piece>());
    let day = WHOLE_FRAMES * frames + PIECES * pieces;
    assert!(
        day < 61 << 20,
        "{day} bytes a day: {frames} a frame, {pieces} a second"
    );
    assert!(
        history.frames.len() <= WHOLE_FRAMES + 10,
        "{}",
        history.frames.len()
    );
    let end = history.latest().unwrap().t_ns;
    let columns = history.buckets(end - 3600 * SECOND..end, 200);
    assert!(columns.iter().all(Option::is_some));
}
