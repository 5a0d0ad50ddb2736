//! The headline of a recording of `plimsoll hold`.

use super::words::{facts, goal};
use crate::workloads::sentence::brief;
use plimsoll_model::quantity::{bytes, seconds};
use plimsoll_model::recording::Recording;
use plimsoll_model::recording::hold::{HeldLevel, HoldEnd, HoldGoal};
use plimsoll_model::recording::model::{EventKind, Headline, Results, RunStatus};
use plimsoll_model::sanitize::sanitize;

/// The level, how close it stayed, and the reason for an early end.
pub(crate) fn headline(recording: &Recording, results: &Results) -> Headline {
    let trust = trust(recording, results);
    let Some(level) = &results.hold else {
        return Headline {
            finding: "No settings of the hold.".to_owned(),
            bullets: Vec::new(),
            trust,
        };
    };
    // The finding has the level itself.
    let others = facts(level).into_iter().filter(|(name, _)| *name != "level");
    let bullet = |(name, text): (&str, String)| format!("{}: {text}.", capitalised(name));
    Headline {
        finding: brief(&[finding(level)]),
        bullets: others.map(bullet).collect(),
        trust,
    }
}

fn finding(level: &HeldLevel) -> String {
    let time = seconds(level.seconds);
    if level.reached_s.is_none() {
        return format!("The level was never reached in {time}: {}.", goal(level));
    }
    let mean = level.stalled_percent.map_or(0.0, |stalled| stalled.mean);
    match level.settings.goal {
        HoldGoal::AvailableBytes(left) => {
            format!("Other programs had {} available for {time}.", bytes(left as f64))
        }
        HoldGoal::HeldBytes(_) => format!("{} for {time}.", capitalised(&goal(level))),
        HoldGoal::SomePercent(percent) => {
            format!(
                "Some task waited for memory {mean:.1}% of the time, at a goal of {percent}%, for {time}."
            )
        }
        HoldGoal::FullPercent(percent) => {
            format!(
                "All tasks waited for memory {mean:.1}% of the time, at a goal of {percent}%, for {time}."
            )
        }
    }
}

fn trust(recording: &Recording, results: &Results) -> String {
    if results.status == RunStatus::Ok {
        return String::new();
    }
    let mut events = recording.events.iter();
    match events.find(|event| event.kind == EventKind::Stopped) {
        Some(event) => format!(
            "The hold ended early: {}.",
            sanitize(event.text.trim_end_matches('.'))
        ),
        None if results.status == RunStatus::Interrupted => "The hold was interrupted.".to_owned(),
        None if is_unreached(results) => "The level was not reached within the duration.".to_owned(),
        None => "The hold failed.".to_owned(),
    }
}

fn is_unreached(results: &Results) -> bool {
    let unreached = |level: &HeldLevel| level.ended == Some(HoldEnd::Duration) && level.reached_s.is_none();
    results.hold.as_ref().is_some_and(unreached)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}
