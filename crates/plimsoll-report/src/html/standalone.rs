//! One chart of a report as an SVG file of its own, for a document or a README.
//!
//! Colours are values, not CSS variables, because many SVG viewers do not support variables.

use super::{Page, cost, parts, sections, timeline};
use crate::contents::Mark;
use crate::drawing::palette;

const FONTS: &str =
    r#"font-family="system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" font-size="12px""#;
/// The hatch of layers, which `report.html` defines for all its drawings.
const HATCH: &str = r##"<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="2" height="6" fill="#fff" fill-opacity=".45"/></pattern></defs>"##;
/// Empty border around the chart.
const MARGIN: f64 = 8.0;

/// The first chart of the report, in light or dark colours: that of the experiment, or the timeline where there is none.
pub fn svg(page: &Page, dark: bool) -> String {
    let drawing = first(page);
    let (width, height) = size(&drawing);
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
    with_colours(&svg, dark) + "\n"
}

fn first(page: &Page) -> String {
    let of_experiment = sections::all(page)
        .into_iter()
        .find_map(|section| section.drawings.into_iter().next())
        .map(|drawing| drawing.svg);
    let of_phases = || cost::section(page)?.time_chart;
    of_experiment.or_else(of_phases).unwrap_or_else(|| {
        let marks: Vec<&Mark> = page.marks.iter().collect();
        let mem_total = page.manifest.host.mem_total as f64;
        timeline::overview(&page.overview, &marks, mem_total, "Memory over time")
    })
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
