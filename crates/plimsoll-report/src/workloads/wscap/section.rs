//! The wscap section: slowdown over size / cap, scans over time, resident memory, CPU profile.

use std::collections::BTreeMap;

use crate::analysis::{Group, MetricUnit};
use crate::contents::Page;
use crate::drawing::table::{Cell, Rows, Table, columns};
use crate::drawing::values;
use crate::drawing::xy::{Axis, Chart, Line};
use crate::workloads::section::{Drawing, Section};
use crate::workloads::wscap::{
    CACHE_HITS, CAPPED_SCANS, CPU_SLOWDOWN, EMPTIED_SLOWDOWN, FAULT_PATH, FAULTS, FILE_REFAULTS, REFILL,
    RESIDENT_MAX, RESIDENT_MIN, SLOWDOWN, SYSTEM_CPU, UNCAPPED_SCANS, load, place,
};
use plimsoll_model::quantity;
use plimsoll_model::recording::model::Trial;
use plimsoll_model::scenario::Wscap;

/// Size over cap of the original; the report shows details of the nearest load.
const ORIGINAL_LOAD: f64 = 2.0;
/// Slowdown of the original, typical and worst.
const ORIGINAL_SLOWDOWNS: [(f64, &str); 2] = [(250.0, "original: 250×"), (800.0, "at worst: 800×")];
/// The scanning phases in their order, with their titles.
const SCANNED: [(&str, &str); 3] = [
    ("uncapped", "uncapped"),
    ("capped", "capped"),
    ("emptied", "emptied once"),
];

pub(crate) fn section(page: &Page, groups: &[&Group]) -> Option<Section> {
    let measured: Vec<Series<'_>> = groups
        .iter()
        .filter_map(|group| Series::of(group, &page.results.trials))
        .collect();
    let distance = |series: &Series<'_>| (series.load / ORIGINAL_LOAD).ln().abs();
    let shown = measured
        .iter()
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))?
        .load;
    let detailed: Vec<&Series<'_>> = measured.iter().filter(|series| series.load == shown).collect();
    Some(Section {
        id: "wscap",
        title: "A cap on the working set",
        drawings: [slowdown(&measured), over_time(&detailed, shown)]
            .into_iter()
            .flatten()
            .collect(),
        tables: [Some(capped_scans(&measured)), profile(&detailed)]
            .into_iter()
            .flatten()
            .collect(),
        ..Section::default()
    })
}

/// A group with its trials that count.
struct Series<'a> {
    group: &'a Group,
    load: f64,
    trials: Vec<&'a Trial>,
}

impl<'a> Series<'a> {
    fn of(group: &'a Group, trials: &'a [Trial]) -> Option<Series<'a>> {
        Some(Series {
            group,
            load: load(&group.params)?,
            trials: group.counted(trials),
        })
    }

    fn param(&self, name: &str) -> &str {
        self.group.params.get(name).map_or("", String::as_str)
    }

    /// The key of a line: all parameters except the load.
    fn line(&self) -> String {
        let place = place(&self.group.subject, &self.group.params);
        [place.as_str(), self.param("class"), self.param("cap-by")].join(" ")
    }

    fn median(&self, metric: &str) -> Option<f64> {
        Some(self.group.metrics.get(metric)?.summary.median)
    }

    /// Bytes of the cap.
    fn cap(&self) -> Option<f64> {
        let size: f64 = self.param("size").parse().ok()?;
        Some(size / self.load)
    }
}

/// Slowdown over size / cap, a line for each subject and mechanism.
fn slowdown(measured: &[Series<'_>]) -> Option<Drawing> {
    let mut lines: BTreeMap<String, Vec<&Series<'_>>> = BTreeMap::new();
    for series in measured {
        lines.entry(series.line()).or_default().push(series);
    }
    let lines = lines.into_iter().enumerate().map(|(ink, (label, mut series))| {
        series.sort_by(|a, b| a.load.total_cmp(&b.load));
        let spread = |series: &&Series<'_>| {
            let interval = series.group.metrics.get(SLOWDOWN)?.summary.interval;
            Some((series.load, interval.low, interval.high))
        };
        Line {
            label,
            ink,
            points: series
                .iter()
                .map(|series| (series.load, series.median(SLOWDOWN)))
                .collect(),
            dots: true,
            band: series.iter().filter_map(spread).collect(),
            behind: Vec::new(),
        }
    });
    let chart = Chart {
        title: "Slowdown of a scan over size / cap".to_owned(),
        x: Axis::linear("size over cap", MetricUnit::Ratio),
        y: Axis::logarithmic("slowdown of a scan", MetricUnit::Ratio),
        lines: lines.collect(),
        marks: vec![(1.0, "cap = size".to_owned())],
        levels: ORIGINAL_SLOWDOWNS
            .map(|(slowdown, words)| (slowdown, words.to_owned()))
            .into(),
    };
    Some(Drawing {
        id: SLOWDOWN,
        caption: "Slowdown of a scan under a cap".to_owned(),
        hint:
            "Scans per second without the cap over scans per second under it, medians of the repeats with their \
               interval. 1 is no slowdown; each step upwards is a factor. The original was measured at 2."
                .to_owned(),
        svg: values::draw(&chart)?,
    })
}

/// Scans a second over time at one load: without the cap, under it, and after the working set was emptied once.
fn over_time(detailed: &[&Series<'_>], load: f64) -> Option<Drawing> {
    let mut marks = Vec::new();
    let lines: Vec<Line> = detailed
        .iter()
        .enumerate()
        .map(|(ink, series)| {
            let mut curves = series.trials.iter().map(|trial| {
                let (points, starts) = curve(trial);
                if marks.len() < starts.len() {
                    marks = starts;
                }
                points
            });
            Line {
                label: series.line(),
                ink,
                points: curves.next().unwrap_or_default(),
                behind: curves.collect(),
                ..Line::default()
            }
        })
        .collect();
    let chart = Chart {
        title: format!("Scans per second over time at size / cap {load}"),
        x: Axis::linear("seconds of scanning", MetricUnit::Seconds),
        y: Axis::logarithmic("scans per second", MetricUnit::PerSecond),
        lines,
        marks,
        levels: Vec::new(),
    };
    Some(Drawing {
        id: "scans-over-time",
        caption: format!("Scans per second over time, size / cap {load}"),
        hint: "Three stretches one after the other, without what is between them: without the cap, under it, and \
               after the cap is gone and everything was trimmed once. The first repeat of each group, the others \
               pale behind it."
            .to_owned(),
        svg: values::draw(&chart)?,
    })
}

/// A curve: scans a second by seconds of scanning.
type Curve = Vec<(f64, Option<f64>)>;

/// The rates of a trial's phases one after the other, with the places where they begin.
fn curve(trial: &Trial) -> (Curve, Vec<(f64, String)>) {
    let (mut points, mut starts, mut at) = (Vec::new(), Vec::new(), 0.0);
    for (phase, words) in SCANNED {
        let Some(rates) = trial.lists.get(&format!("{phase}_scans_per_s")) else {
            continue;
        };
        starts.push((at, words.to_owned()));
        // A point without a value breaks the line between two phases.
        points.push((at, None));
        for rate in rates {
            points.push((at + Wscap::RATE_INTERVAL_S / 2.0, Some(*rate)));
            at += Wscap::RATE_INTERVAL_S;
        }
    }
    (points, starts)
}

fn capped_scans(measured: &[Series<'_>]) -> Table<'static> {
    const METRICS: [(&str, &str); 13] = [
        (SLOWDOWN, "Slowdown"),
        (CPU_SLOWDOWN, "In CPU time"),
        (UNCAPPED_SCANS, "Uncapped"),
        (CAPPED_SCANS, "Capped"),
        (FAULT_PATH, "CPU in faults"),
        (SYSTEM_CPU, "System CPU"),
        (FAULTS, "Faults per scan"),
        (FILE_REFAULTS, "File refaults per scan"),
        (CACHE_HITS, "Page cache hits"),
        (RESIDENT_MIN, "Least resident"),
        (RESIDENT_MAX, "Most resident"),
        (REFILL, "First scan when emptied"),
        (EMPTIED_SLOWDOWN, "Slowdown when emptied once"),
    ];
    let of_file = |metric: &str| [FILE_REFAULTS, CACHE_HITS].contains(&metric);
    let has = |metric: &str| measured.iter().any(|series| series.median(metric).is_some());
    let metrics: Vec<&(&str, &str)> = METRICS
        .iter()
        .filter(|(metric, _)| !of_file(metric) || has(metric))
        .collect();
    let row = |series: &Series<'_>| {
        let number = |value: Option<f64>, text: fn(f64) -> String| {
            value.map_or_else(Cell::missing, |value| Cell::number(value, text(value)))
        };
        let mut cells = vec![
            Cell::text(&series.group.label),
            number(Some(series.load), |load| load.to_string()),
            number(series.cap(), quantity::bytes),
            Cell::text(series.param("mechanism")),
        ];
        cells.extend(metrics.iter().map(|(name, _)| {
            series.median(name).map_or_else(Cell::missing, |value| {
                Cell::number(value, quantity::metric(name, value))
            })
        }));
        cells
    };
    let mut heads = vec![
        ("Group", false),
        ("Size / cap", true),
        ("Cap", true),
        ("Capped by", false),
    ];
    heads.extend(metrics.iter().map(|(_, head)| (*head, true)));
    let mut by_load: Vec<&Series<'_>> = measured.iter().collect();
    by_load.sort_by(|a, b| a.load.total_cmp(&b.load));
    Table {
        id: "wscap-scans",
        title: "Capped scans",
        columns: columns(&heads),
        rows: by_load.into_iter().map(row).collect(),
    }
}

/// CPU profile of capped scans; `None` without one.
fn profile(detailed: &[&Series<'_>]) -> Option<Table<'static>> {
    let rows: Rows<'static> = detailed
        .iter()
        .flat_map(|series| {
            let shares = mean_shares(&series.trials);
            shares.into_iter().map(|(name, percent)| {
                vec![
                    Cell::text(&series.group.label),
                    Cell::text(name),
                    Cell::number(percent, quantity::metric("_percent", percent)),
                ]
            })
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        id: "wscap-profile",
        title: "CPU time of capped scans",
        columns: columns(&[("Group", false), ("Kernel function", false), ("Share", true)]),
        rows,
    })
}

/// Functions with their share of the CPU time of capped scans in percent, the mean of the trials that have a profile,
/// largest first. A function that a trial does not name had less than those that it names, and counts as 0.
fn mean_shares(trials: &[&Trial]) -> Vec<(String, f64)> {
    let profiles: Vec<&Vec<(String, f64)>> = trials
        .iter()
        .flat_map(|trial| &trial.phases)
        .filter(|phase| phase.name == "capped" && !phase.profile.is_empty())
        .map(|phase| &phase.profile)
        .collect();
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for (name, percent) in profiles.iter().copied().flatten() {
        *sums.entry(name).or_default() += percent;
    }
    let mut shares: Vec<(String, f64)> = sums
        .into_iter()
        .map(|(name, sum)| (name.to_owned(), sum / profiles.len() as f64))
        .collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::recording::model::Phase;

    fn trial(lists: &[(&str, &[f64])], profile: &[(&str, f64)]) -> Trial {
        let capped = Phase {
            name: "capped".to_owned(),
            profile: profile
                .iter()
                .map(|(name, share)| ((*name).to_owned(), *share))
                .collect(),
            ..Phase::default()
        };
        let lists = lists.iter();
        Trial {
            lists: lists
                .map(|(name, values)| ((*name).to_owned(), values.to_vec()))
                .collect(),
            ..Trial::made_up("wscap", vec![capped])
        }
    }

    #[test]
    fn stretches_follow_one_another_and_are_not_joined() {
        let trial = trial(
            &[
                ("uncapped_scans_per_s", &[900.0, 1000.0]),
                ("capped_scans_per_s", &[7.0]),
            ],
            &[],
        );
        let (points, starts) = curve(&trial);
        let values: Vec<Option<f64>> = points.iter().map(|(_, value)| *value).collect();
        assert_eq!(values, [None, Some(900.0), Some(1000.0), None, Some(7.0)]);
        assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert_eq!(starts.len(), 2);
        assert!(starts[1].0 > 0.19 && starts[1].0 < 0.21 && starts[1].1 == "capped");
    }

    /// Groups are sorted by their subject first: the table repeated the loads for each subject.
    #[test]
    fn rows_of_the_table_are_sorted_by_load_and_keep_the_order_of_equal_loads() {
        let of = |subject: &str, load: &str| {
            let trial = trial(&[], &[]);
            Trial {
                id: format!("wscap/{subject}/{load}#1"),
                subject: subject.to_owned(),
                params: BTreeMap::from([("load".to_owned(), load.to_owned())]),
                ..trial
            }
        };
        let trials = [
            of("swapfile", "10"),
            of("zram", "0.5"),
            of("zram", "2"),
            of("swapfile", "2"),
        ];
        let groups = crate::analysis::groups(&trials);
        let measured: Vec<Series<'_>> = groups
            .iter()
            .filter_map(|group| Series::of(group, &trials))
            .collect();
        let table = capped_scans(&measured);
        let place = |title: &str| table.columns.iter().position(|column| column.title == title);
        let (group, load) = (
            place("Group").expect("a column"),
            place("Size / cap").expect("a column"),
        );
        let sorted = |cell: &Cell| cell.sort.clone().unwrap_or_else(|| cell.text.clone());
        let rows: Vec<(String, String)> = table
            .rows
            .iter()
            .map(|row| (sorted(&row[load]), row[group].text.clone()))
            .collect();
        let loads: Vec<&str> = rows.iter().map(|(load, _)| load.as_str()).collect();
        assert_eq!(loads, ["0.5", "2", "2", "10"], "{rows:?}");
        assert!(
            rows[1].1.contains("swapfile") && rows[2].1.contains("zram"),
            "{rows:?}"
        );
    }

    #[test]
    fn shares_are_means_over_the_trials_that_have_a_profile() {
        let with = |profile: &[(&str, f64)]| trial(&[], profile);
        let trials = [
            with(&[("lz4", 30.0), ("lock", 10.0)]),
            with(&[("lz4", 50.0)]),
            with(&[]),
        ];
        let shares = mean_shares(&trials.iter().collect::<Vec<_>>());
        assert_eq!(shares, [("lz4".to_owned(), 40.0), ("lock".to_owned(), 5.0)]);
    }
}
