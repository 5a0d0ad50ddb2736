//! The summary as Markdown, to paste into an issue or a wiki: headline, table, warnings, environment.

mod size;

use crate::advice;
use crate::distrust::spoiled;
use crate::drawing::table::marked;
use std::fmt::Write as _;

use crate::analysis::groups;
use crate::analysis::groups::{Group, Measured};
use crate::headline_metrics::main_metrics;
use crate::headlines;
use crate::workloads::column::MainMetric;
use crate::workloads::{self, common_metrics};
use plimsoll_model::quantity;
use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::{Headline, Manifest, Results, TrialStatus};
use plimsoll_model::sanitize::sanitize;
use plimsoll_model::scenario::WorkloadKind;

pub fn markdown(recording: &Recording, results: &Results) -> String {
    let mut text = format!("# {}\n\n", inline(&results.run));
    let groups = groups(&results.trials);
    push_headline(&mut text, &headlines::of(recording, results, &groups));
    push_tables(&mut text, &groups);
    push_list(
        &mut text,
        "Not ok",
        results
            .trials
            .iter()
            .filter(|trial| trial.status != TrialStatus::Ok)
            .map(|trial| format!("{}: {}", inline(&trial.id), inline(&trial.reasons.join("; ")))),
    );
    push_list(
        &mut text,
        "Confounders",
        results.confounders.iter().map(|confounder| {
            let spoils = match confounder.spoils.is_empty() {
                true => String::new(),
                false => format!(" Spoils {}.", inline(&spoiled(confounder, &results.trials))),
            };
            format!(
                "**{}**: {}.{spoils} {}.",
                inline(&confounder.name),
                inline(confounder.evidence.trim_end_matches('.')),
                inline(confounder.advice.trim_end_matches('.'))
            )
        }),
    );
    push_list(
        &mut text,
        "Warnings",
        results.warnings.iter().map(|warning| inline(&warning.text)),
    );
    push_recommendations(&mut text, results);
    if let Some(size) = &results.size {
        size::push(&mut text, size);
    }
    push_environment(&mut text, results, &recording.manifest);
    text
}

fn push_recommendations(text: &mut String, results: &Results) {
    let blocks = advice::shown(results);
    if blocks.is_empty() {
        return;
    }
    text.push_str("## Recommendations\n\n");
    for block in blocks {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}\n\n", inline(block.text));
        for premise in block.premises {
            let _ = writeln!(text, "- {}", inline(premise));
        }
        if !block.premises.is_empty() {
            text.push('\n');
        }
        push_code(text, "Until the next start of the machine:", block.commands);
        if let Some(file) = block.persistent {
            push_code(
                text,
                &format!("At every start, in {}:", inline(&file.path)),
                &file.lines,
            );
        }
    }
}

/// Lines as a block of code, indented: no line can end it.
pub(super) fn push_code(text: &mut String, head: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = write!(text, "{head}\n\n");
    for line in lines {
        let _ = writeln!(text, "    {}", sanitize(line));
    }
    text.push('\n');
}

fn push_headline(text: &mut String, headline: &Headline) {
    // Writing to a String cannot fail.
    let _ = write!(text, "{}\n\n", inline(&headline.finding.text));
    for bullet in &headline.bullets {
        let _ = writeln!(text, "- {}", inline(&bullet.text));
    }
    if !headline.bullets.is_empty() {
        text.push('\n');
    }
    if !headline.trust.is_empty() {
        let _ = write!(text, "{}\n\n", inline(&headline.trust_text()));
    }
}

pub(super) fn push_list(text: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    // Writing to a String cannot fail.
    let _ = write!(text, "## {title}\n\n");
    for item in items {
        let _ = writeln!(text, "- {item}");
    }
    text.push('\n');
}

/// A table for each kind of work: of one with timed phases every metric, of the others the headline ones.
fn push_tables(text: &mut String, groups: &[Group]) {
    let kinds = headlines::kinds(groups);
    let mut explained = false;
    for kind in &kinds {
        let groups: Vec<&Group> = groups
            .iter()
            .filter(|group| group.workload == kind.name())
            .collect();
        let columns = columns(*kind, &groups);
        if columns.is_empty() {
            continue;
        }
        match kinds.len() {
            1 => text.push_str("## Summary\n\n"),
            _ => {
                let _ = write!(text, "## Summary: {}\n\n", kind.name());
            }
        }
        if !explained {
            text.push_str(
                "Medians, with the interval in brackets: 95% bootstrap, or minimum to maximum below 6 repeats.\n\n",
            );
            explained = true;
        }
        push_table(text, &columns, &groups);
    }
}

struct Column {
    metric: String,
    header: String,
    value: fn(&str, &Measured) -> String,
}

fn columns(kind: WorkloadKind, groups: &[&Group]) -> Vec<Column> {
    let report = workloads::of(kind);
    if report.timed_phases.is_none() {
        let column = |metric: MainMetric| Column {
            header: inline(&metric.title),
            metric: metric.name,
            value: with_unit,
        };
        return main_metrics(kind, groups).into_iter().map(column).collect();
    }
    report
        .known
        .iter()
        .chain(common_metrics())
        .filter(|metric| groups.iter().any(|group| group.metrics.contains_key(metric.name)))
        .map(|metric| Column {
            metric: metric.name.to_owned(),
            header: header(metric.title, metric.name),
            value,
        })
        .collect()
}

fn push_table(text: &mut String, columns: &[Column], groups: &[&Group]) {
    text.push_str("| trial |");
    for column in columns {
        let _ = write!(text, " {} |", column.header);
    }
    text.push_str("\n|---|");
    text.push_str(&"---:|".repeat(columns.len()));
    text.push('\n');
    for group in groups {
        let mark = if group.untrustworthy {
            " (untrustworthy)"
        } else {
            ""
        };
        let _ = write!(text, "| {}{mark} |", inline(&group.label));
        for column in columns {
            let measured = group.metrics.get(&column.metric);
            let cell = measured.map(|measured| {
                let text = (column.value)(&column.metric, measured);
                marked(text, measured.untrustworthy())
            });
            let _ = write!(text, " {} |", cell.as_deref().unwrap_or("-"));
        }
        text.push('\n');
    }
    text.push('\n');
}

/// The median, and in brackets the interval, each with its unit.
fn with_unit(name: &str, measured: &Measured) -> String {
    let summary = &measured.summary;
    let text = |value| quantity::metric(name, value);
    if summary.n < 2 {
        return text(summary.median);
    }
    format!(
        "{} [{}, {}]",
        text(summary.median),
        text(summary.interval.low),
        text(summary.interval.high)
    )
}

fn header(title: &str, name: &str) -> String {
    let unit = if name.ends_with("_gb_per_s") {
        " GB/s"
    } else if name.ends_with("_bytes") {
        " MiB"
    } else {
        ""
    };
    format!("{title}{unit}")
}

/// The value in the unit of its column's header: [`quantity::bytes`] would choose a unit for each cell, and a reader
/// compares the cells of a column.
fn value(name: &str, measured: &Measured) -> String {
    let scale = if name.ends_with("_bytes") {
        f64::from(1 << 20)
    } else {
        1.0
    };
    let summary = &measured.summary;
    let number = |value: f64| {
        let value = value / scale;
        match value.abs() {
            large if large >= 100.0 => format!("{value:.0}"),
            middle if middle >= 1.0 => format!("{value:.2}"),
            _ => format!("{value:.3}"),
        }
    };
    let median = number(summary.median);
    if summary.n < 2 {
        return median;
    }
    format!(
        "{median} [{}, {}]",
        number(summary.interval.low),
        number(summary.interval.high)
    )
}

fn push_environment(text: &mut String, results: &Results, manifest: &Manifest) {
    let host = &manifest.host;
    let mut rows = vec![
        ("scenario", results.scenario.clone()),
        ("started", manifest.started.clone()),
        ("command", manifest.command.join(" ")),
        ("background", manifest.plan.backgrounds()),
        ("plimsoll", manifest.tool_version.clone()),
        ("host", host.hostname.clone()),
        ("kernel", host.kernel.clone()),
        ("CPU", format!("{} ({} online)", host.cpu, host.cpus)),
        ("memory", quantity::bytes(host.mem_total as f64)),
        ("virtualization", host.virtualization.clone()),
        ("cgroup", host.cgroup.clone()),
        (
            "swap before",
            host.swap_before
                .iter()
                .map(|(device, size)| format!("{device} {}", quantity::bytes(*size as f64)))
                .collect::<Vec<_>>()
                .join(", "),
        ),
        (
            "sampler",
            format!(
                "{} Hz, {:.2}% of a core, {} late, {} missed",
                results.sampler.hz, results.sampler.cpu_percent, results.sampler.late, results.sampler.missed
            ),
        ),
    ];
    if let Some(calibration) = &results.calibration {
        rows.push(("calibration", format!(
            "memset {:.1} GB/s, memcpy {:.1} GB/s, first touch {:.1} GB/s ({:.0} ns per page), read {:.1} GB/s, random access {:.0} ns",
            calibration.memset_gb_per_s, calibration.memcpy_gb_per_s, calibration.first_touch_gb_per_s,
            calibration.fault_ns, calibration.read_gb_per_s, calibration.random_access_ns
        )));
    }
    text.push_str("## Environment\n\n| | |\n|---|---|\n");
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(text, "| {name} | {} |", inline(value));
    }
}

/// Literal text: no markup, no table cell, no HTML, one line.
pub(super) fn inline(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in sanitize(text).chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => {
                safe.push('\\');
                safe.push(character);
            }
            plain => safe.push(plain),
        }
    }
    safe
}
