//! One chart of a report as an SVG file of its own, for a document or a README.
//!
//! Colours are values, not CSS variables, because many SVG viewers do not support variables.

use std::collections::BTreeMap;

use super::{Page, cost, parts, sections, timeline};
use crate::contents::Mark;
use crate::drawing::palette;
use crate::drawing::svg::HATCH;
use plimsoll_model::sanitize::sanitize;

const FONTS: &str =
    r#"font-family="system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" font-size="12px""#;
/// Empty border around the chart.
const MARGIN: f64 = 8.0;

#[derive(Debug, thiserror::Error)]
#[error(
    "cannot draw the chart `{}`: the report has no chart of this name; choose one of: {}",
    sanitize(name),
    names.join(", ")
)]
pub struct NoChart {
    pub name: String,
    /// The names of all charts.
    pub names: Vec<String>,
}

/// The chart of this name, in light or dark colours. Without a name, the first chart of the experiment or, if the
/// experiment has no chart, the timeline.
///
/// # Errors
/// [`NoChart`], with the names of all charts.
pub fn svg(page: &Page, name: Option<&str>, dark: bool) -> Result<String, NoChart> {
    let charts = charts(page);
    let found = charts
        .iter()
        .find(|(known, _)| name.is_none_or(|name| name == known));
    let (_, drawing) = found.ok_or_else(|| NoChart {
        name: name.unwrap_or_default().to_owned(),
        names: charts.iter().map(|(name, _)| name.clone()).collect(),
    })?;
    let (width, height) = size(drawing);
    let body = drawing.split_once('>').map_or("", |(_, body)| body);
    let label = drawing
        .split_once("aria-label=\"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or("", |(label, _)| label);
    let (outer_width, outer_height) = (width + 2.0 * MARGIN, height + 2.0 * MARGIN);
    let hatch = if body.contains("url(#hatch)") { HATCH } else { "" };
    let svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" class="xy" role="img" aria-label="{label}" width="{outer_width}" height="{outer_height}" viewBox="-{MARGIN} -{MARGIN} {outer_width} {outer_height}" {FONTS}><style>{}</style>{hatch}<rect x="-{MARGIN}" y="-{MARGIN}" width="{outer_width}" height="{outer_height}" fill="var(--page)"/>{body}"#,
        parts::drawing_style()
    );
    Ok(with_colours(&svg, dark) + "\n")
}

/// The names and drawings of all charts. If several charts have the same name, each after the first gets a number.
fn charts(page: &Page) -> Vec<(String, String)> {
    let drawings = sections::all(page)
        .into_iter()
        .flat_map(|section| section.drawings);
    let mut charts: Vec<(&str, String)> = drawings.map(|drawing| (drawing.id, drawing.svg)).collect();
    let cost = cost::section(page);
    let (time, memory) = cost.map_or((None, None), |cost| (cost.time_chart, cost.memory_chart));
    charts.extend(time.map(|chart| ("time", chart)));
    let marks: Vec<&Mark> = page.marks.iter().collect();
    let mem_total = page.manifest.host.mem_total as f64;
    let overview = timeline::overview(&page.overview, &marks, mem_total, "Memory over time");
    charts.push(("overview", overview));
    charts.extend(memory.map(|chart| ("memory-use", chart)));
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    let named = charts.into_iter().map(|(name, chart)| {
        let times = times.entry(name).or_default();
        *times += 1;
        match *times {
            1 => (name.to_owned(), chart),
            times => (format!("{name}-{times}"), chart),
        }
    });
    named.collect()
}

/// Width and height, as the drawing's `viewBox` has them.
fn size(drawing: &str) -> (f64, f64) {
    let mut numbers = drawing
        .split_once("viewBox=\"0 0 ")
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or("", |(size, _)| size)
        .split(' ')
        .map_while(|number| number.parse().ok());
    (numbers.next().unwrap_or(0.0), numbers.next().unwrap_or(0.0))
}

/// The text with each `var(--NAME)` replaced by its value.
fn with_colours(text: &str, dark: bool) -> String {
    let declarations = parts::variables(dark) + &palette::css_variables(dark);
    let declared = declarations.split(';').filter_map(|one| {
        let (name, value) = one.trim().split_once(':')?;
        name.starts_with("--").then_some((name, value.trim()))
    });
    declared.fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("var({name})"), value)
    })
}
