//! Where the memory of a trial was before its first event and after each.

use std::collections::BTreeSet;

use crate::contents::Mark;
use crate::drawing::palette;
use plimsoll_model::quantity;
use plimsoll_model::recording::model::{Phase, Trial};

/// Where the memory of a trial was before the first event and after each.
pub(in crate::html) struct States {
    pub(in crate::html) heads: Vec<Head>,
    pub(in crate::html) rows: Vec<StateRow>,
}

/// Head of a column of [`States`].
pub(in crate::html) struct Head {
    /// The label of the event in the drawing.
    pub(in crate::html) label: Option<String>,
    pub(in crate::html) words: String,
}

/// A category of [`States`].
pub(in crate::html) struct StateRow {
    pub(in crate::html) key: &'static str,
    pub(in crate::html) label: String,
    /// Level and change since the column before; a negligible change is empty.
    pub(in crate::html) cells: Vec<(String, String)>,
}

/// A change below this share of all that the trial worked on is noise of other programs, and not printed.
const TELLING_SHARE: f64 = 0.01;
/// Least change for which a table appears if phases do not record their bytes.
const TELLING_CHANGE: f64 = 1048576.0;
/// Most phases of a table: of more, the drawing and the table of phases say it better.
const MOST_PHASES: usize = 12;

/// The states of a trial, its events labelled as these marks say; `None` where its phases carry none, are too many, or
/// moved nothing.
pub(in crate::html) fn states(trial: &Trial, marks: &[&Mark]) -> Option<States> {
    let first = trial.phases.first()?;
    let moved = trial.phases.iter().map(moved).fold(0.0, f64::max);
    if trial.phases.len() > MOST_PHASES || moved < TELLING_CHANGE {
        return None;
    }
    let keys: BTreeSet<&str> = trial
        .phases
        .iter()
        .flat_map(|phase| phase.after.names())
        .collect();
    if keys.is_empty() {
        return None;
    }
    let heads = std::iter::once(Head {
        label: None,
        words: format!("before {}", first.name),
    })
    .chain(trial.phases.iter().map(|phase| {
        Head {
            label: marks
                .iter()
                .find(|mark| mark.name == phase.name)
                .map(|mark| mark.label.clone()),
            words: format!("after {}", phase.name),
        }
    }))
    .collect();
    Some(States {
        heads,
        rows: rows(trial, first, keys, moved),
    })
}

/// A row for each of these categories: those that an experiment moves first, each in the order of the drawing.
fn rows(trial: &Trial, first: &Phase, keys: BTreeSet<&str>, moved: f64) -> Vec<StateRow> {
    let worked_on = if first.bytes > 0 {
        first.bytes as f64
    } else {
        moved
    };
    let headline = worked_on * TELLING_SHARE;
    let place = |key: &str| palette::LAYERS.iter().position(|paint| paint.key == key);
    let mut keys: Vec<&str> = keys.into_iter().collect();
    keys.sort_by_key(|key| {
        let place = place(key);
        (
            place.is_none_or(|place| !palette::LAYERS[place].moves),
            place.is_some(),
            place,
        )
    });
    keys.into_iter()
        .map(|key| {
            let levels = std::iter::once(first.before.get(key))
                .chain(trial.phases.iter().map(|phase| phase.after.get(key)));
            let mut last: Option<f64> = None;
            let cells = levels
                .map(|level| {
                    let Some(level) = level.map(|level| level as f64) else {
                        return ("\u{2013}".to_owned(), String::new());
                    };
                    let change = last.map_or(0.0, |last| level - last);
                    last = Some(level);
                    let change = if change.abs() > headline {
                        quantity::change_of_bytes(change)
                    } else {
                        String::new()
                    };
                    (quantity::bytes(level), change)
                })
                .collect();
            let paint = place(key).map(|place| &palette::LAYERS[place]);
            StateRow {
                key: paint.map_or("", |paint| paint.key),
                label: paint.map_or_else(|| key.replace('_', " "), |paint| paint.label.to_owned()),
                cells,
            }
        })
        .collect()
}

/// The largest change of a layer that an experiment moves, in bytes.
fn moved(phase: &Phase) -> f64 {
    palette::LAYERS
        .iter()
        .filter(|paint| paint.moves)
        .filter_map(|paint| Some(phase.after.get(paint.key)?.abs_diff(phase.before.get(paint.key)?) as f64))
        .fold(0.0, f64::max)
}
