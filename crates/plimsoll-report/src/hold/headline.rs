//! The headline of a recording of `plimsoll hold`.

use super::words::{facts, goal};
use crate::workloads::sentence::brief_text;
use plimsoll_model::quantity::{bytes, seconds};
use plimsoll_model::recording::hold::{HeldLevel, HoldEnd, HoldGoal};
use plimsoll_model::recording::model::{EventKind, Headline, Results, RunStatus};
use plimsoll_model::recording::{Recording, Statement, StatementCode};
use plimsoll_model::sanitize::sanitize;

/// The level, how close it stayed, and the reason for an early end.
pub(crate) fn headline(recording: &Recording, results: &Results) -> Headline {
    let trust = trust(recording, results).into_iter().collect();
    let Some(level) = &results.hold else {
        return Headline {
            finding: Statement::new(StatementCode::HoldWithoutSettings, "No settings of the hold."),
            bullets: Vec::new(),
            trust,
        };
    };
    // The finding has the level itself.
    let others = facts(level).into_iter().filter(|(name, _)| *name != "level");
    let bullet = |(name, text): (&str, String)| {
        let text = format!("{}: {text}.", capitalised(name));
        Statement::new(StatementCode::HoldFact, text).naming("fact", name)
    };
    Headline {
        finding: finding(level),
        bullets: others.map(bullet).collect(),
        trust,
    }
}

fn finding(level: &HeldLevel) -> Statement {
    let time = seconds(level.seconds);
    let of_level =
        |code: StatementCode, text: String| brief_text(code, [text]).with("duration_s", level.seconds);
    if level.reached_s.is_none() {
        let text = format!("The level was never reached in {time}: {}.", goal(level));
        return of_level(StatementCode::HoldNotReached, text);
    }
    let mean = level.stalled_percent.map_or(0.0, |stalled| stalled.mean);
    let pressure = |code: StatementCode, tasks: &str, percent: f64| {
        let text =
            format!("{tasks} waited for memory {mean:.1}% of the time, at a goal of {percent}%, for {time}.");
        of_level(code, text)
            .with("mean_percent", mean)
            .with("goal_percent", percent)
    };
    match level.settings.goal {
        HoldGoal::AvailableBytes(left) => {
            let text = format!("Other programs had {} available for {time}.", bytes(left as f64));
            of_level(StatementCode::HoldAvailable, text).with("available_bytes", left as f64)
        }
        HoldGoal::HeldBytes(held) => {
            let text = format!("{} for {time}.", capitalised(&goal(level)));
            of_level(StatementCode::HoldHeld, text).with("held_bytes", held as f64)
        }
        HoldGoal::SomePercent(percent) => pressure(StatementCode::HoldSomePressure, "Some task", percent),
        HoldGoal::FullPercent(percent) => pressure(StatementCode::HoldFullPressure, "All tasks", percent),
    }
}

fn trust(recording: &Recording, results: &Results) -> Option<Statement> {
    if results.status == RunStatus::Ok {
        return None;
    }
    let mut events = recording.events.iter();
    Some(match events.find(|event| event.kind == EventKind::Stopped) {
        Some(event) => Statement::new(
            StatementCode::HoldStopped,
            format!(
                "The hold ended early: {}.",
                sanitize(event.text.trim_end_matches('.'))
            ),
        ),
        None if results.status == RunStatus::Interrupted => {
            Statement::new(StatementCode::HoldInterrupted, "The hold was interrupted.")
        }
        None if is_unreached(results) => Statement::new(
            StatementCode::HoldTooShort,
            "The level was not reached within the duration.",
        ),
        None => Statement::new(StatementCode::HoldFailed, "The hold failed."),
    })
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
