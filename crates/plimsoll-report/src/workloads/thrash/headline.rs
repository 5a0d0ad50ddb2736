//! What a thrash run showed.

use crate::analysis::Group;
use crate::analysis::groups::Measured;
use crate::workloads::thrash::{CYCLES, DONE, HEARTBEAT, PAGES_IN, RECOVERED, RECOVERY, REST_HEARTBEAT};
use plimsoll_model::quantity::{seconds, significant};
use plimsoll_model::scenario::workloads::thrash::LONGEST_RECOVERY;

/// Groups that are named one by one; of more the first are.
const NAMED_GROUPS: usize = 3;

/// What the numbers say.
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
        "{} finished {} cycles a second",
        group.label,
        significant(of(CYCLES)?)
    );
    if let Some(done) = of(DONE) {
        words += &format!(", {}% of the work", significant(done));
    }
    if let Some(pages) = of(PAGES_IN) {
        words += &format!(", with {} pages in a second", significant(pages));
    }
    if let Some((load, rest)) = of(HEARTBEAT).zip(of(REST_HEARTBEAT)) {
        words += &format!(
            "; a wakeup was {} late at p99 (at rest {})",
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
        return format!(", and it was not as before within {LONGEST_RECOVERY} s after the end");
    }
    let Some(took) = group.median(RECOVERY) else {
        return String::new();
    };
    let mut words = format!(", and all was as before {} after the end", seconds(took));
    if back < recovered.len() {
        words += &format!(
            " in {back} of {} repeats, in the others not within {LONGEST_RECOVERY} s",
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

    /// What is said of repeats that took so long to recover, or did not.
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
    fn a_recovery_that_did_not_happen_is_said() {
        let always = said(&[Some(1.5), Some(1.5)]);
        assert!(
            always.ends_with("and all was as before 1.50 s after the end."),
            "{always}"
        );
        let never = said(&[None, None]);
        assert!(
            never.ends_with("and it was not as before within 30 s after the end."),
            "{never}"
        );
        let once = said(&[None, Some(2.0), None]);
        assert!(
            once.ends_with("2.00 s after the end in 1 of 3 repeats, in the others not within 30 s."),
            "{once}"
        );
    }
}
