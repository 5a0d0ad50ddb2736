//! A listing of cgroups as text for a terminal.

use anstyle::Style;

use super::cgroup::CapKind;
use super::cgroup_tree::{CgroupListing, CgroupRow, branches};
use super::columns::{Column, known, lines, rate, right};
use super::table::{bytes, paint, wrap};
use plimsoll_model::quantity;
use plimsoll_model::sanitize::sanitize;

/// A cgroup with the lines of the tree before its name.
struct Branch {
    row: CgroupRow,
    lines: String,
}

const COLUMNS: &[Column<Branch>] = &[
    right("MEMORY", 0, |branch| bytes(branch.row.usage)),
    right("SWAP", 0, |branch| bytes(branch.row.swap)),
    right("LIMIT", 1, |branch| cap(&branch.row, quantity::bytes)),
    right("REFAULT/s", 2, |branch| rate(branch.row.refaults_per_s)),
    right("STALL%", 3, |branch| rate(branch.row.stalled_percent)),
];

/// The tightest cap of a cgroup, with its kind if that is not the limit.
pub(crate) fn cap(row: &CgroupRow, text: fn(f64) -> String) -> String {
    let hard = row.caps.iter().filter(|cap| cap.kind != CapKind::Soft);
    known(hard.min_by_key(|cap| cap.bytes).map(|cap| match cap.kind {
        CapKind::Limit => text(cap.bytes as f64),
        kind => format!("{} {}", text(cap.bytes as f64), kind.word()),
    }))
}

/// Renders the tree for a terminal of `width` columns: at most `limit` cgroups (0 for all), and notes. Ends with a line
/// feed.
pub fn render_cgroups(listing: &CgroupListing, limit: usize, width: usize, colour: bool) -> String {
    let most = if limit == 0 { usize::MAX } else { limit };
    let shown: Vec<&CgroupRow> = listing.cgroups.iter().take(most).collect();
    let depths: Vec<usize> = shown.iter().map(|row| row.depth).collect();
    let shown: Vec<Branch> = shown
        .into_iter()
        .zip(branches(&depths, true))
        .map(|(row, lines)| Branch {
            row: row.clone(),
            lines,
        })
        .collect();
    let name = |branch: &Branch| format!("{}{}", branch.lines, sanitize(&branch.row.name));
    let mut text = String::new();
    for (line, entry) in lines(COLUMNS.iter(), &shown, ("CGROUP", name), width) {
        let style = if entry.is_none() {
            Style::new().bold()
        } else {
            Style::new()
        };
        text.push_str(&paint(&line, style, colour));
        text.push('\n');
    }
    let left_out = listing.cgroups.len() - shown.len();
    if left_out > 0 {
        text += &format!("and {left_out} more\n");
    }
    for note in &listing.notes {
        wrap(&mut text, &format!("- {note}"), width);
    }
    text
}
