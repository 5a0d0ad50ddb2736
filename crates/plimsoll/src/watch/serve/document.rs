//! What clients are told, as JSON: inert (no character in it can end a script element), numbers whole where they can be.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::analysis::Frame;
use crate::analysis::frame::GAUGE_COUNT;
use crate::analysis::gauges::{GAUGES, Gauge, GaugeUnit, Panel};
use crate::report::html::{inert, palette};
use crate::sample::CATEGORIES;
use crate::watch::{Facts, Level, MarkKind, State};

/// Version of the protocol.
pub(super) const PROTOCOL: u32 = 1;

/// Most marks that are sent, the newest; a page cannot draw more.
const MOST_MARKS: usize = 2000;
/// Most process numbers of the target that are sent.
const MOST_PIDS: usize = 100;

/// Names of the events that tell a part of the state, in the order of [`parts`].
pub(super) const PARTS: [&str; 5] = ["target", "devices", "marks", "status", "messages"];

/// The machine, and what the columns of a row are.
pub(super) fn hello(facts: &Facts, allow_actions: bool) -> String {
    let layers = palette::LAYERS.iter().map(
        |paint| json!({ "key": paint.key, "label": paint.label, "ink": paint.key, "hatched": paint.hatched }),
    );
    let gauges = GAUGES.iter().map(|gauge| {
        let ink = palette::ink_of(gauge.key, 0);
        json!({
            "key": gauge.key, "label": gauge.title, "panel": panel(gauge.panel), "unit": unit(gauge.unit),
            "ink": ink.key, "dash": ink.dash,
        })
    });
    let hello = json!({
        "protocol": PROTOCOL,
        "version": env!("CARGO_PKG_VERSION"),
        "hostname": plain(&facts.hostname),
        "kernel": plain(&facts.kernel),
        "started": plain(&facts.started),
        "hz": facts.hz,
        "cpus": facts.machine.cpus,
        "memTotal": facts.mem_total,
        "layers": layers.collect::<Vec<_>>(),
        "gauges": gauges.collect::<Vec<_>>(),
        "actions": allow_actions,
    });
    inert(&hello.to_string())
}

/// The parts of the state that [`PARTS`] names.
pub(super) fn parts(state: &State) -> [String; PARTS.len()] {
    let target = state.target.as_ref().map(|target| {
        json!({
            "title": plain(&target.title),
            "pids": target.pids.iter().take(MOST_PIDS).collect::<Vec<_>>(),
            "unread": target.unread,
            "ended": target.ended.as_deref().map(plain),
            "trouble": target.trouble.as_deref().map(plain),
        })
    });
    let devices: Vec<String> = state.swap_devices.iter().map(|name| plain(name)).collect();
    let newest = state.marks.len().saturating_sub(MOST_MARKS);
    let marks = state.marks[newest..].iter().map(|mark| {
        json!({
            "t": milliseconds(mark.t_ns),
            "kind": kind(mark.kind),
            "symbol": mark.kind.symbol(),
            "text": plain(&mark.text),
        })
    });
    let status = &state.status;
    let status = json!({
        "replay": status.replay,
        "ended": status.ended.as_deref().map(plain),
        "recording": status.recording.as_ref().map(|folder| plain(&folder.to_string_lossy())),
        "unlocked": status.unlocked.as_deref().map(plain),
        "busy": status.busy.as_deref().map(plain),
    });
    let messages = state.messages.iter().map(|message| {
        json!({ "t": milliseconds(message.t_ns), "level": level(message.level), "text": plain(&message.text) })
    });
    [
        Value::from(target),
        Value::from(devices),
        marks.collect(),
        status,
        messages.collect(),
    ]
    .map(|part| inert(&part.to_string()))
}

/// Rows of frames: the time in milliseconds, the layers, the gauges; null is not known. `length_ns` is the time that a
/// row of a history stands for.
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
        for gauge in 0..GAUGE_COUNT {
            text.push(',');
            push_gauge(&mut text, &GAUGES[gauge], frame.gauge(gauge));
        }
        text.push(']');
    }
    text.push_str("]}");
    text
}

/// Percent and milliseconds in hundredths, all else whole.
fn push_gauge(text: &mut String, gauge: &Gauge, value: Option<f64>) {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        text.push_str("null");
        return;
    };
    let _ = match gauge.unit {
        GaugeUnit::Percent | GaugeUnit::Milliseconds => write!(text, "{}", (value * 100.0).round() / 100.0),
        _ => write!(text, "{}", value.round() as i64),
    };
}

/// Why there will be no more events.
pub(super) fn end(why: &str) -> String {
    inert(&json!({ "reason": plain(why) }).to_string())
}

fn milliseconds(t_ns: u64) -> u64 {
    t_ns / 1_000_000
}

/// Names come from programs: what moves the cursor or turns the direction of text is shown as a sign instead.
fn plain(text: &str) -> String {
    let turns = |letter| matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .map(|letter| {
            if letter.is_control() || turns(letter) {
                '\u{fffd}'
            } else {
                letter
            }
        })
        .collect()
}

fn panel(panel: Panel) -> &'static str {
    match panel {
        Panel::Target => "target",
        Panel::Swap => "swap",
        Panel::Io => "io",
        Panel::Faults => "faults",
        Panel::Pressure => "pressure",
        Panel::Cpu => "cpu",
        Panel::Monitor => "monitor",
    }
}

fn unit(unit: GaugeUnit) -> &'static str {
    match unit {
        GaugeUnit::Bytes => "bytes",
        GaugeUnit::BytesPerSecond => "bytes-per-second",
        GaugeUnit::PerSecond => "per-second",
        GaugeUnit::Percent => "percent",
        GaugeUnit::Milliseconds => "milliseconds",
        GaugeUnit::Number => "number",
    }
}

fn kind(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Number(_) => "number",
        MarkKind::Note => "note",
        MarkKind::Trim => "trim",
        MarkKind::Release => "release",
        MarkKind::Target => "target",
        MarkKind::PageFlags => "page-flags",
        MarkKind::Event => "event",
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}
