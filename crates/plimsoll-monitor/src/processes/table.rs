//! A listing as text for a terminal.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

use super::cgroup::CapKind;
use super::columns::{Column, known, lines, rate, right};
use super::listing::{Entry, Listing};
use super::pager::Paged;
use super::storm::Storm;
use crate::cells::fit;
use plimsoll_model::quantity;
use plimsoll_model::sanitize::sanitize;

const COLUMNS: &[Column<Entry>] = &[
    right("PID", 0, |entry| entry.identity.pid.to_string()),
    Column {
        heading: "USER",
        rank: 3,
        left: true,
        cell: |entry| fit(&known(entry.user.as_deref().map(sanitize)), 10, true),
    },
    right("WSS", 0, |entry| bytes(Some(entry.wss))),
    right("PSS", 0, |entry| bytes(entry.pss)),
    right("SWAP", 0, |entry| bytes(entry.swap)),
    right("ZIP", 6, compressed),
    right("P-ACTIVE", 9, |entry| {
        paged(entry, |paged| paged.active.saturating_add(paged.native))
    }),
    right("P-MODIFIED", 12, |entry| paged(entry, |paged| paged.modified)),
    right("P-STANDBY", 11, |entry| paged(entry, |paged| paged.standby)),
    right("P-ZIP", 9, |entry| paged(entry, |paged| paged.compressed)),
    right("P-STORE", 10, |entry| paged(entry, |paged| paged.store)),
    right("P-FILE", 12, |entry| paged(entry, |paged| paged.page_file)),
    right("P-META", 13, |entry| paged(entry, |paged| paged.metadata)),
    right("MINFLT/s", 4, |entry| {
        rate(entry.rates.map(|rates| rates.minor_per_s))
    }),
    right("MAJFLT/s", 1, |entry| {
        rate(entry.rates.map(|rates| rates.major_per_s))
    }),
    right("REFAULT/s", 5, |entry| rate(entry.cgroup_refaults_per_s)),
    right("CPUS", 0, |entry| {
        cpus(entry.rates.map(|rates| rates.user_percent + rates.system_percent))
    }),
    right("SYS", 7, |entry| {
        cpus(entry.rates.map(|rates| rates.system_percent))
    }),
    right("CAP", 2, cap),
    right("OOM", 8, |entry| known(entry.oom_score)),
];

/// The start of the headings of pagers' columns, which a list without pagers does not have.
const OF_PAGERS: &str = "P-";

/// Width of a list with pagers that no terminal limits: all columns with the widest numbers, and a command.
const WITH_PAGERS: usize = 240;

/// The columns to render a list with where there is no terminal: `usual`, or more if a process among the first `limit` (0
/// for all) has a pager, so that the columns of pagers are there.
pub fn width_without_terminal(listing: &Listing, limit: usize, usual: usize) -> usize {
    if has_pagers(shown(listing, limit)) {
        usual.max(WITH_PAGERS)
    } else {
        usual
    }
}

fn shown(listing: &Listing, limit: usize) -> &[Entry] {
    match limit {
        0 => &listing.processes,
        limit => &listing.processes[..limit.min(listing.processes.len())],
    }
}

fn has_pagers(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| entry.pager.is_some())
}

/// Renders the listing for a terminal of `width` columns: storms, a table of at most `limit` processes (0 for all), and
/// notes. Ends with a line feed.
pub fn render(listing: &Listing, limit: usize, width: usize, colour: bool) -> String {
    let mut text = String::new();
    for storm in &listing.storms {
        storm_lines(&mut text, storm, width, colour);
    }
    table(&mut text, listing, limit, width, colour);
    for note in &listing.notes {
        wrap(&mut text, &format!("- {note}"), width);
    }
    if let Some(cost) = listing.pss_cost {
        let line = format!(
            "- measuring PSS took {} ({} of {} processes, {})",
            quantity::seconds(cost.seconds),
            cost.processes,
            listing.processes.len(),
            quantity::bytes(cost.wss as f64),
        );
        wrap(&mut text, &line, width);
    }
    text
}

/// A storm and its recommended action.
fn storm_lines(text: &mut String, storm: &Storm, width: usize, colour: bool) {
    let mut lines = String::new();
    wrap(&mut lines, &format!("! fault storm: {}", storm.sentence()), width);
    text.push_str(&paint(
        lines.trim_end(),
        AnsiColor::Red.on_default().bold(),
        colour,
    ));
    text.push('\n');
    wrap(text, &format!("  to do: {}", storm.advice), width);
    text.push('\n');
}

fn table(text: &mut String, listing: &Listing, limit: usize, width: usize, colour: bool) {
    let shown = shown(listing, limit);
    let pss = listing.processes.iter().any(|entry| entry.pss.is_some());
    let pagers = has_pagers(shown);
    let is_shown = |column: &&Column<Entry>| match column.heading {
        "PSS" => pss,
        heading => pagers || !heading.starts_with(OF_PAGERS),
    };
    let columns = COLUMNS.iter().filter(is_shown);
    let style = |entry: &Entry| match entry.storm {
        true => AnsiColor::Red.on_default(),
        false => Style::new(),
    };
    for (line, entry) in lines(columns, shown, ("COMMAND", command), width) {
        let style = entry.map_or(Style::new().bold(), style);
        text.push_str(&paint(&line, style, colour));
        text.push('\n');
    }
    let left_out = listing.processes.len() - shown.len();
    if left_out > 0 {
        let _ = writeln!(text, "and {left_out} more");
    }
}

/// The command line, or the name in brackets if there is none; marked in a storm.
fn command(entry: &Entry) -> String {
    let mark = if entry.storm { "! " } else { "" };
    match entry.command.as_deref().map(str::trim) {
        Some(command) if !command.is_empty() => format!("{mark}{}", sanitize(without_folder(command))),
        _ => format!("{mark}[{}]", sanitize(&entry.name)),
    }
}

/// A command line without the program's folder, to save width.
fn without_folder(command: &str) -> &str {
    let program = command.split(' ').next().unwrap_or_default();
    match program.rfind('/') {
        Some(slash) if program.starts_with('/') && slash + 1 < program.len() => &command[slash + 1..],
        _ => command,
    }
}

/// Bytes of the process's pagers.
fn paged(entry: &Entry, value: fn(&Paged) -> u64) -> String {
    bytes(entry.pager.as_ref().map(value))
}

pub(super) fn bytes(value: Option<u64>) -> String {
    known(value.map(|value| quantity::bytes(value as f64)))
}

/// `3.9x` if all is compressed, `75%` if a part is, `0` if nothing is.
fn compressed(entry: &Entry) -> String {
    known(entry.compressed.map(|known| match known.ratio {
        Some(ratio) if known.share > 0.995 => format!("{ratio:.1}x"),
        _ => format!("{:.0}%", known.share * 100.0),
    }))
}

/// The tightest hard cap, with its kind if that is not the limit.
fn cap(entry: &Entry) -> String {
    let cap = entry.caps.iter().find(|cap| cap.kind != CapKind::Soft);
    known(cap.map(|cap| match cap.kind {
        CapKind::Limit => quantity::bytes(cap.bytes as f64),
        kind => format!("{} {}", quantity::bytes(cap.bytes as f64), kind.word()),
    }))
}

/// CPUs in use: 1.70 are 170% of one.
pub(crate) fn cpus(percent: Option<f64>) -> String {
    known(percent.map(|percent| format!("{:.2}", percent / 100.0)))
}

pub(super) fn paint(text: &str, style: Style, colour: bool) -> String {
    if colour && !style.is_plain() {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}

/// Appends `words`, wrapped at spaces to `width` columns. A longer word stays whole.
pub(super) fn wrap(text: &mut String, words: &str, width: usize) {
    let mut column = 0;
    for word in words.split_whitespace() {
        if column > 0 && column + 1 + word.width() > width {
            text.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.width();
    }
    text.push('\n');
}
