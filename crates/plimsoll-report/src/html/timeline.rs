//! The static drawing of a timeline: every panel in one SVG, so that the marker lines run through all of them.

use std::fmt::Write;

use crate::contents::{Mark, Series, Timeline};
use crate::drawing::palette;
use crate::drawing::panel::{self, Curve, Panel, round_step};
use crate::drawing::svg;
use plimsoll_model::quantity;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 24.0;
/// Room above each plot for its title.
const TITLE: f64 = 26.0;
const BOTTOM: f64 = 30.0;
/// Pixels of each of the columns that a drawing is reduced to: narrower ones would not be seen.
const COLUMN: f64 = 2.25;
/// Thickness in pixels from which a layer has room for its own name.
const LABEL_ROOM: f64 = 13.0;
/// Pixels that each mark needs on average: with fewer, the lines would hide the curves.
const MARK_ROOM: f64 = 10.0;
/// Pixels from the number of a mark to that of the next one.
const DISC_ROOM: f64 = 17.0;
/// Share of the most room that is as good as the most.
const NEARLY: f64 = 0.97;
/// Width of an entry in a panel's key, and letters that fit into it.
const KEY_PITCH: f64 = 112.0;
const KEY_LETTERS: usize = 16;

/// The horizontal axis of a drawing, in seconds after its origin.
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) width: f64,
    /// Seconds of the timeline that are 0 here.
    pub(crate) origin: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Axis {
    fn x(&self, t: f64) -> f64 {
        LEFT + (t - self.origin - self.from) / (self.to - self.from) * (self.right() - LEFT)
    }

    fn right(&self) -> f64 {
        self.width - RIGHT
    }
}

pub(crate) struct Plot<'a> {
    pub(crate) panel: &'static Panel,
    pub(crate) title: &'a str,
    /// Whether the names of its series stand beside its title.
    pub(crate) keyed: bool,
    /// Where its axis ends; else above its greatest value.
    pub(crate) top: Option<f64>,
}

/// Draws a whole timeline with its marks; `title` is for screen readers.
pub(super) fn overview(timeline: &Timeline, marks: &[&Mark], mem_total: f64, title: &str) -> String {
    let from = timeline.t.first().copied().unwrap_or(0.0);
    let axis = Axis {
        title: "seconds since the start of the run".to_owned(),
        width: WIDTH,
        origin: 0.0,
        from,
        to: timeline.t.last().copied().unwrap_or(0.0).max(from + 1e-3),
    };
    let plot = |panel: &'static Panel| Plot {
        panel,
        title: panel.title,
        keyed: panel.id != "whole",
        top: (panel.id == "whole" && mem_total > 0.0).then_some(mem_total),
    };
    draw(
        timeline,
        marks,
        &panel::drawn()
            .filter(|panel| panel.is_drawn_for(timeline))
            .map(plot)
            .collect::<Vec<_>>(),
        &axis,
        title,
    )
}

/// Draws panels of a timeline with its marks; `title` is for screen readers.
pub(crate) fn draw(
    timeline: &Timeline,
    marks: &[&Mark],
    plots: &[Plot<'_>],
    axis: &Axis,
    title: &str,
) -> String {
    let timeline = &timeline.thinned((axis.width / COLUMN) as usize);
    let heights = plots.iter().map(|plot| TITLE + f64::from(plot.panel.height));
    let height: f64 = TOP + BOTTOM + heights.sum::<f64>();
    let mut out = svg::open("timeline", axis.width, height, title);
    let mut y = TOP;
    // Lines of the marks cross the plots alone, not the words between them.
    let mut lines = String::new();
    for plot in plots {
        y += TITLE;
        draw_panel(&mut out, plot, timeline, axis, y);
        let _ = write!(lines, "M0 {y}v{}", plot.panel.height);
        y += f64::from(plot.panel.height);
    }
    draw_time(&mut out, axis, y);
    let mut free_from = f64::NEG_INFINITY;
    // Among many marks, those without room for a number are left out: their lines would hide the curves.
    let crowded = marks.len() as f64 * MARK_ROOM > axis.right() - LEFT;
    for mark in marks {
        let x = axis.x(mark.t);
        let has_room = x >= free_from;
        if has_room || !crowded {
            let _ = write!(
                out,
                r#"<path class="mark" transform="translate({})" d="{lines}"/>"#,
                svg::coordinate(x)
            );
        }
        if has_room {
            out += &svg::disc(x, TOP - 8.0, &mark.label);
            free_from = x + DISC_ROOM;
        }
    }
    out += "</svg>";
    out
}

/// Where the axis of a panel ends: above the greatest value.
pub(crate) fn top(panel: &Panel, timeline: &Timeline) -> f64 {
    let curves = panel.curves(timeline);
    let values = curves.iter().flat_map(|(_, curve)| curve).flatten().copied();
    let peak = values.fold(panel.least_top, f64::max);
    peak * if peak > panel.least_top { 1.05 } else { 1.0 }
}

fn draw_panel(out: &mut String, plot: &Plot<'_>, timeline: &Timeline, axis: &Axis, y: f64) {
    let panel = plot.panel;
    let height = f64::from(panel.height);
    let base = y + height;
    let curves = panel.curves(timeline);
    let top = plot.top.unwrap_or_else(|| top(panel, timeline));
    let place = |value: f64| base - (value / top).min(1.0) * height;
    *out += &svg::text(LEFT, y - 7.0, "title", plot.title);
    if plot.keyed {
        draw_key(out, panel, &curves, axis.right(), y - 7.0);
    }
    let points = |curve: &[Option<f64>]| -> Vec<Option<(f64, f64)>> {
        timeline
            .t
            .iter()
            .zip(curve)
            .map(|(t, value)| value.map(|value| (axis.x(*t), place(value))))
            .collect()
    };
    if panel.stack {
        // The highest first: each area reaches down to the base and is painted over by the next.
        for (index, (one, curve)) in curves.iter().enumerate().rev() {
            let path = svg::area_path(&points(curve), base);
            let colour = panel.colour(one, index);
            let _ = write!(out, r#"<path class="area" fill="{colour}" d="{path}"/>"#);
            if panel.shows_layers() && palette::paint_of(&one.key).hatched {
                let _ = write!(out, r#"<path fill="url(#hatch)" d="{path}"/>"#);
            }
        }
    }
    for tick in panel.unit.ticks(top, panel.height / 34) {
        let at = svg::coordinate(place(tick));
        let _ = write!(out, r#"<path class="grid" d="M{LEFT} {at}H{}"/>"#, axis.right());
        *out += &svg::text(LEFT - 6.0, place(tick) + 4.0, "tick end", &panel.unit.tick(tick));
    }
    if !panel.stack {
        for (index, (one, curve)) in curves.iter().enumerate() {
            let path = svg::line_path(&points(curve));
            let _ = write!(
                out,
                r#"<path class="line" stroke="{}" stroke-dasharray="{}" d="{path}"/>"#,
                panel.colour(one, index),
                dashes(one, index)
            );
        }
    } else if panel.shows_layers() {
        label_layers(out, &curves, &timeline.t, axis, &place);
    }
}

/// Each layer's name inside it, where it is thickest, if there is room.
fn label_layers(
    out: &mut String,
    curves: &[Curve<'_>],
    times: &[f64],
    axis: &Axis,
    place: &impl Fn(f64) -> f64,
) {
    for (index, (one, curve)) in curves.iter().enumerate() {
        let paint = palette::paint_of(&one.key);
        let half = paint.label.len() as f64 * 3.4 + 2.0;
        let edges: Vec<(f64, f64, f64)> = times
            .iter()
            .enumerate()
            .filter_map(|(column, t)| {
                let high = place(curve[column]?);
                let low = if index == 0 {
                    place(0.0)
                } else {
                    place(curves[index - 1].1[column]?)
                };
                Some((axis.x(*t), low, high))
            })
            .collect();
        let rooms: Vec<(f64, f64, f64)> = edges
            .iter()
            .filter(|(x, _, _)| x - half > LEFT && x + half < axis.right())
            .map(|&(x, _, _)| {
                // The room that is there all along the width of the text.
                let under = edges.iter().filter(|edge| (edge.0 - x).abs() <= half + 3.0);
                let (low, high) = under.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), edge| {
                    (low.min(edge.1), high.max(edge.2))
                });
                (x, low, low - high)
            })
            .collect();
        let spot = middle_of_widest(&rooms);
        if let Some((x, low, thickness)) = spot
            && thickness >= LABEL_ROOM
        {
            let middle = low - thickness / 2.0;
            if paint.hatched {
                let _ = write!(
                    out,
                    r#"<rect x="{}" y="{}" width="{}" height="15" fill="var(--{})"/>"#,
                    svg::coordinate(x - half),
                    svg::coordinate(middle - 7.5),
                    svg::coordinate(half * 2.0),
                    paint.key
                );
            }
            let _ = write!(
                out,
                r#"<text x="{}" y="{}" class="layer" style="fill:var(--on-{})">{}</text>"#,
                svg::coordinate(x),
                svg::coordinate(middle + 4.0),
                paint.key,
                paint.label
            );
        }
    }
}

/// The middle of the longest stretch in which a text has nearly the most room, among places with their room.
fn middle_of_widest(rooms: &[(f64, f64, f64)]) -> Option<(f64, f64, f64)> {
    let most = rooms.iter().map(|room| room.2).reduce(f64::max)?;
    rooms
        .split(|room| room.2 < most * NEARLY)
        .max_by_key(|stretch| stretch.len())
        .and_then(|stretch| stretch.get(stretch.len() / 2))
        .copied()
}

/// The names of a panel's series with their colours, to the right of its title.
fn draw_key(out: &mut String, panel: &Panel, curves: &[Curve<'_>], right: f64, y: f64) {
    for (index, (one, _)) in curves.iter().enumerate() {
        let x = right - KEY_PITCH * (curves.len() - index) as f64;
        let label = if panel.shows_layers() {
            palette::paint_of(&one.key).label
        } else {
            &one.label
        };
        let label: String = label.chars().take(KEY_LETTERS).collect();
        *out += &svg::text(x + 24.0, y, "tick", &label);
        let colour = panel.colour(one, index);
        if !panel.stack {
            let dash = dashes(one, index);
            let _ = write!(
                out,
                r#"<path class="line" stroke="{colour}" stroke-dasharray="{dash}" d="M{x} {}h20"/>"#,
                y - 4.0
            );
            continue;
        }
        let shape = format!(r#"x="{}" y="{}" width="14" height="10""#, x + 5.0, y - 9.0);
        let _ = write!(out, r#"<rect {shape} fill="{colour}"/>"#);
        if panel.shows_layers() && palette::paint_of(&one.key).hatched {
            let _ = write!(out, r#"<rect {shape} fill="url(#hatch)"/>"#);
        }
    }
}

/// The dashes of a line, as SVG wants them.
fn dashes(series: &Series, place: usize) -> String {
    svg::dashes(palette::ink_of(&series.key, place).dash)
}

fn draw_time(out: &mut String, axis: &Axis, y: f64) {
    let step = round_step((axis.to - axis.from) / 8.0);
    let mut tick = (axis.from / step).ceil() * step;
    while tick <= axis.to {
        let x = axis.x(axis.origin + tick);
        let _ = write!(out, r#"<path class="grid" d="M{} {y}v5"/>"#, svg::coordinate(x));
        // -0 and values near 0 are 0.
        let shown = if tick.abs() < step / 1e3 { 0.0 } else { tick };
        let label = match step < 1.0 {
            true => quantity::significant(shown),
            false => format!("{shown:.0}"),
        };
        *out += &svg::text(x, y + 17.0, "tick middle", &label);
        tick += step;
    }
    *out += &svg::text(axis.right(), y + 29.0, "tick end", &axis.title);
}
