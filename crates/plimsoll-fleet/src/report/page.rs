//! The report as a document, and its result as sentences.

use std::collections::BTreeMap;

use plimsoll_model::quantity::counted;
use plimsoll_model::sanitize::sanitize;
use plimsoll_report::compare::words;
use plimsoll_report::comparison::{Comparison, Run, State};
use plimsoll_report::html::document::{Document, Tone};

use super::data::DataSet;
use super::outliers::Outlier;
use super::{ReportOutcome, Summary, sections};
use crate::plan::Plan;

/// Outlier hosts that the result names.
const MOST_NAMED: usize = 3;
/// Lines about outliers for a terminal.
const MOST_LINES: usize = 20;
/// Settings in a sentence.
const MOST_SETTINGS: usize = 3;

pub(super) fn document(data: &DataSet, plan: &Plan, outcome: &ReportOutcome) -> Document {
    let (tone, status) = status(outcome);
    let mut list = vec![
        sections::summary(data, plan, &outcome.summary),
        sections::outliers(data, &outcome.outliers),
        sections::distributions(&outcome.distributions, &outcome.outliers),
    ];
    list.extend(outcome.comparison.as_ref().map(sections::comparison));
    list.push(sections::settings(data));
    list.push(sections::tasks(data));
    Document {
        title: data.run.clone(),
        kind: "fleet",
        tone,
        status: status.to_owned(),
        finding: finding(outcome),
        sections: list,
    }
}

fn status(outcome: &ReportOutcome) -> (Tone, &'static str) {
    let summary = &outcome.summary;
    let state = outcome.comparison.as_ref().map(|comparison| comparison.state());
    let worse = outcome
        .comparison
        .as_ref()
        .map_or(0, |comparison| comparison.tally().worse);
    if state == Some(State::Failed) {
        (Tone::Bad, "\u{2717} a condition failed")
    } else if state == Some(State::Unknown) {
        (Tone::Doubt, "! a condition is undecided")
    } else if worse > 0 {
        (Tone::Bad, "\u{2717} worse")
    } else if summary.failed + summary.corrupt > 0 {
        (Tone::Bad, "\u{2717} failed tasks")
    } else if summary.missing + summary.unreadable > 0 {
        (Tone::Doubt, "! incomplete")
    } else if !outcome.outliers.is_empty() {
        (Tone::Doubt, "! outliers")
    } else {
        (Tone::Good, "\u{2713} ok")
    }
}

fn finding(outcome: &ReportOutcome) -> String {
    let mut text = tasks_sentence(&outcome.summary);
    let hosts = by_host(&outcome.outliers);
    let named: Vec<String> = hosts
        .iter()
        .take(MOST_NAMED)
        .map(|(host, outliers)| match settings_of(outliers[0]) {
            Some(settings) => format!("{host} ({settings})"),
            None => (*host).to_owned(),
        })
        .collect();
    if !named.is_empty() {
        let more = hosts.len() - named.len();
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        text += &format!(
            " {}: {}{more}.",
            counted(hosts.len(), "outlier host"),
            named.join(", ")
        );
    }
    if let Some(comparison) = &outcome.comparison {
        text += &format!(" {}", comparison_sentence(comparison));
    }
    text
}

pub(super) fn tasks_sentence(summary: &Summary) -> String {
    let mut text = format!("{} of {} done", summary.done, counted(summary.tasks, "task"));
    for (count, word) in [
        (summary.failed, "failed"),
        (summary.missing, "missing"),
        (summary.corrupt, "corrupt"),
        (summary.unreadable, "unreadable"),
    ] {
        if count > 0 {
            text += &format!(", {count} {word}");
        }
    }
    text + &format!(
        ", on {} of {}, in {}.",
        counted(summary.hosts, "host"),
        counted(summary.classes, "class"),
        counted(usize::try_from(summary.attempts).unwrap_or(usize::MAX), "attempt")
    )
}

/// The sentence of `plimsoll compare`, after the names of its letters.
pub(super) fn comparison_sentence(comparison: &Comparison) -> String {
    let named = |fleet: &Run| {
        let (name, folder) = (sanitize(&fleet.name), sanitize(&fleet.folder));
        format!("{}: {name} ({folder})", fleet.letter)
    };
    let fleets: Vec<String> = comparison.runs.iter().map(named).collect();
    format!("{}. {}", fleets.join(", "), words::sentence(comparison))
}

/// A line per outlier, and the number of those beyond.
pub(super) fn outlier_lines(outliers: &[Outlier]) -> Vec<String> {
    let mut lines: Vec<String> = outliers.iter().take(MOST_LINES).map(outlier_line).collect();
    if outliers.len() > MOST_LINES {
        lines.push(format!("and {} more outliers", outliers.len() - MOST_LINES));
    }
    lines
}

fn outlier_line(outlier: &Outlier) -> String {
    let settings = match settings_of(outlier) {
        Some(settings) => format!("differs in: {settings}"),
        None => "no recorded setting differs from the majority of its class".to_owned(),
    };
    let (_, verdict) = words::verdict(outlier.verdict);
    format!(
        "outlier {}: {} {}, class median {} ({}, {verdict}) in {}; {settings}",
        outlier.host,
        sections::title(&outlier.metric),
        sections::value(outlier.unit, outlier.value),
        sections::value(outlier.unit, outlier.median),
        words::change(outlier.change),
        outlier.group,
    )
}

/// The rarest settings of an outlier in words.
fn settings_of(outlier: &Outlier) -> Option<String> {
    let all = &outlier.differences;
    let named: Vec<String> = all
        .iter()
        .take(MOST_SETTINGS)
        .map(|difference| sections::cut(&difference.to_string()))
        .collect();
    if named.is_empty() {
        return None;
    }
    let more = all.len() - named.len();
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    Some(named.join(", ") + &more)
}

/// The outliers of each host, hosts in the order of their farthest.
fn by_host(outliers: &[Outlier]) -> Vec<(&str, Vec<&Outlier>)> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut hosts: Vec<(&str, Vec<&Outlier>)> = Vec::new();
    for outlier in outliers {
        let place = *places.entry(&outlier.host).or_insert(hosts.len());
        if place == hosts.len() {
            hosts.push((&outlier.host, Vec::new()));
        }
        hosts[place].1.push(outlier);
    }
    hosts
}
