//! The sentences and blocks that every format shows.

use plimsoll_model::quantity::{bytes, counted, significant};
use plimsoll_model::recording::size::{
    EngineSize, HeadroomReason, ProgramSize, SizeAdvice, SizeInterval, SizedSystem,
};
use plimsoll_model::scenario::Subject;

/// Configuration with its heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) head: String,
    pub(crate) lines: Vec<String>,
}

pub(crate) const TITLE: &str = "RAM that the program needs";

/// Columns of the table of engines; every one but the first is a number.
pub(crate) const HEADS: [&str; 7] = [
    "engine", "needed", "of peak", "knee", "interval", "in swap", "repeats",
];

/// The cells of an engine's row.
pub(crate) fn row(size: &ProgramSize, engine: &EngineSize) -> [String; 7] {
    let dash = || "\u{2013}".to_owned();
    let of = |value: Option<u64>| value.map_or_else(dash, |value| bytes(value as f64));
    let mark = if engine.untrustworthy { "! " } else { "" };
    let peak = size.peak_bytes as f64;
    let share = engine.recommended_bytes.filter(|_| peak > 0.0);
    [
        engine.engine.clone(),
        format!("{mark}{}", of(engine.recommended_bytes)),
        share.map_or_else(dash, |need| {
            format!("{}%", significant(100.0 * need as f64 / peak))
        }),
        of(engine.knee_bytes),
        match (engine.knee_low_bytes, engine.knee_high_bytes) {
            (Some(low), Some(high)) => format!("{} to {}", bytes(low as f64), bytes(high as f64)),
            _ => dash(),
        },
        of(engine.swap_bytes),
        engine.repeats.to_string(),
    ]
}

/// The measure and the conditions of the whole result.
pub(crate) fn conditions(size: &ProgramSize) -> String {
    let measure = match size.measure.as_str() {
        "wall time" => "wall time".to_owned(),
        pattern => format!("the metric `{pattern}`"),
    };
    format!(
        "{TITLE} for a slowdown of at most {}%, by {measure}, with {} page cache: `{}`",
        significant(100.0 * size.tolerance)
            .trim_end_matches('0')
            .trim_end_matches('.'),
        match size.cache.as_str() {
            "warm" => "a warm",
            "cold" => "a cold",
            other => other,
        },
        size.command.join(" ")
    )
}

/// The sentences after the table.
pub(crate) fn notes(size: &ProgramSize) -> Vec<String> {
    let mut notes = vec![peak(size)];
    for engine in &size.engines {
        notes.extend(without_knee(engine));
    }
    notes.extend(interval(size));
    notes.extend(store(size));
    notes.extend(headroom(size));
    notes
}

fn peak(size: &ProgramSize) -> String {
    let peak = bytes(size.peak_bytes as f64);
    match size.reclaimable_percent {
        Some(percent) => format!(
            "Peak {peak}, of which at most {}% is page cache, which the kernel reclaims.",
            significant(percent)
        ),
        None => format!("Peak {peak}."),
    }
}

/// The reason if an engine has no knee.
fn without_knee(engine: &EngineSize) -> Option<String> {
    let name = &engine.engine;
    match (engine.knee_bytes, engine.recommended_bytes, engine.repeats) {
        (Some(_), ..) => None,
        (None, Some(_), _) => Some(format!(
            "With {name}, every measured limit was enough: the program needs at most the smallest one."
        )),
        (None, None, 0) => Some(format!("With {name}, no repeat ended as asked.")),
        (None, None, _) => Some(format!(
            "With {name}, a repeat has no limit with a tolerated slowdown: another program disturbed it, or the program's \
             time varies by more than the tolerance. Raise `tolerate`, or repeat the run on a quiet machine."
        )),
    }
}

/// The origin of the intervals.
fn interval(size: &ProgramSize) -> Option<String> {
    let engine = size.engines.iter().find(|engine| engine.knee_bytes.is_some())?;
    let repeats = counted(engine.repeats as usize, "repeat");
    Some(match engine.interval {
        SizeInterval::Bootstrap95 => format!(
            "The interval is that of the medians over {repeats} (95% bootstrap): from the largest limit that was too small to \
             the smallest one that was enough. Its upper end is the needed RAM."
        ),
        _ => format!(
            "The interval is the range over {repeats}, too few for a probability (six have one): from the largest limit that \
             was too small in any repeat to the smallest one that was enough in all. Its upper end is the needed RAM."
        ),
    })
}

/// The RAM of compressed stores, which no limit counts.
fn store(size: &ProgramSize) -> Option<String> {
    let stored = |engine: &&EngineSize| {
        let compressed = matches!(engine.engine.parse(), Ok(Subject::Zram(_)));
        compressed && engine.swap_bytes.is_some_and(|bytes| bytes > 0)
    };
    let names: Vec<&str> = size
        .engines
        .iter()
        .filter(stored)
        .map(|engine| engine.engine.as_str())
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "The pages in swap on {} stay in RAM, compressed, beyond the limit: the machine needs room for them too.",
            names.join(" and ")
        )
    })
}

fn headroom(size: &ProgramSize) -> Option<String> {
    let engine = shown(size).into_iter().next()?;
    let reason = match engine.headroom_reason? {
        HeadroomReason::Interval => {
            "the width of the knee's interval, which is more than a quarter of the need"
        }
        _ => "a quarter of the need, for inputs and versions of the program that need more than this run",
    };
    Some(format!(
        "With {}, the hard limit has a headroom of {}: {reason}. At a hard limit the kernel kills.",
        engine.engine,
        bytes(engine.headroom_bytes? as f64)
    ))
}

/// The engines whose settings are shown: no swap, and the one with the least need.
fn shown(size: &ProgramSize) -> Vec<&EngineSize> {
    let is_none = |engine: &&EngineSize| engine.engine.parse() == Ok(Subject::NoSwap);
    let with_advice = || size.engines.iter().filter(|engine| !engine.advice.is_empty());
    let none = with_advice().find(is_none);
    let others = with_advice().filter(|engine| !is_none(engine));
    let least = others.min_by_key(|engine| engine.recommended_bytes);
    none.into_iter().chain(least).collect()
}

/// The settings of the engines that are shown.
pub(crate) fn blocks(size: &ProgramSize) -> Vec<Block> {
    let blocks = shown(size).into_iter().flat_map(|engine| {
        let advice = engine.advice.iter();
        advice.map(|advice| Block {
            head: format!("{}, {}:", system(advice), clause(&advice.premise)),
            lines: advice.lines.clone(),
        })
    });
    blocks.collect()
}

/// A sentence as the end of another one.
fn clause(sentence: &str) -> String {
    let mut letters = sentence.trim_end_matches('.').chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn system(advice: &SizeAdvice) -> &'static str {
    match advice.system {
        SizedSystem::Kubernetes => "A container of Kubernetes",
        SizedSystem::Systemd => "A unit of systemd",
        SizedSystem::SystemdRun => "A command under systemd",
        _ => "Another system",
    }
}
