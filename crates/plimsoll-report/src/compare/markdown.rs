//! The comparison as Markdown, for a pull request: the sentence, the conditions, the changes, and all rows folded.

use std::fmt::Write as _;

use super::columns::COLUMNS;
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
    let (shown, rest): (Vec<&Row>, Vec<&Row>) = comparison.rows.iter().partition(|row| words::shown(row));
    text += "## Headline metrics and changes\n\n";
    push_table(&mut text, comparison, &shown);
    if !rest.is_empty() {
        let _ = write!(text, "<details><summary>{} more rows</summary>\n\n", rest.len());
        push_table(&mut text, comparison, &rest);
        text += "</details>\n\n";
    }
    push_list(
        &mut text,
        "Not compared",
        words::lone(comparison).iter().map(|line| inline(line)),
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
    let sides = [comparison.runs[0].letter.as_str(), "run"];
    let heads = COLUMNS.map(|column| column.head(sides));
    let rule = COLUMNS.map(|column| if column.numeric { "---:" } else { "---" });
    // Writing to a String cannot fail.
    let _ = writeln!(text, "| {} |\n|{}|", heads.join(" | "), rule.join("|"));
    for row in rows {
        let cells = COLUMNS.map(|column| inline(&column.text(comparison, row)));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
}
