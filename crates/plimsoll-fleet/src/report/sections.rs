//! The sections of the report: tables, charts and notes.

use std::collections::BTreeSet;

use plimsoll_model::quantity;
use plimsoll_report::analysis::metric::MetricUnit;
use plimsoll_report::compare::{html, words};
use plimsoll_report::comparison::{Comparison, State, Verdict};
use plimsoll_report::html::document::{
    Block, Cell, Chart, Column, Note, Section, Strip, StripDot, Table, Tone,
};
use plimsoll_report::workloads::find_metric;

use super::Summary;
use super::data::{DataSet, Task};
use super::distribution::Distribution;
use super::outliers::{self, Outlier};
use super::settings::SettingDifference;
use crate::plan::{Engine, Plan};

/// Charts of distributions; those with outliers come first.
const MOST_CHARTS: usize = 60;
/// Rows of a table.
const MOST_ROWS: usize = 5000;
/// Settings in a cell.
const MOST_SETTINGS: usize = 8;
/// Characters of a setting.
const LONGEST: usize = 160;

pub(super) fn summary(data: &DataSet, plan: &Plan, summary: &Summary) -> Section {
    let counts = [
        (summary.done, "done"),
        (summary.failed, "failed"),
        (summary.missing, "missing"),
        (summary.corrupt, "corrupt"),
        (summary.unreadable, "unreadable"),
    ];
    let counts = counts.map(|(count, word)| format!("{count} {word}")).join(", ");
    let engine = match &plan.engine {
        Engine::Slurm { partition, .. } => format!("Slurm, partition {partition}"),
        Engine::Ssh { hosts } => format!("ssh, {}", quantity::counted(hosts.len(), "host")),
        Engine::Kubernetes { namespace, .. } => format!("Kubernetes, namespace {namespace}"),
    };
    let started = data.tasks.iter().filter_map(|task| task.started.as_deref()).min();
    let classes = data.classes();
    let class_count = quantity::counted(classes.len(), "class");
    let mut facts = vec![
        ("Tasks", counts),
        ("Hosts", format!("{} in {class_count}", summary.hosts)),
        ("Attempts", summary.attempts.to_string()),
        ("Restarts by the engine", summary.engine_restarts.to_string()),
        ("Scenario", plan.scenario.name.clone()),
        ("Engine", engine),
        ("Planned at", plan.created.clone()),
        ("First result started", started.unwrap_or("\u{2013}").to_owned()),
        (
            "Program",
            format!("plimsoll {}, SHA-256 {}", plan.binary.version, plan.binary.sha256),
        ),
    ];
    if !plan.changes.is_empty() {
        facts.push(("Changes", plan.changes.join(" ")));
    }
    let rows = classes.iter();
    let rows = rows.map(|(class, hosts)| vec![Cell::text(*class), count(hosts.len())]);
    Section {
        id: "summary",
        name: "Summary",
        title: "Summary".to_owned(),
        hint: String::new(),
        blocks: vec![
            Block::Facts(facts),
            table(
                "classes",
                "Classes of hosts",
                &[("Class", false), ("Hosts", true)],
                rows.collect(),
            ),
        ],
    }
}

pub(super) fn outliers(data: &DataSet, outliers: &[Outlier]) -> Section {
    let columns = [
        ("Host", false),
        ("Class", false),
        ("Group", false),
        ("Metric", false),
        ("Value", true),
        ("Median of the class", true),
        ("Deviation", true),
        ("MADs", true),
        ("Verdict", false),
        ("Settings that differ from the majority of the class", false),
    ];
    let row = |one: &Outlier| {
        vec![
            Cell::text(&one.host),
            Cell::text(&one.class),
            Cell::text(&one.group),
            Cell::text(&one.metric),
            number(one.unit, one.value),
            number(one.unit, one.median),
            change(one.change),
            one.mads.map_or_else(Cell::missing, |mads| {
                Cell::number(mads, quantity::significant(mads))
            }),
            verdict(one.verdict),
            Cell::text(settings_text(&one.differences)),
        ]
    };
    let mut blocks = Vec::new();
    if outliers.is_empty() {
        blocks.push(Block::Text(no_outliers(data)));
    } else {
        blocks.push(table(
            "outlier-table",
            "Outliers",
            &columns,
            outliers.iter().map(row).collect(),
        ));
    }
    let few: Vec<String> = data
        .classes()
        .into_iter()
        .filter(|(_, hosts)| hosts.len() < 3)
        .map(|(class, hosts)| format!("{class} ({})", quantity::counted(hosts.len(), "host")))
        .collect();
    if !few.is_empty() {
        let text = format!("too few hosts to find an outlier: {}", few.join("; "));
        blocks.push(Block::Notes(vec![note(Tone::Plain, "Classes", text)]));
    }
    blocks.push(Block::Text(
        "A host's value is the median of its trustworthy trials. In a class of at least 4 hosts with such a value, an outlier \
         differs from the median of the class by more than 5%, and by more than 7 + 72 / hosts median absolute deviations (MADs). \
         In a class of 3 hosts, all trials of an outlier lie beyond all trials of the other two, with enough trials for \
         p \u{2264} 0.05 (3 trustworthy trials on each host are enough); its median differs from the nearer one by more than 5%, \
         and by more than 3 times the difference between the other two."
            .to_owned(),
    ));
    Section {
        id: "outliers",
        name: "Outliers",
        title: "Outliers".to_owned(),
        hint: "hosts whose values deviate from their class, and the settings in which they differ".to_owned(),
        blocks,
    }
}

/// The result without an outlier, with the share of the metrics that it is about.
fn no_outliers(data: &DataSet) -> String {
    match outliers::testable(data) {
        (_, 0) => "No host has a value of a headline metric.".to_owned(),
        (0, all) => format!(
            "None of the {all} combinations of class, group and metric has enough hosts and trials for the \
             rules below."
        ),
        (tested, all) => format!(
            "No outliers in the {tested} of {all} combinations of class, group and metric that have enough \
             hosts and trials for the rules below."
        ),
    }
}

pub(super) fn distributions(all: &[Distribution], outliers: &[Outlier]) -> Section {
    let named = |one: &Distribution| -> BTreeSet<&str> {
        let same = |outlier: &&Outlier| {
            outlier.class == one.class && outlier.group == one.group && outlier.metric == one.metric
        };
        outliers
            .iter()
            .filter(same)
            .map(|outlier| outlier.host.as_str())
            .collect()
    };
    let charts: Vec<&[Distribution]> = all
        .chunk_by(|a, b| (&a.group, &a.metric) == (&b.group, &b.metric))
        .collect();
    let has_outlier = |chart: &&[Distribution]| chart.iter().any(|one| !named(one).is_empty());
    let (mut shown, rest): (Vec<&[Distribution]>, Vec<_>) = charts.into_iter().partition(has_outlier);
    shown.extend(rest);
    let left = shown.len().saturating_sub(MOST_CHARTS);
    let drawn = shown
        .iter()
        .take(MOST_CHARTS)
        .filter_map(|chart| drawing(chart, &named));
    let mut blocks = vec![Block::Charts(drawn.collect())];
    if left > 0 {
        blocks.push(Block::Text(format!(
            "Metrics without a chart: {left}. The table has their values."
        )));
    }
    let columns = [
        ("Class", false),
        ("Group", false),
        ("Metric", false),
        ("Hosts", true),
        ("Min", true),
        ("10%", true),
        ("25%", true),
        ("Median", true),
        ("75%", true),
        ("90%", true),
        ("Max", true),
        ("Hosts without a trustworthy value", true),
    ];
    let row = |one: &Distribution| {
        let doubtful = one.hosts.iter().filter(|host| !host.trusted).count();
        let mut cells = vec![
            Cell::text(&one.class),
            Cell::text(&one.group),
            Cell::text(&one.metric),
            count(one.hosts.len()),
        ];
        cells.extend(match one.quantiles {
            None => vec![Cell::missing(); 7],
            Some(q) => [q.min, q.p10, q.p25, q.median, q.p75, q.p90, q.max]
                .map(|value| number(one.unit, value))
                .to_vec(),
        });
        cells.push(count(doubtful));
        cells
    };
    blocks.push(table(
        "distribution-table",
        "Distributions",
        &columns,
        all.iter().map(row).collect(),
    ));
    Section {
        id: "distributions",
        name: "Distributions",
        title: "Headline metrics by class of host".to_owned(),
        hint: "dot: one host · grey bar: interquartile range · line: median · red: outlier".to_owned(),
        blocks,
    }
}

fn drawing<'a>(chart: &[Distribution], named: &impl Fn(&Distribution) -> BTreeSet<&'a str>) -> Option<Chart> {
    let strip = |one: &Distribution| {
        let outliers = named(one);
        let dot = |host: &super::HostValue| StripDot {
            name: host.host.clone(),
            value: host.value,
            outlier: outliers.contains(host.host.as_str()),
            doubtful: !host.trusted,
        };
        Strip {
            label: one.class.clone(),
            dots: one.hosts.iter().map(dot).collect(),
            quartiles: one.quantiles.map(|q| (q.p25, q.median, q.p75)),
        }
    };
    let first = chart.first()?;
    let strips: Vec<Strip> = chart.iter().map(strip).collect();
    let caption = format!("{}: {}", title(&first.metric), first.group);
    Chart::strips(caption, first.metric.clone(), first.unit, &strips)
}

pub(super) fn comparison(comparison: &Comparison) -> Section {
    let mut notes: Vec<Note> = comparison
        .runs
        .iter()
        .zip(["Baseline", "Data set"])
        .map(|(run, name)| {
            let lacking = match run.failed {
                0 => String::new(),
                failed => format!(", {failed} without a result"),
            };
            let tasks = quantity::counted(run.trials, "task");
            let text = format!(
                "{} {}: {tasks}{lacking}, {} ({})",
                run.letter, run.name, run.started, run.folder
            );
            note(Tone::Plain, name, text)
        })
        .collect();
    notes.extend(comparison.conditions.iter().map(|outcome| {
        let tone = match outcome.state {
            State::Passed => Tone::Good,
            State::Failed => Tone::Bad,
            State::Unknown => Tone::Doubt,
        };
        note(tone, "Condition", words::outcome(comparison, outcome))
    }));
    let lone = words::lone(comparison).into_iter();
    notes.extend(lone.map(|text| note(Tone::Doubt, "Not compared", text)));
    let warnings = comparison.warnings.iter();
    notes.extend(warnings.map(|text| note(Tone::Doubt, "Warning", text.clone())));
    let columns = [
        ("Kind", false),
        ("Name", false),
        ("Baseline", false),
        ("Data set", false),
    ];
    let rows = comparison.differences.iter().map(|one| {
        let texts = [one.kind, &one.name, &one.baseline, &one.other];
        texts.map(|text| Cell::text(cut(text))).to_vec()
    });
    let differences = match comparison.differences.is_empty() {
        true => Block::Text(
            "In each class, the number of hosts and the majority settings are the same.".to_owned(),
        ),
        false => table(
            "difference-table",
            "Configuration differences of the classes",
            &columns,
            rows.collect(),
        ),
    };
    Section {
        id: "comparison",
        name: "Comparison",
        title: "Comparison with the baseline".to_owned(),
        hint: format!(
            "each host is one value · dot: change of the median · bar: 95% bootstrap interval · grey band: threshold of {}%",
            comparison.threshold_percent
        ),
        blocks: vec![
            Block::Text(words::sentence(comparison)),
            Block::Notes(notes),
            Block::Charts(html::charts(comparison)),
            Block::Table(html::table(comparison)),
            Block::Heading("Configuration differences".to_owned()),
            differences,
        ],
    }
}

/// Hosts that differ from the majority of their class, outliers or not.
pub(super) fn settings(data: &DataSet) -> Section {
    let majorities = data.majorities();
    let mut rows = Vec::new();
    for host in &data.hosts {
        for one in majorities[host.class.as_str()].differences(&host.settings) {
            rows.push(vec![
                Cell::text(&host.name),
                Cell::text(&host.class),
                Cell::text(cut(&one.name)),
                Cell::text(cut(&one.value)),
                Cell::text(cut(&one.majority)),
                count(one.hosts),
            ]);
        }
    }
    let columns = [
        ("Host", false),
        ("Class", false),
        ("Setting", false),
        ("Value", false),
        ("Majority of the class", false),
        ("Hosts with this value", true),
    ];
    let block = match rows.is_empty() {
        true => Block::Text(
            "No host differs from a majority setting of its class. Settings without a majority are not \
             compared."
                .to_owned(),
        ),
        false => table("setting-table", "Settings", &columns, rows),
    };
    Section {
        id: "settings",
        name: "Settings",
        title: "Hosts that differ from the majority of their class".to_owned(),
        hint: "majority: the value of more than half of the hosts of the class".to_owned(),
        blocks: vec![block],
    }
}

/// Tasks that are not done, and those that took several attempts.
pub(super) fn tasks(data: &DataSet) -> Section {
    let columns = [
        ("Task", false),
        ("Host", false),
        ("State", false),
        ("Attempts", true),
        ("Restarts by the engine", true),
        ("State in the engine", false),
        ("Each attempt", false),
        ("Reason", false),
    ];
    let row = |task: &Task| {
        let class = match task.state.as_str() {
            "done" => "good",
            "missing" | "unreadable" => "doubt",
            _ => "bad",
        };
        let attempt = |one: &super::data::Attempt| {
            let exit = one
                .exit
                .map_or_else(String::new, |code| format!(", exit code {code}"));
            format!("{}: {} on {}{exit}", one.number, one.outcome, one.host)
        };
        let attempts: Vec<String> = task.attempt_list.iter().map(attempt).collect();
        vec![
            Cell::text(&task.id),
            Cell::text(task.host.clone().unwrap_or_default()),
            Cell {
                class,
                ..Cell::text(&task.state)
            },
            Cell::number(task.attempts as f64, task.attempts.to_string()),
            Cell::number(task.engine_restarts as f64, task.engine_restarts.to_string()),
            task.engine_state
                .as_deref()
                .map_or_else(Cell::missing, Cell::text),
            Cell::text(cut(&attempts.join("; "))),
            Cell {
                class: "reasons",
                ..Cell::text(task.reason.clone().unwrap_or_default())
            },
        ]
    };
    let listed = |done: bool| -> Vec<Vec<Cell>> {
        let several =
            |task: &&Task| task.is_done() == done && (!done || task.attempts > 1 || task.engine_restarts > 0);
        data.tasks.iter().filter(several).map(row).collect()
    };
    let (unfinished, several) = (listed(false), listed(true));
    let mut blocks = Vec::new();
    match unfinished.is_empty() {
        true => blocks.push(Block::Text("All tasks are done.".to_owned())),
        false => {
            let title = "Tasks that are not done";
            blocks.push(Block::Heading(title.to_owned()));
            blocks.push(table("unfinished-table", title, &columns, unfinished));
        }
    }
    if !several.is_empty() {
        blocks.push(Block::Heading(
            "Tasks that are done after several attempts or starts".to_owned(),
        ));
        blocks.push(table(
            "attempt-table",
            "Tasks that are done after several attempts or starts",
            &columns,
            several,
        ));
    }
    Section {
        id: "tasks",
        name: "Tasks",
        title: "Tasks".to_owned(),
        hint: String::new(),
        blocks,
    }
}

/// The title of a metric in a chart or a sentence.
pub(super) fn title(metric: &str) -> String {
    match (find_metric(metric), metric.strip_suffix(".seconds")) {
        (Some(known), _) => known.title.to_owned(),
        (None, Some(phase)) => format!("{phase} time"),
        (None, None) => metric.to_owned(),
    }
}

pub(super) fn value(unit: MetricUnit, value: f64) -> String {
    quantity::metric(unit.ending(), value)
}

/// The start of a long text.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text.to_owned(),
    }
}

fn settings_text(differences: &[SettingDifference]) -> String {
    let named: Vec<String> = differences
        .iter()
        .take(MOST_SETTINGS)
        .map(|one| cut(&one.to_string()))
        .collect();
    match differences.len() - named.len() {
        0 if named.is_empty() => "none".to_owned(),
        0 => named.join("; "),
        more => format!("{}; and {more} more", named.join("; ")),
    }
}

fn note(tone: Tone, strong: &str, text: String) -> Note {
    Note {
        tone,
        strong: strong.to_owned(),
        text,
    }
}

fn number(unit: MetricUnit, number: f64) -> Cell {
    Cell::number(number, value(unit, number))
}

fn count(count: usize) -> Cell {
    Cell::number(count as f64, count.to_string())
}

fn change(share: Option<f64>) -> Cell {
    share.map_or_else(Cell::missing, |share| {
        Cell::number(share, words::change(Some(share)))
    })
}

fn verdict(verdict: Verdict) -> Cell {
    let (symbol, word) = words::verdict(verdict);
    Cell {
        class: match verdict {
            Verdict::Worse => "bad",
            Verdict::Better => "good",
            _ => "doubt",
        },
        ..Cell::text(format!("{symbol} {word}"))
    }
}

/// A sortable table of at most [`MOST_ROWS`] rows, whose last row names the rest.
fn table(
    id: &'static str,
    title: &'static str,
    columns: &[(&'static str, bool)],
    mut rows: Vec<Vec<Cell>>,
) -> Block {
    let left = rows.len().saturating_sub(MOST_ROWS);
    rows.truncate(MOST_ROWS);
    if left > 0 {
        let mut row = vec![Cell::text(format!("{left} more rows; the data set has all"))];
        row.resize(columns.len(), Cell::text(""));
        rows.push(row);
    }
    Block::Table(Table {
        id,
        title,
        columns: columns
            .iter()
            .map(|(title, number)| Column::new(*title, *number))
            .collect(),
        rows: rows.into_iter().collect(),
    })
}
