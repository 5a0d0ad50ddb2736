//! The headline of a map run: the fastest way to release memory and reuse it.

use crate::analysis::Group;
use crate::workloads::map::{BACK_SHARE, PRESSURE, PRESSURE_SHARE, RELEASE, REUSE, frees_memory, of_way};
use crate::workloads::sentence::{Told, brief_text};
use plimsoll_model::quantity::{seconds, significant};
use plimsoll_model::recording::{Statement, StatementCode};
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

    fn stated(&self, statement: Statement) -> Statement {
        statement.with(RELEASE, self.release).with(REUSE, self.reuse)
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
    let mut bullets = vec![conditions(nearest)];
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
        let text = format!(
            "Of all mappings written alike, {} costs least: {} per page for both, by {}.",
            name(group),
            seconds(cycle.seconds()),
            cycle.way.title(),
        );
        let cheapest = of_mapping(Statement::new(StatementCode::MapCheapest, text), group)
            .with("cycle_per_page_s", cycle.seconds())
            .naming("method", cycle.way.name());
        bullets.push(cheapest);
    }
    let text = format!(
        "Fastest to release and reuse memory: {}, {} and {} per page.",
        best.way.title(),
        seconds(best.release),
        seconds(best.reuse),
    );
    let finding = brief_text(StatementCode::MapFastest, [text]).naming("method", best.way.name());
    Some(Told {
        finding: best.stated(finding),
        bullets,
    })
}

/// The mapping that the finding is about.
fn conditions(group: &Group) -> Statement {
    let text = format!("Measured on {}; memset subtracted.", name(group));
    of_mapping(Statement::new(StatementCode::MapConditions, text), group)
}

/// The statement with the mapping and the touch of a group.
fn of_mapping(statement: Statement, group: &Group) -> Statement {
    statement
        .naming("mapping", param(group, "mapping"))
        .naming("touch", param(group, "touch"))
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
fn lazy(group: &Group) -> Option<Statement> {
    let cycle = Cycle::of(group, ReleaseMethod::Free)?;
    let measured = |metric: &str| group.median(&of_way(ReleaseMethod::Free, metric));
    let share = measured(BACK_SHARE)?;
    if share >= REALLY_BACK_PERCENT {
        return None;
    }
    let text = |rest: &str| {
        format!(
            "MADV_FREE only looks fast ({} and {} per page): {}% of the memory returned to the kernel by itself{rest}.",
            seconds(cycle.release),
            seconds(cycle.reuse),
            significant(share),
        )
    };
    let statement = match (measured(PRESSURE), measured(PRESSURE_SHARE)) {
        (Some(taken), _) => {
            let rest = format!(
                ": the rest only under pressure, when a reclaim took it in {}",
                seconds(taken)
            );
            Statement::new(StatementCode::MapFreeReclaimed, text(&rest)).with(PRESSURE, taken)
        }
        (None, Some(reclaimed)) => Statement::new(
            StatementCode::MapFreeNotReclaimed,
            text(", and a reclaim did not take it"),
        )
        .with(PRESSURE_SHARE, reclaimed),
        // None was tried, or it ran out of time.
        (None, None) => Statement::new(StatementCode::MapFreeLazy, text("")),
    };
    Some(cycle.stated(statement).with(BACK_SHARE, share))
}

/// The parameters of a group.
fn name(group: &Group) -> String {
    let touch = match param(group, "touch") {
        "whole" => "every byte written".to_owned(),
        step => format!("one byte per {step} written"),
    };
    format!("{} memory, {touch}", param(group, "mapping"))
}

fn param<'a>(group: &'a Group, name: &str) -> &'a str {
    group.params.get(name).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::groups;
    use plimsoll_model::recording::model::Trial;

    /// The statement about MADV_FREE if a tenth returned by itself and a reclaim found this.
    fn statement_of(pressure: &[(&str, f64)]) -> Statement {
        let free = [(RELEASE, 1e-7), (REUSE, 2e-7), (BACK_SHARE, 10.0)];
        let metrics = free
            .iter()
            .chain(pressure)
            .map(|(metric, value)| (of_way(ReleaseMethod::Free, metric), *value));
        let trial = Trial {
            metrics: metrics.collect(),
            ..Trial::made_up("map", Vec::new())
        };
        lazy(&groups(&[trial])[0]).unwrap()
    }

    /// The only test of the whole text.
    #[test]
    fn text_of_a_reclaim() {
        let statement = statement_of(&[(PRESSURE, 0.02), (PRESSURE_SHARE, 100.0)]);
        insta::assert_snapshot!(statement, @"MADV_FREE only looks fast (100 ns and 200 ns per page): 10.0% of the memory returned to the kernel by itself: the rest only under pressure, when a reclaim took it in 20.0 ms.");
    }

    #[test]
    fn the_statement_mentions_only_a_tried_reclaim() {
        let measured = [(RELEASE, 1e-7), (REUSE, 2e-7), (BACK_SHARE, 10.0)];
        for (pressure, code, more) in [
            (
                &[(PRESSURE, 0.02), (PRESSURE_SHARE, 100.0)][..],
                StatementCode::MapFreeReclaimed,
                Some((PRESSURE, 0.02)),
            ),
            (
                &[(PRESSURE_SHARE, 20.0)],
                StatementCode::MapFreeNotReclaimed,
                Some((PRESSURE_SHARE, 20.0)),
            ),
            (&[], StatementCode::MapFreeLazy, None),
        ] {
            let statement = statement_of(pressure);
            let values = measured.into_iter().chain(more);
            let values = values.map(|(name, value)| (name.to_owned(), value));
            assert_eq!((statement.code, statement.values), (code, values.collect()));
        }
    }
}
