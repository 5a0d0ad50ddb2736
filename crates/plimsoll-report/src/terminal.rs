//! The summary on a terminal: a table, the headline, and the notes.

mod size;

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table};

use super::advice;
use super::distrust::spoiled;
use super::drawing::table::marked;
use super::headline_metrics::main_metrics;
use super::headlines;
use super::hold;
use crate::analysis::Group;
use crate::analysis::groups::Measured;
use crate::workloads;
use crate::workloads::column::Column;
use plimsoll_model::quantity;
use plimsoll_model::recording::Recording;
use plimsoll_model::recording::hold::HeldLevel;
use plimsoll_model::recording::model::{Headline, Results, Trial, TrialStatus};
use plimsoll_model::recording::size::SizeAdvice;
use plimsoll_model::sanitize::sanitize;
use plimsoll_model::scenario::WorkloadKind;
pub use size::program_size;

/// The headline of a recording of `plimsoll watch`, `plimsoll size --cgroup` or `plimsoll hold`, for a terminal of `width` columns.
/// Ends with a line feed.
pub fn watched(recording: &Recording, results: &Results, width: u16) -> String {
    remarks(&headlines::of(recording, results, &[]), results, width) + &service_advice(results)
}

/// The headline of results of `plimsoll size --cgroup`, and the settings that they support.
pub fn service(results: &Results, width: u16) -> String {
    remarks(&results.headline, results, width) + &service_advice(results)
}

/// The facts of a held level, a line each.
pub fn held(level: &HeldLevel) -> String {
    let line = |(name, text): (&str, String)| format!("{name:<10} {}\n", sanitize(&text));
    hold::facts(level).into_iter().map(line).collect()
}

/// The lines of the settings that the size of a service supports, not broken.
fn service_advice(results: &Results) -> String {
    let advice = results.service.iter().flat_map(|size| &size.advice);
    let block = |advice: &SizeAdvice| {
        let lines = advice
            .lines
            .iter()
            .map(|line| format!("    {}\n", sanitize(line)));
        format!("\n{}", lines.collect::<String>())
    };
    advice.map(block).collect()
}

/// The summary for a terminal of `width` columns, with colours if `colour` is set. Ends with a line feed.
pub fn summary(results: &Results, groups: &[Group], width: u16, colour: bool) -> String {
    let mut out = String::new();
    let kinds = headlines::kinds(groups);
    for kind in &kinds {
        let groups: Vec<&Group> = groups
            .iter()
            .filter(|group| group.workload == kind.name())
            .collect();
        if kinds.len() > 1 {
            let _ = writeln!(out, "{}", kind.name());
        }
        let (table, left_out) = table(&columns(*kind, &groups), results, &groups, width, colour);
        let _ = writeln!(out, "{table}");
        if !left_out.is_empty() {
            let text = format!(
                "Only on a wider terminal and in the HTML report: {}.",
                left_out.join(", ")
            );
            out.push_str(&wrap(&text, width, ""));
        }
        out.push('\n');
    }
    out += &remarks(&headlines::of_run(results, groups), results, width);
    out += &recommendations(results, width);
    if let Some(size) = &results.size {
        out.push('\n');
        out += &program_size(size, width, colour);
    }
    out
}

/// The recommendations under a heading; empty without any. Commands are not broken into lines.
fn recommendations(results: &Results, width: u16) -> String {
    let mut out = String::new();
    for block in advice::shown(results) {
        if out.is_empty() {
            out.push_str("\nRecommendations\n");
        }
        out.push_str(&wrap(block.text, width, "  "));
        for premise in block.premises {
            out.push_str(&wrap(&format!("\u{2022} {premise}"), width, "  "));
        }
        let mut lines = |head: String, lines: &[String]| {
            if !lines.is_empty() {
                let _ = writeln!(out, "  {}", sanitize(&head));
            }
            for line in lines {
                let _ = writeln!(out, "    {}", sanitize(line));
            }
        };
        lines("Until the next start of the machine:".to_owned(), block.commands);
        if let Some(file) = block.persistent {
            lines(format!("At every start, in {}:", file.path), &file.lines);
        }
    }
    out
}

/// The headline, confounders and warnings of a run, without its tables. Ends with a line feed.
pub fn notes(results: &Results, width: u16) -> String {
    remarks(&results.headline, results, width)
}

/// The headline and the notes.
fn remarks(headline: &Headline, results: &Results, width: u16) -> String {
    let mut out = wrap(&headline.finding.text, width, "");
    for bullet in &headline.bullets {
        out.push_str(&wrap(&format!("\u{2022} {bullet}"), width, "  "));
    }
    if !headline.trust.is_empty() {
        out.push_str(&wrap(&headline.trust_text(), width, ""));
    }
    for confounder in results
        .confounders
        .iter()
        .filter(|confounder| !confounder.spoils.is_empty())
    {
        let text = format!(
            "! {} spoils {}: {}. {}",
            confounder.name,
            spoiled(confounder, &results.trials),
            confounder.evidence.trim_end_matches('.'),
            confounder.advice
        );
        out.push_str(&wrap(text.trim_end(), width, "  "));
    }
    for confounder in results
        .confounders
        .iter()
        .filter(|confounder| confounder.spoils.is_empty())
    {
        out.push_str(&wrap(
            &format!("- known: {}: {}", confounder.name, confounder.evidence),
            width,
            "  ",
        ));
    }
    for warning in &results.warnings {
        out.push_str(&wrap(&format!("- warning: {warning}"), width, "  "));
    }
    out
}

/// The columns of a kind of work. Of its headline metrics the last are left out first, the first never; before them goes
/// the verification.
fn columns(kind: WorkloadKind, groups: &[&Group]) -> Vec<(Column, usize)> {
    if let Some(timed) = workloads::of(kind).timed_phases {
        return (timed.columns)(groups);
    }
    let metrics = main_metrics(kind, groups);
    let count = metrics.len();
    let mut columns = vec![
        (Column::Subject, 0),
        (Column::Rest("of"), 0),
        (Column::Runs, count + 2),
    ];
    if groups.iter().all(|group| rest(group).is_empty()) {
        columns.remove(1);
    }
    columns.extend(metrics.into_iter().enumerate().map(|(place, metric)| {
        let rank = if place == 0 { 0 } else { count - place + 1 };
        (Column::Main(metric), rank)
    }));
    columns.extend([(Column::Verified, 1), (Column::Status, 0)]);
    columns
}

/// The widest table that the terminal holds, and the metrics that it has no room for: columns go before lines break.
fn table(
    columns: &[(Column, usize)],
    results: &Results,
    groups: &[&Group],
    width: u16,
    colour: bool,
) -> (Table, Vec<String>) {
    let (table, left_out) = widest(columns.iter().map(|(_, rank)| *rank), width, |kept| {
        let shown = columns.iter().filter(|(_, rank)| kept(*rank));
        let shown: Vec<&Column> = shown.map(|(column, _)| column).collect();
        table_of(&shown, results, groups, colour)
    });
    let missing = columns.iter().filter_map(|(column, rank)| match column {
        Column::Main(metric) if !is_kept(*rank, left_out) => Some(metric.title.clone()),
        _ => None,
    });
    (table, missing.collect())
}

/// Whether a table that drops the columns up to rank `left_out` has the columns of this rank. It always has those of
/// rank 0.
fn is_kept(rank: usize, left_out: usize) -> bool {
    rank == 0 || rank > left_out
}

/// The widest table that fits into `width` characters, or the narrowest table if none fits, and the highest rank that
/// it drops. `draw` draws a table of the columns whose rank passes its argument.
pub(crate) fn widest(
    ranks: impl Iterator<Item = usize>,
    width: u16,
    draw: impl Fn(&dyn Fn(usize) -> bool) -> Table,
) -> (Table, usize) {
    let last = ranks.max().unwrap_or(0);
    let without = |left_out: usize| (draw(&|rank| is_kept(rank, left_out)), left_out);
    let fits = |(table, _): &(Table, usize)| {
        let wide = |line: String| line.chars().count() > usize::from(width);
        !table.lines().next().is_some_and(wide)
    };
    (0..last).map(without).find(fits).unwrap_or_else(|| without(last))
}

fn table_of(columns: &[&Column], results: &Results, groups: &[&Group], colour: bool) -> Table {
    let by_id: BTreeMap<&str, &Trial> = results
        .trials
        .iter()
        .map(|trial| (trial.id.as_str(), trial))
        .collect();
    let mut table = ruled(columns.iter().map(|column| column.head()), colour);
    for group in groups {
        let trials: Vec<&Trial> = group
            .trials
            .iter()
            .filter_map(|id| by_id.get(&**id).copied())
            .collect();
        table.add_row(columns.iter().map(|column| column.cell(group, &trials, colour)));
    }
    table
}

/// An empty table with these headings, as wide as its words.
pub(super) fn ruled(heads: impl Iterator<Item = String>, colour: bool) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Disabled);
    if colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(heads.map(|head| match colour {
        true => Cell::new(head).add_attribute(Attribute::Bold),
        false => Cell::new(head),
    }));
    table
}

impl Column {
    fn head(&self) -> String {
        match self {
            Column::Subject => "subject".to_owned(),
            Column::Rest(head) | Column::Spread(head, _) | Column::Median(head, _) => (*head).to_owned(),
            Column::Runs => "n".to_owned(),
            // Words below each other: values are narrower than names.
            Column::Main(metric) => metric.title.replace(' ', "\n"),
            Column::Verified => "verified".to_owned(),
            Column::Status => "status".to_owned(),
        }
    }

    fn cell(&self, group: &Group, trials: &[&Trial], colour: bool) -> Cell {
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        match self {
            Column::Subject => Cell::new(sanitize(&group.subject)),
            Column::Rest(_) => Cell::new(sanitize(rest(group))),
            Column::Runs => right(trials.len().to_string()),
            Column::Spread(_, metric) => right(spread(group.metrics.get(metric), quantity::significant)),
            Column::Median(_, metric) => right(group.metrics.get(metric).map_or_else(missing, |measured| {
                let text = quantity::metric(metric, measured.summary.median);
                marked(text, measured.untrustworthy())
            })),
            Column::Main(metric) => {
                let text = |value| quantity::metric(&metric.name, value);
                right(spread(group.metrics.get(&metric.name), text))
            }
            Column::Verified => {
                let verified = trials.iter().filter(|trial| trial.verified).count();
                right(format!("{verified}/{}", trials.len()))
            }
            Column::Status => status(trials, colour),
        }
    }
}

/// The parameters of a group besides its subject.
fn rest(group: &Group) -> &str {
    let rest = group.label.strip_prefix(group.subject.as_str());
    let rest = rest.unwrap_or(&group.label).trim_start();
    // The section where it is called as its kind of work, which the heading of the table says.
    let section = rest
        .rsplit_once('(')
        .filter(|(_, section)| section.strip_suffix(')') == Some(group.workload.as_str()));
    section.map_or(rest, |(before, _)| before.trim_end())
}

/// The median, and below it the lowest and the highest run.
fn spread(measured: Option<&Measured>, text: impl Fn(f64) -> String) -> String {
    let Some(measured) = measured else {
        return missing();
    };
    let summary = &measured.summary;
    let [median, low, high] = [summary.median, summary.min, summary.max].map(text);
    let median = marked(median, measured.untrustworthy());
    if summary.n < 2 || low == high {
        return median;
    }
    format!("{median}\n{}", between(&low, &high))
}

/// `low..high`, with the unit once where both have the same: `1.10..1.40 s`, `19.0..19.1%`, `850/s..1.20k/s`.
fn between(low: &str, high: &str) -> String {
    let number = |text: &str| {
        text.rfind(|letter: char| letter.is_ascii_digit())
            .map_or(0, |last| last + 1)
    };
    let (bare, unit) = low.split_at(number(low));
    match unit == &high[number(high)..] {
        true => format!("{bare}..{high}"),
        false => format!("{low}..{high}"),
    }
}

/// The worst status of the trials, with how many have it.
fn status(trials: &[&Trial], colour: bool) -> Cell {
    let count = |status| trials.iter().filter(|trial| trial.status == status).count();
    let (failed, doubtful) = (count(TrialStatus::Failed), count(TrialStatus::Untrustworthy));
    let (text, tint) = if failed > 0 {
        (format!("{failed} failed"), Color::Red)
    } else if doubtful > 0 {
        (format!("{doubtful} untrustworthy"), Color::Yellow)
    } else {
        ("ok".to_owned(), Color::Green)
    };
    let cell = Cell::new(text);
    if colour { cell.fg(tint) } else { cell }
}

fn missing() -> String {
    "\u{2013}".to_owned()
}

/// Text for a terminal of `width` columns. Ends with a line feed.
pub fn wrapped(text: &str, width: u16) -> String {
    wrap(text, width, "")
}

/// Words broken into lines of at most `width` columns, each after the first behind `indent`. Ends with a line feed.
pub(super) fn wrap(text: &str, width: u16, indent: &str) -> String {
    let width = usize::from(width.max(20));
    let mut out = String::new();
    let mut line = 0;
    for word in sanitize(text).split_whitespace() {
        let length = word.chars().count();
        if line > 0 && line + 1 + length > width {
            out.push('\n');
            out.push_str(indent);
            line = indent.len();
        } else if line > 0 {
            out.push(' ');
            line += 1;
        }
        out.push_str(word);
        line += length;
    }
    out.push('\n');
    out
}
