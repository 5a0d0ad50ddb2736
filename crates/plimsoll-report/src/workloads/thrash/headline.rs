//! The headline of a thrash run.

use crate::analysis::Group;
use crate::analysis::groups::Measured;
use crate::workloads::sentence::{Told, brief, bullets_of_groups, range};
use crate::workloads::thrash::{CYCLES, DONE, PAGES_IN, RECOVERED, RECOVERY, REST_WAKEUP, WAKEUP};
use plimsoll_model::quantity::{counted, seconds, significant};
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
        true => brief(&[full.clone(), summed]),
        false => summed,
    };
    // Where the finding does not name them, or where there is more to say.
    let in_bullets = finding != full;
    let bullets = measured
        .iter()
        .filter_map(|(group, speed)| details(group, in_bullets.then_some(*speed), measured.len() == 1));
    Some(Told {
        finding,
        bullets: bullets_of_groups(bullets.collect()),
    })
}

/// The other main metrics of a group in a sentence, behind its name unless it is `alone`.
fn details(group: &Group, speed: Option<f64>, alone: bool) -> Option<String> {
    let of = |metric: &str| group.median(metric);
    let clauses = [
        speed.map(|speed| format!("{} cycles per second", significant(speed))),
        of(DONE).map(|done| format!("{}% of the work done", significant(done))),
        of(PAGES_IN).map(|pages| format!("{} pages in per second", significant(pages))),
        of(WAKEUP).zip(of(REST_WAKEUP)).map(|(load, rest)| {
            format!(
                "p99 wake-up latency {} (at rest {})",
                seconds(load),
                seconds(rest)
            )
        }),
        recovery(group),
    ];
    let clauses: Vec<String> = clauses.into_iter().flatten().collect();
    if clauses.is_empty() {
        return None;
    }
    let text = clauses.join("; ");
    Some(match alone {
        true => format!("{text}."),
        false => format!("{}: {text}.", group.label),
    })
}

/// When all was as before, and in how many of the repeats it was not.
fn recovery(group: &Group) -> Option<String> {
    let recovered = group.metrics.get(RECOVERED).map_or(Vec::new(), Measured::values);
    let back = recovered.iter().filter(|&&ratio| ratio > 0.0).count();
    if back == 0 && !recovered.is_empty() {
        return Some(format!(
            "the machine did not recover within {LONGEST_RECOVERY} s after the end"
        ));
    }
    let mut words = format!(
        "the machine recovered {} after the end",
        seconds(group.median(RECOVERY)?)
    );
    if back < recovered.len() {
        words += &format!(
            " in {back} of {}, not within {LONGEST_RECOVERY} s in the others",
            counted(recovered.len(), "repeat")
        );
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::groups;
    use plimsoll_model::recording::model::Trial;

    /// The sentence for repeats with these recovery times; `None` did not recover.
    fn said(recoveries: &[Option<f64>]) -> String {
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
        assert_eq!(
            told.finding,
            "zram finished 10.0 cycles per second under pressure."
        );
        told.bullets.concat()
    }

    #[test]
    fn the_sentence_states_a_missing_recovery() {
        insta::assert_snapshot!(said(&[Some(1.5), Some(1.5)]), @"the machine recovered 1.50 s after the end.");
        insta::assert_snapshot!(said(&[None, None]), @"the machine did not recover within 30 s after the end.");
        insta::assert_snapshot!(said(&[None, Some(2.0), None]), @"the machine recovered 2.00 s after the end in 1 of 3 repeats, not within 30 s in the others.");
    }
}
