//! What a map run showed: the answer to the question that the original ended with.

use crate::analysis::Group;
use crate::workloads::map::{BACK_SHARE, GIVE_BACK, PRESSURE, PRESSURE_SHARE, REUSE, hands_back, of_way};
use plimsoll_model::quantity::{seconds, significant};
use plimsoll_model::scenario::GiveBack;
use plimsoll_model::scenario::workloads::map::REALLY_BACK_PERCENT;

/// A way with its medians, in seconds a page.
struct Cycle {
    way: GiveBack,
    give_back: f64,
    reuse: f64,
}

impl Cycle {
    fn of(group: &Group, way: GiveBack) -> Option<Cycle> {
        Some(Cycle {
            way,
            give_back: group.median(&of_way(way, GIVE_BACK))?,
            reuse: group.median(&of_way(way, REUSE))?,
        })
    }

    fn seconds(&self) -> f64 {
        self.give_back + self.reuse
    }
}

/// What the numbers say, of the group that stands nearest to the original: private memory, all of it written.
pub(super) fn sentence(groups: &[&Group]) -> Option<String> {
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
    let mut text = format!(
        "The fastest way here to hand memory back and get it again ({}) is {}: {} a page to give back and {} to touch \
         it again, memset subtracted.",
        name(nearest),
        best.way.title(),
        seconds(best.give_back),
        seconds(best.reuse),
    );
    text += &lazy(nearest).unwrap_or_default();
    let elsewhere = groups
        .iter()
        .copied()
        .filter(|group| !std::ptr::eq(*group, nearest));
    let quicker = elsewhere
        .filter(|group| group.params.get("touch") == nearest.params.get("touch"))
        .filter_map(|group| Some((group, fastest(group)?)))
        .min_by(|a, b| a.1.seconds().total_cmp(&b.1.seconds()));
    if let Some((group, cycle)) = quicker.filter(|(_, cycle)| cycle.seconds() < best.seconds()) {
        text += &format!(
            " Of all mappings that were written alike, {} costs least: {} a page for both, by {}.",
            name(group),
            seconds(cycle.seconds()),
            cycle.way.title(),
        );
    }
    Some(text)
}

/// The way for which giving back and touching again cost least, of those that the system has the memory of.
fn fastest(group: &Group) -> Option<Cycle> {
    let real = |way: &GiveBack| {
        hands_back(*way)
            && group
                .median(&of_way(*way, BACK_SHARE))
                .is_some_and(|share| share >= REALLY_BACK_PERCENT)
    };
    let ways = GiveBack::ALL.into_iter().filter(real);
    ways.filter_map(|way| Cycle::of(group, way))
        .min_by(|a, b| a.seconds().total_cmp(&b.seconds()))
}

/// What `MADV_FREE` looks like, and what it is.
fn lazy(group: &Group) -> Option<String> {
    let cycle = Cycle::of(group, GiveBack::Free)?;
    let share = group.median(&of_way(GiveBack::Free, BACK_SHARE))?;
    if share >= REALLY_BACK_PERCENT {
        return None;
    }
    let pressed = |figure: &str| group.median(&of_way(GiveBack::Free, figure));
    let pressure = match (pressed(PRESSURE), pressed(PRESSURE_SHARE)) {
        (Some(taken), _) => format!(
            ": the rest only under pressure, when a reclaim got it in {}",
            seconds(taken)
        ),
        (None, Some(_)) => ", and a reclaim did not get it".to_owned(),
        // None was tried, or it ran out of time.
        (None, None) => String::new(),
    };
    Some(format!(
        " MADV_FREE only looks fast ({} and {} a page): the system had {}% of the memory back by itself{pressure}.",
        seconds(cycle.give_back),
        seconds(cycle.reuse),
        significant(share),
    ))
}

/// What sets a group apart, in words.
fn name(group: &Group) -> String {
    let param = |name: &str| group.params.get(name).map_or("", String::as_str);
    let touch = match param("touch") {
        "whole" => "every byte written".to_owned(),
        step => format!("a byte in each {step} written"),
    };
    format!("{} memory, {touch}", param("mapping"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::groups;
    use plimsoll_model::recording::model::Trial;

    /// What is said of MADV_FREE where a tenth came back by itself, and a reclaim found this.
    fn said_of(pressure: &[(&str, f64)]) -> String {
        let free = [(GIVE_BACK, 1e-7), (REUSE, 1e-7), (BACK_SHARE, 10.0)];
        let metrics = free
            .iter()
            .chain(pressure)
            .map(|(figure, value)| (of_way(GiveBack::Free, figure), *value));
        let trial = Trial {
            metrics: metrics.collect(),
            ..Trial::made_up("map", Vec::new())
        };
        lazy(&groups(&[trial])[0]).unwrap()
    }

    #[test]
    fn a_reclaim_is_told_only_where_one_was_tried() {
        let got = said_of(&[(PRESSURE, 0.02), (PRESSURE_SHARE, 100.0)]);
        assert!(got.contains("a reclaim got it in"), "{got}");
        let failed = said_of(&[(PRESSURE_SHARE, 20.0)]);
        assert!(failed.contains("a reclaim did not get it"), "{failed}");
        let untried = said_of(&[]);
        assert!(!untried.contains("reclaim"), "{untried}");
    }
}
