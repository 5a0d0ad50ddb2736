//! The verdict of an examination: whether experiments run here, and how far their metrics can be trusted.

use super::model::{Check, Group, Readiness, State, Verdict};

/// Checks that every experiment on swap needs.
const REQUIRED: [&str; 4] = ["privileges", "cgroup", "swap", "page-out"];
/// Destinations of pages, of which one is enough.
const STORES: [&str; 3] = ["zram", "zswap", "disk"];

pub(super) fn verdict(checks: &[Check]) -> Verdict {
    let of = |ids: &[&str]| -> Vec<&Check> {
        let wanted = checks.iter().filter(|check| ids.contains(&check.id.as_str()));
        wanted.collect()
    };
    let ids = |checks: &[&Check]| checks.iter().map(|check| check.id.clone()).collect::<Vec<_>>();
    // A limited privilege still lets a run change swap.
    let blocking = |check: &&Check| match check.id.as_str() {
        "privileges" => check.state == State::Missing,
        _ => check.state != State::Available,
    };
    let blocked: Vec<&Check> = of(&REQUIRED).into_iter().filter(blocking).collect();
    let unusable: Vec<&Check> = of(&STORES)
        .into_iter()
        .filter(|check| check.state != State::Available)
        .collect();
    let active: Vec<&Check> = checks
        .iter()
        .filter(|check| {
            check.group == Group::Confounders && matches!(check.state, State::Limited | State::Missing)
        })
        .collect();
    let (state, because) = if !blocked.is_empty() {
        (Readiness::Blocked, blocked)
    } else if unusable.len() == STORES.len() {
        (Readiness::Blocked, unusable)
    } else if !unusable.is_empty() {
        (Readiness::Limited, unusable)
    } else {
        (Readiness::Ready, Vec::new())
    };
    let confounders = ids(&active);
    Verdict {
        text: sentence(state, &because, &active),
        state,
        because: ids(&because),
        confounders,
    }
}

fn sentence(state: Readiness, because: &[&Check], active: &[&Check]) -> String {
    let titles = |checks: &[&Check]| {
        let titles: Vec<&str> = checks.iter().map(|check| check.title.as_str()).collect();
        titles.join(", ")
    };
    let ability = match state {
        Readiness::Ready => "this user can run every experiment here".to_owned(),
        Readiness::Limited => format!("experiments run here, without: {}", titles(because)),
        Readiness::Blocked => format!("experiments cannot trim here; see: {}", titles(because)),
    };
    match active {
        [] => format!("{ability}; no confounder is active"),
        active => format!(
            "{ability}; active confounders may spoil metrics: {}",
            titles(active)
        ),
    }
}
