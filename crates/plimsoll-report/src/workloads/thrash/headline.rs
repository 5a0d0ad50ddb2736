//! The headline of a thrash run.

use crate::analysis::Group;
use crate::analysis::groups::Measured;
use crate::workloads::sentence::{Told, brief_text, bullets_of_groups, range, with_medians};
use crate::workloads::thrash::{CYCLES, DONE, PAGES_IN, RECOVERED, RECOVERY, REST_WAKEUP, WAKEUP};
use plimsoll_model::quantity::{counted, seconds, significant};
use plimsoll_model::recording::{Statement, StatementCode};
use plimsoll_model::scenario::workloads::thrash::LONGEST_RECOVERY;

/// Groups listed one by one; of more, the finding gives a range.
const NAMED_GROUPS: usize = 3;

/// The speed of each group; the rest of it in a bullet a group.
pub(super) fn told(groups: &[&Group]) -> Option<Told> {
    let measured: Vec<(&Group, f64)> = groups
        .iter()
        .filter_map(|group| Some((*group, group.median(CYCLES)?)))
        .collect();
    let ((first, speed), others) = measured.split_first()?;
    let mut full = format!(
        "{} finished {} cycles per second under pressure",
        first.label,
        significant(*speed)
    );
    for (group, speed) in others {
        full += &format!(", {} {}", group.label, significant(*speed));
    }
    full += ".";
    let speeds: Vec<f64> = measured.iter().map(|(_, speed)| *speed).collect();
    let summed = format!(
        "{} finished {} cycles per second under pressure.",
        counted(measured.len(), "group"),
        range(&speeds)?
    );
    let finding = match measured.len() <= NAMED_GROUPS {
        true => brief_text(StatementCode::ThrashCycles, [full.clone(), summed]),
        false => Statement::new(StatementCode::ThrashCycles, summed),
    };
    let finding = finding
        .with("groups", speeds.len() as f64)
        .with_range(CYCLES, &speeds);
    // Where the finding does not name them, or where there is more to say.
    let in_bullets = finding.text != full;
    let alone = measured.len() == 1;
    let bullets = measured
        .iter()
        .filter_map(|(group, speed)| details(group, in_bullets.then_some(*speed), alone));
    Some(Told {
        finding: match alone {
            true => finding.naming("group", &first.label),
            false => finding,
        },
        bullets: bullets_of_groups(bullets.collect()),
    })
}

/// The other main metrics of a group in a sentence, behind its name unless it is `alone`.
fn details(group: &Group, speed: Option<f64>, alone: bool) -> Option<Statement> {
    let of = |metric: &str| group.median(metric);
    let wakeup = of(WAKEUP).zip(of(REST_WAKEUP));
    let recovery = Recovery::of(group);
    let clauses = [
        speed.map(|speed| format!("{} cycles per second", significant(speed))),
        of(DONE).map(|done| format!("{}% of the work done", significant(done))),
        of(PAGES_IN).map(|pages| format!("{} pages in per second", significant(pages))),
        wakeup.map(|(load, rest)| {
            format!(
                "p99 wake-up latency {} (at rest {})",
                seconds(load),
                seconds(rest)
            )
        }),
        recovery.as_ref().map(Recovery::words),
    ];
    let clauses: Vec<String> = clauses.into_iter().flatten().collect();
    if clauses.is_empty() {
        return None;
    }
    let text = clauses.join("; ");
    let text = match alone {
        true => format!("{text}."),
        false => format!("{}: {text}.", group.label),
    };
    let statement = Statement::new(StatementCode::ThrashGroup, text)
        .naming("group", &group.label)
        .with(CYCLES, speed)
        .with(WAKEUP, wakeup.map(|(load, _)| load))
        .with(REST_WAKEUP, wakeup.map(|(_, rest)| rest));
    let statement = with_medians(statement, group, &[DONE, PAGES_IN]);
    Some(match recovery {
        Some(recovery) => recovery.stated(statement),
        None => statement,
    })
}

/// The repeats after which all was as before.
struct Recovery {
    recovered: usize,
    /// Repeats that looked for it; 0 in recordings that do not say.
    repeats: usize,
    /// The time that it took; `None` if no repeat recovered.
    seconds: Option<f64>,
}

impl Recovery {
    fn of(group: &Group) -> Option<Recovery> {
        let ratios = group.metrics.get(RECOVERED).map_or(Vec::new(), Measured::values);
        let recovered = ratios.iter().filter(|&&ratio| ratio > 0.0).count();
        let none = recovered == 0 && !ratios.is_empty();
        let seconds = group.median(RECOVERY).filter(|_| !none);
        (none || seconds.is_some()).then_some(Recovery {
            recovered,
            repeats: ratios.len(),
            seconds,
        })
    }

    fn words(&self) -> String {
        let Some(took) = self.seconds else {
            return format!("the machine did not recover within {LONGEST_RECOVERY} s after the end");
        };
        let mut words = format!("the machine recovered {} after the end", seconds(took));
        if self.recovered < self.repeats {
            words += &format!(
                " in {} of {}, not within {LONGEST_RECOVERY} s in the others",
                self.recovered,
                counted(self.repeats, "repeat")
            );
        }
        words
    }

    fn stated(&self, statement: Statement) -> Statement {
        let known = |number: usize| (self.repeats > 0).then_some(number as f64);
        statement
            .with(RECOVERY, self.seconds)
            .with("recovered_repeats", known(self.recovered))
            .with("recovery_repeats", known(self.repeats))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::groups;
    use plimsoll_model::recording::model::Trial;

    /// The bullet for repeats with these recovery times; `None` did not recover.
    fn bullet(recoveries: &[Option<f64>]) -> Statement {
        let trial = |(repeat, recovery): (usize, &Option<f64>)| -> Trial {
            let mut metrics = serde_json::json!({"cycles_per_s": 10.0});
            metrics[RECOVERED] = f64::from(u8::from(recovery.is_some())).into();
            if let Some(recovery) = recovery {
                metrics[RECOVERY] = (*recovery).into();
            }
            let document = serde_json::json!({
                "id": format!("thrash/zram#{}", repeat + 1), "workload": "thrash", "subject": "zram", "params": {},
                "repeat": repeat + 1, "status": "ok", "reasons": [], "verified": true, "span_ns": [0, 1], "phases": [],
                "metrics": metrics,
            });
            serde_json::from_value(document).unwrap()
        };
        let trials: Vec<Trial> = recoveries.iter().enumerate().map(trial).collect();
        let groups = groups(&trials);
        let told = told(&groups.iter().collect::<Vec<_>>()).unwrap();
        let finding = told.finding;
        assert_eq!(
            (finding.code, &*finding.names["group"]),
            (StatementCode::ThrashCycles, "zram")
        );
        assert_eq!(finding.values["low_cycles_per_s"], 10.0);
        let [bullet] = <[Statement; 1]>::try_from(told.bullets).expect("one bullet");
        bullet
    }

    /// The only test of the whole text.
    #[test]
    fn text_of_a_partial_recovery() {
        insta::assert_snapshot!(bullet(&[None, Some(2.0), None]), @"the machine recovered 2.00 s after the end in 1 of 3 repeats, not within 30 s in the others.");
    }

    #[test]
    fn a_missing_recovery_is_stated() {
        for (recoveries, recovered, took) in [
            (&[Some(1.5), Some(1.5)][..], 2.0, Some(1.5)),
            (&[None, None], 0.0, None),
            (&[None, Some(2.0), None], 1.0, Some(2.0)),
        ] {
            let bullet = bullet(recoveries);
            assert_eq!(bullet.code, StatementCode::ThrashGroup);
            assert_eq!(bullet.values["recovered_repeats"], recovered, "{bullet}");
            assert_eq!(bullet.values["recovery_repeats"], recoveries.len() as f64);
            assert_eq!(bullet.values.get(RECOVERY).copied(), took, "{bullet}");
        }
    }
}
