//! The latest sample as metrics, for a scraper.

use std::time::SystemTime;

use axum::http::{HeaderMap, header};

use crate::watch::{Monitor, State};
use plimsoll_model::categories::categories;
use plimsoll_model::columns::Row;
use plimsoll_report::export::{Exposition, Families, labels};

/// The format that a request asks for: Prometheus' if its Accept header lists `text/plain` and not OpenMetrics, which
/// all other requests get.
pub(super) fn format_for(headers: &HeaderMap) -> Exposition {
    let accepts = |wanted: &str| {
        headers
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|range| range.split(';').next())
            .any(|kind| kind.trim().eq_ignore_ascii_case(wanted))
    };
    if accepts("text/plain") && !accepts("application/openmetrics-text") {
        Exposition::Prometheus
    } else {
        Exposition::OpenMetrics
    }
}

/// The metrics of the latest sample; None in a replay.
pub(super) fn document(monitor: &Monitor, format: Exposition) -> Option<Vec<u8>> {
    let row = monitor.latest_sample()?;
    let age_ns = monitor.now_ns().saturating_sub(row.t_ns);
    let families = families(&monitor.state(), &row, age_ns);
    let mut text = Vec::with_capacity(64 * 1024);
    // Writing to a Vec cannot fail.
    families.write(format, &mut text).ok()?;
    Some(text)
}

/// The metrics of a sample of this age.
fn families(state: &State, row: &Row, age_ns: u64) -> Families {
    let mut families = Families::default();
    let facts = &state.facts;
    families.info(
        "plimsoll_watch",
        "The monitor and its machine.",
        &labels(&[
            ("version", env!("CARGO_PKG_VERSION")),
            ("hostname", &facts.hostname),
            ("kernel", &facts.kernel),
        ]),
    );
    let started = humantime::parse_rfc3339(&facts.started).ok();
    if let Some(since_1970) = started.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok()) {
        families.gauge(
            "plimsoll_watch_start_time_seconds",
            "Start of the monitor, in seconds since 1970.",
            "",
            since_1970.as_millis() as f64 / 1e3,
        );
    }
    families.gauge(
        "plimsoll_watch_sample_age_seconds",
        "Time since the sample whose values these are.",
        "",
        age_ns as f64 / 1e9,
    );
    if let Some(target) = &state.target {
        families.info(
            "plimsoll_target",
            "The process, program or cgroup that the monitor watches.",
            &labels(&[("title", &target.title)]),
        );
    }
    for (slot, device) in state.swap_devices.iter().enumerate() {
        families.info(
            "plimsoll_swap_slot",
            "The swap devices of the families plimsoll_sample_swapN, by their N.",
            &labels(&[("slot", &slot.to_string()), ("device", device)]),
        );
    }
    for (category, bytes) in categories(row).iter().flat_map(|categories| categories.iter()) {
        families.gauge(
            "plimsoll_memory_bytes",
            "Memory of the machine by category; the categories sum to MemTotal.",
            &labels(&[("category", category.name)]),
            bytes as f64,
        );
    }
    families.sample(row, facts.machine.page_size, "");
    families
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use proptest::prelude::*;

    use super::*;
    use crate::watch::{Facts, TargetState};
    use plimsoll_model::columns::{COLUMNS, Unit, col};
    use plimsoll_report::analysis::frame::Machine;
    use plimsoll_testkit::open_metrics::{self, Kind};

    fn state(text: &str) -> State {
        let mut state = State::new(Facts {
            hostname: text.to_owned(),
            kernel: text.to_owned(),
            machine: Machine {
                page_size: 4096,
                cpus: 2,
            },
            mem_total: 1 << 30,
            started: "2026-01-01T00:00:00.5Z".to_owned(),
            hz: 10,
        });
        state.swap_devices = vec![text.to_owned(), text.to_owned()];
        state.target = Some(TargetState {
            title: text.to_owned(),
            ..TargetState::default()
        });
        state
    }

    fn full_row() -> Row {
        let mut row = Row::empty(7);
        (0..COLUMNS.len()).for_each(|column| row.set(column, 1_000_000 + column as i64));
        row.set(col::MEM_TOTAL, 1 << 40);
        row
    }

    fn written(state: &State, row: &Row, format: Exposition) -> String {
        let mut text = Vec::new();
        families(state, row, 1_500_000_000)
            .write(format, &mut text)
            .unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn each_column_is_a_family_with_the_type_unit_and_help_of_the_table() {
        let row = full_row();
        let document = open_metrics::parse(&written(&state("x"), &row, Exposition::OpenMetrics)).unwrap();
        for (index, column) in COLUMNS.iter().enumerate() {
            let value = row.get(index).unwrap() as f64;
            let stem = |ending| column.name.strip_suffix(ending).unwrap_or(column.name);
            let (kind, stem, unit, value) = match column.unit {
                Unit::Bytes => (Kind::Gauge, column.name, Some("bytes"), value),
                Unit::Number => (Kind::Gauge, column.name, None, value),
                Unit::Nanoseconds => (Kind::Gauge, stem("_ns"), Some("seconds"), value / 1e9),
                Unit::Count => (Kind::Counter, column.name, None, value),
                Unit::CountBytes => (Kind::Counter, column.name, Some("bytes"), value),
                Unit::CountPages => (Kind::Counter, column.name, Some("bytes"), value * 4096.0),
                Unit::CountMicroseconds => (Kind::Counter, stem("_us"), Some("seconds"), value / 1e6),
            };
            let name = match unit {
                Some(unit) => format!("plimsoll_sample_{stem}_{unit}"),
                None => format!("plimsoll_sample_{stem}"),
            };
            let family = &document[&name];
            assert_eq!((family.kind, family.unit.as_deref()), (kind, unit), "{name}");
            assert_eq!(family.help, column.meaning);
            assert_eq!(family.values(), [value], "{name}");
        }
        let sampled = document
            .keys()
            .filter(|name| name.starts_with("plimsoll_sample_"));
        assert_eq!(sampled.count(), COLUMNS.len());
        let layers: f64 = document["plimsoll_memory_bytes"].values().iter().sum();
        assert_eq!(layers, (1_u64 << 40) as f64);
        assert_eq!(document["plimsoll_watch_sample_age_seconds"].values(), [1.5]);
        assert_eq!(
            document["plimsoll_watch_start_time_seconds"].values(),
            [1_767_225_600.5]
        );
        assert_eq!(document["plimsoll_swap_slot"].values().len(), 2);
    }

    #[test]
    fn an_absent_value_has_no_family() {
        let mut row = Row::empty(0);
        row.set(col::MEM_FREE, 5);
        let mut state = state("x");
        state.target = None;
        let document = open_metrics::parse(&written(&state, &row, Exposition::OpenMetrics)).unwrap();
        let sampled: Vec<&String> = document
            .keys()
            .filter(|name| name.starts_with("plimsoll_sample_"))
            .collect();
        assert_eq!(sampled, ["plimsoll_sample_mem_free_bytes"]);
        assert!(!document.contains_key("plimsoll_target") && !document.contains_key("plimsoll_memory_bytes"));
    }

    proptest! {
        #[test]
        fn hostile_names_are_escaped_and_read_back(text in "\\PC*|(\\n|\\\\|\"|,|\\}|a|# EOF\\n){0,12}|.*") {
            let document = written(&state(&text), &full_row(), Exposition::OpenMetrics);
            let document = open_metrics::parse(&document).map_err(|error| TestCaseError::fail(error.to_string()))?;
            let expected: String = text
                .chars()
                .map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c })
                .collect();
            for (family, label) in [
                ("plimsoll_watch", "hostname"),
                ("plimsoll_watch", "kernel"),
                ("plimsoll_target", "title"),
                ("plimsoll_swap_slot", "device"),
            ] {
                let samples = &document[family].samples;
                prop_assert!(samples.iter().all(|sample| sample.labels[label] == expected));
            }
        }
    }

    #[test]
    fn the_accept_header_selects_the_format() {
        let asked = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::ACCEPT, HeaderValue::from_static(value));
            }
            format_for(&headers)
        };
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;q=0.5,*/*;q=0.1";
        for values in [
            &[][..],
            &["*/*"],
            &["text/html"],
            &[prometheus_3],
            &["text/plain", "Application/OpenMetrics-Text"],
        ] {
            assert_eq!(asked(values), Exposition::OpenMetrics, "{values:?}");
        }
        for values in [
            &["text/plain"][..],
            &["text/plain;version=0.0.4;q=1,*/*;q=0.1"],
            &["text/html", "TEXT/PLAIN; q=0.5"],
        ] {
            assert_eq!(asked(values), Exposition::Prometheus, "{values:?}");
        }
    }
}
