//! Parts of every report and of the monitor's page: the style, the script's libraries, and the source
//! expressions of a content policy that allows them and nothing else. The elements that reports share are in
//! `templates/page.html` and `templates/parts.html`.

use askama::Template;
use base64::Engine;
use sha2::{Digest, Sha256};

use crate::drawing::palette;

const UPLOT_SCRIPT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const CHART_SCRIPT: &str = include_str!("../../assets/chart/chart.js");
const STYLE: &str = include_str!("../../assets/report/page.css");

/// Licence of the chart library, which a page must hold.
pub const LICENSE: &str = include_str!("../../assets/uplot/LICENSE");

/// Makes the tables of a report sortable.
pub(crate) const SORTABLE: &str = include_str!("../../assets/report/sortable.js");

/// The style and the script of a report, and the content policy that allows no other script.
pub(crate) struct Shell {
    pub(crate) policy: String,
    pub(crate) style: String,
    pub(crate) script: String,
}

impl Shell {
    pub(crate) fn new(style: String, script: String) -> Shell {
        Shell {
            policy: policy(&script),
            style,
            script,
        }
    }
}

pub(crate) fn rendered(report: &impl Template) -> String {
    // Rendering into a String fails only where a Display implementation does, and all that are used are std's.
    report
        .render()
        .unwrap_or_else(|error| format!("<!doctype html><p>cannot render the report: {error}"))
}

/// The style of every page with charts that move, then `own`.
pub fn style(own: &str) -> String {
    format!("{UPLOT_STYLE}{}{own}", look())
}

/// Colours and the look of every page.
pub fn look() -> String {
    format!(
        ":root{{{}}}@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}{STYLE}",
        palette::css_variables(false),
        palette::css_variables(true)
    )
}

/// The rules of [`look`] for drawings.
pub(super) fn drawing_style() -> String {
    STYLE
        .lines()
        .filter(|line| line.starts_with("svg ") || line.starts_with("svg.xy ."))
        .collect()
}

/// The declarations of [`look`]'s first block for light colours, or of its second for dark ones.
pub(super) fn variables(dark: bool) -> String {
    STYLE
        .split(":root {")
        .nth(if dark { 2 } else { 1 })
        .and_then(|rest| rest.split('}').next())
        .unwrap_or_default()
        .to_owned()
}

/// The libraries of every page, then `own`.
pub fn script(own: &str) -> String {
    format!("{UPLOT_SCRIPT}\n{CHART_SCRIPT}\n{own}")
}

/// The content policy of a page that needs no network: no script but this one.
fn policy(script: &str) -> String {
    format!(
        "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
        source(script)
    )
}

/// The source expression of a content policy that allows this script, or style, inside the page.
pub fn source(text: &str) -> String {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!("'sha256-{hash}'")
}
