//! What a thrash run showed.

use super::median;
use crate::analysis::Group;
use crate::analysis::thrash::{CYCLES, DONE, HEARTBEAT, PAGES_IN, RECOVERY, REST_HEARTBEAT};
use crate::quantity::{seconds, significant};

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
    let of = |metric: &str| median(group, metric);
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
            "; a heartbeat was {} late at p99 (at rest {})",
            seconds(load),
            seconds(rest)
        );
    }
    if let Some(recovery) = of(RECOVERY) {
        words += &format!(", and all was as before {} after the end", seconds(recovery));
    }
    Some(words)
}
