//! The comparison as Markdown, for a pull request: the sentence, the conditions, the changes, and all rows folded.

use std::fmt::Write as _;

use super::terminal::lone;
use super::words;
use crate::comparison::{Comparison, Row};
use crate::markdown::{inline, push_list};

pub fn markdown(comparison: &Comparison) -> String {
    let names: Vec<String> = comparison.runs.iter().map(|run| inline(&run.name)).collect();
    let mut text = format!("# {} against {}\n\n", names[1..].join(", "), names[0]);
    let _ = write!(text, "{}\n\n", inline(&words::sentence(comparison)));
    push_list(
        &mut text,
        "Conditions",
        comparison
            .conditions
            .iter()
            .map(|outcome| inline(&words::outcome(comparison, outcome))),
    );
    let shown: Vec<&Row> = comparison.rows.iter().filter(|row| words::shown(row)).collect();
    text += "## Headline metrics and changes\n\n";
    push_table(&mut text, comparison, &shown);
    let rest: Vec<&Row> = comparison.rows.iter().filter(|row| !words::shown(row)).collect();
    if !rest.is_empty() {
        let _ = write!(text, "<details><summary>{} more rows</summary>\n\n", rest.len());
        push_table(&mut text, comparison, &rest);
        text += "</details>\n\n";
    }
    push_list(
        &mut text,
        "Not compared",
        lone(comparison).iter().map(|line| inline(line)),
    );
    push_list(
        &mut text,
        "Warnings",
        comparison.warnings.iter().map(|line| inline(line)),
    );
    push_list(
        &mut text,
        "Differences between the runs",
        comparison.differences.iter().map(|one| {
            format!(
                "{}: {} {}: {} \u{2192} {}",
                comparison.runs[one.run].letter,
                one.kind,
                inline(&one.name),
                inline(&one.baseline),
                inline(&one.other)
            )
        }),
    );
    push_list(
        &mut text,
        "Runs",
        comparison.runs.iter().map(|run| inline(&words::run(run))),
    );
    text
}

fn push_table(text: &mut String, comparison: &Comparison, rows: &[&Row]) {
    text.push_str(
        "| run | group | metric | n | A | run | change | 95% interval | p | p (Holm) | calibrated | verdict |\n\
         |---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|\n",
    );
    for row in rows {
        let (symbol, word) = words::verdict(row.verdict);
        let cells = [
            comparison.runs[row.run].letter.clone(),
            inline(comparison.label(&row.group)),
            inline(&row.metric),
            format!("{}/{}", row.baseline.values.len(), row.other.values.len()),
            words::value(row.unit, row.baseline.median),
            words::value(row.unit, row.other.median),
            words::change(row.change),
            words::interval(row.interval),
            inline(&words::probability(row.p)),
            inline(&words::probability(row.p_holm)),
            words::change(row.normalised.as_ref().map(|one| one.change)),
            format!("{symbol} {word}"),
        ];
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
}
