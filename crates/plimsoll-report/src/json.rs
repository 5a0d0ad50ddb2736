//! The results document, as `--json` prints it and `results.json` holds it.

use plimsoll_model::recording::model::Results;

/// The document, indented, with a newline at its end.
///
/// # Errors
/// None for results of the analysis, whose values are finite.
pub fn json(results: &Results) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(results)?;
    text.push('\n');
    Ok(text)
}
