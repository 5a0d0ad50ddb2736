//! The thrash section: CPU and paging over time as in the paper, then the effect on neighbours, and the fairness among
//! the consumers.

use std::collections::HashMap;

use crate::analysis::curves::{Curve, spread};
use crate::analysis::gauges::Panel;
use crate::analysis::statistics::summarise;
use crate::analysis::{Group, MetricUnit, ratio};
use crate::contents::{Index, Page, Series, Timeline};
use crate::drawing::table::{Cell, Table, columns};
use crate::drawing::values;
use crate::drawing::xy::{Axis, Chart, Line};
use crate::workloads::section::{Drawing, Section};
use plimsoll_model::latency::Latencies;
use plimsoll_model::quantity;
use plimsoll_model::recording::model::{Phase, Trial};
use plimsoll_model::scenario::workloads::finding::OVER_BUDGET;
use plimsoll_model::scenario::workloads::thrash::{Distinct, finding};
use plimsoll_model::scenario::{Thrash, TrialPlan, Workload};

/// Places in time of a smoothed curve: finer than its window, coarser than the raw one.
const PLACES: u32 = 160;
/// Share of the load's length that the moving mean spans: keeps the "high-level behaviour" of the paper.
const WINDOW: f64 = 0.05;
/// Shortest window in seconds: some samples at 10 Hz.
const LEAST_WINDOW: f64 = 0.5;
/// Seconds shown before the load and after it.
const BEFORE: f64 = 3.0;
const AFTER: f64 = 5.0;
/// Bytes of a page if the recording does not contain it.
const PAGE_SIZE: u64 = 4096;
/// Percentiles of a latency that are drawn, and each as one of how many it is.
const PERCENTILES: [(f64, f64); 8] = [
    (50.0, 2.0),
    (80.0, 5.0),
    (90.0, 10.0),
    (98.0, 50.0),
    (99.0, 100.0),
    (99.8, 500.0),
    (99.9, 1000.0),
    (99.99, 10_000.0),
];

/// A group with the trials of it that count.
struct Subject<'a> {
    label: &'a str,
    trials: Vec<Seen<'a>>,
}

/// A trial with its plan and its samples.
struct Seen<'a> {
    trial: &'a Trial,
    thrash: &'a Thrash,
    /// Whether the consumers' memory belonged to pagers.
    is_paged: bool,
    timeline: Option<&'a Timeline>,
}

pub(crate) fn section(page: &Page, groups: &[&Group]) -> Option<Section> {
    let trials = &page.results.trials;
    let index = page.index();
    let planned = page.manifest.plan.trials.iter();
    let planned: HashMap<&str, &TrialPlan> = planned.map(|planned| (planned.id.as_str(), planned)).collect();
    let subjects = groups.iter().map(|group| Subject {
        label: &group.label,
        trials: seen(&planned, &index, &group.counted(trials)),
    });
    let subjects: Vec<Subject<'_>> = subjects.collect();
    // A table has a row for each trial, those that count and those that do not.
    let usable = groups.iter().flat_map(|group| group.usable(trials));
    let every = seen(&planned, &index, &usable.collect::<Vec<_>>());
    if every.is_empty() {
        return None;
    }
    let page_size = match page.manifest.host.page_size {
        0 => PAGE_SIZE,
        size => size,
    } as f64;
    let over_time = [
        (
            "Pages in, from swap devices or pagers",
            ["swap-in", "pager-in"],
            MetricUnit::PerSecond,
            page_size,
        ),
        (
            "Pages out, to swap devices or pagers",
            ["swap-out", "pager-out"],
            MetricUnit::PerSecond,
            page_size,
        ),
        ("User CPU, of all CPUs", ["user"; 2], MetricUnit::Percent, 1.0),
        ("System CPU, of all CPUs", ["system"; 2], MetricUnit::Percent, 1.0),
    ];
    let mut drawings: Vec<Drawing> = over_time
        .into_iter()
        .filter_map(|(title, keys, unit, divisor)| over_time_of(&subjects, title, keys, unit, divisor))
        .collect();
    drawings.extend(responsiveness(&subjects));
    drawings.extend(fairness(&subjects));
    Some(Section {
        id: "thrash",
        title: "Thrashing",
        drawings,
        tables: [felt(&every)]
            .into_iter()
            .chain(pagers(&every))
            .chain([checked(&every)])
            .collect(),
        ..Section::default()
    })
}

/// These trials with their plans and their samples.
fn seen<'a>(
    planned: &HashMap<&str, &'a TrialPlan>,
    index: &Index<'a>,
    trials: &[&'a Trial],
) -> Vec<Seen<'a>> {
    let seen = |trial: &&'a Trial| {
        let settings = &planned.get(trial.id.as_str())?.settings;
        let Workload::Thrash(thrash) = &settings.workload else {
            return None;
        };
        Some(Seen {
            trial,
            thrash,
            is_paged: settings.subject.pager().is_some(),
            timeline: index.timeline(&trial.id),
        })
    };
    trials.iter().filter_map(seen).collect()
}

impl Seen<'_> {
    fn phase(&self, name: &str) -> Option<&Phase> {
        self.trial.phases.iter().find(|phase| phase.name == name)
    }

    /// A series over time, in seconds since the start of the first consumer: the second one of a trial with pagers.
    fn curve(&self, [of_kernel, of_pagers]: [&str; 2], divisor: f64) -> Option<Curve> {
        let key = if self.is_paged { of_pagers } else { of_kernel };
        let timeline = self.timeline?;
        let load = self.phase("load")?;
        // The phase begins with the message of the start times; the first consumer starts a lead later.
        let lead = load.values.get("lead_s").copied().unwrap_or(0.0);
        let origin = load.span_ns.0 as f64 / 1e9 + lead;
        let end = self.thrash.seconds() + AFTER;
        let is_it = |series: &&Series| series.key == key;
        let (io, cpu) = (timeline.of(Panel::Io), timeline.of(Panel::Cpu));
        let series = io.iter().chain(cpu).find(is_it)?;
        let points = timeline.t.iter().zip(&series.values);
        let points = points.map(|(t, value)| (t - origin, value.map(|value| value / divisor)));
        Some(points.filter(|(t, _)| (-BEFORE..=end).contains(t)).collect())
    }

    fn list(&self, name: &str) -> &[f64] {
        self.trial.lists.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Cycles a second of each consumer while it was active.
    fn rates(&self) -> Vec<f64> {
        let cycles = self.list("consumer_cycles").iter();
        let rates = cycles.zip(self.list("consumer_active_s"));
        rates
            .map(|(cycles, active)| ratio(*cycles, *active).unwrap_or(0.0))
            .collect()
    }
}

/// One quantity over time, a line for each subject.
fn over_time_of(
    subjects: &[Subject<'_>],
    title: &str,
    keys: [&'static str; 2],
    unit: MetricUnit,
    divisor: f64,
) -> Option<Drawing> {
    let seen = || subjects.iter().flat_map(|subject| &subject.trials);
    let longest = seen()
        .map(|seen| seen.thrash.seconds())
        .fold(LEAST_WINDOW, f64::max);
    let window = (WINDOW * longest).max(LEAST_WINDOW);
    let width = BEFORE + longest + AFTER;
    let places: Vec<f64> = (0..=PLACES)
        .map(|place| -BEFORE + width * f64::from(place) / f64::from(PLACES))
        .collect();
    let line = |(ink, subject): (usize, &Subject<'_>)| {
        let raw: Vec<Curve> = subject
            .trials
            .iter()
            .filter_map(|seen| seen.curve(keys, divisor))
            .collect();
        let spread = spread(&raw, window, &places);
        Line {
            label: subject.label.to_owned(),
            ink,
            points: spread.mean,
            // A band of one repeat is its own line.
            band: match raw.len() {
                0 | 1 => Vec::new(),
                _ => spread.band,
            },
            behind: raw,
            ..Line::default()
        }
    };
    let chart = Chart {
        title: title.to_owned(),
        x: Axis::linear(
            "Seconds since the start of the first consumer",
            MetricUnit::Seconds,
        ),
        y: Axis::linear(title, unit),
        lines: subjects.iter().enumerate().map(line).collect(),
        marks: stages(seen().next()?.thrash, seen().map(|seen| seen.thrash)),
        levels: Vec::new(),
    };
    // The samples of zswap's pages and of pages of zeros have no series of each direction to be added here.
    let without = match unit {
        MetricUnit::PerSecond => {
            " This curve leaves out pages in zswap's pool and pages of zeros: for zswap it shows only the traffic of its \
             device; the metrics of pages in and out include all pages."
        }
        _ => "",
    };
    Some(Drawing {
        id: keys[0],
        caption: title.to_owned(),
        hint: format!(
            "Pale lines: the samples of every repeat. Strong line: the mean of the repeats, each smoothed by a centred moving \
             mean over {}, with a band from the lowest to the highest repeat. The paper smoothed with B\u{e9}zier \
             curves.{without}",
            quantity::seconds(window)
        ),
        svg: values::draw(&chart)?,
    })
}

/// The last start and the common end, where all trials have the same.
fn stages<'a>(first: &Thrash, mut all: impl Iterator<Item = &'a Thrash>) -> Vec<(f64, String)> {
    if all.any(|other| other.stagger != first.stagger || other.consumers != first.consumers) {
        return Vec::new();
    }
    vec![
        (
            f64::from(first.consumers - 1) * first.stagger,
            "all started".to_owned(),
        ),
        (first.seconds(), "common end".to_owned()),
    ]
}

/// How late the wake-up probe was, from the usual to the worst, at rest and under load.
fn responsiveness(subjects: &[Subject<'_>]) -> Option<Drawing> {
    let line = |(ink, (subject, phase)): (usize, (&Subject<'_>, &str))| {
        let mut all = Latencies::new();
        let phases = subject.trials.iter().filter_map(|seen| seen.phase(phase));
        for text in phases.filter_map(|phase| phase.latency.as_ref()) {
            if let Ok(found) = Latencies::from_text(text) {
                all.merge(&found);
            }
        }
        let point = |&(percent, one_of): &(f64, f64)| {
            let known = all.count() as f64 >= one_of;
            let late = all.percentile(percent).filter(|_| known);
            (one_of, late.map(|ns| ns as f64 / 1e9))
        };
        Line {
            label: format!("{}, {phase}", subject.label),
            ink,
            points: PERCENTILES.iter().map(point).collect(),
            dots: true,
            ..Line::default()
        }
    };
    let lines = subjects
        .iter()
        .flat_map(|subject| [(subject, "load"), (subject, "rest")]);
    let chart = Chart {
        title: "Wake-up latency".to_owned(),
        x: Axis::logarithmic("One wake-up in N has at least this latency", MetricUnit::Count),
        y: Axis::logarithmic("Latency", MetricUnit::Seconds),
        lines: lines.enumerate().map(line).collect(),
        marks: Vec::new(),
        levels: Vec::new(),
    };
    Some(Drawing {
        id: "wakeup",
        caption: "Responsiveness: latency of a process that wakes up every millisecond".to_owned(),
        hint: "In the same cgroup as the consumers, if there is one. Usual latencies are on the left, rare ones on the right: 100 is the 99th \
               percentile. All repeats together."
            .to_owned(),
        svg: values::draw(&chart)?,
    })
}

/// Cycles a second by consumer, in the order of their starts.
fn fairness(subjects: &[Subject<'_>]) -> Option<Drawing> {
    let line = |(ink, subject): (usize, &Subject<'_>)| {
        let rates: Vec<Vec<f64>> = subject.trials.iter().map(Seen::rates).collect();
        let count = rates.iter().map(Vec::len).max().unwrap_or(0);
        let mut line = Line {
            label: subject.label.to_owned(),
            ink,
            dots: true,
            ..Line::default()
        };
        for consumer in 0..count {
            let values: Vec<f64> = rates
                .iter()
                .filter_map(|rates| rates.get(consumer).copied())
                .collect();
            if let Some(summary) = summarise(&values, 0) {
                let x = (consumer + 1) as f64;
                line.points.push((x, Some(summary.median)));
                if summary.n > 1 {
                    line.band.push((x, summary.min, summary.max));
                }
            }
        }
        line
    };
    let chart = Chart {
        title: "Cycles a second by consumer".to_owned(),
        x: Axis::linear("Consumer, in the order of their starts", MetricUnit::Count),
        y: Axis::linear("Cycles a second while active", MetricUnit::PerSecond),
        lines: subjects.iter().enumerate().map(line).collect(),
        marks: Vec::new(),
        levels: Vec::new(),
    };
    Some(Drawing {
        id: "fairness",
        caption: "Fairness: the work of each consumer".to_owned(),
        hint: "A fair machine draws a nearly level line. It slopes down a little because the first consumers share memory \
               with fewer others; a consumer far below its neighbours was starved. Median of the repeats; the band is \
               their spread."
            .to_owned(),
        svg: values::draw(&chart)?,
    })
}

/// The probes' values in each phase.
fn felt(every: &[Seen<'_>]) -> Table<'static> {
    const VALUES: [(&str, &str); 8] = [
        ("wakeup_p50_s", "Wake-up p50"),
        ("wakeup_p99_s", "Wake-up p99"),
        ("wakeup_max_s", "Wake-up max"),
        ("launch_p50_s", "Launch p50"),
        ("launch_p99_s", "Launch p99"),
        ("launch_count", "Launches"),
        ("launch_failed_count", "Failed launches"),
        ("small_set_mean_s", "Small set, mean"),
    ];
    let rows = every
        .iter()
        .flat_map(|seen| seen.trial.phases.iter().map(move |phase| (seen.trial, phase)))
        .map(|(trial, phase)| {
            let mut row = vec![Cell::text(&trial.id), Cell::text(&phase.name)];
            row.extend(VALUES.map(|(metric, _)| Cell::metric(metric, phase.values.get(metric).copied())));
            row
        })
        .collect();
    let mut heads = vec![("Trial", false), ("Phase", false)];
    heads.extend(VALUES.map(|(_, title)| (title, true)));
    Table {
        id: "thrash-felt",
        title: "Neighbours in the cgroup, or beside the consumers of pagers without one",
        columns: columns(&heads),
        rows,
    }
}

/// The values of the pagers; `None` without a trial with pagers.
fn pagers(every: &[Seen<'_>]) -> Option<Table<'static>> {
    const VALUES: [(&str, &str); 5] = [
        (finding::PAGER_HARD_FAULTS_PER_S, "Hard faults"),
        (finding::PAGER_SOFT_FAULTS, "Soft faults"),
        (finding::PAGER_TRIMS, "Trimmed pages"),
        (finding::PAGER_STALLED, "Waits of the consumers"),
        (OVER_BUDGET, "Above the budget"),
    ];
    let row = |seen: &Seen<'_>| {
        let load = seen.phase("load")?;
        let mechanism = seen.trial.params.get("mechanism");
        let mut row = vec![
            Cell::text(&seen.trial.id),
            mechanism.map_or_else(Cell::missing, Cell::text),
        ];
        row.extend(VALUES.map(|(name, _)| Cell::metric(name, load.values.get(name).copied())));
        Some(row)
    };
    let mut heads = vec![("Trial", false), ("Mechanism", false)];
    heads.extend(VALUES.map(|(_, title)| (title, true)));
    let paged = || every.iter().filter(|seen| seen.is_paged);
    paged().next().map(|_| Table {
        id: "thrash-pagers",
        title: "Pagers of the consumers, under load",
        columns: columns(&heads),
        rows: paged().filter_map(row).collect(),
    })
}

/// Compares the number of distinct pages in a cycle with its expectation.
fn checked(every: &[Seen<'_>]) -> Table<'static> {
    let number = |value: f64| Cell::number(value, quantity::significant(value));
    let rows = every
        .iter()
        .map(|seen| {
            let sum = |name: &str| seen.list(name).iter().sum::<f64>();
            let cycles = sum("consumer_counted_cycles");
            let expected = Distinct::expected(seen.thrash);
            let touched = ratio(sum("consumer_counted_pages"), cycles);
            let agrees = match touched {
                Some(touched) if expected.agrees(touched, cycles) => "yes",
                Some(_) => "no",
                None => "unknown",
            };
            vec![
                Cell::text(&seen.trial.id),
                number(seen.thrash.writes as f64),
                number(expected.pages),
                number(expected.mean),
                touched.map_or_else(Cell::missing, number),
                Cell::metric(
                    "distinct_pages_ratio",
                    touched.and_then(|touched| ratio(touched, expected.mean)),
                ),
                number(cycles),
                Cell::text(agrees),
            ]
        })
        .collect();
    Table {
        id: "thrash-pages",
        title: "Distinct pages a cycle, of the places that the generator chose",
        columns: columns(&[
            ("Trial", false),
            ("Writes, W", true),
            ("Pages, n", true),
            ("n(1-(1-1/n)^W)", true),
            ("Chosen", true),
            ("Ratio", true),
            ("Cycles counted", true),
            ("As chance says", false),
        ]),
        rows,
    }
}
