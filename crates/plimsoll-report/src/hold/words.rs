//! The facts of a held level in words: at the end of the command, and in every report.

use plimsoll_model::quantity::{bytes, seconds};
use plimsoll_model::recording::hold::{HeldLevel, HoldEnd, HoldGoal, TOLERANCE};

/// The facts of a level, each with its name.
pub fn facts(level: &HeldLevel) -> Vec<(&'static str, String)> {
    let mut facts = vec![(
        "level",
        format!("{}, for {}", goal(level), seconds(level.seconds)),
    )];
    facts.extend(level.settings.cgroup.clone().map(|path| ("cgroup", path)));
    match (level.reached_s, level.within) {
        (Some(reached_s), within) => {
            facts.push(("reached", format!("after {}", seconds(reached_s))));
            facts.extend(within.map(|within| ("kept", kept(level, within))));
        }
        (None, _) => facts.push(("reached", "never".to_owned())),
    }
    if let Some(held) = &level.held_bytes {
        let range = format!("{} to {}", bytes(held.least as f64), bytes(held.most as f64));
        facts.push(("held", range));
    }
    if let Some(stalled) = &level.stalled_percent {
        let range = format!(
            "{:.1}%, from {:.1}% to {:.1}%",
            stalled.mean, stalled.least, stalled.most
        );
        facts.push(("average", range));
    }
    if let Some(percent) = level.cpu_percent {
        facts.push(("CPU", format!("{percent:.2}% of one CPU while holding")));
    }
    facts.extend(
        level
            .ended
            .and_then(ended)
            .map(|words| ("ended", words.to_owned())),
    );
    facts
}

/// The level as a phrase.
pub(super) fn goal(level: &HeldLevel) -> String {
    match level.settings.goal {
        HoldGoal::AvailableBytes(left) => format!("{} available to other programs", bytes(left as f64)),
        HoldGoal::HeldBytes(held) => match level.settings.leak_bytes_per_s {
            None => format!("{} held", bytes(held as f64)),
            Some(leak) => format!(
                "{} held and {} more each second",
                bytes(held as f64),
                bytes(leak as f64)
            ),
        },
        HoldGoal::SomePercent(percent) => format!("some task waits for memory {percent}% of the time"),
        HoldGoal::FullPercent(percent) => format!("all tasks wait for memory {percent}% of the time"),
    }
}

fn kept(level: &HeldLevel, within: f64) -> String {
    let share = 100.0 * within;
    match (level.settings.goal.percent(), &level.off_bytes) {
        (Some(percent), _) => format!(
            "within {} points at {share:.1}% of the looks",
            level.settings.goal.tolerance(percent)
        ),
        (None, Some(off)) => format!(
            "within {:.0}% at {share:.1}% of the looks; off by {} at most",
            TOLERANCE * 100.0,
            bytes(off.most as f64)
        ),
        (None, None) => format!("within {:.0}% at {share:.1}% of the looks", TOLERANCE * 100.0),
    }
}

fn ended(end: HoldEnd) -> Option<&'static str> {
    match end {
        HoldEnd::Duration => Some("after its duration; everything is released"),
        HoldEnd::Signal => Some("by a signal; everything is released"),
        HoldEnd::Reserve => Some("at the reserve of the machine; everything is released"),
        HoldEnd::Failed => Some("by an error; everything is released"),
        _ => None,
    }
}
