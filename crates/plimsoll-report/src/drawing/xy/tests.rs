use proptest::prelude::*;

use super::*;

fn axis(unit: MetricUnit, log: bool) -> Axis {
    Axis {
        log,
        ..Axis::linear("axis", unit)
    }
}

fn chart(lines: Vec<Line>, log: bool) -> Chart {
    Chart {
        title: "A chart".to_owned(),
        x: axis(MetricUnit::Ratio, log),
        y: axis(MetricUnit::PerSecond, log),
        lines,
        marks: Vec::new(),
        levels: Vec::new(),
    }
}

fn line(points: &[(f64, f64)]) -> Line {
    Line {
        label: "line".to_owned(),
        points: points.iter().map(|(x, y)| (*x, Some(*y))).collect(),
        dots: true,
        ..Line::default()
    }
}

/// Every number that stands in attributes of places.
fn coordinates(svg: &str) -> Vec<f64> {
    let mut found = Vec::new();
    for name in [" d=\"", " x=\"", " y=\"", " cx=\"", " cy=\""] {
        for part in svg.split(name).skip(1) {
            let text = part.split('"').next().unwrap_or("");
            let numbers = text.split(|letter: char| letter.is_ascii_alphabetic() || letter == ' ');
            found.extend(numbers.filter(|number| !number.is_empty()).map(|number| {
                number
                    .parse::<f64>()
                    .unwrap_or_else(|error| panic!("{number} in {text}: {error}"))
            }));
        }
    }
    found
}

fn assert_sound(svg: &str) {
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    for number in coordinates(svg) {
        assert!(number.is_finite() && number.abs() < 2000.0, "{number} in {svg}");
    }
    let mut depth = 0i32;
    for tag in svg.split('<').skip(1) {
        if tag.starts_with('/') {
            depth -= 1;
        } else if !tag.split('>').next().is_some_and(|tag| tag.ends_with('/')) {
            depth += 1;
        }
    }
    assert_eq!(depth, 0, "{svg}");
}

#[test]
fn nothing_is_drawn_of_nothing() {
    assert_eq!(draw(&chart(Vec::new(), false)), None);
    assert_eq!(draw(&chart(vec![line(&[])], false)), None);
    assert_eq!(
        draw(&chart(
            vec![line(&[(1.0, f64::NAN), (f64::INFINITY, 1.0)])],
            false
        )),
        None
    );
    // Nothing that a logarithmic axis could show.
    assert_eq!(draw(&chart(vec![line(&[(0.0, 1.0), (1.0, -1.0)])], true)), None);
}

#[test]
fn names_of_others_are_harmless() {
    let mut one = line(&[(1.0, 1.0), (2.0, 2.0)]);
    one.label = "<script>\"'&".to_owned();
    let mut hostile = chart(vec![one.clone(), one], false);
    hostile.title = "\"><b>".to_owned();
    hostile.marks = vec![(1.5, "<i>".to_owned())];
    hostile.levels = vec![(1.5, "<u>".to_owned())];
    let svg = draw(&hostile).unwrap();
    assert_sound(&svg);
    for tag in ["<script", "<b>", "<i>", "<u>"] {
        assert!(!svg.contains(tag), "{tag}");
    }
}

#[test]
fn dots_say_their_values() {
    let svg = draw(&chart(vec![line(&[(0.5, 1200.0), (2.0, 45_000.0)])], false)).unwrap();
    assert!(svg.contains("<title>line: 2.00\u{d7}, 45.0k/s</title>"), "{svg}");
}

#[test]
fn a_gap_breaks_the_line_and_a_point_between_gaps_is_a_dot() {
    let mut broken = line(&[]);
    broken.dots = false;
    broken.points = vec![(1.0, Some(1.0)), (2.0, Some(2.0)), (3.0, None), (4.0, Some(4.0))];
    let svg = draw(&chart(vec![broken], false)).unwrap();
    assert_eq!(svg.matches("<circle").count(), 1, "{svg}");
}

#[test]
fn decades_have_words_and_lines_between() {
    let svg = draw(&chart(vec![line(&[(1.0, 1.0), (1000.0, 1000.0)])], true)).unwrap();
    for words in [
        ">1\u{d7}<",
        ">10\u{d7}<",
        ">100\u{d7}<",
        ">1000\u{d7}<",
        ">1/s<",
        ">100/s<",
    ] {
        assert!(svg.contains(words), "{words} in {svg}");
    }
    assert!(svg.contains("grid minor"));
}

#[test]
fn bytes_have_binary_steps() {
    let mut bytes = chart(vec![line(&[(1.0, 3e8), (2.0, 1e9)])], false);
    bytes.y.unit = MetricUnit::Bytes;
    let svg = draw(&bytes).unwrap();
    assert!(svg.contains(">512 MiB<") && !svg.contains(">500"), "{svg}");
}

#[test]
fn many_points_stay_small_and_keep_their_extremes() {
    let mut points: Vec<(f64, f64)> = (0..100_000).map(|x| (f64::from(x), 5.0)).collect();
    points[50_000].1 = 1000.0;
    let mut long = line(&points);
    long.dots = false;
    let svg = draw(&chart(vec![long], false)).unwrap();
    assert!(svg.len() < 40_000, "{}", svg.len());
    let path = svg.split("class=\"line\"").last().unwrap();
    let highest = coordinates(path)
        .into_iter()
        .filter(|number| *number > 20.0)
        .fold(f64::INFINITY, f64::min);
    assert!(highest < 60.0, "the peak is gone: {highest}");
}

/// Values of every magnitude, and some that are none.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (-9.0..12.0f64).prop_map(|power| 10f64.powf(power)),
        2 => (-9.0..12.0f64).prop_map(|power| -10f64.powf(power)),
        2 => Just(0.0),
        1 => any::<f64>(),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::MAX), Just(f64::MIN_POSITIVE)],
    ]
}

fn any_line() -> impl Strategy<Value = Line> {
    let points = || prop::collection::vec((value(), prop::option::weighted(0.9, value())), 0..12);
    let band = prop::collection::vec((value(), value(), value()), 0..6);
    let behind = prop::collection::vec(points(), 0..3);
    (".{0,40}", 0..20usize, points(), any::<bool>(), band, behind).prop_map(
        |(label, ink, points, dots, band, behind)| Line {
            label,
            ink,
            points,
            dots,
            band,
            behind,
        },
    )
}

fn any_axis() -> impl Strategy<Value = Axis> {
    let unit = prop::sample::select(vec![
        MetricUnit::Seconds,
        MetricUnit::GbPerS,
        MetricUnit::PerSecond,
        MetricUnit::Bytes,
        MetricUnit::Ratio,
        MetricUnit::Percent,
        MetricUnit::Count,
    ]);
    (unit, any::<bool>()).prop_map(|(unit, log)| axis(unit, log))
}

proptest! {
    #[test]
    fn any_values_make_a_sound_drawing(
        x in any_axis(),
        y in any_axis(),
        lines in prop::collection::vec(any_line(), 0..8),
        marks in prop::collection::vec((value(), "[a-eg-z<& ]{0,60}"), 0..12),
        levels in prop::collection::vec((value(), "[a-eg-z<& ]{0,30}"), 0..3),
    ) {
        let chart = Chart { title: "any".to_owned(), x, y, lines, marks, levels };
        if let Some(svg) = draw(&chart) {
            // Words of lines are any letters: what could look like a number that is none is looked for in the rest.
            // For the same reason marks and levels have no `f` in their names: one of them once said `inf`.
            let mut plain = chart.clone();
            for line in &mut plain.lines {
                line.label = "line".to_owned();
            }
            prop_assert!(!svg.is_empty());
            assert_sound(&draw(&plain).unwrap());
        }
    }

    #[test]
    fn ticks_are_in_the_range_and_differ(
        axis in any_axis(),
        values in prop::collection::vec(value(), 1..10),
        grounded in any::<bool>(),
    ) {
        let scale = Scale::new(&axis, values.iter().copied(), grounded, (0.0, 500.0));
        let ticks = scale.ticks(40.0);
        prop_assert!(ticks.len() <= 26, "{ticks:?}");
        for pair in ticks.windows(2) {
            prop_assert!(pair[0] < pair[1], "{ticks:?} of {values:?}");
        }
        for tick in &ticks {
            let place = scale.place(*tick).unwrap();
            prop_assert!((-1e-3..=500.001).contains(&place), "{tick} at {place}");
        }
        for value in values.iter().filter_map(|value| usable(&axis, *value)) {
            let place = scale.place(value).unwrap();
            prop_assert!((-1e-3..=500.001).contains(&place), "{value} at {place}");
        }
    }
}
