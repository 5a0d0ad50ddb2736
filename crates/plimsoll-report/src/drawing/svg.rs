//! Small pieces of SVG: escaping, paths, text.

use std::fmt::Write;

/// The definition of the hatch of layers, for `fill="url(#hatch)"`.
pub(crate) const HATCH: &str = r##"<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="2" height="6" fill="#fff" fill-opacity=".45"/></pattern></defs>"##;

/// The start of a drawing; `title` is for screen readers.
pub(crate) fn open(class: &str, width: f64, height: f64, title: &str) -> String {
    format!(
        r#"<svg class="{class}" viewBox="0 0 {} {}" role="img" aria-label="{}">"#,
        coordinate(width),
        coordinate(height),
        escape(title)
    )
}

/// Text made safe for element content and quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(letter),
        }
    }
    safe
}

/// A coordinate with one decimal at most.
pub(crate) fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// A line through the points, broken where there is none.
pub(crate) fn line_path(points: &[Option<(f64, f64)>]) -> String {
    let mut path = String::new();
    let mut drawing = false;
    for point in points {
        match point {
            Some((x, y)) => {
                let letter = if drawing { 'L' } else { 'M' };
                let _ = write!(path, "{letter}{} {}", coordinate(*x), coordinate(*y));
                drawing = true;
            }
            None => drawing = false,
        }
    }
    path
}

/// The area between the points and `base`, broken where there is no point.
pub(crate) fn area_path(points: &[Option<(f64, f64)>], base: f64) -> String {
    let mut path = String::new();
    for run in points.split(Option::is_none) {
        let mut run = run.iter().flatten();
        let Some(&(first, y)) = run.next() else { continue };
        let base = coordinate(base);
        let _ = write!(path, "M{} {base}V{}", coordinate(first), coordinate(y));
        let mut last = first;
        for &(x, y) in run {
            let _ = write!(path, "L{} {}", coordinate(x), coordinate(y));
            last = x;
        }
        let _ = write!(path, "L{} {base}Z", coordinate(last));
    }
    path
}

/// The area between two lines over the same places, broken where either has no point.
pub(crate) fn band_path(high: &[Option<(f64, f64)>], low: &[Option<(f64, f64)>]) -> String {
    let pairs: Vec<_> = high.iter().zip(low).map(|(high, low)| high.zip(*low)).collect();
    let mut path = String::new();
    for run in pairs.split(Option::is_none) {
        let above = run.iter().flatten().map(|(high, _)| high);
        let below = run.iter().flatten().rev().map(|(_, low)| low);
        for (index, (x, y)) in above.chain(below).enumerate() {
            let letter = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{} {}", coordinate(*x), coordinate(*y));
        }
        if !run.is_empty() {
            path.push('Z');
        }
    }
    path
}

/// Dashes of a line, as SVG wants them.
pub(crate) fn dashes(dash: &[u8]) -> String {
    dash.iter().map(u8::to_string).collect::<Vec<_>>().join(" ")
}

/// Text at a place; `class` says how it looks.
pub(crate) fn text(x: f64, y: f64, class: &str, words: &str) -> String {
    format!(
        r#"<text x="{}" y="{}" class="{class}">{}</text>"#,
        coordinate(x),
        coordinate(y),
        escape(words)
    )
}

/// A vertical line of the plot, at a value of its axis, with the value below it.
pub(crate) fn tick(class: &str, x: f64, (top, base): (f64, f64), words: &str) -> String {
    let line = format!(
        r#"<path class="{class}" d="M{} {}V{}"/>"#,
        coordinate(x),
        coordinate(top),
        coordinate(base)
    );
    line + &text(x, base + 15.0, "tick middle", words)
}

/// A horizontal line with a bar at each end, from one end of an interval to the other.
pub(crate) fn whisker(class: &str, (low, high): (f64, f64), y: f64) -> String {
    format!(
        r#"<path class="{class}" d="M{0} {1}v8M{0} {2}H{3}M{3} {1}v8"/>"#,
        coordinate(low),
        coordinate(y - 4.0),
        coordinate(y),
        coordinate(high)
    )
}

/// The disc of an event with its label.
pub(crate) fn disc(x: f64, y: f64, label: &str) -> String {
    format!(
        r#"<g class="disc"><circle cx="{x}" cy="{y}" r="8"/><text x="{x}" y="{}">{}</text></g>"#,
        coordinate(y + 3.6),
        escape(label),
        x = coordinate(x),
        y = coordinate(y)
    )
}
