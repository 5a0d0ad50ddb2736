//! The headline of a thrash run.

use crate::analysis::Group;
use crate::analysis::groups::Measured;
use crate::workloads::thrash::{CYCLES, DONE, PAGES_IN, RECOVERED, RECOVERY, REST_WAKEUP, WAKEUP};
use plimsoll_model::quantity::{seconds, significant};
use plimsoll_model::scenario::workloads::thrash::LONGEST_RECOVERY;

/// Groups listed one by one; of more, the sentence lists the first ones.
const NAMED_GROUPS: usize = 3;

pub(super) fn sentence(groups: &[&Group]) -> Option<String> {
    let named: Vec<String> = groups
        .iter()
        .filter_map(|group| clause(group))
        .take(NAMED_GROUPS)
        .collect();
    if named.is_empty() {
        return None;
    }
    let more = match groups.len().saturating_sub(NAMED_GROUPS) {
        0 => String::new(),
        more => format!("; {more} more in the table"),
    };
    Some(format!("Thrashing: {}{more}.", named.join("; ")))
}

fn clause(group: &Group) -> Option<String> {
    let of = |metric: &str| group.median(metric);
    let mut words = format!(
        "{} finished {} cycles per second",
        group.label,
        significant(of(CYCLES)?)
    );
    if let Some(done) = of(DONE) {
        words += &format!(", {}% of the work", significant(done));
    }
    if let Some(pages) = of(PAGES_IN) {
        words += &format!(", with {} pages swapped in per second", significant(pages));
    }
    if let Some((load, rest)) = of(WAKEUP).zip(of(REST_WAKEUP)) {
        words += &format!(
            "; p99 wake-up latency {} (at rest {})",
            seconds(load),
            seconds(rest)
        );
    }
    words += &recovery(group);
    Some(words)
}

/// When all was as before, and in how many of the repeats it was not.
fn recovery(group: &Group) -> String {
    let recovered = group.metrics.get(RECOVERED).map_or(Vec::new(), Measured::values);
    let back = recovered.iter().filter(|&&ratio| ratio > 0.0).count();
    if back == 0 && !recovered.is_empty() {
        return format!("; the machine did not recover within {LONGEST_RECOVERY} s after the end");
    }
    let Some(took) = group.median(RECOVERY) else {
        return String::new();
    };
    let mut words = format!("; the machine recovered {} after the end", seconds(took));
    if back < recovered.len() {
        words += &format!(
            " in {back} of {} repeats, not within {LONGEST_RECOVERY} s in the others",
            recovered.len()
        );
    }
    words
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
        sentence(&groups.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_sentence_states_a_missing_recovery() {
        let always = said(&[Some(1.5), Some(1.5)]);
        assert!(
            always.ends_with("; the machine recovered 1.50 s after the end."),
            "{always}"
        );
        let never = said(&[None, None]);
        assert!(
            never.ends_with("; the machine did not recover within 30 s after the end."),
            "{never}"
        );
        let once = said(&[None, Some(2.0), None]);
        assert!(
            once.ends_with("2.00 s after the end in 1 of 3 repeats, not within 30 s in the others."),
            "{once}"
        );
    }
}
