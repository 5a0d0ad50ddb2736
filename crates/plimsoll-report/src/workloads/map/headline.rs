//! The headline of a map run: the fastest way to release memory and reuse it.

use crate::analysis::Group;
use crate::workloads::map::{BACK_SHARE, PRESSURE, PRESSURE_SHARE, RELEASE, REUSE, frees_memory, of_way};
use crate::workloads::sentence::{Told, brief};
use plimsoll_model::quantity::{seconds, significant};
use plimsoll_model::scenario::ReleaseMethod;
use plimsoll_model::scenario::workloads::map::REALLY_BACK_PERCENT;

/// A way with its medians, in seconds a page.
struct Cycle {
    way: ReleaseMethod,
    release: f64,
    reuse: f64,
}

impl Cycle {
    fn of(group: &Group, way: ReleaseMethod) -> Option<Cycle> {
        Some(Cycle {
            way,
            release: group.median(&of_way(way, RELEASE))?,
            reuse: group.median(&of_way(way, REUSE))?,
        })
    }

    fn seconds(&self) -> f64 {
        self.release + self.reuse
    }
}

/// The result of the most usual group: private memory, every byte written.
pub(super) fn told(groups: &[&Group]) -> Option<Told> {
    let likeness = |group: &Group| {
        let is = |name: &str, value: &str| group.params.get(name).is_some_and(|found| found == value);
        let points = [
            is("mapping", "anonymous"),
            is("touch", "whole"),
            group.subject == "none",
        ];
        points.iter().filter(|point| **point).count()
    };
    let nearest = groups
        .iter()
        .copied()
        .filter(|group| fastest(group).is_some())
        .max_by_key(|group| likeness(group))?;
    let best = fastest(nearest)?;
    let mut bullets = vec![format!("Measured on {}; memset subtracted.", name(nearest))];
    bullets.extend(lazy(nearest));
    let elsewhere = groups
        .iter()
        .copied()
        .filter(|group| !std::ptr::eq(*group, nearest));
    let quicker = elsewhere
        .filter(|group| group.params.get("touch") == nearest.params.get("touch"))
        .filter_map(|group| Some((group, fastest(group)?)))
        .min_by(|a, b| a.1.seconds().total_cmp(&b.1.seconds()));
    if let Some((group, cycle)) = quicker.filter(|(_, cycle)| cycle.seconds() < best.seconds()) {
        bullets.push(format!(
            "Of all mappings written alike, {} costs least: {} per page for both, by {}.",
            name(group),
            seconds(cycle.seconds()),
            cycle.way.title(),
        ));
    }
    Some(Told {
        finding: brief(&[format!(
            "Fastest to release and reuse memory: {}, {} and {} per page.",
            best.way.title(),
            seconds(best.release),
            seconds(best.reuse),
        )]),
        bullets,
    })
}

/// The way whose release and second touch cost least, of those that the system has the memory of.
fn fastest(group: &Group) -> Option<Cycle> {
    let real = |way: &ReleaseMethod| {
        frees_memory(*way)
            && group
                .median(&of_way(*way, BACK_SHARE))
                .is_some_and(|share| share >= REALLY_BACK_PERCENT)
    };
    let ways = ReleaseMethod::ALL.into_iter().filter(real);
    ways.filter_map(|way| Cycle::of(group, way))
        .min_by(|a, b| a.seconds().total_cmp(&b.seconds()))
}

/// The apparent and the real cost of `MADV_FREE`.
fn lazy(group: &Group) -> Option<String> {
    let cycle = Cycle::of(group, ReleaseMethod::Free)?;
    let share = group.median(&of_way(ReleaseMethod::Free, BACK_SHARE))?;
    if share >= REALLY_BACK_PERCENT {
        return None;
    }
    let pressed = |figure: &str| group.median(&of_way(ReleaseMethod::Free, figure));
    let pressure = match (pressed(PRESSURE), pressed(PRESSURE_SHARE)) {
        (Some(taken), _) => format!(
            ": the rest only under pressure, when a reclaim took it in {}",
            seconds(taken)
        ),
        (None, Some(_)) => ", and a reclaim did not take it".to_owned(),
        // None was tried, or it ran out of time.
        (None, None) => String::new(),
    };
    Some(format!(
        "MADV_FREE only looks fast ({} and {} per page): {}% of the memory returned to the kernel by itself{pressure}.",
        seconds(cycle.release),
        seconds(cycle.reuse),
        significant(share),
    ))
}

/// The parameters of a group.
fn name(group: &Group) -> String {
    let param = |name: &str| group.params.get(name).map_or("", String::as_str);
    let touch = match param("touch") {
        "whole" => "every byte written".to_owned(),
        step => format!("one byte per {step} written"),
    };
    format!("{} memory, {touch}", param("mapping"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::groups;
    use plimsoll_model::recording::model::Trial;

    /// The sentence about MADV_FREE if a tenth returned by itself and a reclaim found this.
    fn sentence_of(pressure: &[(&str, f64)]) -> String {
        let free = [(RELEASE, 1e-7), (REUSE, 1e-7), (BACK_SHARE, 10.0)];
        let metrics = free
            .iter()
            .chain(pressure)
            .map(|(figure, value)| (of_way(ReleaseMethod::Free, figure), *value));
        let trial = Trial {
            metrics: metrics.collect(),
            ..Trial::made_up("map", Vec::new())
        };
        lazy(&groups(&[trial])[0]).unwrap()
    }

    #[test]
    fn the_sentence_mentions_only_a_tried_reclaim() {
        insta::assert_snapshot!(sentence_of(&[(PRESSURE, 0.02), (PRESSURE_SHARE, 100.0)]), @"MADV_FREE only looks fast (100 ns and 100 ns per page): 10.0% of the memory returned to the kernel by itself: the rest only under pressure, when a reclaim took it in 20.0 ms.");
        insta::assert_snapshot!(sentence_of(&[(PRESSURE_SHARE, 20.0)]), @"MADV_FREE only looks fast (100 ns and 100 ns per page): 10.0% of the memory returned to the kernel by itself, and a reclaim did not take it.");
        insta::assert_snapshot!(sentence_of(&[]), @"MADV_FREE only looks fast (100 ns and 100 ns per page): 10.0% of the memory returned to the kernel by itself.");
    }
}
