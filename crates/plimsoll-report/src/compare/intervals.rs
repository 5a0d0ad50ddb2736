//! Changes as dots with their 95% intervals, around a line at zero and the band of the threshold.

use std::fmt::Write;

use super::columns::paint;
use super::words;
use crate::comparison::Row;
use crate::drawing::panel::round_step;
use crate::drawing::svg;

const WIDTH: f64 = 620.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 120.0;
const ROW: f64 = 22.0;
const TOP: f64 = 8.0;
const AXIS: f64 = 24.0;
/// Changes beyond this share are drawn at the edge: one that is huge must not hide the others.
const FURTHEST: f64 = 2.0;

/// The rows of a group; none where no row has a change.
pub(super) fn chart(rows: &[&Row], threshold: f64, title: &str) -> Option<String> {
    let drawn: Vec<&&Row> = rows.iter().filter(|row| row.change.is_some()).collect();
    if drawn.is_empty() {
        return None;
    }
    let ends = |row: &Row| {
        let (low, high) = row.interval.unwrap_or((0.0, 0.0));
        row.change.unwrap_or(0.0).abs().max(low.abs()).max(high.abs())
    };
    let reach = drawn
        .iter()
        .map(|row| ends(row))
        .fold(threshold * 2.0, f64::max)
        .clamp(0.02, FURTHEST)
        * 1.05;
    let half = (WIDTH - LEFT - RIGHT) / 2.0;
    let x = |change: f64| LEFT + half + (change / reach).clamp(-1.0, 1.0) * half;
    let base = TOP + ROW * drawn.len() as f64;
    let mut out = svg::open("bars", WIDTH, base + AXIS, title);
    let (low, high) = (x(-threshold), x(threshold));
    let _ = write!(
        out,
        r#"<rect class="band" x="{}" y="{TOP}" width="{}" height="{}"/>"#,
        svg::coordinate(low),
        svg::coordinate(high - low),
        base - TOP
    );
    let step = round_step(reach / 2.0);
    for index in -2..=2 {
        let tick = f64::from(index) * step;
        if tick.abs() <= reach {
            let class = if index == 0 { "zero" } else { "grid" };
            out += &svg::tick(class, x(tick), (TOP, base), &words::change(Some(tick)));
        }
    }
    for (index, row) in drawn.iter().enumerate() {
        draw(&mut out, row, TOP + ROW * (index as f64 + 0.5), &x);
    }
    Some(out + "</svg>")
}

fn draw(out: &mut String, row: &Row, y: f64, x: &impl Fn(f64) -> f64) {
    let class = paint(row.verdict).map_or("calm", |(class, _)| class);
    let name: String = row.metric.chars().take(28).collect();
    *out += &svg::text(LEFT - 8.0, y + 4.0, "row end", &name);
    if let Some((low, high)) = row.interval {
        *out += &svg::whisker(&format!("interval {class}"), (x(low), x(high)), y);
    }
    let change = row.change.unwrap_or(0.0);
    let _ = write!(
        out,
        r#"<circle class="dot {class}" cx="{}" cy="{}" r="4"><title>{} {}</title></circle>"#,
        svg::coordinate(x(change)),
        svg::coordinate(y),
        words::change(row.change),
        words::interval(row.interval)
    );
    let (symbol, word) = words::verdict(row.verdict);
    let text = format!("{} {symbol} {word}", words::change(row.change));
    *out += &svg::text(WIDTH - RIGHT + 8.0, y + 4.0, class, &text);
}
