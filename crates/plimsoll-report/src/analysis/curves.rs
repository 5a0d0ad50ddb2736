//! Curves over time: smoothed, and several of one kind put together with their spread.

/// A quantity over time: seconds, and the value where there is one.
pub type Curve = Vec<(f64, Option<f64>)>;

/// Repeats of a curve on common places in time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spread {
    /// Mean of the smoothed repeats; nothing where none has a value.
    pub mean: Curve,
    /// Time, least and greatest of the smoothed repeats, where there is a value.
    pub band: Vec<(f64, f64, f64)>,
}

/// The curve at `places`, each the mean of the values within half of `window` seconds on either side (a centred moving
/// mean); nothing where there are none.
///
/// At an end of the curve the window holds one side alone, so that nothing is made up; a peak shorter than the window is
/// lower and wider than it was.
pub fn smoothed(curve: &[(f64, Option<f64>)], window: f64, places: &[f64]) -> Curve {
    let near = |place: f64| {
        let from = curve.partition_point(|(t, _)| *t < place - window / 2.0);
        let to = curve.partition_point(|(t, _)| *t <= place + window / 2.0);
        let values: Vec<f64> = curve[from..to.max(from)]
            .iter()
            .filter_map(|(_, value)| *value)
            .collect();
        super::ratio(values.iter().sum(), values.len() as f64)
    };
    places.iter().map(|&place| (place, near(place))).collect()
}

/// Smooths every repeat, and puts them together.
pub fn spread(repeats: &[Curve], window: f64, places: &[f64]) -> Spread {
    let smooth: Vec<Curve> = repeats
        .iter()
        .map(|repeat| smoothed(repeat, window, places))
        .collect();
    let mut spread = Spread::default();
    for (index, &place) in places.iter().enumerate() {
        let values: Vec<f64> = smooth.iter().filter_map(|curve| curve[index].1).collect();
        let mean = super::ratio(values.iter().sum(), values.len() as f64);
        spread.mean.push((place, mean));
        if mean.is_some() {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            spread.band.push((place, low, high));
        }
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(curve: &Curve) -> Vec<Option<f64>> {
        curve.iter().map(|(_, value)| *value).collect()
    }

    #[test]
    fn a_window_holds_near_points() {
        let curve: Curve = (0..6).map(|t| (f64::from(t), Some(f64::from(t * t)))).collect();
        let found = smoothed(&curve, 2.0, &[0.0, 2.0, 5.0, 9.0]);
        // 0 1; 1 4 9; 16 25; nothing.
        assert_eq!(values(&found), [Some(0.5), Some(14.0 / 3.0), Some(20.5), None]);
    }

    #[test]
    fn a_gap_stays_one() {
        let curve = vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(3.0))];
        assert_eq!(
            values(&smoothed(&curve, 0.5, &[0.0, 1.0, 2.0])),
            [Some(1.0), None, Some(3.0)]
        );
    }

    #[test]
    fn repeats_span_a_band() {
        let flat = |value: f64| vec![(0.0, Some(value)), (1.0, Some(value))];
        let found = spread(&[flat(1.0), flat(4.0), flat(7.0)], 0.1, &[0.0, 0.5, 1.0]);
        assert_eq!(values(&found.mean), [Some(4.0), None, Some(4.0)]);
        assert_eq!(found.band, [(0.0, 1.0, 7.0), (1.0, 1.0, 7.0)]);
    }

    proptest! {
        #[test]
        fn a_smoothed_curve_stays_between_its_extremes(raw in prop::collection::vec(-1e6f64..1e6, 1..60), window in 0.0f64..30.0) {
            let curve: Curve = raw.iter().enumerate().map(|(t, value)| (t as f64, Some(*value))).collect();
            let places: Vec<f64> = curve.iter().map(|(t, _)| *t).collect();
            let (low, high) = raw.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
            for (_, value) in smoothed(&curve, window, &places) {
                let value = value.expect("a value is near itself");
                prop_assert!(value >= low - 1.0 && value <= high + 1.0);
            }
        }
    }
}
