//! Lists of a scenario that are the points of one trial.

use crate::scenario::assignment::Assignment;
use crate::scenario::error::{Invalid, Problem};

/// Points of a trial that a scenario may give at most.
const MOST_POINTS: usize = 100;

/// The given limits of a key, descending; each once.
pub(super) fn limits(values: &Assignment<'_>, name: &str) -> Result<Vec<u64>, Box<Invalid>> {
    refuse_many(values, name)?;
    let all = values.all_bytes(name)?;
    for (index, (limit, place)) in all.iter().enumerate() {
        if let Some((_, first)) = all[..index].iter().find(|(earlier, _)| earlier == limit) {
            return Err(place
                .error(
                    Problem::Duplicate,
                    format!("two values of `{name}` come to the same"),
                    "again here",
                )
                .and(first, "first here")
                .help("sizes count in whole pages of 4K; remove one of them"));
        }
    }
    let mut limits: Vec<u64> = all.into_iter().map(|(limit, _)| limit).collect();
    limits.sort_unstable_by(|a, b| b.cmp(a));
    Ok(limits)
}

/// Rejects a key with more values than a trial may have points.
pub(super) fn refuse_many(values: &Assignment<'_>, name: &str) -> Result<(), Box<Invalid>> {
    match values.taken(name) {
        all @ [(_, place), ..] if all.len() > MOST_POINTS => Err(place
            .error(
                Problem::BadList,
                format!("`{name}` has {} values for one trial", all.len()),
                "the first of them",
            )
            .help(format!("the most is {MOST_POINTS} points of a trial"))),
        _ => Ok(()),
    }
}
