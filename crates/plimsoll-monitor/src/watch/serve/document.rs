//! JSON documents for clients: safe inside a script element, with numbers whole if possible.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::watch::{Facts, Level, MarkKind, State};
use plimsoll_model::categories::CATEGORIES;
use plimsoll_model::sanitize::sanitize;
use plimsoll_report::analysis::Frame;
use plimsoll_report::analysis::gauges::{GAUGES, Gauge, GaugeUnit};
use plimsoll_report::html::panel::PANELS;
use plimsoll_report::html::{palette, script_safe as safe_in_script};

pub(super) const PROTOCOL: u32 = 1;

/// Most marks that a client receives, the newest; a page cannot draw more.
const MOST_MARKS: usize = 2000;
/// Most pids of the target that a client receives.
const MOST_PIDS: usize = 100;

/// Event names for the parts of the state, in the order of [`parts`].
pub(super) const PARTS: [&str; 5] = ["target", "devices", "marks", "status", "messages"];

/// The machine, and the columns of a row.
pub(super) fn hello(facts: &Facts, allow_actions: bool) -> String {
    let layers = palette::LAYERS.iter().map(
        |paint| json!({ "key": paint.key, "label": paint.label, "ink": paint.key, "hatched": paint.hatched }),
    );
    let gauges = GAUGES.iter().enumerate().map(|(at, gauge)| {
        let place = GAUGES[..at].iter().filter(|other| other.panel == gauge.panel);
        let ink = palette::ink_of(gauge.key, place.count());
        json!({
            "key": gauge.key, "label": gauge.title, "panel": gauge.panel, "unit": gauge.unit,
            "ink": ink.key, "dash": ink.dash,
        })
    });
    let hello = json!({
        "protocol": PROTOCOL,
        "version": env!("CARGO_PKG_VERSION"),
        "hostname": sanitize(&facts.hostname),
        "kernel": sanitize(&facts.kernel),
        "started": sanitize(&facts.started),
        "hz": facts.hz,
        "cpus": facts.machine.cpus,
        "memTotal": facts.mem_total,
        "panels": PANELS,
        "layers": layers.collect::<Vec<_>>(),
        "gauges": gauges.collect::<Vec<_>>(),
        "actions": allow_actions,
    });
    safe_in_script(&hello.to_string())
}

/// The parts of the state in the order of [`PARTS`].
pub(super) fn parts(state: &State) -> [String; PARTS.len()] {
    let target = state.target.as_ref().map(|target| {
        json!({
            "title": sanitize(&target.title),
            "pids": target.pids.iter().take(MOST_PIDS).collect::<Vec<_>>(),
            "unread": target.unread,
            "ended": target.ended.as_deref().map(sanitize),
            "error": target.error.as_deref().map(sanitize),
        })
    });
    let devices: Vec<_> = state.swap_devices.iter().map(|name| sanitize(name)).collect();
    let newest = state.marks.len().saturating_sub(MOST_MARKS);
    let marks = state.marks[newest..].iter().map(|mark| {
        json!({
            "t": milliseconds(mark.t_ns),
            "kind": kind(mark.kind),
            "symbol": mark.kind.symbol(),
            "text": sanitize(&mark.text),
        })
    });
    let status = &state.status;
    let status = json!({
        "replay": status.replay,
        "ended": status.ended.as_deref().map(sanitize),
        "recording": status.recording.as_ref().map(|folder| sanitize(&folder.to_string_lossy()).into_owned()),
        "unlocked": status.unlocked.as_deref().map(sanitize),
        "busy": status.busy.as_deref().map(sanitize),
    });
    let messages = state.messages.iter().map(|message| {
        json!({ "t": milliseconds(message.t_ns), "level": level(message.level), "text": sanitize(&message.text) })
    });
    [
        Value::from(target),
        Value::from(devices),
        marks.collect(),
        status,
        messages.collect(),
    ]
    .map(|part| safe_in_script(&part.to_string()))
}

/// Rows of frames: time in milliseconds, layers, gauges; null means unknown. `length_ns` is the duration of a row of a
/// history.
pub(super) fn rows(length_ns: Option<u64>, frames: &[Frame]) -> String {
    let mut text = String::with_capacity(frames.len() * 400 + 40);
    text.push('{');
    // Writing to a String cannot fail.
    if let Some(length_ns) = length_ns {
        let _ = write!(text, "\"step\":{},", length_ns as f64 / 1e6);
    }
    text.push_str("\"rows\":[");
    for (index, frame) in frames.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        let _ = write!(text, "[{}", milliseconds(frame.t_ns));
        match frame.layers {
            Some(layers) => layers.iter().for_each(|bytes| {
                let _ = write!(text, ",{bytes}");
            }),
            None => text.push_str(&",null".repeat(CATEGORIES.len())),
        }
        for (index, gauge) in GAUGES.iter().enumerate() {
            text.push(',');
            push_gauge(&mut text, gauge, frame.gauge(index));
        }
        text.push(']');
    }
    text.push_str("]}");
    text
}

/// Percent and milliseconds in hundredths, all other values whole.
fn push_gauge(text: &mut String, gauge: &Gauge, value: Option<f64>) {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        text.push_str("null");
        return;
    };
    let _ = match gauge.unit {
        GaugeUnit::Percent | GaugeUnit::Cpus | GaugeUnit::Milliseconds => {
            write!(text, "{}", (value * 100.0).round() / 100.0)
        }
        _ => write!(text, "{}", value.round() as i64),
    };
}

/// The reason for the end of the stream.
pub(super) fn end(why: &str) -> String {
    safe_in_script(&json!({ "reason": sanitize(why) }).to_string())
}

fn milliseconds(t_ns: u64) -> u64 {
    t_ns / 1_000_000
}

fn kind(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Number(_) => "number",
        MarkKind::Note => "note",
        MarkKind::Trim => "trim",
        MarkKind::Release => "release",
        MarkKind::Target => "target",
        MarkKind::PageFlags => "page-flags",
        MarkKind::FaultStorm | MarkKind::Event => "event",
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::watch::{Mark, TargetState};
    use plimsoll_report::analysis::frame::{GAUGE_COUNT, Machine};

    fn facts(hostname: String) -> Facts {
        Facts {
            kernel: hostname.clone(),
            hostname,
            machine: Machine {
                page_size: 4096,
                cpus: 2,
            },
            mem_total: 1 << 30,
            started: "2026-01-01T00:00:00Z".to_owned(),
            hz: 10,
        }
    }

    /// All swap devices had one colour, and all states of a pager.
    #[test]
    fn the_series_of_a_panel_differ_in_colour_or_dashes() {
        let hello: Value = serde_json::from_str(&hello(&facts("a".to_owned()), false)).expect("JSON");
        for panel in PANELS.iter().filter(|panel| panel.height > 0) {
            let mut inks: Vec<String> = hello["gauges"]
                .as_array()
                .expect("a list")
                .iter()
                .filter(|gauge| gauge["panel"] == panel.id)
                .map(|gauge| {
                    let ink = gauge["ink"].as_str().expect("a name");
                    let ink = palette::INKS
                        .iter()
                        .chain(palette::SPARE_INKS)
                        .find(|one| one.key == ink)
                        .expect("an ink");
                    format!("{} {}", ink.light, gauge["dash"])
                })
                .collect();
            let count = inks.len();
            inks.sort();
            inks.dedup();
            assert_eq!(inks.len(), count, "{}: {inks:?}", panel.id);
        }
    }

    fn hostile() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<String>(),
            Just("</script><img src=x onerror=alert(1)>".to_owned()),
            Just("\u{1b}[2J\u{202e}\u{2028}\"\\\r\n\nevent: end\ndata: {}\n\n".to_owned()),
        ]
    }

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let value = prop_oneof![any::<f64>(), Just(f64::NAN), Just(f64::INFINITY), Just(0.1 + 0.2)];
        let layers = proptest::option::of(any::<[i64; CATEGORIES.len()]>());
        let frame = (
            any::<u64>(),
            layers,
            proptest::collection::vec(value, GAUGE_COUNT),
        )
            .prop_map(|(t_ns, layers, values)| {
                let mut frame = Frame::empty(t_ns);
                frame.layers = layers;
                for (index, value) in values.into_iter().enumerate() {
                    frame.set_gauge(index, value);
                }
                frame
            });
        proptest::collection::vec(frame, 0..4)
    }

    fn state_of(text: &str, t_ns: u64) -> State {
        let mut state = State::new(facts(text.to_owned()));
        state.swap_devices = vec![text.to_owned()];
        state.target = Some(TargetState {
            title: text.to_owned(),
            pids: (0..200).collect(),
            unread: 3,
            ended: Some(text.to_owned()),
            error: Some(text.to_owned()),
            cgroup: None,
        });
        state.status.ended = Some(text.to_owned());
        state.status.recording = Some(text.into());
        state.status.busy = Some(text.to_owned());
        state.mark(Mark {
            t_ns,
            kind: MarkKind::Note,
            text: text.to_owned(),
        });
        state.say(t_ns, Level::Warning, text);
        state
    }

    proptest! {
        #[test]
        fn hostile_names_give_valid_sanitized_json_in_one_line(text in hostile(), t_ns in any::<u64>()) {
            let state = state_of(&text, t_ns);
            let mut documents = parts(&state).to_vec();
            documents.extend([hello(&state.facts, true), end(&text)]);
            for document in &documents {
                let value: Value = serde_json::from_str(document).expect("valid JSON");
                prop_assert!(!document.contains(['<', '>', '\n', '\r', '\u{2028}']), "{document}");
                prop_assert!(!document.contains("\\u001b"), "{value}");
            }
            let target: Value = serde_json::from_str(&documents[0]).expect("valid JSON");
            prop_assert_eq!(target["title"].as_str(), Some(&*sanitize(&text)));
        }

        #[test]
        fn rows_are_valid_json_of_the_same_values(frames in frames(), step in proptest::option::of(1_u64..1 << 50)) {
            let value: Value = serde_json::from_str(&rows(step, &frames)).expect("valid JSON");
            let list = value["rows"].as_array().expect("a list");
            prop_assert_eq!(list.len(), frames.len());
            for (row, frame) in list.iter().zip(&frames) {
                let row = row.as_array().expect("a list");
                prop_assert_eq!(row.len(), 1 + CATEGORIES.len() + GAUGE_COUNT);
                prop_assert_eq!(row[0].as_u64(), Some(frame.t_ns / 1_000_000));
                for index in 0..CATEGORIES.len() {
                    prop_assert_eq!(row[1 + index].as_i64(), frame.layers.map(|layers| layers[index]));
                }
                for index in 0..GAUGE_COUNT {
                    let sent = row[1 + CATEGORIES.len() + index].as_f64();
                    let own = frame.gauge(index).filter(|own| own.is_finite());
                    prop_assert_eq!(sent.is_some(), own.is_some());
                    if let (Some(sent), Some(own)) = (sent, own)
                        && own.abs() < 1e15
                    {
                        prop_assert!((sent - own).abs() <= 0.5 + own.abs() * 1e-9, "{sent} for {own}");
                    }
                }
            }
        }
    }
}
